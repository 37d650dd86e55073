//! Where settings come from: a file, then the environment, then flags; the later wins.

use super::reading::{Declared, Reading};
use clap::{Arg, ArgAction, ArgMatches};
use config::{Config, Environment, File, FileFormat};
use std::collections::HashMap;

/// Texts by name.
pub(super) type Variables = HashMap<String, String>;

/// What a variable of a setting begins with. Kubernetes' own variables for services have one underscore, not two.
const PREFIX: &str = "TIDEGATE__";

/// librdkafka's properties, whose names have dots where a variable's has underscores.
const PROPERTIES: &str = "TIDEGATE__KAFKA__PROPERTIES__";

/// The variables of the process that are settings.
pub(super) fn environment() -> Variables {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect()
}

/// The command line, made from what is declared.
pub(super) fn command(declared: &[Declared]) -> clap::Command {
    let mut command = clap::Command::new("tidegate")
        .version(env!("CARGO_PKG_VERSION"))
        .args_override_self(true)
        .about("Runs one job. Settings come from a file, TIDEGATE__SECTION__KEY in the environment, and flags; the later wins")
        .arg(Arg::new("config").long("config").value_name("FILE").help("A file of settings, as config/tidegate.toml shows"))
        .arg(
            Arg::new("property")
                .long("property")
                .value_name("NAME=VALUE")
                .action(ArgAction::Append)
                .help("A librdkafka property for all clients, such as security.protocol=sasl_ssl; may be repeated"),
        )
        .arg(
            Arg::new("storage-property")
                .long("storage-property")
                .value_name("NAME=VALUE")
                .action(ArgAction::Append)
                .help("A property of the store of checkpoints, such as s3.endpoint=http://127.0.0.1:7070; may be repeated [checkpoint.storage_properties]"),
        );
    for setting in declared {
        let arg =
            Arg::new(setting.key).long(setting.flag).help(format!("{} [{}]", setting.help, setting.key));
        command = command.arg(if setting.switch {
            arg.action(ArgAction::SetTrue)
        } else {
            arg.value_name("VALUE").allow_hyphen_values(true)
        });
    }
    command
}

/// Brings the layers together.
///
/// # Errors
/// A text for each layer that cannot be read at all.
pub(super) fn merge(
    matches: &ArgMatches,
    variables: &Variables,
    declared: &[Declared],
) -> Result<Reading, Vec<String>> {
    let mut problems = Vec::new();
    let mut builder = Config::builder();
    if let Some(path) = matches.get_one::<String>("config") {
        builder = builder.add_source(File::new(path, FileFormat::Toml));
    }
    let renamed = variables.iter().map(|(name, value)| {
        let name = match name.strip_prefix(PROPERTIES) {
            Some(property) => format!("{PROPERTIES}{}", property.replace('_', ".")),
            None => name.clone(),
        };
        (name, value.clone())
    });
    let environment = Environment::with_prefix("TIDEGATE")
        .prefix_separator("__")
        .separator("__")
        .ignore_empty(true)
        .source(Some(renamed.collect()));
    builder = builder.add_source(environment);
    let mut flags: Vec<(String, String)> = Vec::new();
    for setting in declared {
        if setting.switch {
            if matches.get_flag(setting.key) {
                flags.push((setting.key.to_owned(), "true".to_owned()));
            }
        } else if let Some(value) = matches.get_one::<String>(setting.key) {
            flags.push((setting.key.to_owned(), value.clone()));
        }
    }
    let tables = [("property", "kafka.properties"), ("storage-property", "checkpoint.storage_properties")];
    for (flag, table) in tables {
        for property in matches.get_many::<String>(flag).into_iter().flatten() {
            match property.split_once('=') {
                Some((name, value)) => flags.push((format!("{table}.{}", name.trim()), value.to_owned())),
                None => problems.push(format!("--{flag}: expected NAME=VALUE")),
            }
        }
    }
    for (key, value) in flags {
        // A path of the crate's own grammar; what it does not take is no property of librdkafka either.
        builder = match builder.set_override(&key, value) {
            Ok(builder) => builder,
            Err(e) => return Err(vec![format!("{key}: {e}")]),
        };
    }
    // Deserialized, values would have forgotten where they are from.
    let merged = builder.build().map(|config| config.cache);
    match merged {
        Ok(tree) if problems.is_empty() => Ok(Reading::of(tree)),
        Ok(_) => Err(problems),
        Err(e) => {
            problems.push(format!("the settings cannot be read: {e}"));
            Err(problems)
        }
    }
}
