//! Weir before real model servers: three MLServers with classifiers of different accuracy and cost, profiled by
//! `weir profile`, then loaded through three listeners of one Envoy over the same servers, in turns.
//!
//! Each server has a CPU quota as under Kubernetes. One machine runs everything, so the ways take turns with the same
//! seeds, in another order each time.

mod active;
mod fault;
mod load_run;
mod own_queue;
mod profile;
mod servers;
mod system;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::body::Bytes;
use serde::Serialize;
use weir_bed::load::{Protocol, Rates};

pub use active::ActiveRow;
use fault::Fault;
use load_run::{LoadRun, load_run};
use profile::Profile;
use servers::{Models, Server};
use system::{Sizes, System, Way};

/// Loads, as multiples of the throughput that the profiles say.
pub const LOADS: [f64; 4] = [0.6, 0.95, 1.3, 2.0];
/// Load with faults.
const FAULT_LOAD: f64 = 0.55;
/// Load before and after a burst, and in it.
const BURST: (f64, f64) = (0.55, 2.4);
/// Seconds of a run with a fault or a burst.
const FAULT_SECONDS: usize = 30;
const BURST_SECONDS: std::ops::Range<usize> = 12..17;
/// Load at which throughput is compared with that of the servers' own queues.
const OVERLOAD: f64 = 2.0;
/// Load from which on Weir must lead by [`LEAD_POINTS`].
const NEAR_CAPACITY: f64 = 0.95;
/// Points by which Weir's on-time share must exceed careful's from [`NEAR_CAPACITY`] on.
const LEAD_POINTS: f64 = 8.0;
/// Least part of the throughput of the servers' own queues that Weir must reach.
const THROUGHPUT_PART: f64 = 0.97;

/// Extent of the measurement.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Seconds of a run.
    pub seconds: usize,
    /// Number of seeds: runs of each load and way.
    pub seeds: u64,
    /// Whether servers fail.
    pub faults: bool,
    /// Number of seeds with which the servers' quotas follow the load; 0 leaves that out.
    pub active_seeds: u64,
}

/// Mean of all seeds of one load and way.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Load.
    pub load: String,
    /// Way of the requests.
    pub way: &'static str,
    /// Answered on time, percent of all sent; in a fault or burst, of those sent in it.
    pub on_time_percent: Vec<f64>,
    /// Answers per second.
    pub answered_rps: Vec<f64>,
    /// Median and 99th percentile of the answers' latency, ms.
    pub latency_ms: Vec<(f64, f64)>,
    /// Requests answered late, cut off, or whose client disconnected.
    pub late: u64,
    /// Requests refused.
    pub refused: u64,
}

/// All results.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Throughput of all servers together by their profiles, requests/s.
    pub capacity_rps: f64,
    /// Throughput of all servers together from their own queues, requests/s.
    pub own_queue_rps: Vec<f64>,
    /// Loads, bursts and faults.
    pub rows: Vec<Row>,
    /// Mode `active` and the splits beside it.
    pub active: Vec<ActiveRow>,
}

/// Measures; models are kept in `folder`.
///
/// # Errors
/// A part does not start, a control group cannot be made, or a run is invalid.
pub async fn measure(folder: &Path, settings: &Settings) -> Result<Report> {
    let models = Models::ensure(&folder.join("models"))?;
    let work = tempfile::Builder::new().prefix("weir-real-").tempdir()?;
    eprintln!("starting three MLServers");
    let servers = Server::start_all(&models, work.path()).await?;
    eprintln!("profiling them");
    let profiles = profile::measure(&servers, &models, work.path()).await?;
    let system = System::start(&servers, &profiles, work.path(), Sizes::Fixed).await?;
    let body = std::fs::read(models.request()).context("cannot read the request")?;
    let mut bench = Bench {
        servers,
        system,
        capacity_rps: 0.0,
        body: body.into(),
        report: Vec::new(),
    };
    let each = bench.servers.iter().zip(&profiles);
    bench.capacity_rps = each
        .map(|(server, profile): (&Server, &Profile)| profile.capacity_rps(server.cores))
        .sum();
    let own_queue_rps = bench.loads(settings).await?;
    bench.bursts(settings).await?;
    if settings.faults {
        bench.faults(settings).await?;
    }
    let Bench {
        system,
        mut servers,
        body,
        ..
    } = bench;
    drop(system);
    let active = match settings.active_seeds {
        0 => Vec::new(),
        seeds => active::measure(&mut servers, &models, work.path(), &body, seeds).await?,
    };
    Ok(Report {
        capacity_rps: bench.capacity_rps,
        own_queue_rps,
        rows: bench.report,
        active,
    })
}

/// Everything that runs, and what was measured so far.
struct Bench {
    system: System,
    servers: Vec<Server>,
    capacity_rps: f64,
    body: Bytes,
    report: Vec<Row>,
}

impl Bench {
    /// Plays each load in turns, and the servers' own queues in between; returns the throughput of the latter.
    async fn loads(&mut self, settings: &Settings) -> Result<Vec<f64>> {
        let mut own = Vec::new();
        for seed in 1..=settings.seeds {
            for load in LOADS {
                let rates = Rates::constant(load * self.capacity_rps, settings.seconds)?;
                for way in ordered(seed) {
                    let run = self.run(&rates, seed, way).await?;
                    let on_time = run.on_time_percent();
                    self.record(format!("{load} ×"), way, &run, on_time);
                }
            }
            let span = Duration::from_secs(settings.seconds as u64);
            own.push(own_queue::throughput_rps(&self.servers, &self.body, span).await?);
        }
        Ok(own)
    }

    async fn bursts(&mut self, settings: &Settings) -> Result<()> {
        let rate = |second: usize| match BURST_SECONDS.contains(&second) {
            true => BURST.1 * self.capacity_rps,
            false => BURST.0 * self.capacity_rps,
        };
        let rates = Rates::new((0..FAULT_SECONDS).map(rate).collect())?;
        let span = BURST_SECONDS.start as u64..BURST_SECONDS.end as u64;
        for seed in 1..=settings.seeds {
            for way in ordered(seed) {
                let run = self.run(&rates, seed, way).await?;
                let on_time = run.on_time_percent_within(&span);
                self.record("burst".to_owned(), way, &run, on_time);
            }
        }
        Ok(())
    }

    async fn faults(&mut self, settings: &Settings) -> Result<()> {
        let rates = Rates::constant(FAULT_LOAD * self.capacity_rps, FAULT_SECONDS)?;
        for fault in Fault::ALL {
            for seed in 1..=settings.seeds {
                for way in ordered(seed) {
                    own_queue::until_empty(&self.servers, &self.body).await?;
                    let target = self.system.target(way)?;
                    let during = fault.cause(&mut self.servers);
                    let body = &self.body;
                    let run = load_run(&rates, seed, target, body, Protocol::Http1, during).await?;
                    Fault::over(&self.servers).await?;
                    let on_time = run.on_time_percent_within(&fault::SPAN);
                    self.record(fault.name().to_owned(), way, &run, on_time);
                }
            }
        }
        Ok(())
    }

    async fn run(&self, rates: &Rates, seed: u64, way: Way) -> Result<LoadRun> {
        own_queue::until_empty(&self.servers, &self.body).await?;
        let target = self.system.target(way)?;
        let nothing = async { Ok(()) };
        load_run(rates, seed, target, &self.body, Protocol::Http1, nothing).await
    }

    fn record(&mut self, load: String, way: Way, run: &LoadRun, on_time_percent: f64) {
        eprintln!(
            "{load:>18}  {:<9}{on_time_percent:6.2} % on time",
            way.name()
        );
        let known = |row: &Row| row.load == load && row.way == way.name();
        let index = self.report.iter().position(known).unwrap_or_else(|| {
            self.report.push(Row::new(load.clone(), way));
            self.report.len() - 1
        });
        let Some(row) = self.report.get_mut(index) else {
            return;
        };
        let sum = &run.summary;
        row.on_time_percent.push(on_time_percent);
        row.answered_rps.push(run.answered_rps());
        row.latency_ms
            .push((sum.p50_ms.unwrap_or(0.0), sum.p99_ms.unwrap_or(0.0)));
        row.late += sum.late + sum.disconnected + sum.lost;
        row.refused += sum.refused_total();
    }
}

/// Returns the ways in another order for each seed.
fn ordered(seed: u64) -> [Way; 3] {
    let mut ways = Way::ALL;
    let places = usize::try_from(seed).unwrap_or(0) % ways.len();
    ways.rotate_left(places);
    ways
}

impl Row {
    fn new(load: String, way: Way) -> Row {
        Row {
            load,
            way: way.name(),
            on_time_percent: Vec::new(),
            answered_rps: Vec::new(),
            latency_ms: Vec::new(),
            late: 0,
            refused: 0,
        }
    }
}

impl Report {
    fn row(&self, load: &str, way: Way) -> Option<&Row> {
        let mut rows = self.rows.iter();
        rows.find(|row| row.load == load && row.way == way.name())
    }

    /// Returns the targets that are missed, one sentence each.
    #[must_use]
    pub fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        for load in LOADS {
            let name = format!("{load} ×");
            let rows = (self.row(&name, Way::Weir), self.row(&name, Way::Careful));
            let (Some(weir), Some(careful)) = rows else {
                continue;
            };
            let lead = mean(&weir.on_time_percent) - mean(&careful.on_time_percent);
            let right = if load >= NEAR_CAPACITY {
                LEAD_POINTS
            } else {
                0.0
            };
            if lead < right {
                missed.push(format!(
                    "{name}: weir leads careful by {lead:.1} points; it must be {right:.1} or more"
                ));
            }
        }
        let overload = self.row(&format!("{OVERLOAD} ×"), Way::Weir);
        if let Some(weir) = overload {
            let part = mean(&weir.answered_rps) / mean(&self.own_queue_rps);
            if part < THROUGHPUT_PART {
                missed.push(format!(
                    "{OVERLOAD} ×: weir answers {:.1} % of what the servers do from their own queues; it must be {:.0} % or more",
                    part * 100.0,
                    THROUGHPUT_PART * 100.0
                ));
            }
        }
        missed.extend(active::missed(&self.active));
        missed
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "1 × = {:.1} requests/s by the profiles; {:.1} from the servers' own queues",
            self.capacity_rps,
            mean(&self.own_queue_rps)
        )?;
        writeln!(
            f,
            "| load | way | on time | least to most | answers/s | p50, p99 ms | late or cut off | refused |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|")?;
        for row in &self.rows {
            let shares = &row.on_time_percent;
            let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
            let most = shares.iter().copied().fold(0.0, f64::max);
            let (p50, p99): (Vec<f64>, Vec<f64>) = row.latency_ms.iter().copied().unzip();
            writeln!(
                f,
                "| {} | {} | {:.1} % | {least:.1} to {most:.1} | {:.1} | {:.0}, {:.0} | {} | {} |",
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
        for row in &self.active {
            writeln!(
                f,
                "{}: {:.2} % on time, {:.1} core-seconds",
                row.cores,
                mean(&row.on_time_percent),
                mean(&row.core_seconds),
            )?;
        }
        Ok(())
    }
}
