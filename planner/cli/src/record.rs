//! `weir record`: Envoy's access log → the records of a replay. Streams: a log of any length needs the memory of its
//! window only. Lines that cannot be used are left out and named.

mod entry;
mod order;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use weir_planner::spec::RawDuration;

use self::entry::Entry;
use self::order::Window;
use crate::output::print;

/// Maximum length of a line of the log, in bytes.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// Maximum number of lines that are named one by one.
const NAMED_MAX: usize = 20;
/// Silence that a replay takes without being told, in seconds.
const SILENCE_S: u64 = 60;
/// Columns of the records.
const HEADER: &str = "arrival_s,budget_ms,size_bytes,class,min_accuracy";

/// Arguments of `weir record`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Record {
    /// Access log: a JSON object a line, with the fields that docs/how-to/record.md names; `-` is standard input.
    #[arg(value_name = "ACCESS_LOG")]
    log: PathBuf,
    /// Records of requests that arrived at this time or later: RFC 3339, or Unix seconds.
    #[arg(long, value_name = "TIME", value_parser = entry::time)]
    from: Option<i64>,
    /// Records of requests that arrived before this time.
    #[arg(long, value_name = "TIME", value_parser = entry::time)]
    to: Option<i64>,
    /// Longest time from a request's arrival to its line in the log.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    window: RawDuration,
    /// File of the records.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file.
    #[arg(long)]
    replace: bool,
}

/// Reads a duration as service files have it.
fn duration(text: &str) -> Result<RawDuration, String> {
    let value = serde_json::Value::String(text.to_owned());
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// Counts over a log.
#[derive(Debug, Default)]
struct Totals {
    lines: u64,
    /// Lines that are left out, with the reasons of the first.
    left_out: u64,
    reasons: Vec<String>,
    /// Lines outside of `--from` and `--to`.
    outside: u64,
    records: u64,
    /// Arrival of the first and the last record, µs since the epoch.
    first_us: Option<i64>,
    last_us: i64,
    ties: u64,
    silence_us: i64,
    classes: BTreeSet<String>,
    variants: BTreeMap<String, u64>,
    codes: BTreeMap<u16, u64>,
}

impl Record {
    /// # Errors
    /// A wrong argument, a log without a usable line, lines further out of order than the window, or a file that
    /// cannot be read or written.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let out = self.out.display();
        anyhow::ensure!(
            self.replace || !self.out.exists(),
            "--out {out}: it exists; --replace writes it anew"
        );
        if let (Some(from), Some(to)) = (self.from, self.to) {
            anyhow::ensure!(from < to, "--to: it must be after --from");
        }
        let log = self.log.display();
        let input: Box<dyn Read> = match self.log.as_os_str() == "-" {
            true => Box::new(std::io::stdin().lock()),
            false => Box::new(File::open(&self.log).with_context(|| log.to_string())?),
        };
        let mut beside = self.out.clone().into_os_string();
        beside.push(".part");
        let beside = PathBuf::from(beside);
        let about = || format!("--out {out}");
        let written = self.write(BufReader::new(input), &beside);
        let totals = match written {
            Ok(totals) => totals,
            Err(error) => {
                // The error matters more than a file that stays.
                let _ = std::fs::remove_file(&beside);
                return Err(error.context(log.to_string()));
            }
        };
        std::fs::rename(&beside, &self.out).with_context(about)?;
        for reason in &totals.reasons {
            eprintln!("{log}:{reason}");
        }
        print(totals.text(&self.out))
    }

    fn write(&self, mut log: impl BufRead, path: &Path) -> anyhow::Result<Totals> {
        let about = || format!("--out {}", self.out.display());
        let file = File::create(path).with_context(about)?;
        let mut file = BufWriter::new(file);
        writeln!(file, "{HEADER}").with_context(about)?;
        let mut totals = Totals::default();
        let mut window = Window::new(i64::try_from(self.window.0.as_micros())?);
        let mut line = Vec::new();
        while next_line(&mut log, &mut line)? {
            totals.lines += 1;
            let at = totals.lines;
            let entry = match Entry::parse(&line) {
                Ok(entry) => entry,
                Err(why) => {
                    totals.leave_out(at, &why);
                    continue;
                }
            };
            if self.is_outside(entry.arrival_us) {
                totals.outside += 1;
                continue;
            }
            window
                .push(at, entry)
                .map_err(|late| anyhow::anyhow!("{late}"))?;
            while let Some((at, entry)) = window.pop() {
                totals.record(&mut file, at, &entry).with_context(about)?;
            }
        }
        window.close();
        while let Some((at, entry)) = window.pop() {
            totals.record(&mut file, at, &entry).with_context(about)?;
        }
        file.flush().with_context(about)?;
        anyhow::ensure!(totals.records > 0, "{}", totals.nothing());
        Ok(totals)
    }

    fn is_outside(&self, arrival_us: i64) -> bool {
        self.from.is_some_and(|from| arrival_us < from)
            || self.to.is_some_and(|to| arrival_us >= to)
    }
}

/// Reads the next line without its end; returns `false` at the end of the log. A line that is too long is cut, and
/// so no JSON.
fn next_line(log: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    let read = log.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', line)?;
    if read as u64 == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
        skip_line(log)?;
    }
    while line.last().is_some_and(u8::is_ascii_whitespace) {
        line.pop();
    }
    Ok(read > 0)
}

/// Skips the rest of a line without keeping it.
fn skip_line(log: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let bytes = log.fill_buf()?;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (length, is_over) = match end {
            Some(end) => (end + 1, true),
            None => (bytes.len(), bytes.is_empty()),
        };
        log.consume(length);
        if is_over {
            return Ok(());
        }
    }
}

impl Totals {
    fn leave_out(&mut self, line: u64, why: &str) {
        self.left_out += 1;
        self.name(line, &format!("{why}; the line is left out"));
    }

    fn name(&mut self, line: u64, message: &str) {
        if self.reasons.len() < NAMED_MAX {
            self.reasons.push(format!("{line}: {message}"));
        }
    }

    fn record(&mut self, file: &mut impl Write, line: u64, entry: &Entry) -> std::io::Result<()> {
        let first_us = *self.first_us.get_or_insert(entry.arrival_us);
        if self.records > 0 {
            let silence_us = entry.arrival_us - self.last_us;
            self.ties += u64::from(silence_us == 0);
            self.silence_us = self.silence_us.max(silence_us);
            if silence_us > (SILENCE_S * 1_000_000) as i64 {
                let seconds = silence_us / 1_000_000;
                self.name(
                    line,
                    &format!("nothing arrived in the {seconds} s before this request"),
                );
            }
        }
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
    fn nothing(&self) -> String {
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

    fn text(&self, out: &Path) -> String {
        let first_us = self.first_us.unwrap_or_default();
        let seconds = (self.last_us - first_us) as f64 / 1e6;
        let out = out.display();
        let mut text = format!(
            "{out}: {} requests in {seconds:.1} s; of {} lines {} are left out, {} outside of --from and --to\n",
            self.records, self.lines, self.left_out, self.outside
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
        text + "Next: weir replay SCENARIO.yaml --check\n"
    }
}
