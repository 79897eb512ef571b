//! Counts over a recorded log, or over counters, and the text about them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use super::entry::Entry;

/// Maximum number of lines that are named one by one.
const NAMED_MAX: usize = 20;
/// Silence that a replay takes without being told, in seconds.
const SILENCE_S: u64 = 60;

/// Counts over a log, or over counters.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) lines: u64,
    /// Lines that are left out, with the reasons of the first.
    pub(super) left_out: u64,
    pub(super) reasons: Vec<String>,
    /// Lines outside of `--from` and `--to`.
    pub(super) outside: u64,
    pub(super) records: u64,
    /// Records with a budget.
    pub(super) budgets: u64,
    /// Arrival of the first and the last record, µs since the epoch.
    pub(super) first_us: Option<i64>,
    pub(super) last_us: i64,
    pub(super) ties: u64,
    pub(super) silence_us: i64,
    pub(super) classes: BTreeSet<String>,
    pub(super) variants: BTreeMap<String, u64>,
    pub(super) codes: BTreeMap<u16, u64>,
}

impl Totals {
    pub(super) fn leave_out(&mut self, line: u64, why: &str) {
        self.left_out += 1;
        self.name(line, &format!("{why}; the line is left out"));
    }

    fn name(&mut self, line: u64, message: &str) {
        if self.reasons.len() < NAMED_MAX {
            self.reasons.push(format!("{line}: {message}"));
        }
    }

    pub(super) fn record(
        &mut self,
        file: &mut impl Write,
        line: Option<u64>,
        entry: &Entry,
    ) -> std::io::Result<()> {
        let first_us = *self.first_us.get_or_insert(entry.arrival_us);
        // A log begins with its first request, counters begin before.
        if self.records > 0 || line.is_none() {
            let silence_us = entry.arrival_us - self.last_us;
            self.ties += u64::from(silence_us == 0 && self.records > 0);
            self.silence_us = self.silence_us.max(silence_us);
            let is_long = silence_us > (SILENCE_S * 1_000_000) as i64;
            if let Some(line) = line.filter(|_| is_long) {
                let seconds = silence_us / 1_000_000;
                self.name(
                    line,
                    &format!("nothing arrived in the {seconds} s before this request"),
                );
            }
        }
        self.budgets += u64::from(entry.budget_ms.is_some());
        (self.records, self.last_us) = (self.records + 1, entry.arrival_us);
        if let Some(class) = &entry.class {
            self.classes.insert(class.clone());
        }
        if let Some(variant) = &entry.variant {
            *self.variants.entry(variant.clone()).or_default() += 1;
        }
        if let Some(code) = entry.code {
            *self.codes.entry(code).or_default() += 1;
        }
        let since_us = entry.arrival_us - first_us;
        let (seconds, micros) = (since_us / 1_000_000, since_us % 1_000_000);
        let cell = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
        let accuracy = entry.min_accuracy.map(|percent| percent.to_string());
        writeln!(
            file,
            "{seconds}.{micros:06},{},{},{},{}",
            cell(entry.budget_ms),
            cell(entry.bytes),
            entry.class.as_deref().unwrap_or_default(),
            accuracy.unwrap_or_default()
        )
    }

    /// Reason why there is no record.
    pub(super) fn nothing(&self) -> String {
        let first = self
            .reasons
            .first()
            .map(|reason| format!("; line {reason}"));
        format!(
            "no record: {} lines, {} left out, {} outside of --from and --to{}",
            self.lines,
            self.left_out,
            self.outside,
            first.unwrap_or_default()
        )
    }

    pub(super) fn text(&self, out: &Path, head: &str) -> String {
        let first_us = self.first_us.unwrap_or_default();
        let seconds = (self.last_us - first_us) as f64 / 1e6;
        let out = out.display();
        let mut text = format!(
            "{out}: {} requests in {seconds:.1} s; {head}\n",
            self.records
        );
        let mut counted = |what: &str, counts: Vec<(String, u64)>| {
            let counts: Vec<String> = counts
                .into_iter()
                .map(|(of, n)| format!("{of} {n}"))
                .collect();
            if !counts.is_empty() {
                text += &format!("{what}: {}\n", counts.join(", "));
            }
        };
        let codes = self.codes.iter().map(|(code, n)| (code.to_string(), *n));
        counted("response codes", codes.collect());
        let variants = self.variants.iter().map(|(name, n)| (name.clone(), *n));
        counted("variants", variants.collect());
        let mut load = format!("records: {out}");
        if self.ties > 0 {
            load += ", ties: true";
        }
        if self.silence_us > (SILENCE_S * 1_000_000) as i64 {
            load += &format!(", silence_s: {}", self.silence_us / 1_000_000 + 1);
        }
        text += &format!("In a scenario, beside network: none:\n  load: {{ {load} }}\n");
        if !self.classes.is_empty() {
            let classes: Vec<&str> = self.classes.iter().map(String::as_str).collect();
            text += &format!("with these classes: {}\n", classes.join(", "));
        }
        if self.budgets > 0 {
            text += &format!(
                "{} records have budgets, which count instead of service.slo; for another SLO: budgets: service in load\n",
                self.budgets
            );
        }
        text + "Next: weir replay SCENARIO.yaml --check\n"
    }
}
