//! The medians of all runs as a table.

use std::fmt::Write;

use tidegate_tools::numbers::thousands;
use tidegate_tools::program::System;
use tidegate_tools::statistics::median;

use crate::Contender;
use crate::figures::Figures;

/// A row for each contender, in the order of their first runs.
pub(crate) fn render(rows: &[Figures]) -> String {
    let mut contenders: Vec<Contender> = Vec::new();
    for row in rows {
        if !contenders.contains(&row.contender) {
            contenders.push(row.contender);
        }
    }
    let of = |contender: Contender| -> Vec<&Figures> {
        rows.iter().filter(|row| row.contender == contender).collect()
    };
    let by_hand = contenders.iter().find(|contender| contender.system == System::ByHand);
    let by_hand =
        by_hand.map(|contender| median(of(*contender).iter().map(|row| row.records_per_cpu_s_warm)));

    let mut text = format!(
        "{:<16} {:>2}  {:>21}  {:>7}  {:>11}  {:>7}  {:>9}  {:>15}  {}\n",
        "system",
        "p",
        "records / CPU s",
        "by hand",
        "records / s",
        "peak MB",
        "startup s",
        "checkpoint ms",
        "output"
    );
    for contender in contenders {
        let runs = of(contender);
        let per_cpu = median(runs.iter().map(|row| row.records_per_cpu_s_warm));
        let (low, high) = range(&runs, |row| row.records_per_cpu_s_warm);
        let spread = format!("{} ({:.0}–{:.0}k)", thousands(per_cpu.round() as u64), low / 1e3, high / 1e3);
        let ratio = by_hand
            .filter(|limit| *limit > 0.0)
            .map_or(String::new(), |limit| format!("{:.2}", per_cpu / limit));
        let good = runs.iter().filter(|row| row.good()).count();
        let output = match runs[0].correct {
            _ if good < runs.len() => format!("WRONG in {} of {}", runs.len() - good, runs.len()),
            Some(_) => "exact".to_owned(),
            None => "complete".to_owned(),
        };
        writeln!(
            text,
            "{:<16} {:>2}  {spread:>21}  {ratio:>7}  {:>11}  {:>7.0}  {:>9.2}  {:>15}  {output}",
            contender.system.to_string(),
            contender.parallelism,
            thousands(median(runs.iter().map(|row| row.records_per_s)).round() as u64),
            median(runs.iter().map(|row| row.peak_rss_mb)),
            median(runs.iter().map(|row| row.startup_s)),
            checkpoints(&runs),
        )
        .expect("memory takes what is written");
    }
    let records = rows.first().map_or(0, |row| row.records_in);
    let rounds = rows.iter().filter(|row| row.contender == rows[0].contender).count();
    writeln!(
        text,
        "Medians of {rounds} alternating runs over {} clicks. Per CPU second: from 20 % of the records on; \"by hand\" is \
         the ratio to the limit that does the whole work by hand.",
        thousands(records)
    )
    .expect("memory takes what is written");
    text
}

/// Median and largest of all checkpoints of all runs.
fn checkpoints(runs: &[&Figures]) -> String {
    let mut all: Vec<f64> = runs.iter().flat_map(|row| row.checkpoints_ms.iter().copied()).collect();
    all.sort_by(f64::total_cmp);
    match all.last() {
        Some(largest) => format!("{:.0}, max {largest:.0}", all[all.len() / 2]),
        None => String::new(),
    }
}

fn range(runs: &[&Figures], figure: impl Fn(&Figures) -> f64) -> (f64, f64) {
    let all = runs.iter().map(|row| figure(row));
    all.fold((f64::INFINITY, 0.0), |(low, high), value| (low.min(value), high.max(value)))
}
