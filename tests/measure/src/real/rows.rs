//! Rows of a table of runs: on-time shares, answers, latencies and refusals, by load and way.

use std::fmt;

use serde::Serialize;

use super::load_run::LoadRun;
use super::report::mean;

/// Mean of all seeds of one load and way.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Row {
    /// Load.
    pub load: String,
    /// Way of the requests.
    pub way: String,
    /// Answered on time, percent of all sent; in a fault or burst, of those sent in it.
    pub on_time_percent: Vec<f64>,
    /// Requests sent.
    pub sent: Vec<f64>,
    /// Answers per second.
    pub answered_rps: Vec<f64>,
    /// Mean accuracy of the variants that requests were sent to, percent; none where the filter chose none.
    pub accuracy_percent: Vec<f64>,
    /// Median and 99th percentile of the answers' latency, ms.
    pub latency_ms: Vec<(f64, f64)>,
    /// Requests answered late, cut off, or whose client disconnected.
    pub late: u64,
    /// Requests refused.
    pub refused: u64,
}

/// Rows in the order in which they began.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Rows(Vec<Row>);

impl Rows {
    /// Adds a run to the row of its load and way, and prints its on-time share.
    pub(super) fn record(&mut self, load: &str, way: &str, run: &LoadRun, on_time_percent: f64) {
        eprintln!("{load:>18}  {way:<14}{on_time_percent:6.2} % on time");
        let known = |row: &Row| row.load == load && row.way == way;
        let index = self.0.iter().position(known).unwrap_or_else(|| {
            self.0.push(Row {
                load: load.to_owned(),
                way: way.to_owned(),
                ..Row::default()
            });
            self.0.len() - 1
        });
        let Some(row) = self.0.get_mut(index) else {
            return;
        };
        let sum = &run.summary;
        row.on_time_percent.push(on_time_percent);
        row.sent.push(run.sent() as f64);
        row.answered_rps.push(run.answered_rps());
        row.accuracy_percent.extend(run.accuracy_percent);
        row.latency_ms
            .push((sum.p50_ms.unwrap_or(0.0), sum.p99_ms.unwrap_or(0.0)));
        row.late += sum.late + sum.disconnected + sum.lost;
        row.refused += sum.refused_total();
    }

    /// Rows of a load.
    pub(super) fn of<'a>(&'a self, load: &'a str) -> impl Iterator<Item = &'a Row> {
        self.0.iter().filter(move |row| row.load == load)
    }

    /// Row of a load and way, if there is one.
    pub(super) fn row(&self, load: &str, way: &str) -> Option<&Row> {
        self.0.iter().find(|row| row.load == load && row.way == way)
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| load | way | on time | least to most | accuracy | answers/s | p50, p99 ms | late or cut off | refused |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|")?;
        for row in &self.0 {
            let shares = &row.on_time_percent;
            let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
            let most = shares.iter().copied().fold(0.0, f64::max);
            let accuracy = match row.accuracy_percent.is_empty() {
                true => String::new(),
                false => format!("{:.1} %", mean(&row.accuracy_percent)),
            };
            let (p50, p99): (Vec<f64>, Vec<f64>) = row.latency_ms.iter().copied().unzip();
            writeln!(
                f,
                "| {} | {} | {:.1} % | {least:.1} to {most:.1} | {accuracy} | {:.1} | {:.0}, {:.0} | {} | {} |",
                row.load,
                row.way,
                mean(shares),
                mean(&row.answered_rps),
                mean(&p50),
                mean(&p99),
                row.late,
                row.refused,
            )?;
        }
        Ok(())
    }
}
