//! Mode `active`: the servers' CPU quotas follow the load within a budget, beside the same budget split for good.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use axum::body::Bytes;
use serde::Serialize;
use tokio::time::{Instant, MissedTickBehavior, interval};
use weir_bed::load::{Protocol, Rates};

use super::load_run::{load_run, sender};
use super::profile::{Profile, measure_by_cores};
use super::report::mean;
use super::servers::{Models, Server};
use super::system::{Sizes, System, Way};

/// Cores of all servers together.
const BUDGET: f64 = 1.2;
/// Cores that each server is measured on; the first and the last are its bounds.
const MEASURED: [f64; 3] = [0.2, 0.4, 0.8];
/// Splits of the budget, from the cheapest server to the most accurate. The first is also where the planner starts.
const SPLITS: [[f64; 3]; 4] = [
    [0.4, 0.4, 0.4],
    [0.3, 0.4, 0.5],
    [0.6, 0.4, 0.2],
    [0.2, 0.4, 0.6],
];
/// Lowest and highest load, as parts of the first split's throughput.
const LOADS: (f64, f64) = (0.2, 0.9);
const SECONDS: usize = 60;
/// Seconds of the lowest load before, which do not count: a planner runs long before a load rises.
const WARM_UP: usize = 15;
/// Interval at which quotas are read.
const SAMPLED_EVERY: Duration = Duration::from_millis(100);

/// Result of one way to give cores.
#[derive(Debug, Clone, Serialize)]
pub struct ActiveRow {
    /// Cores of the servers, or `active`.
    pub cores: String,
    /// Answered on time, percent of all sent, for each seed.
    pub on_time_percent: Vec<f64>,
    /// Core-seconds, for each seed.
    pub core_seconds: Vec<f64>,
    /// Second by second, for each seed.
    pub seconds: Vec<Vec<ActiveSecond>>,
}

/// One second of a run.
#[derive(Debug, Clone, Serialize)]
pub struct ActiveSecond {
    /// Requests sent in it.
    pub sent: u64,
    /// Those of them that were answered on time.
    pub on_time: u64,
    /// Cores of the servers at its end, from the cheapest server to the most accurate.
    pub cores: Vec<f64>,
}

/// Measures the servers on several numbers of cores, then plays the splits and the mode in turns.
pub(super) async fn measure(
    servers: &mut [Server],
    models: &Models,
    folder: &Path,
    body: &Bytes,
    seeds: u64,
) -> Result<Vec<ActiveRow>> {
    eprintln!("profiling them on {MEASURED:?} cores");
    let profiles = measure_by_cores(servers, models, folder, &MEASURED).await?;
    let [start, ..] = SPLITS;
    let throughput: f64 = profiles
        .iter()
        .zip(start)
        .map(|(profile, cores)| profile.capacity_rps(cores))
        .sum();
    let (low, high) = (LOADS.0 * throughput, LOADS.1 * throughput);
    let swell = Rates::swell(low, high, SECONDS)?;
    let rates = Rates::new([vec![low; WARM_UP], swell.rps().to_vec()].concat())?;
    let active = Sizes::Active {
        budget: BUDGET,
        min: MEASURED.first().copied().unwrap_or(BUDGET),
        max: MEASURED.last().copied().unwrap_or(BUDGET),
    };
    let splits = SPLITS.map(|split| (format!("{split:?}"), split, Sizes::Fixed));
    let ways: Vec<_> = splits
        .into_iter()
        .chain([("active".to_owned(), start, active)])
        .collect();
    let row = |(cores, _, _): &(String, _, _)| ActiveRow {
        cores: cores.clone(),
        on_time_percent: Vec::new(),
        core_seconds: Vec::new(),
        seconds: Vec::new(),
    };
    let mut rows: Vec<ActiveRow> = ways.iter().map(row).collect();
    for seed in 1..=seeds {
        for ((_, split, sizes), row) in ways.iter().zip(&mut rows) {
            let played = Played {
                servers,
                profiles: &profiles,
                folder,
                body,
                rates: &rates,
            };
            let (on_time, core_seconds, seconds) = played.play(*split, *sizes, seed).await?;
            eprintln!(
                "{:>18}  {on_time:6.2} % on time, {core_seconds:.1} core-seconds",
                row.cores
            );
            row.on_time_percent.push(on_time);
            row.core_seconds.push(core_seconds);
            row.seconds.push(seconds);
        }
    }
    Ok(rows)
}

struct Played<'a> {
    servers: &'a mut [Server],
    profiles: &'a [Profile],
    folder: &'a Path,
    body: &'a Bytes,
    rates: &'a Rates,
}

impl Played<'_> {
    /// Plays the load with these cores at its start. Returns the on-time share in percent, the core-seconds, and the
    /// seconds of the run.
    async fn play(
        self,
        split: [f64; 3],
        sizes: Sizes,
        seed: u64,
    ) -> Result<(f64, f64, Vec<ActiveSecond>)> {
        for (server, cores) in self.servers.iter_mut().zip(split) {
            server.cores = cores;
            server.group.set(cores)?;
        }
        let servers: &[Server] = self.servers;
        super::own_queue::until_empty(servers.iter().map(Server::url), self.body).await?;
        let system = System::start(servers, self.profiles, self.folder, sizes).await?;
        let target = system.target(Way::Weir)?;
        let counted = Instant::now() + Duration::from_secs(WARM_UP as u64);
        let end = counted + Duration::from_secs(SECONDS as u64);
        let mut core_seconds = 0.0;
        let mut cores_by_second = vec![Vec::new(); SECONDS];
        let sampled = async {
            let mut ticks = interval(SAMPLED_EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            tokio::time::sleep_until(counted).await;
            let mut last = counted;
            while last < end {
                ticks.tick().await;
                let cores: Vec<f64> = servers
                    .iter()
                    .map(|server| server.group.cores())
                    .collect::<Result<_>>()?;
                core_seconds += cores.iter().sum::<f64>() * last.elapsed().as_secs_f64();
                last = Instant::now();
                let second = last.duration_since(counted).as_secs() as usize;
                if let Some(of_second) = cores_by_second.get_mut(second) {
                    *of_second = cores;
                }
            }
            Ok(())
        };
        let run = load_run(
            self.rates,
            seed,
            target,
            sender(self.body, Protocol::Http1),
            sampled,
        )
        .await?;
        let counts = run.by_second(WARM_UP + SECONDS).split_off(WARM_UP);
        let seconds = cores_by_second.into_iter().zip(counts);
        let seconds = seconds.map(|(cores, (sent, on_time))| ActiveSecond {
            sent,
            on_time,
            cores,
        });
        let counted = WARM_UP as u64..(WARM_UP + SECONDS) as u64;
        let on_time = run.on_time_percent_within(&counted);
        Ok((on_time, core_seconds, seconds.collect()))
    }
}

/// Part of the best split's core-seconds that the mode must save.
const SAVED_PART: f64 = 0.25;

/// Returns the target that is missed, if one is.
pub(super) fn missed(rows: &[ActiveRow]) -> Option<String> {
    let (active, splits) = rows.split_last()?;
    let best = splits
        .iter()
        .max_by(|a, b| mean(&a.on_time_percent).total_cmp(&mean(&b.on_time_percent)))?;
    let (on_time, of_best) = (mean(&active.on_time_percent), mean(&best.on_time_percent));
    let saved = 1.0 - mean(&active.core_seconds) / mean(&best.core_seconds);
    (on_time < of_best || saved < SAVED_PART).then(|| {
        format!(
            "active: {on_time:.2} % on time with {:.0} % fewer core-seconds than the split {} with {of_best:.2} %; it must be as much with {:.0} % fewer",
            saved * 100.0,
            best.cores,
            SAVED_PART * 100.0
        )
    })
}
