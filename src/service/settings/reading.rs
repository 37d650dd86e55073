//! Takes typed settings out of merged values: every key is declared where it is read, with its flag and its words.
//!
//! Its law: nothing is passed over. A value that cannot be read and a key that nobody declares are problems, and all of
//! them are told at once, each with where it was set and what would be right.

use config::{Value, ValueKind};
use std::collections::BTreeMap;
use std::time::Duration;

/// One setting, for the command line and the messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Declared {
    /// Section and name, as in the file.
    pub(super) key: &'static str,
    /// The flag without its dashes.
    pub(super) flag: &'static str,
    pub(super) help: &'static str,
    /// Whether the flag takes no value.
    pub(super) switch: bool,
}

/// Values by key, and what was wrong with them.
#[derive(Default)]
pub(super) struct Reading {
    values: BTreeMap<String, Value>,
    pub(super) declared: Vec<Declared>,
    pub(super) problems: Vec<String>,
}

/// How alike a known key must be to be suggested, from 0 to 1.
const ALIKE: f64 = 0.8;

impl Reading {
    /// From a tree of values.
    pub(super) fn of(tree: Value) -> Self {
        let mut reading = Self::default();
        flatten(String::new(), tree, &mut reading.values);
        reading
    }

    fn take<T>(&mut self, declared: Declared, into: &mut T, parse: impl FnOnce(&str) -> Result<T, String>) {
        self.declared.push(declared);
        let Some(value) = self.values.remove(declared.key) else { return };
        let place = value.origin().map_or_else(|| format!("--{}", declared.flag), str::to_owned);
        let parsed = value
            .into_string()
            .map_err(|_| "expected one value, found a list".to_owned())
            .and_then(|text| parse(text.trim()));
        match parsed {
            Ok(value) => *into = value,
            Err(e) => self.problems.push(format!("{}: {e} (from {place})", declared.key)),
        }
    }

    /// A text.
    pub(super) fn text(
        &mut self,
        key: &'static str,
        flag: &'static str,
        help: &'static str,
        into: &mut String,
    ) {
        self.take(Declared { key, flag, help, switch: false }, into, |text| Ok(text.to_owned()));
    }

    /// A duration with a unit.
    pub(super) fn duration(
        &mut self,
        key: &'static str,
        flag: &'static str,
        help: &'static str,
        into: &mut Duration,
    ) {
        self.take(Declared { key, flag, help, switch: false }, into, duration);
    }

    /// Yes or no; the flag takes no value.
    pub(super) fn switch(
        &mut self,
        key: &'static str,
        flag: &'static str,
        help: &'static str,
        into: &mut bool,
    ) {
        self.take(Declared { key, flag, help, switch: true }, into, |text| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(format!("expected true or false, found {other:?}")),
        });
    }

    /// Anything that is made from a text.
    pub(super) fn parsed<T>(
        &mut self,
        key: &'static str,
        flag: &'static str,
        help: &'static str,
        into: &mut T,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) {
        self.take(Declared { key, flag, help, switch: false }, into, parse);
    }

    /// Everything below a key, whatever it is called.
    pub(super) fn all_below(&mut self, section: &str) -> Vec<(String, String)> {
        let prefix = format!("{section}.");
        let names: Vec<String> = self.values.keys().filter(|k| k.starts_with(&prefix)).cloned().collect();
        let mut found = Vec::new();
        for name in names {
            match self.values.remove(&name).map(Value::into_string) {
                Some(Ok(text)) => found.push((name[prefix.len()..].to_owned(), text)),
                _ => self.problems.push(format!("{name}: expected one value, found a list")),
            }
        }
        found
    }

    /// What must not be missing.
    pub(super) fn require(&mut self, key: &str, present: bool) {
        let Some(declared) = self.declared.iter().find(|d| d.key == key).filter(|_| !present) else { return };
        self.problems.push(format!(
            "{key} is missing ({}): give --{}, {}, or {key} in the file of --config",
            declared.help,
            declared.flag,
            environment_name(key)
        ));
    }

    /// Whatever was not taken is unknown.
    pub(super) fn refuse_the_rest(&mut self) {
        for (key, value) in std::mem::take(&mut self.values) {
            let alike = |known: &Declared| strsim::jaro_winkler(&key, known.key);
            let best = self.declared.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
            let hint = match best.filter(|known| alike(known) >= ALIKE) {
                Some(known) => format!("; did you mean {}?", known.key),
                None => String::new(),
            };
            self.problems.push(format!(
                "{key} is no setting{hint} (from {})",
                value.origin().unwrap_or("the command line")
            ));
        }
    }
}

/// The variable that sets a key.
pub(super) fn environment_name(key: &str) -> String {
    format!("TIDEGATE__{}", key.to_uppercase().replace('.', "__"))
}

fn flatten(at: String, value: Value, into: &mut BTreeMap<String, Value>) {
    let origin = value.origin().map(str::to_owned);
    match value.kind {
        ValueKind::Table(table) => {
            for (key, below) in table {
                let at = if at.is_empty() { key } else { format!("{at}.{key}") };
                flatten(at, below, into);
            }
        }
        kind => {
            into.insert(at, Value::new(origin.as_ref(), kind));
        }
    }
}

/// A duration such as `250ms`, `1s`, `10min`.
pub(in crate::service) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|e| format!("{e}; expected a duration such as 250ms, 1s or 10min, found {text:?}"))
}

/// A number in a range.
pub(super) fn number<T>(range: std::ops::RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    move |text| match text.parse::<T>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!("expected a number from {} to {}, found {text:?}", range.start(), range.end())),
    }
}
