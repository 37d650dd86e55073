//! Writes the show: in colour and with a line that moves on a terminal, as plain lines elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// How a piece of text stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
    Accent,
}

/// Standard output.
pub(crate) struct Terminal {
    colour: bool,
    moving: bool,
    /// A moving line stands there and is not ended yet.
    unfinished: bool,
    last_plain: Option<Instant>,
}

/// On no terminal, progress is told so often.
const PLAIN_EVERY: Duration = Duration::from_secs(1);

impl Terminal {
    /// Colour only on a terminal that knows it, and not if `NO_COLOR` is set to something.
    pub(crate) fn new() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let moving = io::stdout().is_terminal() && set("TERM").is_some_and(|term| term != "dumb");
        Self { colour: moving && set("NO_COLOR").is_none(), moving, unfinished: false, last_plain: None }
    }

    /// The text in a style, or as it is where there is no colour.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        let code = match style {
            _ if !self.colour => return text.to_owned(),
            Style::Plain => return text.to_owned(),
            Style::Strong => "1",
            Style::Faint => "2",
            Style::Good => "1;32",
            Style::Bad => "1;31",
            Style::Accent => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// A line of its own.
    pub(crate) fn line(&mut self, text: &str) {
        self.end_moving();
        self.put(text, "\n");
    }

    /// A heading, set off by an empty line.
    pub(crate) fn heading(&mut self, text: &str) {
        let text = self.paint(Style::Strong, text);
        self.line("");
        self.line(&text);
    }

    /// A name and what belongs to it, indented and aligned.
    pub(crate) fn item(&mut self, name: &str, text: &str) {
        let name = self.paint(Style::Faint, &format!("{name:<13}"));
        self.line(&format!("   {name} {text}"));
    }

    /// A line that replaces the moving line before it; elsewhere a line a second.
    pub(crate) fn progress(&mut self, text: &str) {
        if self.moving {
            self.put("\r\x1b[K", text);
            self.unfinished = true;
        } else if self.last_plain.is_none_or(|last| last.elapsed() >= PLAIN_EVERY) {
            self.last_plain = Some(Instant::now());
            self.put(text, "\n");
        }
    }

    /// Lets the last state of the moving line stand.
    pub(crate) fn end_moving(&mut self) {
        if std::mem::take(&mut self.unfinished) {
            self.put("", "\n");
        }
        self.last_plain = None;
    }

    fn put(&mut self, text: &str, after: &str) {
        let mut out = io::stdout().lock();
        // Nobody is left to be told that the reader of a pipe is gone; the verdict is the exit code.
        let _ = write!(out, "{text}{after}").and_then(|()| out.flush());
    }
}

/// A bar of `width` cells of which the share `done`, 0 to 1, is full.
pub(crate) fn bar(done: f64, width: usize) -> String {
    let full = (done.clamp(0.0, 1.0) * width as f64).round() as usize;
    "█".repeat(full) + &"░".repeat(width - full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_always_as_wide_as_asked_for() {
        for (done, full) in [(-1.0, 0), (0.0, 0), (0.5, 5), (1.0, 10), (7.0, 10)] {
            let bar = bar(done, 10);
            assert_eq!((bar.chars().count(), bar.matches('█').count()), (10, full), "{done}");
        }
    }
}
