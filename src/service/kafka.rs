//! How a cluster is reached, as arguments.

use crate::connector::kafka::Connection;
use std::fmt;

/// The arguments that every program which talks to Kafka takes.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct KafkaArguments {
    /// Kafka brokers, host:port[,host:port…]
    #[arg(long)]
    pub(super) bootstrap: String,
    /// A file of librdkafka properties for all clients, NAME=VALUE a line, as config/client.properties shows
    #[arg(long, value_name = "FILE", value_parser = properties_argument)]
    pub(super) client_properties: Option<Properties>,
    /// A librdkafka property for all clients, such as security.protocol=sasl_ssl; may be repeated
    #[arg(long = "property", value_name = "NAME=VALUE", value_parser = property)]
    pub(super) properties: Vec<Property>,
}

/// As [`KafkaArguments`], for what can be done without Kafka, too.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct PerhapsKafka {
    /// Kafka brokers, host:port[,host:port…], to ask them as well
    #[arg(long)]
    bootstrap: Option<String>,
    /// A file of librdkafka properties for all clients, NAME=VALUE a line, as config/client.properties shows
    #[arg(long, value_name = "FILE", value_parser = properties_argument, requires = "bootstrap")]
    client_properties: Option<Properties>,
    /// A librdkafka property for all clients, such as security.protocol=sasl_ssl; may be repeated
    #[arg(long = "property", value_name = "NAME=VALUE", value_parser = property, requires = "bootstrap")]
    properties: Vec<Property>,
}

impl PerhapsKafka {
    /// The arguments, if Kafka shall be asked.
    pub(super) fn given(&self) -> Option<KafkaArguments> {
        let Self { bootstrap, client_properties, properties } = self.clone();
        Some(KafkaArguments { bootstrap: bootstrap?, client_properties, properties })
    }
}

/// One property; its value may be a secret and is never printed.
#[derive(Clone)]
pub(super) struct Property {
    pub(super) name: String,
    pub(super) value: String,
}

/// Properties from a file.
#[derive(Debug, Clone)]
pub(super) struct Properties(Vec<Property>);

impl fmt::Debug for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=(not shown)", self.name)
    }
}

fn property(text: &str) -> Result<Property, String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok(Property { name: name.trim().to_owned(), value: value.to_owned() })
}

fn properties_argument(path: &str) -> Result<Properties, String> {
    properties_file(path).map(Properties)
}

/// The properties of a file, NAME=VALUE a line.
pub(super) fn properties_file(path: &str) -> Result<Vec<Property>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let mut properties = Vec::new();
    for (number, line) in text.lines().enumerate().map(|(n, line)| (n + 1, line.trim())) {
        if !line.is_empty() && !line.starts_with('#') {
            properties.push(property(line).map_err(|e| format!("line {number}: {e}"))?);
        }
    }
    Ok(properties)
}

impl KafkaArguments {
    /// The connection; what is given as an argument wins over the file.
    pub(super) fn connection(&self) -> Connection {
        let from_file = self.client_properties.iter().flat_map(|file| &file.0);
        let all = from_file.chain(&self.properties);
        all.fold(Connection::new(&self.bootstrap), |c, p| c.property(&p.name, &p.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed_and_a_bad_line_is_named() {
        let secret = property("sasl.password=a=b").unwrap();
        assert_eq!((secret.name.as_str(), secret.value.as_str()), ("sasl.password", "a=b"));
        assert!(!format!("{secret:?}").contains("a=b"));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "# users\n\nsasl.username = u\nsasl.password\n").unwrap();
        let problem = properties_file(file.path().to_str().unwrap()).unwrap_err();
        assert_eq!(problem, "line 4: expected NAME=VALUE");
    }
}
