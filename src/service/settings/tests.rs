//! Which layer wins, what is refused and how that is said, and whether the reference file is true.

use super::*;

const NEEDED: [&str; 11] = [
    "program",
    "--bootstrap",
    "b:1",
    "--group",
    "g",
    "--input",
    "i",
    "--output",
    "o",
    "--checkpoints",
    "file:///c",
];

fn load(more: &[&str], variables: &[(&str, &str)]) -> Result<Settings, Vec<String>> {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Settings::from(NEEDED.iter().chain(more).copied(), &variables)
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn the_later_layer_wins() {
    let file = file("[checkpoint]\ninterval = '2s'\nretained = 7\n[restart]\nlimit = 4\n[job]\nfresh = true");
    let path = file.path().to_str().unwrap();
    let interval = |flags: &[&str], variables: &[(&str, &str)]| {
        load(flags, variables).unwrap().checkpoint.interval.as_millis()
    };
    let variable = [("TIDEGATE__CHECKPOINT__INTERVAL", "3s")];
    assert_eq!(interval(&[], &[]), 10_000);
    assert_eq!(interval(&["--config", path], &[]), 2_000);
    assert_eq!(interval(&["--config", path], &variable), 3_000);
    assert_eq!(interval(&["--config", path, "--interval", "250ms"], &variable), 250);
    assert_eq!(interval(&[], &[("TIDEGATE__CHECKPOINT__INTERVAL", "")]), 10_000, "empty is not set");
    let all = load(&["--config", path], &[]).unwrap();
    assert_eq!((all.checkpoint.retained, all.restart.limit, all.job.fresh), (7, Some(4), true));
}

#[test]
fn all_that_is_wrong_is_told_at_once_with_its_place_and_a_suggestion() {
    let file = file(
        "[chekpoint]\ninterval = '2s'\n[checkpoint]\ninterval = 5\ntimeout = '1 fortnight'\nretained = 0\n",
    );
    let path = file.path().to_str().unwrap();
    let variables = [("TIDEGATE__JOB__PARALELISM", "3"), ("TIDEGATE__LOG__FORMAT", "xml")];
    let problems = load(&["--config", path, "--parallelism", "0"], &variables).unwrap_err();
    let expected = [
        "checkpoint.interval: time unit needed",
        "checkpoint.timeout:",
        "checkpoint: at least 1 checkpoint must be retained, found 0",
        "job.parallelism: expected a number from 1 to 32768, found \"0\" (from --parallelism)",
        "chekpoint.interval is no setting; did you mean checkpoint.interval?",
        "job.paralelism is no setting; did you mean job.parallelism? (from the environment)",
        "log.format: expected text or json, found \"xml\"",
    ];
    for text in expected {
        assert!(problems.iter().any(|p| p.starts_with(text)), "{text}: {problems:#?}");
    }
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    // As seen from the current folder.
    let name = file.path().file_name().unwrap().to_str().unwrap();
    let of_file = |p: &&String| p.starts_with("checkpoint.interval") && p.contains(name);
    assert_eq!(problems.iter().filter(of_file).count(), 1, "{problems:#?}");
}

#[test]
fn a_place_that_is_named_is_not_empty() {
    for flag in ["--from", "--savepoints"] {
        let problems = load(&[flag, ""], &[]).unwrap_err();
        assert!(problems.iter().any(|p| p.contains("expected a URI") && p.contains(flag)), "{problems:?}");
    }
    let problems = load(&["--savepoints", "relative/folder"], &[]).unwrap_err();
    assert!(
        problems[0].starts_with("savepoint.folder: ") && problems[0].contains("relative/folder"),
        "{problems:?}"
    );
}

#[test]
fn what_is_missing_is_told_with_every_way_to_give_it() {
    let problems = Settings::from(["program"], &Variables::new()).unwrap_err();
    assert_eq!(problems.len(), 5, "{problems:#?}");
    let expected = "job.name is missing (Consumer group, and name of the job): give --group, TIDEGATE__JOB__NAME, or job.name";
    assert!(problems.iter().any(|p| p.starts_with(expected)), "{problems:#?}");
}

#[test]
fn properties_of_librdkafka_come_from_everywhere() {
    let properties = file("a.file=1\nsasl.username=file\n");
    let config =
        file("[kafka.properties]\n\"sasl.username\" = 'config'\nssl.ca.location = '/ca'\n\"x.y\" = 5\n");
    let paths = [&properties, &config].map(|f| f.path().to_str().unwrap());
    let flags = ["--client-properties", paths[0], "--config", paths[1], "--property", "from.flag=a=b"];
    let settings = load(&flags, &[("TIDEGATE__KAFKA__PROPERTIES__SASL_PASSWORD", "se_cret")]).unwrap();
    let of =
        |name: &str| settings.kafka.properties.iter().rfind(|p| p.name == name).map(|p| p.value.as_str());
    let expected = [
        ("a.file", "1"),
        ("sasl.username", "config"),
        ("ssl.ca.location", "/ca"),
        ("x.y", "5"),
        ("from.flag", "a=b"),
        ("sasl.password", "se_cret"),
    ];
    for (name, value) in expected {
        assert_eq!(of(name), Some(value), "{name}");
    }
    assert!(!format!("{settings:?}").contains("se_cret"));
}

#[test]
fn the_reference_file_has_every_setting_with_its_default() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config/tidegate.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let with_file = load(&["--config", path], &[]).unwrap();
    let without = load(&[], &[]).unwrap();
    assert_eq!(format!("{with_file:?}"), format!("{without:?}"));
    let mut reading = Reading::default();
    Settings::default().read(&mut reading);
    let mut section = "";
    let mut named = std::collections::BTreeSet::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = name;
        } else if let Some((name, _)) = line.trim_start_matches('#').split_once(" = ") {
            named.insert(format!("{section}.{}", name.trim()));
        }
    }
    for declared in &reading.declared {
        assert!(named.contains(declared.key), "config/tidegate.toml does not name {}", declared.key);
    }
    for property in storage::Options::names() {
        let key = format!("checkpoint.storage_properties.{property}");
        assert!(named.contains(&key), "config/tidegate.toml does not name {key}");
    }
}

#[test]
fn properties_of_the_store_come_from_every_layer() {
    let file =
        file("[checkpoint.storage_properties]\ntimeout_ms = 5000\ns3.path_style = true\ns3.region = 'a'");
    let path = file.path().to_str().unwrap();
    let variables = [("TIDEGATE__CHECKPOINT__STORAGE_PROPERTIES__S3__REGION", "b")];
    let flags = ["--config", path, "--storage-property", "s3.endpoint=http://127.0.0.1:1/a=b"];
    let found = load(&flags, &variables).unwrap().storage_properties;
    assert_eq!((found.timeout_ms, found.s3.path_style), (5000, Some(true)));
    assert_eq!(found.s3.region.as_deref(), Some("b"));
    assert_eq!(found.s3.endpoint.as_deref(), Some("http://127.0.0.1:1/a=b"));
    let wrong = ["--storage-property", "s3.regoin=a", "--storage-property", "parallelism=0"];
    let problems = load(&wrong, &[]).unwrap_err();
    let expected = [
        "checkpoint.storage_properties.s3.regoin: there is no storage property s3.regoin; did you mean s3.region?",
        "checkpoint.storage_properties: storage property parallelism must be 1 to 1024, found 0",
    ];
    assert_eq!(problems, expected);
    assert_eq!(
        load(&["--storage-property", "a"], &[]).unwrap_err(),
        ["--storage-property: expected NAME=VALUE"]
    );
}

#[test]
fn the_command_line_is_consistent() {
    let mut reading = Reading::default();
    Settings::default().read(&mut reading);
    layers::command(&reading.declared).debug_assert();
}
