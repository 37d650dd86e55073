//! Who may import whom: the rooms of `src/` in the order of the data path, and the walls around third-party crates.
//!
//! A room imports only rooms above it in [`ROOMS`]; `lib.rs` and `main.rs` may name all of them. Code that only tests
//! compile is free. Read from the sources, so that a violation is named with file and line.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// From the top down.
const ROOMS: &[&str] = &[
    "host",
    "model",
    "time",
    "storage",
    "state",
    "connector",
    "operator",
    "graph",
    "checkpoint",
    "runtime",
    "cluster",
    "api",
    "pipeline",
    "service",
];

/// Macros that live at the root of the crate, with the room that defines them.
const MACROS: &[(&str, &str)] = &[("fault_point", "host")];

/// A path, and the only places where it may be named.
const WALLS: &[(&[&str], &[&str])] = &[
    (&["rdkafka"], &["connector/kafka/native"]),
    (&["rdkafka_sys"], &["connector/kafka/native"]),
    (&["kafka_protocol"], &["connector/kafka/raw"]),
    (&["openssl"], &["connector/kafka/raw"]),
    (&["std", "net"], &["connector/kafka/raw", "service"]),
    (&["std", "os", "unix", "net"], &["connector/kafka/raw"]),
    (&["fastrand"], &["host"]),
    (&["std", "time", "Instant", "now"], &["host"]),
    (&["std", "time", "SystemTime", "now"], &["host"]),
    (&["std", "thread", "spawn"], &["host"]),
    (&["std", "thread", "scope"], &["host"]),
    (&["std", "thread", "Builder"], &["host"]),
    (&["clap"], &["service", "main.rs"]),
    // By its types: many a variable is called config.
    (&["config", "Config"], &["service"]),
    (&["config", "Value"], &["service"]),
    (&["axum"], &["service"]),
    (&["ureq"], &["service"]),
    (&["aws_config"], &["storage/s3"]),
    (&["aws_sdk_s3"], &["storage/s3"]),
    (&["aws_smithy_http_client"], &["storage/s3"]),
    (&["hdfs_native"], &["storage/hdfs.rs"]),
    (&["futures_util"], &["storage"]),
];

/// What stands in a source file, without comments, strings and code that only tests compile.
struct Source {
    /// Relative to `src`.
    path: PathBuf,
    tokens: Vec<Token>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    text: String,
    line: usize,
}

/// A path as it is named or imported.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    parts: Vec<String>,
    /// How many modules within the file stand around it.
    inside: usize,
    line: usize,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts.join("::"))
    }
}

impl Source {
    fn of(path: &Path, text: &str) -> Self {
        Self { path: path.to_owned(), tokens: without_tests(tokens(text)) }
    }

    /// The room, or `None` for the crate's roots.
    fn room(&self) -> Option<&str> {
        let mut parts = self.path.iter();
        let first = parts.next().unwrap().to_str().unwrap();
        parts.next().map(|_| first).or_else(|| first.strip_suffix(".rs").filter(|name| ROOMS.contains(name)))
    }

    /// How deep the file's module lies below the crate's root.
    fn depth(&self) -> usize {
        self.path.iter().count() - usize::from(self.path.ends_with("mod.rs"))
    }

    /// Every path that is named; one that begins with an imported name is written out.
    fn paths(&self) -> Vec<Named> {
        let (mut found, mut imported): (Vec<Named>, Vec<Vec<String>>) = (Vec::new(), Vec::new());
        // What each open brace belongs to: a module of this file, or anything else.
        let mut open: Vec<bool> = Vec::new();
        let mut at = 0;
        let text = |at: usize| self.tokens.get(at).map_or("", |t| t.text.as_str());
        while at < self.tokens.len() {
            match text(at) {
                "{" => open.push(at >= 2 && text(at - 2) == "mod"),
                "}" => drop(open.pop()),
                word if is_word(word) && (at == 0 || text(at - 1) != "::") => {
                    let (is_use, before) = (at > 0 && text(at - 1) == "use", found.len());
                    let inside = open.iter().filter(|of_module| **of_module).count();
                    at = read_path(&self.tokens, at, &[], inside, &mut found);
                    if is_use {
                        imported.extend(found[before..].iter().map(|named| named.parts.clone()));
                    }
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        for named in &mut found {
            if let Some(import) = imported.iter().find(|i| i.len() > 1 && i.last() == named.parts.first()) {
                named.parts.splice(..1, import.iter().cloned());
            }
        }
        found
    }

    fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for named in self.paths() {
            let place = format!("src/{}:{}", self.path.display(), named.line);
            if let Some(problem) = self.room().and_then(|room| self.downward(room, &named)) {
                found.push(format!("{place}: {problem}"));
            }
            for (path, allowed) in WALLS {
                let names = named.parts.iter().take(path.len()).map(String::as_str).eq(path.iter().copied());
                if names && !allowed.iter().any(|place| self.path.starts_with(place)) {
                    let (wall, places) = (path.join("::"), allowed.join(" and "));
                    found.push(format!("{place}: names {named}; {wall} belongs to {places} alone"));
                }
            }
        }
        found
    }

    /// What is wrong with naming this path in this room, if anything.
    fn downward(&self, room: &str, named: &Named) -> Option<String> {
        let supers = named.parts.iter().take_while(|part| *part == "super").count();
        if supers >= self.depth() + named.inside {
            return Some(format!("{named} leaves the room {room} upwards; name the other room by crate::…"));
        }
        if named.parts[0] != "crate" {
            return None;
        }
        let target = named.parts.get(1)?.as_str();
        let target = match MACROS.iter().find(|(name, _)| *name == target) {
            Some((_, home)) => home,
            None => target,
        };
        let place = |name: &str| ROOMS.iter().position(|room| *room == name);
        match place(target) {
            None => Some(format!("{named} names {target}, which is no room of the table")),
            Some(theirs) if theirs > place(room)? => {
                Some(format!("{named}: {room} is above {target} and must not know it"))
            }
            Some(_) => None,
        }
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Reads a path, or a group of paths, from `at` on; gives the place behind it.
fn read_path(
    tokens: &[Token],
    mut at: usize,
    before: &[String],
    inside: usize,
    found: &mut Vec<Named>,
) -> usize {
    let text = |at: usize| tokens.get(at).map_or("", |t| t.text.as_str());
    let (mut parts, line) = (before.to_vec(), tokens[at].line);
    loop {
        if text(at) == "{" {
            at += 1;
            while !matches!(text(at), "}" | "") {
                at = if is_word(text(at)) { read_path(tokens, at, &parts, inside, found) } else { at + 1 };
            }
            return at + 1;
        }
        // `self` in a group is the group's own name.
        if text(at) != "self" || parts.is_empty() {
            parts.push(text(at).to_owned());
        }
        at += 1;
        let goes_on = text(at) == "::" && (is_word(text(at + 1)) || text(at + 1) == "{");
        if !goes_on {
            found.push(Named { parts, inside, line });
            return at;
        }
        at += 1;
    }
}

/// Words, `::` and single signs. Comments, strings and characters are left out.
fn tokens(text: &str) -> Vec<Token> {
    let (mut found, mut rest, mut line) = (Vec::new(), text, 1);
    while !rest.is_empty() {
        let hidden = hidden(rest);
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let length = match hidden {
            Some(length) => length,
            None if word > 0 => word,
            None if rest.starts_with("::") => 2,
            None => rest.chars().next().unwrap().len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        if hidden.is_none() && !token.trim().is_empty() {
            found.push(Token { text: token.to_owned(), line });
        }
        line += token.matches('\n').count();
        rest = after;
    }
    found
}

/// The length of the comment, string, character or lifetime that the text begins with, if it does.
fn hidden(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(text.find("*/").map_or(text.len(), |end| end + 2));
    }
    let literal = text.strip_prefix(['b', 'c']).unwrap_or(text);
    let prefix = text.len() - literal.len();
    let fences = literal.strip_prefix('r').map(|raw| raw.len() - raw.trim_start_matches('#').len());
    if let Some(fences) = fences.filter(|n| literal[1 + n..].starts_with('"')) {
        let close = format!("\"{}", "#".repeat(fences));
        let begin = prefix + 1 + fences + 1;
        return Some(begin + text[begin..].find(&close).unwrap() + close.len());
    }
    let quote = literal.chars().next()?;
    if quote == '\'' && !literal[1..].starts_with('\\') && literal.chars().nth(2) != Some('\'') {
        // A lifetime.
        return Some(prefix + 1);
    }
    if quote != '"' && quote != '\'' {
        return None;
    }
    let mut escaped = false;
    let end = literal[1..].find(|c| {
        let ends = c == quote && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    Some(prefix + 1 + end.unwrap() + 1)
}

/// Leaves out what follows `#[cfg(test)]`.
fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        if is_test_only(&tokens[at..]) {
            at = end_of_item(&tokens, at + CFG_TEST.len());
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

const CFG_TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

fn is_test_only(tokens: &[Token]) -> bool {
    tokens.iter().take(CFG_TEST.len()).map(|t| t.text.as_str()).eq(CFG_TEST)
}

/// Behind the item's semicolon or closing brace.
fn end_of_item(tokens: &[Token], from: usize) -> usize {
    let mut open = 0;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.text.as_str() {
            "{" => open += 1,
            "}" if open == 1 => return at + 1,
            "}" => open -= 1,
            ";" if open == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// All of `src` that is not for tests alone.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut files, mut folders) = (Vec::new(), vec![root.clone()]);
    let mut tests: BTreeSet<PathBuf> = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                tests.extend(test_modules(&text).map(|name| folder.join(name).with_extension("rs")));
                files.push((path, text));
            }
        }
    }
    files.retain(|(path, _)| !tests.contains(path) && !path.to_str().unwrap().ends_with("_tests.rs"));
    files.iter().map(|(path, text)| Source::of(path.strip_prefix(&root).unwrap(), text)).collect()
}

/// The names of modules in files of their own that only tests compile.
fn test_modules(text: &str) -> impl Iterator<Item = String> {
    let tokens = tokens(text);
    let at = (0..tokens.len()).filter(|at| is_test_only(&tokens[*at..]));
    let behind: Vec<_> = at.map(|at| tokens[at + CFG_TEST.len()..].to_vec()).collect();
    behind.into_iter().filter_map(|item| match item.as_slice() {
        [module, name, end, ..] if module.text == "mod" && end.text == ";" => Some(name.text.clone()),
        _ => None,
    })
}

#[test]
fn every_room_imports_only_rooms_above_it_and_no_wall_is_crossed() {
    let sources = sources();
    let rooms: BTreeSet<&str> = sources.iter().filter_map(Source::room).collect();
    assert!(rooms.len() >= 10, "the rooms were not found: {rooms:?}");
    let unknown: Vec<_> = rooms.iter().filter(|room| !ROOMS.contains(room)).collect();
    assert!(unknown.is_empty(), "these folders of src are no rooms of the table: {unknown:?}");
    let found: Vec<String> = sources.iter().flat_map(Source::violations).collect();
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_violation_is_found_however_it_is_written() {
    let problems = |path: &str, text: &str| Source::of(Path::new(path), text).violations();
    let found = [
        ("state/value.rs", "use crate::runtime::Job;"),
        ("state/value.rs", "use crate::{\n    model::Key,\n    runtime::{Job},\n};"),
        ("state/memory/page.rs", "fn f() { crate::checkpoint::plan(); }"),
        ("state/value.rs", "use super::super::runtime::Job;"),
        ("state/value.rs", "use crate::helpers::x;"),
        ("storage/local.rs", "fn f<'a>(x: &'a str) { let q = '\"'; crate::state::f(x) }"),
        ("connector/kafka/sink/pool.rs", "use rdkafka::ClientConfig;"),
        ("connector/kafka/native/mod.rs", "fn f() { kafka_protocol::f() }"),
        ("runtime/job.rs", "use std::{thread, time::Instant};\nfn f() { Instant::now(); }"),
        ("runtime/job.rs", "use std::thread;\nfn f() { thread::spawn(f); }"),
        ("storage/s3.rs", "use std::net::TcpStream;"),
        ("host/clock.rs", "fn f() { crate::model::f() }"),
    ];
    for (path, text) in found {
        assert_eq!(problems(path, text).len(), 1, "{path}: {text}: {:?}", problems(path, text));
    }
    let free = [
        (
            "runtime/job.rs",
            "use crate::{checkpoint, host::thread};\nfn f() { thread::spawn(f); checkpoint::plan() }",
        ),
        (
            "runtime/job.rs",
            "//! [`crate::service`]\n/// crate::service\nfn f() { g(\"crate::service\", r#\"\"rdkafka\"#) }",
        ),
        ("runtime/job.rs", "#[cfg(test)]\nmod tests { use crate::service::x; fn f() {} }"),
        ("runtime/job.rs", "fn f() { crate::fault_point!(\"x\"); super::task::g() }"),
        ("connector/kafka/native/mod.rs", "use rdkafka::ClientConfig;"),
        ("main.rs", "use crate::service::x;"),
        ("model/id.rs", "pub(crate) struct A<'a>(&'a str);"),
    ];
    for (path, text) in free {
        assert_eq!(problems(path, text), [""; 0], "{path}: {text}");
    }
    assert_eq!(problems("a/b.rs", "\n\nuse super::super::c;").len(), 1, "the line is counted");
    assert!(problems("state/b.rs", "\n\nuse crate::graph::c;")[0].starts_with("src/state/b.rs:3: "));
}
