//! The HTTP endpoint of a running job, asked as any client would.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tidegate_tools::program::Program;

use super::{PATIENCE, Scene};

/// What the job's log calls the address.
const LISTENS: &str = "metrics, health and commands over HTTP";

/// Starts the job; where it serves HTTP.
pub(crate) fn start(scene: &Scene) -> (Program, String) {
    let before = scene.times_logged(LISTENS);
    let program = scene.start();
    (program, address(scene, before))
}

/// Where the job serves HTTP that was started when so many had been.
pub(crate) fn address(scene: &Scene, before: usize) -> String {
    scene.until("the address", || scene.times_logged(LISTENS) > before);
    let log = std::fs::read_to_string(scene.job.log()).unwrap();
    let line = log.lines().rfind(|line| line.contains(LISTENS)).unwrap();
    let (_, after) = line.split_once("address").unwrap();
    after.trim_start_matches(['"', ':', '=']).split(['"', ' ', ',']).next().unwrap().to_owned()
}

/// One request; status and body.
pub(crate) fn ask(address: &str, method: &str, path: &str, headers: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}content-length: 0\r\n\r\n")
        .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let status = text.split(' ').nth(1)?.parse().ok()?;
    Some((status, text.split_once("\r\n\r\n")?.1.to_owned()))
}

/// As [`ask`], for what is there.
pub(crate) fn get(address: &str, path: &str) -> (u16, String) {
    ask(address, "GET", path, "").unwrap_or_else(|| panic!("{address}{path} does not answer"))
}

/// An answer's object.
pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Looks again and again.
pub(crate) fn wait_for(what: &str, mut test: impl FnMut() -> bool) {
    let began = Instant::now();
    while !test() {
        assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
