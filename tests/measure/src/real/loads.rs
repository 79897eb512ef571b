//! Constant loads through each way in turns, the servers' own queues among them, and the same loads by replay.
//!
//! The servers are profiled anew before each seed: what a shared machine gives them changes within minutes.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use weir_bed::load::Rates;

use super::load_run::{LoadRun, counted_run};
use super::profile::{self, Profile};
use super::report::{OwnQueue, Replayed, is_overload};
use super::system::{SLO, Sizes, System, Way};
use super::{Bench, Settings, keep_counters, observed, ordered, own_queue, replayed};

/// Cores that each server is measured on for mode `active`; the first and the last are its bounds there.
const MEASURED: [f64; 3] = [0.1, 0.25, 0.45];
/// Folder of these profiles.
const BY_CORES: &str = "by-cores";
/// Time before the end of a run at which the profile from the proxy's histograms ends.
const BEFORE_END: Duration = Duration::from_secs(1);

/// Runs of one load that take turns.
#[derive(Debug, Clone, Copy)]
enum Step {
    Way(Way),
    /// The servers' own queues, under overload.
    OwnQueue,
}

const STEPS: [Step; 5] = [
    Step::Way(Way::Weir),
    Step::OwnQueue,
    Step::Way(Way::Weighted),
    Step::Way(Way::Careful),
    Step::Way(Way::Active),
];

impl Bench {
    /// Plays each load in turns; returns the throughput of the servers' own queues beside each overload and seed.
    pub(super) async fn loads(&mut self, settings: &Settings) -> Result<Vec<OwnQueue>> {
        eprintln!("profiling the servers on {MEASURED:?} cores");
        let folder = self.folder.join(BY_CORES);
        std::fs::create_dir_all(&folder).context("cannot create the folder of profiles")?;
        let by_cores =
            profile::measure_by_cores(&self.servers, &self.models, &folder, &MEASURED).await?;
        let mut own = Vec::new();
        for seed in 1..=settings.seeds {
            self.renew().await?;
            for &load in &settings.loads {
                let rates = Rates::constant(load * self.capacity_rps, settings.seconds)?;
                for step in ordered(STEPS, seed) {
                    match step {
                        Step::Way(Way::Weir) => {
                            self.replayed_run(settings, load, &rates, seed).await?;
                        }
                        Step::Way(Way::Active) => {
                            let run = self.active_run((&by_cores, &folder), &rates, seed).await?;
                            self.keep(settings, load, Way::Active, seed, &run)?;
                        }
                        Step::Way(way) => {
                            let run = self.run(&rates, seed, way).await?;
                            self.keep(settings, load, way, seed, &run)?;
                        }
                        Step::OwnQueue if is_overload(load) => {
                            let span = Duration::from_secs(settings.seconds as u64);
                            let rps =
                                own_queue::throughput_rps(&self.servers, &self.body, span).await?;
                            eprintln!("{:>18}  own queues: {rps:.1} answers/s", "");
                            let on_time_max = rps * (span + SLO).as_secs_f64();
                            own.push(OwnQueue {
                                load,
                                rps,
                                on_time_max,
                            });
                        }
                        Step::OwnQueue => {}
                    }
                }
            }
        }
        Ok(own)
    }

    /// Records a run, and writes its counters.
    fn keep(
        &mut self,
        settings: &Settings,
        load: f64,
        way: Way,
        seed: u64,
        run: &LoadRun,
    ) -> Result<()> {
        keep_counters(
            settings.counters.as_deref(),
            &format!("{load}-{}-{seed}", way.name()),
            run,
        )?;
        self.record(format!("{load} ×"), way, run, run.on_time_percent());
        Ok(())
    }

    /// Runs a load through the filter, and replays it with the profiles measured before and with those that the proxy's
    /// histograms gave meanwhile.
    async fn replayed_run(
        &mut self,
        settings: &Settings,
        load: f64,
        rates: &Rates,
        seed: u64,
    ) -> Result<()> {
        let (run, observed) = self.observed_run(rates, seed).await?;
        self.keep(settings, load, Way::Weir, seed, &run)?;
        let played = (load * self.capacity_rps, settings.seconds);
        let on_time =
            async |service| replayed::on_time_percent(&self.folder, service, played, seed).await;
        let replayed = Replayed {
            load,
            on_time: on_time(&self.system.service).await?,
            observed: on_time(&observed).await?,
        };
        eprintln!(
            "{:>18}  by replay {:.2} %, with the proxy's times {:.2} %",
            "", replayed.on_time, replayed.observed
        );
        self.replayed.push(replayed);
        Ok(())
    }

    /// Runs a load through the filter; returns the service file with profiles that the proxy's histograms gave meanwhile.
    async fn observed_run(&mut self, rates: &Rates, seed: u64) -> Result<(LoadRun, Value)> {
        let mut observed = Value::Null;
        let (system, servers) = (&self.system, &self.servers);
        let observing = async {
            let service = (&system.service, self.folder.as_path());
            let seconds = rates.rps().len() as u64;
            let time = Duration::from_secs(seconds) - BEFORE_END;
            observed = observed::service(&system.envoy, servers, service, time).await?;
            Ok(())
        };
        let load = (rates, seed, &self.body);
        let run = counted_run(system, servers, load, Way::Weir, observing).await?;
        Ok((run, observed))
    }

    /// Runs a load through the filter in mode `active`: as many cores together, which follow the load. Proxy and planner
    /// start for it.
    async fn active_run(
        &self,
        (profiles, folder): (&[Profile], &Path),
        rates: &Rates,
        seed: u64,
    ) -> Result<LoadRun> {
        let [min, .., max] = MEASURED;
        let budget = self.servers.iter().map(|server| server.cores).sum();
        let sizes = Sizes::Active { budget, min, max };
        let system = System::start(&self.servers, profiles, folder, sizes).await?;
        let load = (rates, seed, &self.body);
        let nothing = async { Ok(()) };
        let run = counted_run(&system, &self.servers, load, Way::Active, nothing).await?;
        drop(system);
        for server in &self.servers {
            server.group.set(server.cores)?;
        }
        Ok(run)
    }
}
