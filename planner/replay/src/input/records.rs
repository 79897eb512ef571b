//! Parser of request records: CSV with a header, or a JSON object per line (`.jsonl`, `.ndjson`, `.json`; all
//! may end in `.gz`). The columns are `arrival_s` or `arrival_ms` (required), `budget_ms`,
//! `size_bytes`, `class`, `min_accuracy`. An empty cell or `null` means the scenario's default.
//!
//! Arrivals must ascend. Ties and long silences are refused too, because they are more often recording
//! faults than real; the scenario can allow them.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use weir_api::plan::HOUR_MS;
use weir_sim::load::{REQUESTS_MAX, SECONDS_MAX, read_bounded};

use super::Arrival;
use super::BYTES_MAX;
use crate::file_error::{FileError, VALUE_MAX};

/// Maximum size of a records file, in bytes, decompressed.
const RECORDS_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Maximum length of a line, in bytes.
pub const LINE_BYTES_MAX: usize = 4096;
/// Known columns.
const COLUMNS: [&str; 6] = [
    "arrival_s",
    "arrival_ms",
    "budget_ms",
    "size_bytes",
    "class",
    "min_accuracy",
];

/// Rules for records.
#[derive(Debug, Clone, Copy)]
pub struct Rule<'a> {
    /// Known classes.
    pub classes: &'a [String],
    /// Whether several arrivals at the same time are allowed.
    pub ties: bool,
    /// Maximum time between arrivals, and before the first.
    pub silence: Duration,
}

/// Record as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    arrival_s: Option<f64>,
    arrival_ms: Option<f64>,
    budget_ms: Option<u64>,
    size_bytes: Option<u64>,
    class: Option<String>,
    min_accuracy: Option<f64>,
}

/// Reads the arrivals in `path`.
///
/// # Errors
/// The first invalid record: file, line, column, value, and the expected value.
pub fn read(path: &Path, rule: &Rule<'_>) -> Result<Vec<Arrival>, FileError> {
    let refused = |(line, message)| FileError {
        file: path.display().to_string(),
        line,
        message,
    };
    let text = read_bounded(path, RECORDS_BYTES_MAX)
        .map_err(|error| refused((None, format!("{error:#}"))))?;
    let mut lines = text.lines().zip(1..);
    if let Some((line, at)) = lines.find(|(line, _)| line.len() > LINE_BYTES_MAX) {
        let message = format!("{} bytes; at most {LINE_BYTES_MAX} in a line", line.len());
        return Err(refused((Some(at), message)));
    }
    let mut reading = RecordReader {
        rule,
        arrivals: Vec::new(),
    };
    let read = if is_json(path) {
        reading.json(&text)
    } else {
        reading.csv(&text)
    };
    read.map_err(refused)?;
    if reading.arrivals.is_empty() {
        return Err(refused((
            None,
            "no records; there must be one at least".to_owned(),
        )));
    }
    Ok(reading.arrivals)
}

fn is_json(path: &Path) -> bool {
    let name = path.to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    [".jsonl", ".ndjson", ".json"]
        .iter()
        .any(|ending| name.ends_with(ending))
}

/// Line and error message.
type RecordError = (Option<u64>, String);

struct RecordReader<'a> {
    rule: &'a Rule<'a>,
    arrivals: Vec<Arrival>,
}

impl RecordReader<'_> {
    fn json(&mut self, text: &str) -> Result<(), RecordError> {
        for (line, at) in text.lines().zip(1..) {
            if line.trim().is_empty() {
                return Err((
                    Some(at),
                    "a blank line; it must be a record, or left out".to_owned(),
                ));
            }
            let record = weir_api::json::read(line.as_bytes());
            let record = record.map_err(|error| {
                // The parser's line number is relative to the line.
                let complaint = error.to_string().replace(" at line 1 column", " at column");
                (Some(at), complaint)
            })?;
            self.take(record).map_err(|message| (Some(at), message))?;
        }
        Ok(())
    }

    fn csv(&mut self, text: &str) -> Result<(), RecordError> {
        let wrong = |error: csv::Error| {
            let line = error.position().map(csv::Position::line);
            (line, shape(&error))
        };
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let header = reader.headers().map_err(wrong)?.clone();
        check_header(&header).map_err(|message| (Some(1), message))?;
        let mut row = csv::StringRecord::new();
        while reader.read_record(&mut row).map_err(wrong)? {
            let line = row.position().map(csv::Position::line);
            let mut record = Record::default();
            for (column, cell) in header.iter().zip(&row) {
                record
                    .set(column, cell)
                    .map_err(|message| (line, message))?;
            }
            self.take(record).map_err(|message| (line, message))?;
        }
        Ok(())
    }

    /// Checks a record against the rules and the previous one.
    fn take(&mut self, record: Record) -> Result<(), String> {
        let (column, written, ms) = match (record.arrival_s, record.arrival_ms) {
            (Some(s), None) => ("arrival_s", s, s * 1e3),
            (None, Some(ms)) => ("arrival_ms", ms, ms),
            (None, None) => return Err("arrival_s or arrival_ms: missing; give one".to_owned()),
            (Some(_), Some(_)) => {
                return Err("arrival_s and arrival_ms: both given; give one".to_owned());
            }
        };
        let most = SECONDS_MAX as f64 * 1e3;
        if !(0.0..=most).contains(&ms) {
            let right = format!("0 to {SECONDS_MAX} s, counted from the start of the records");
            return Err(value(column, written, &right));
        }
        let sent = Duration::from_secs_f64(ms / 1e3);
        self.in_order(column, written, sent)?;
        if self.arrivals.len() >= REQUESTS_MAX {
            return Err(format!("more than {REQUESTS_MAX} records"));
        }
        let within = |column: &str, given: Option<u64>, min: u64, most: u64| match given {
            Some(given) if !(min..=most).contains(&given) => {
                Err(value(column, given, &format!("{min} to {most}")))
            }
            given => Ok(given),
        };
        let accuracy = record.min_accuracy;
        if let Some(accuracy) = accuracy.filter(|a| !(0.0..=100.0).contains(a)) {
            return Err(value("min_accuracy", accuracy, "0 to 100 percent"));
        }
        let budget = within("budget_ms", record.budget_ms, 1, HOUR_MS)?;
        let class = record.class.map(|name| self.class(&name)).transpose()?;
        self.arrivals.push(Arrival {
            sent,
            budget: budget.map(Duration::from_millis),
            bytes: within("size_bytes", record.size_bytes, 0, BYTES_MAX)?,
            class,
            min_accuracy: accuracy,
        });
        Ok(())
    }

    fn in_order(&self, column: &str, written: f64, sent: Duration) -> Result<(), String> {
        let last = self.arrivals.last().map(|last| last.sent);
        let before = last.map_or(0.0, |last| last.as_secs_f64());
        if last.is_some_and(|last| sent < last) {
            let right = format!("at least the arrival before it ({before} s): sort the records");
            return Err(value(column, written, &right));
        }
        if last == Some(sent) && !self.rule.ties {
            let right = "another time than the record before it; \
                say `ties: true` in load where several at once are meant";
            return Err(value(column, written, right));
        }
        if sent.saturating_sub(last.unwrap_or_default()) > self.rule.silence {
            let right = format!(
                "at most {} s after the arrival before it ({before} s); \
                 say a longer `silence_s` in load where the gap is meant",
                self.rule.silence.as_secs_f64()
            );
            return Err(value(column, written, &right));
        }
        Ok(())
    }

    fn class(&self, name: &str) -> Result<u16, String> {
        let known = self.rule.classes.iter().position(|class| class == name);
        let known = known.and_then(|index| u16::try_from(index).ok());
        let right = format!(
            "one of the scenario's classes: {}",
            self.rule.classes.join(", ")
        );
        known.ok_or_else(|| value("class", name, &right))
    }
}

impl Record {
    /// Sets a column from a cell; ignores an empty cell.
    fn set(&mut self, column: &str, cell: &str) -> Result<(), String> {
        if cell.is_empty() {
            return Ok(());
        }
        let number = || cell.parse().map_err(|_| value(column, cell, "a number"));
        let whole = || {
            let right = "a whole number, 0 or more";
            cell.parse().map_err(|_| value(column, cell, right))
        };
        match column {
            "arrival_s" => self.arrival_s = Some(number()?),
            "arrival_ms" => self.arrival_ms = Some(number()?),
            "budget_ms" => self.budget_ms = Some(whole()?),
            "size_bytes" => self.size_bytes = Some(whole()?),
            "class" => self.class = Some(cell.to_owned()),
            _ => self.min_accuracy = Some(number()?),
        }
        Ok(())
    }
}

fn check_header(header: &csv::StringRecord) -> Result<(), String> {
    let mut seen = Vec::new();
    for column in header {
        if !COLUMNS.contains(&column) {
            let right = format!("one of {}", COLUMNS.join(", "));
            return Err(value("header", column, &right));
        }
        if seen.contains(&column) {
            return Err(value("header", column, "there once; it stands twice"));
        }
        seen.push(column);
    }
    match (seen.contains(&"arrival_s"), seen.contains(&"arrival_ms")) {
        (true, true) => Err("header: arrival_s and arrival_ms; give one".to_owned()),
        (false, false) => Err("header: arrival_s or arrival_ms is missing".to_owned()),
        _ => Ok(()),
    }
}

/// Rewords the CSV parser's error.
fn shape(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("{len} columns; the header has {expected_len}"),
        _ => error.to_string(),
    }
}

fn value(column: &str, value: impl Display, right: &str) -> String {
    let value: String = value.to_string().chars().take(VALUE_MAX).collect();
    format!("{column}: {value}; it must be {right}")
}
