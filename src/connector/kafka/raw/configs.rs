//! Configuration as a broker applies it: retention, timestamps, limits.

use std::collections::BTreeMap;

use kafka_protocol::messages::DescribeConfigsRequest;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::protocol::StrBytes;

use super::client::{Answered, Client, refuse};
use super::{Deadline, Error, Subject, versions};

/// Whose configuration is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigResource {
    /// A topic's, with the defaults that it inherits.
    Topic(String),
    /// A broker's, by node id.
    Broker(i32),
}

impl Client {
    /// The configuration in force, by name. Secrets and unset values are left out.
    ///
    /// # Errors
    /// When no broker answers within the deadline, or for a reason that does not pass: a missing right
    /// (29, 31) is named as such. An unknown topic (3) is asked for until the deadline.
    pub fn describe_configs(
        &mut self,
        resource: &ConfigResource,
        deadline: Deadline,
    ) -> Result<BTreeMap<String, String>, Error> {
        let (kind, name, subject) = match resource {
            ConfigResource::Topic(topic) => (2, topic.clone(), Subject::Topic(topic.clone())),
            ConfigResource::Broker(id) => (4, id.to_string(), Subject::Broker(*id)),
        };
        let resource_asked = DescribeConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(StrBytes::from_string(name))
            .with_configuration_keys(None);
        let request = DescribeConfigsRequest::default().with_resources(vec![resource_asked]);
        self.retry(
            || format!("DescribeConfigs on {subject}"),
            deadline,
            |client| {
                let versions = versions::DESCRIBE_CONFIGS;
                // A broker knows its own configuration only.
                let Answered { answer, broker } = match resource {
                    ConfigResource::Topic(_) => client.call_any(&request, versions, deadline)?,
                    ConfigResource::Broker(id) => client.call_broker(*id, &request, versions, deadline)?,
                };
                let Some(found) = answer.results.into_iter().next() else {
                    return Err(Error::Malformed {
                        broker,
                        request: "DescribeConfigs",
                        problem: format!("the answer does not mention {subject}"),
                    });
                };
                let text = found.error_message.map(|text| text.to_string());
                refuse::<DescribeConfigsRequest>(&broker, || subject.clone(), found.error_code, text)?;
                let entries = found.configs.into_iter();
                Ok(entries
                    .filter_map(|entry| Some((entry.name.to_string(), entry.value?.to_string())))
                    .collect())
            },
        )
    }
}
