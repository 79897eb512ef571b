//! `weir record`: Envoy's access log, or the filter's counters, → the records of a replay. A log streams: one of any
//! length needs the memory of its window only. Lines that cannot be used are left out and named.
//!
//! Records are written beside their file, which they replace once they are whole.

mod counters;
mod entry;
mod order;
mod poll;
mod range;
mod totals;

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use reqwest::Url;
use tokio::sync::{oneshot, watch};
use weir_planner::spec::RawDuration;

use self::counters::Growth;
use self::entry::Entry;
use self::order::Window;
use self::totals::Totals;
use crate::output::{part, print, try_write};

/// Maximum length of a line of the log, in bytes.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// Shortest and longest time between two polls.
const INTERVAL: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];
/// Maximum number of proxies that are polled.
const PROXIES_MAX: usize = 256;
/// Columns of the records.
const HEADER: &str = "arrival_s,budget_ms,size_bytes,class,min_accuracy";

/// Arguments of `weir record`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = crate::exit::HELP, group = clap::ArgGroup::new("source").required(true))]
pub(crate) struct Record {
    /// Access log: a JSON object a line, with the fields that docs/how-to/record.md names; `-` is standard input.
    #[arg(value_name = "ACCESS_LOG", group = "source")]
    log: Option<PathBuf>,
    /// Statistics of a proxy with the filter, such as http://127.0.0.1:9901/stats/prometheus, whose counters of arrivals
    /// are polled until interrupted; repeat it for several proxies.
    #[arg(long, value_name = "URL", group = "source")]
    stats: Vec<Url>,
    /// Answer of Prometheus' /api/v1/query_range for weir_class_arrivals_total or weir_arrivals_total, JSON.
    #[arg(long, value_name = "FILE", group = "source")]
    range: Option<PathBuf>,
    /// Service whose counters are read, where there are several.
    #[arg(long, value_name = "NAME", conflicts_with = "log")]
    service: Option<String>,
    /// Time between two polls, 100ms to 60s.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval, conflicts_with_all = ["log", "range"])]
    interval: RawDuration,
    /// Time after which the polls end.
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with_all = ["log", "range"])]
    length: Option<RawDuration>,
    /// Seed of the times within a span of which a counter says only how many requests arrived.
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 1,
        conflicts_with = "log"
    )]
    seed: u64,
    /// Records of requests that arrived at this time or later: RFC 3339, or Unix seconds.
    #[arg(long, value_name = "TIME", value_parser = entry::time, conflicts_with = "stats")]
    from: Option<i64>,
    /// Records of requests that arrived before this time.
    #[arg(long, value_name = "TIME", value_parser = entry::time, conflicts_with = "stats")]
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

/// Reads the time between two polls.
fn interval(text: &str) -> Result<RawDuration, String> {
    let time = duration(text)?;
    let [min, max] = INTERVAL;
    match (min..=max).contains(&time.0) {
        true => Ok(time),
        false => Err("it must be 100ms to 60s".to_owned()),
    }
}

impl Record {
    /// # Errors
    /// A wrong argument, a source without a usable request, lines further out of order than the window, a file that
    /// cannot be read or written, or an interruption of anything but polls.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) -> anyhow::Result<()> {
        let out = self.out.display();
        anyhow::ensure!(
            self.replace || !self.out.exists(),
            "--out {out}: it exists; --replace writes it anew"
        );
        try_write(&self.out).context("--out")?;
        if let (Some(from), Some(to)) = (self.from, self.to) {
            anyhow::ensure!(from < to, "--to: it must be after --from");
        }
        if !self.stats.is_empty() {
            return self.polled(stop).await;
        }
        let (sender, done) = oneshot::channel();
        let record = self.clone();
        // Reading a log from a pipe may take for ever, so it must not hold up the end of the process.
        std::thread::spawn(move || sender.send(record.file()));
        tokio::select! {
            result = done => result?,
            _ = stop.wait_for(|stopped| *stopped) => {
                let _ = std::fs::remove_file(part(&self.out));
                anyhow::bail!("interrupted: {out} is not written")
            }
        }
    }

    /// Records a log or a range.
    fn file(&self) -> anyhow::Result<()> {
        if let Some(range) = &self.range {
            let about = || format!("--range {}", range.display());
            let file = File::open(range).with_context(about)?;
            let mut text = Vec::new();
            let most = range::FILE_BYTES_MAX;
            file.take(most + 1)
                .read_to_end(&mut text)
                .with_context(about)?;
            anyhow::ensure!(
                text.len() as u64 <= most,
                "{}: more than {most} bytes",
                about()
            );
            let read = range::read(&text, self.service.as_deref());
            let range = read.map_err(anyhow::Error::msg).with_context(about)?;
            let head = format!("{} series, {} gaps", range.series, range.gaps);
            return self.grown(range.growth, &head);
        }
        let Some(log) = &self.log else {
            return Ok(());
        };
        let input: Box<dyn Read> = match log.as_os_str() == "-" {
            true => Box::new(std::io::stdin().lock()),
            false => Box::new(File::open(log).with_context(|| log.display().to_string())?),
        };
        let written = self.whole(|part| self.write(BufReader::new(input), part));
        let totals = written.with_context(|| log.display().to_string())?;
        for reason in &totals.reasons {
            eprintln!("{}:{reason}", log.display());
        }
        let head = format!(
            "of {} lines {} are left out, {} outside of --from and --to",
            totals.lines, totals.left_out, totals.outside
        );
        print(totals.text(&self.out, &head))
    }

    /// Records polled counters.
    async fn polled(&self, stop: watch::Receiver<bool>) -> anyhow::Result<()> {
        let count = self.stats.len();
        anyhow::ensure!(
            count <= PROXIES_MAX,
            "--stats: {count} proxies; at most {PROXIES_MAX}"
        );
        let times = (self.interval.0, self.length.map(|length| length.0));
        let polled = poll::poll(&self.stats, self.service.as_deref(), times, stop).await?;
        for failure in &polled.failures {
            eprintln!("{failure}; its arrivals are spread over the time until the next answer");
        }
        let head = format!(
            "{} answers of {count} proxies, {} failed",
            polled.answers, polled.failed
        );
        self.grown(polled.growth, &head)
    }

    /// Records the growth of counters.
    fn grown(&self, growth: Growth, head: &str) -> anyhow::Result<()> {
        let arrivals = growth.arrivals(self.seed)?;
        let begin_us = arrivals.begin_us.max(self.from.unwrap_or(i64::MIN));
        let totals = self.whole(|part| {
            let about = || format!("--out {}", self.out.display());
            let mut file = BufWriter::new(File::create(part).with_context(about)?);
            writeln!(file, "{HEADER}").with_context(about)?;
            let mut totals = Totals {
                first_us: Some(begin_us),
                last_us: begin_us,
                ..Totals::default()
            };
            for (arrival_us, class) in &arrivals.times {
                if self.is_outside(*arrival_us) {
                    totals.outside += 1;
                    continue;
                }
                let class = arrivals.classes.get(*class).cloned().flatten();
                let entry = Entry::arrival(*arrival_us, class);
                totals.record(&mut file, None, &entry).with_context(about)?;
            }
            file.flush().with_context(about)?;
            let outside = totals.outside;
            anyhow::ensure!(
                totals.records > 0,
                "no record: the counters did not grow; {outside} requests outside of --from and --to"
            );
            Ok(totals)
        })?;
        let head = format!("{head}; {} outside of --from and --to", totals.outside);
        print(totals.text(&self.out, &head))
    }

    /// Writes the records beside their file, which they replace when they are whole.
    fn whole(&self, write: impl FnOnce(&Path) -> anyhow::Result<Totals>) -> anyhow::Result<Totals> {
        let beside = part(&self.out);
        match write(&beside) {
            Ok(totals) => {
                let about = || format!("--out {}", self.out.display());
                std::fs::rename(&beside, &self.out).with_context(about)?;
                Ok(totals)
            }
            Err(error) => {
                // The error matters more than a file that stays.
                let _ = std::fs::remove_file(&beside);
                Err(error)
            }
        }
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
                totals
                    .record(&mut file, Some(at), &entry)
                    .with_context(about)?;
            }
        }
        window.close();
        while let Some((at, entry)) = window.pop() {
            totals
                .record(&mut file, Some(at), &entry)
                .with_context(about)?;
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
