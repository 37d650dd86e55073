//! The client, made from the settings and from what the process's surroundings say: credentials, region, endpoint. Its own
//! retries and timeouts are off: the store's are enough.

use crate::storage::{Checksums, S3Options};
use aws_config::environment::region::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{
    Builder, RequestChecksumCalculation, ResponseChecksumValidation, StalledStreamProtectionConfig,
};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

/// What the surroundings say; nothing is asked of the server.
pub(super) async fn surroundings(options: &S3Options) -> SdkConfig {
    let tls = Provider::Rustls(CryptoMode::Ring);
    let http = aws_smithy_http_client::Builder::new().tls_provider(tls).build_https();
    let region = RegionProviderChain::first_try(options.region.clone().map(Region::new));
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http)
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    loader = match &options.endpoint {
        Some(endpoint) => loader.endpoint_url(endpoint).region(
            region
                .or_else(EnvironmentVariableRegionProvider::new())
                .or_else(Region::from_static("us-east-1")),
        ),
        None => loader.region(region.or_default_provider()),
    };
    loader.load().await
}

/// The client for one bucket.
pub(super) fn client(config: &SdkConfig, path_style: bool, checksums: Checksums) -> Client {
    let (request, response) = match checksums {
        Checksums::WhenRequired => {
            (RequestChecksumCalculation::WhenRequired, ResponseChecksumValidation::WhenRequired)
        }
        Checksums::WhenSupported => {
            (RequestChecksumCalculation::WhenSupported, ResponseChecksumValidation::WhenSupported)
        }
    };
    let builder = Builder::from(config).force_path_style(path_style);
    let builder = builder.request_checksum_calculation(request).response_checksum_validation(response);
    Client::from_conf(builder.build())
}
