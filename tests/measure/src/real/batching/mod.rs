//! Weir before servers that batch by themselves, and before two that do not.
//!
//! Of each kind two servers, which differ in their speed, stand behind one Envoy. Their models are sleeps: the servers, their
//! queues and their batches are real, and the machine's two CPUs suffice.

mod curve;
mod kind;
mod proxy;
mod report;
mod server;
mod user;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::body::Bytes;
use weir_bed::envoy::Envoy;
use weir_bed::load::{Protocol, Rates, Sender};

use super::load_run::{LoadRun, load_run, sender};
use super::{cpus, keep_counters, ordered, own_queue, seconds};
pub use curve::{Curve, Point};
pub use kind::Kind;
use proxy::Way;
pub use proxy::Ways;
pub use report::{Case, Curves, Recovery, Report};
use server::Server;

/// Loads, as multiples of the measured capacity.
pub const LOADS: [f64; 5] = [0.5, 0.7, 0.95, 1.3, 2.0];
/// Objectives, as multiples of the time of a request that is alone.
pub const OBJECTIVES: [f64; 2] = [3.0, 10.0];
/// Circuit breakers of *careful*, as parts of what the servers answer within the objective.
pub const BREAKERS: [f64; 4] = [0.35, 0.5, 0.7, 1.0];
/// Load and seconds of an overload, and of the time after it.
const OVERLOAD: (f64, usize) = (2.0, 10);
const AFTER_IT: (f64, usize) = (0.7, 10);
/// Seconds after the overload from which on a proxy must have recovered.
const RECOVERED_AFTER: usize = 2;
/// Time after which a client disconnects, as a multiple of the objective.
const PATIENCE: u32 = 3;
/// Runs that are started for one result: a generator that was late proves nothing.
const TRIES: usize = 3;

/// Extent of the measurement.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Kinds of servers.
    pub kinds: Vec<Kind>,
    /// Seconds of a run.
    pub seconds: usize,
    /// Number of seeds: runs of each load and way.
    pub seeds: u64,
    /// Seconds of each point of a curve.
    pub point_seconds: u64,
    /// Loads, as multiples of the measured capacity.
    pub loads: Vec<f64>,
    /// Objectives, as multiples of the time of a request that is alone.
    pub objectives: Vec<f64>,
    /// Circuit breakers, as parts of what the servers answer within the objective.
    pub breakers: Vec<f64>,
    /// Ways to the servers.
    pub ways: Vec<Ways>,
    /// Folder for the filter's counters of each run, second by second.
    pub counters: Option<PathBuf>,
}

/// Measures the curves of all kinds, and unless `curves_only` the loads.
///
/// # Errors
/// A server, Envoy or a command fails, or a run is invalid several times.
pub async fn measure(settings: &Settings, curves_only: bool) -> Result<Report> {
    let work = tempfile::Builder::new().prefix("weir-real-").tempdir()?;
    cpus::leave()?;
    let mut report = Report::default();
    for kind in &settings.kinds {
        let folder = work.path().join(kind.name());
        let servers = Server::start_both(*kind, &folder).await?;
        let span = Duration::from_secs(settings.point_seconds);
        let curves = curve::measured(&servers, span).await?;
        let shown = Curves::new(*kind, curves);
        eprint!("{shown}");
        if !curves_only {
            for objective in &settings.objectives {
                let bench = Bench::start(&servers, &shown.each, *objective, &folder, settings);
                report.cases.push(bench.await?.measure(settings).await?);
            }
        }
        report.curves.push(shown);
    }
    Ok(report)
}

/// Servers and proxy with one objective, and the results so far.
struct Bench<'a> {
    servers: &'a [Server],
    envoy: Envoy,
    kind: Kind,
    sender: Sender,
    case: Case,
}

impl<'a> Bench<'a> {
    async fn start(
        servers: &'a [Server],
        curves: &[Curve],
        objective: f64,
        folder: &Path,
        settings: &Settings,
    ) -> Result<Bench<'a>> {
        let kind = servers.first().context("no servers")?.kind;
        let alone_ms = curves.iter().map(Curve::alone_ms).fold(0.0, f64::max);
        let slo = Duration::from_millis((alone_ms * objective).round() as u64);
        let folder = folder.join(format!("objective-{}", slo.as_millis()));
        let made = user::made(servers, slo, &folder).await?;
        let rates: Vec<f64> = curves.iter().map(|curve| curve.capacity_rps(slo)).collect();
        let profiles = made.profiles.iter();
        let case = Case {
            kind: kind.name(),
            slo_ms: slo.as_millis() as u64,
            capacity_rps: rates.iter().sum(),
            profiles_rps: profiles.map(|profile| profile.capacity_rps(1.0)).sum(),
            ..Case::default()
        };
        eprint!("{case}");
        let limits = (slo, settings.breakers.as_slice());
        Ok(Bench {
            servers,
            envoy: proxy::start(servers, &made, &rates, limits).await?,
            kind,
            sender: Sender {
                slo,
                timeout: slo * PATIENCE,
                ..sender(&Bytes::from(kind.body()), Protocol::Http1)
            },
            case,
        })
    }

    /// Plays all loads in turns, then the overload.
    async fn measure(mut self, settings: &Settings) -> Result<Case> {
        let ways = Way::of(&settings.ways, &settings.breakers);
        for seed in 1..=settings.seeds {
            for load in &settings.loads {
                let rates = Rates::constant(load * self.case.capacity_rps, settings.seconds)?;
                for way in ordered(ways.clone(), seed) {
                    let row = self.case.load(*load);
                    let run = self.run(&rates, seed, way).await?;
                    keep_counters(
                        settings.counters.as_deref(),
                        &format!("{row}-{}-{seed}", way.name()),
                        &run,
                    )?;
                    let on_time = run.on_time_percent();
                    self.case.rows.record(&row, &way.name(), &run, on_time);
                }
            }
        }
        let both = [OVERLOAD, AFTER_IT];
        let rate = |(load, seconds): (f64, usize)| vec![load * self.case.capacity_rps; seconds];
        let rates = Rates::new(both.into_iter().flat_map(rate).collect())?;
        let seconds = rates.rps().len();
        for way in ways {
            let run = self.run(&rates, 1, way).await?;
            keep_counters(
                settings.counters.as_deref(),
                &format!("{} after-{}", self.case.load(OVERLOAD.0), way.name()),
                &run,
            )?;
            let from = OVERLOAD.1 + RECOVERED_AFTER;
            let recovery = Recovery {
                way: way.name(),
                on_time_percent: run.on_time_percent_within(&(from as u64..seconds as u64)),
                by_second: run.by_second(seconds).split_off(from),
            };
            eprint!("{recovery}");
            self.case.recovery.push(recovery);
        }
        Ok(self.case)
    }

    /// Sends a load by one way once the servers are idle.
    async fn run(&self, rates: &Rates, seed: u64, way: Way) -> Result<LoadRun> {
        let mut tries = 0;
        loop {
            tries += 1;
            let urls = self.servers.iter().map(Server::url);
            own_queue::until_empty(urls, &self.sender.body).await?;
            let target = proxy::target(&self.envoy, way, self.kind.path())?;
            let nothing = async { Ok(()) };
            let run = load_run(rates, seed, target, self.sender.clone(), nothing);
            let mut counters = String::new();
            let run = tokio::select! {
                run = run => run,
                Err(error) = seconds::record_filter(&self.envoy, &mut counters) => return Err(error),
            };
            match run {
                Ok(run) => return Ok(run.with_counters(counters)),
                Err(error) if tries < TRIES => eprintln!("{error:#}"),
                Err(error) => return Err(error),
            }
        }
    }
}
