//! What goes to standard output: a table for people's eyes, JSON for machines.

use crate::model::Failure;
use serde::Serialize;
use std::io::Write;

/// In which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(super) enum Format {
    /// Columns, with a heading
    #[default]
    Table,
    /// An array of objects
    Json,
}

/// A line of a table.
pub(super) trait Row: Serialize {
    /// The headings.
    const COLUMNS: &'static [&'static str];

    /// As many texts as there are headings; an empty one is shown as a dash.
    fn cells(&self) -> Vec<String>;
}

/// Writes all rows.
///
/// # Errors
/// When standard output is closed.
pub(super) fn print<R: Row>(format: Format, rows: &[R]) -> Result<(), Failure> {
    let text = match format {
        Format::Table => table(rows),
        Format::Json => {
            let mut text = serde_json::to_string_pretty(rows).expect("rows have only plain fields");
            text.push('\n');
            text
        }
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(|e| Failure::configuration(format!("standard output cannot be written: {e}")))
}

fn table<R: Row>(rows: &[R]) -> String {
    let mut lines = vec![R::COLUMNS.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>()];
    lines.extend(rows.iter().map(Row::cells));
    for cell in lines.iter_mut().flatten().filter(|cell| cell.is_empty()) {
        cell.push('-');
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..R::COLUMNS.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let padded: Vec<String> = line.iter().zip(&widths).map(|(cell, w)| format!("{cell:w$}")).collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Pair(String, u32);

    impl Row for Pair {
        const COLUMNS: &'static [&'static str] = &["NAME", "N"];
        fn cells(&self) -> Vec<String> {
            vec![self.0.clone(), self.1.to_string()]
        }
    }

    #[test]
    fn columns_stand_below_their_headings() {
        let rows = [Pair("größer".into(), 1), Pair(String::new(), 22)];
        assert_eq!(table(&rows), "NAME    N\ngrößer  1\n-       22\n");
        assert_eq!(table::<Pair>(&[]), "NAME  N\n");
    }
}
