//! The program, asked what it thinks of settings.

use crate::support::bin_dir;
use std::path::Path;
use std::process::Command;

/// Everything that the program finds wrong with a file of settings and variables, a line each.
///
/// Told to keep no checkpoint at all it never starts the job, and says what else is wrong.
pub(crate) fn problems(file: Option<&Path>, variables: &[(String, String)]) -> Vec<String> {
    let mut command = Command::new(bin_dir().join("clicks_per_url"));
    command.args(["--retained", "0"]).envs(variables.iter().map(|(name, value)| (name, value)));
    if let Some(file) = file {
        command.arg("--config").arg(file);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "it refuses the settings: {text}");
    let planted = "at least 1 checkpoint must be retained, found 0";
    assert!(text.contains(planted), "it looks at all of them: {text}");
    text.lines().filter(|line| !line.contains(planted)).map(str::to_owned).collect()
}
