//! The reference configuration, the chart's schema and the program know the same settings.

use crate::helm::{self, S3, VOLUME, checkout};
use crate::program;
use crate::support::run_dir;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Every setting of the reference file, with its default if it has one.
fn reference() -> BTreeMap<String, Option<String>> {
    let text = std::fs::read_to_string(checkout("config/tidegate.toml")).unwrap();
    let mut settings = BTreeMap::new();
    let mut section = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        }
        // A sentence in a comment has a space before its first equals sign's key, or none of them.
        let (line, given) = line.strip_prefix('#').map_or((line, true), |rest| (rest, false));
        let Some((key, value)) = line.split_once(" = ").filter(|(key, _)| !key.contains(' ')) else {
            continue;
        };
        let value = given.then(|| value.trim_matches('"').to_owned());
        settings.insert(format!("{section}.{}", key.trim_matches('"')), value);
    }
    assert!(settings.len() > 20, "{settings:?}");
    settings
}

fn schema() -> Value {
    let text = std::fs::read_to_string(helm::chart("values.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The names of all values below an object of the schema.
fn leaves(at: &str, schema: &Value, found: &mut BTreeSet<String>) {
    for (key, below) in schema["properties"].as_object().unwrap() {
        let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        if below["properties"].is_object() {
            leaves(&at, below, found);
        } else {
            found.insert(at);
        }
    }
}

#[test]
fn the_schema_has_exactly_the_settings_of_the_reference() {
    let schema = schema();
    let mut known = BTreeSet::new();
    leaves("", &schema["properties"]["config"], &mut known);
    // Below it everything is allowed that librdkafka knows.
    assert!(known.remove("kafka.properties"));
    let named = reference().into_keys().filter(|key| !key.starts_with("kafka.properties."));
    assert_eq!(known, named.collect(), "left the chart's schema, right config/tidegate.toml");
}

#[test]
fn nothing_but_free_objects_of_kubernetes_takes_unknown_keys() {
    fn open(at: &str, schema: &Value, found: &mut BTreeSet<String>) {
        if schema["type"] == "object" && schema["additionalProperties"].is_null() {
            found.insert(at.to_owned());
        }
        for (key, below) in schema["properties"].as_object().into_iter().flatten() {
            open(&format!("{at}.{key}"), below, found);
        }
    }
    let mut found = BTreeSet::new();
    open("", &schema(), &mut found);
    let free = [".affinity", ".global", ".podSecurityContext", ".resources", ".securityContext"];
    assert_eq!(found, free.map(str::to_owned).into());
}

#[test]
fn every_default_of_the_reference_passes_through_the_chart_into_the_program() {
    let mut config = Value::Object(Map::new());
    let reference = reference();
    for (key, value) in &reference {
        let Some(value) = value else { continue };
        let typed = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.clone()));
        let at = key.split('.').fold(&mut config, |at, part| {
            at.as_object_mut().unwrap().entry(part).or_insert_with(|| Value::Object(Map::new()))
        });
        *at = typed;
    }
    // A pod that answers itself alone cannot be probed.
    config["http"]["address"] = "0.0.0.0:8080".into();
    let values = run_dir().join("reference-values.json");
    std::fs::write(&values, serde_json::json!({ "config": config }).to_string()).unwrap();
    let given = [
        "config.kafka.bootstrap=localhost:9092",
        "config.job.name=j",
        "config.source.topic=a",
        "config.sink.topic=b",
        "config.checkpoint.storage=s3://bucket/prefix",
        "config.savepoint.folder=s3://bucket/savepoints",
        "config.checkpoint.local_recovery=/var/cache/tidegate",
    ];
    let objects = helm::objects(values.to_str().unwrap(), &given);
    assert_settings_are_right("reference", helm::settings(&objects));
    let settings = helm::settings(&objects);
    for (key, _) in reference.iter().filter(|(_, value)| value.is_some()) {
        let (section, name) = key.rsplit_once('.').unwrap();
        let (_, below) = settings.split_once(&format!("[{section}]\n")).expect("each section is there");
        let below = below.split("\n[").next().unwrap();
        assert!(below.contains(&format!("\"{name}\" = ")), "{key} is lost: {settings}");
    }
}

#[test]
fn the_program_takes_what_the_chart_gives_it() {
    for (name, values) in [("volume", VOLUME), ("s3", S3)] {
        assert_settings_are_right(name, helm::settings(&helm::objects(values, &[])));
    }
    let strange = ["config.job.name=a\"b\\c\nd é", "config.checkpoint.inline_below_bytes=1048576"];
    let objects = helm::objects(VOLUME, &strange);
    assert_settings_are_right("strange", helm::settings(&objects));
    assert!(helm::settings(&objects).contains("\"inline_below_bytes\" = 1048576"));
}

fn assert_settings_are_right(name: &str, settings: &str) {
    let file = run_dir().join(format!("chart-{name}.toml"));
    std::fs::write(&file, settings).unwrap();
    // The file of the Secret is in the pod alone.
    let properties = checkout("config/client.properties").to_str().unwrap().to_owned();
    let variables = [("TIDEGATE__KAFKA__CLIENT_PROPERTIES".to_owned(), properties)];
    assert_eq!(program::problems(Some(&file), &variables), [""; 0], "{name}: {settings}");
}
