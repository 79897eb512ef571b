//! Weir before real model servers: three MLServers with classifiers of different accuracy and cost, profiled by
//! `weir profile`, then loaded through three listeners of one Envoy over the same servers, in turns.
//!
//! Each server has a CPU quota as under Kubernetes. One machine runs everything, so the ways take turns with the same
//! seeds, in another order each time.

mod active;
pub mod batching;
mod cpus;
mod fault;
mod grpc;
mod load_run;
mod loads;
mod observed;
mod own_queue;
mod profile;
mod replayed;
mod report;
mod rows;
mod seconds;
mod servers;
mod system;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use axum::body::Bytes;
use weir_bed::load::{Protocol, Rates};

pub use active::ActiveRow;
use fault::Fault;
use load_run::{LoadRun, counted_run, load_run, sender};
use profile::Profile;
pub use report::{Replayed, Report};
pub use rows::{Row, Rows};
use servers::{Models, Server};
use system::{Sizes, System, Way};

/// Usual loads, as multiples of the throughput that the profiles say.
pub const LOADS: [f64; 4] = [0.6, 0.95, 1.3, 2.0];
/// Load with faults.
const FAULT_LOAD: f64 = 0.55;
/// Load before and after a burst, and in it.
const BURST: (f64, f64) = (0.55, 2.4);
/// Seconds of a run with a fault or a burst.
const FAULT_SECONDS: usize = 30;
const BURST_SECONDS: std::ops::Range<usize> = 12..17;
/// Load from which on Weir must lead by `report::LEAD_POINTS`.
const NEAR_CAPACITY: f64 = 0.95;
/// Distance of the seeds of two loads that run beside each other.
const OTHER_SEED: u64 = 1_000;

/// Extent of the measurement.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Seconds of a run.
    pub seconds: usize,
    /// Number of seeds: runs of each load and way.
    pub seeds: u64,
    /// Parts to measure.
    pub parts: Vec<Part>,
    /// Loads of [`Part::Loads`], as multiples of the throughput that the profiles say.
    pub loads: Vec<f64>,
    /// Number of seeds with which the servers' quotas follow the load.
    pub active_seeds: u64,
    /// Folder for the counters of each run, second by second.
    pub counters: Option<PathBuf>,
}

/// Part of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Constant loads, and the servers' own queues beside them.
    Loads,
    /// A burst.
    Burst,
    /// The same load over REST, over gRPC and half over each, near the servers' throughput.
    Grpc,
    /// A server that is killed, hangs or answers 404.
    Faults,
    /// Mode `active`: quotas that follow the load.
    Active,
    /// Servers that batch by themselves: see [`batching`].
    Batching,
    /// Their throughput by requests in flight alone.
    Curves,
}

impl Part {
    /// Those with the classifiers.
    pub const OF_CLASSIFIERS: [Part; 5] = [
        Part::Loads,
        Part::Burst,
        Part::Grpc,
        Part::Faults,
        Part::Active,
    ];
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
    let cpus = cpus::separate(&servers)?;
    let mut bench = Bench::start(servers, models, work.path().to_owned()).await?;
    let has = |part| settings.parts.contains(&part);
    let own_queues = match has(Part::Loads) {
        true => bench.loads(settings).await?,
        false => Vec::new(),
    };
    if has(Part::Burst) {
        bench.bursts(settings).await?;
    }
    if has(Part::Grpc) {
        bench.protocols(settings).await?;
    }
    if has(Part::Faults) {
        bench.faults(settings).await?;
    }
    let Bench {
        system,
        mut servers,
        models,
        body,
        ..
    } = bench;
    drop(system);
    cpus::join(&servers, &cpus)?;
    let active = match has(Part::Active) {
        true => {
            let seeds = settings.active_seeds;
            active::measure(&mut servers, &models, work.path(), &body, seeds).await?
        }
        false => Vec::new(),
    };
    Ok(Report {
        capacity_rps: bench.capacity_rps,
        own_queues,
        rows: bench.report,
        replayed: bench.replayed,
        active,
    })
}

/// Protocols of a load.
#[derive(Debug, Clone, Copy)]
enum Mix {
    Rest,
    Grpc,
    Both,
}

impl Mix {
    const ALL: [Mix; 3] = [Mix::Rest, Mix::Grpc, Mix::Both];

    fn protocols(self) -> &'static [(&'static str, Protocol)] {
        match self {
            Mix::Rest => &[("REST", Protocol::Http1)],
            Mix::Grpc => &[("gRPC", Protocol::Grpc)],
            Mix::Both => &[("REST", Protocol::Http1), ("gRPC", Protocol::Grpc)],
        }
    }

    /// Name of a protocol's part of the load.
    fn part(self) -> &'static str {
        match self {
            Mix::Rest | Mix::Grpc => "all",
            Mix::Both => "half",
        }
    }
}

/// Everything that runs, and what was measured so far.
struct Bench {
    system: System,
    servers: Vec<Server>,
    models: Models,
    /// Folder of the profiles.
    folder: PathBuf,
    /// Throughput of all servers together by their last profiles.
    capacity_rps: f64,
    body: Bytes,
    report: Rows,
    replayed: Vec<Replayed>,
}

impl Bench {
    /// Profiles the servers, and starts proxy and planner with that.
    async fn start(servers: Vec<Server>, models: Models, folder: PathBuf) -> Result<Bench> {
        let (system, capacity_rps) = profiled(&servers, &models, &folder).await?;
        let body = std::fs::read(models.request()).context("cannot read the request")?;
        Ok(Bench {
            system,
            servers,
            models,
            folder,
            capacity_rps,
            body: body.into(),
            report: Rows::default(),
            replayed: Vec::new(),
        })
    }

    /// Profiles the servers anew, and starts proxy and planner with that.
    async fn renew(&mut self) -> Result<()> {
        (self.system, self.capacity_rps) =
            profiled(&self.servers, &self.models, &self.folder).await?;
        Ok(())
    }

    async fn bursts(&mut self, settings: &Settings) -> Result<()> {
        let rate = |second: usize| match BURST_SECONDS.contains(&second) {
            true => BURST.1 * self.capacity_rps,
            false => BURST.0 * self.capacity_rps,
        };
        let rates = Rates::new((0..FAULT_SECONDS).map(rate).collect())?;
        let span = BURST_SECONDS.start as u64..BURST_SECONDS.end as u64;
        for seed in 1..=settings.seeds {
            for way in ordered(Way::FIXED, seed) {
                let run = self.run(&rates, seed, way).await?;
                let on_time = run.on_time_percent_within(&span);
                keep_counters(
                    settings.counters.as_deref(),
                    &format!("burst-{}-{seed}", way.name()),
                    &run,
                )?;
                self.record("burst".to_owned(), way, &run, on_time);
            }
        }
        Ok(())
    }

    /// Sends the same rate over REST, over gRPC, and half over each, in turns.
    async fn protocols(&mut self, settings: &Settings) -> Result<()> {
        let message = grpc::body(&self.body)?;
        for seed in 1..=settings.seeds {
            for mix in ordered(Mix::ALL, seed) {
                own_queue::until_empty(self.servers.iter().map(Server::url), &self.body).await?;
                let runs = self.mixed(mix, seed, settings.seconds, &message).await?;
                for (protocol, run) in runs {
                    let load = format!("{NEAR_CAPACITY} ×, {} {protocol}", mix.part());
                    self.record(load.clone(), Way::Weir, &run, run.on_time_percent());
                    keep_counters(
                        settings.counters.as_deref(),
                        &format!("{load}-{seed}"),
                        &run,
                    )?;
                }
            }
        }
        Ok(())
    }

    /// Sends near the servers' throughput over the protocols of the mix; the counters are the first run's.
    async fn mixed(
        &self,
        mix: Mix,
        seed: u64,
        seconds: usize,
        message: &Bytes,
    ) -> Result<Vec<(&'static str, LoadRun)>> {
        let protocols = mix.protocols();
        let rps = NEAR_CAPACITY * self.capacity_rps / protocols.len() as f64;
        let rates = Rates::constant(rps, seconds)?;
        let way = Way::Weir;
        let run = async |index: u64, protocol: Protocol| {
            let (target, body) = match protocol {
                Protocol::Grpc => (self.system.grpc_target(way)?, message),
                _ => (self.system.target(way)?, &self.body),
            };
            let seed = seed + index * OTHER_SEED;
            load_run(&rates, seed, target, sender(body, protocol), async {
                Ok(())
            })
            .await
        };
        let runs = async {
            match *protocols {
                [(_, one)] => anyhow::Ok(vec![run(0, one).await?]),
                [(_, one), (_, other)] => {
                    let (one, other) = tokio::try_join!(run(0, one), run(1, other))?;
                    Ok(vec![one, other])
                }
                _ => bail!("{} protocols", protocols.len()),
            }
        };
        let mut counters = String::new();
        let mut runs = tokio::select! {
            runs = runs => runs?,
            Err(error) = seconds::record(&self.system, &self.servers, &mut counters) => return Err(error),
        };
        if let Some(first) = runs.first_mut() {
            first.counters = counters;
        }
        let names = protocols.iter().map(|(name, _)| *name);
        Ok(names.zip(runs).collect())
    }

    async fn faults(&mut self, settings: &Settings) -> Result<()> {
        let rates = Rates::constant(FAULT_LOAD * self.capacity_rps, FAULT_SECONDS)?;
        for fault in Fault::ALL {
            for seed in 1..=settings.seeds {
                for way in ordered(Way::FIXED, seed) {
                    own_queue::until_empty(self.servers.iter().map(Server::url), &self.body)
                        .await?;
                    let target = self.system.target(way)?;
                    let during = fault.cause(&mut self.servers);
                    let sender = sender(&self.body, Protocol::Http1);
                    let run = load_run(&rates, seed, target, sender, during).await?;
                    Fault::over(&self.servers).await?;
                    let on_time = run.on_time_percent_within(&fault::SPAN);
                    self.record(fault.name().to_owned(), way, &run, on_time);
                }
            }
        }
        Ok(())
    }

    async fn run(&self, rates: &Rates, seed: u64, way: Way) -> Result<LoadRun> {
        let load = (rates, seed, &self.body);
        counted_run(&self.system, &self.servers, load, way, async { Ok(()) }).await
    }

    fn record(&mut self, load: String, way: Way, run: &LoadRun, on_time_percent: f64) {
        self.report.record(&load, way.name(), run, on_time_percent);
    }
}

/// Profiles the servers, and starts proxy and planner. Returns the throughput by the profiles too, in requests/s.
async fn profiled(servers: &[Server], models: &Models, folder: &Path) -> Result<(System, f64)> {
    eprintln!("profiling the servers");
    let profiles = profile::measure(servers, models, folder).await?;
    let system = System::start(servers, &profiles, folder, Sizes::Fixed).await?;
    let each = servers.iter().zip(&profiles);
    let rps = each.map(|(server, profile): (&Server, &Profile)| profile.capacity_rps(server.cores));
    Ok((system, rps.sum()))
}

/// Writes a run's counters, if they were asked for.
fn keep_counters(folder: Option<&Path>, name: &str, run: &LoadRun) -> Result<()> {
    let Some(folder) = folder else {
        return Ok(());
    };
    let file = folder.join(format!("{name}.txt"));
    let by_second: Vec<String> = run.by_second_percent().collect();
    let text = format!(
        "on time, % by second: {}\n{}",
        by_second.join(", "),
        run.counters
    );
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&file, text))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Returns steps in another order for each seed.
fn ordered<S: AsMut<[T]>, T>(mut steps: S, seed: u64) -> S {
    let all = steps.as_mut();
    all.rotate_left(usize::try_from(seed).unwrap_or(0) % all.len().max(1));
    steps
}
