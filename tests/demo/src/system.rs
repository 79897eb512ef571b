//! The whole system on free ports of the loopback interface: for each stage three identical sets of emulated servers
//! and one Envoy with three listeners; and the planner. All of it ends when this is dropped.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rand::RngExt;
use rand::distr::Alphanumeric;
use serde_json::{Value, json};
use tempfile::TempDir;
use weir_bed::emulator::{Emulator, Endpoints, Replicas};
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::load::Target;
use weir_bed::planner::{Planner, free_port};
use weir_bed::wait;

use crate::scenario::{self, Field, MODEL, Scenario};
use crate::visible::Visible;

/// The listeners, in display order. Their names are the report's keys.
pub(crate) const LISTENERS: [&str; 3] = ["plain", "careful", "weir"];
/// Envoy's worker threads.
const WORKERS: u32 = 2;
/// Time limit until all parts work together.
const READY_MAX: Duration = Duration::from_secs(30);
/// Time limit for emptying the queues with [`DRAIN_CORES`].
const DRAIN_MAX: Duration = Duration::from_secs(30);
/// Number of cores that drains any queue quickly.
const DRAIN_CORES: f64 = 1000.0;

/// The servers behind one listener.
#[derive(Debug)]
pub(crate) struct Set {
    /// The servers of each variant, in the scenario's order.
    pub(crate) variants: Vec<Replicas>,
}

/// One stage: its Envoy, and its servers.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The `service` of its filters' configuration.
    pub(crate) name: String,
    pub(crate) envoy: Envoy,
    /// One of each listener, in the order of [`LISTENERS`].
    pub(crate) sets: Vec<Set>,
}

/// Everything that runs, in drop order: no part outlives one that it calls.
#[derive(Debug)]
pub(crate) struct System {
    pub(crate) planner: Planner,
    /// In the order in which a request passes them.
    pub(crate) stages: Vec<Stage>,
    /// The key that polls for plans must present.
    pub(crate) key: String,
    /// The endpoint files of the clusters that the planner resizes.
    _endpoints: TempDir,
}

impl System {
    /// Starts it and waits until every stage's filter has adopted the planner's plan.
    pub(crate) async fn start(scenario: &Scenario, field: Field, seed: u64) -> Result<System> {
        let key: String = rand::rng()
            .sample_iter(Alphanumeric)
            .take(32)
            .map(char::from)
            .collect();
        let planner_at = free_port()?;
        let endpoints = tempfile::Builder::new()
            .prefix("weir-endpoints-")
            .tempdir()?;
        let mut stages = Vec::new();
        let mut seed = seed;
        for stage in &scenario.stages {
            let sets = Set::start_all(stage, field, endpoints.path(), seed).await?;
            stages.push(Stage::start(scenario, stage, sets, planner_at, &key).await?);
            // Another seed for each server of the pipeline.
            seed = seed.wrapping_add(stage.variants.len() as u64);
        }
        let stats = |stage: &Stage| format!("http://{}/stats/prometheus", stage.envoy.admin());
        let stats: Vec<String> = stages.iter().map(stats).collect();
        let resize: Vec<String> = stages
            .iter()
            .filter_map(Stage::weir)
            .flat_map(|weir| &weir.variants)
            .map(Replicas::resources_url)
            .collect();
        let file = scenario.service_file(planner_at, &stats, &resize)?;
        let planner = Planner::start(
            &scenario.service,
            planner_at,
            &file,
            (&scenario.key_env, &key),
        )?;
        let mut system = System {
            planner,
            stages,
            key,
            _endpoints: endpoints,
        };
        system.until_ready().await?;
        Ok(system)
    }

    async fn until_ready(&mut self) -> Result<()> {
        self.planner.until_ready(READY_MAX).await?;
        let status = self.planner.status(1).await?;
        let metric = weir_api::metrics::Metric::PlanRevision;
        for stage in &self.stages {
            let newest = status.revision_at(&stage.name);
            let newest = newest.with_context(|| format!("no plan for {}", stage.name))?;
            let obeyed = async || {
                let revision = stage.envoy.metric(metric, &stage.name, "").await;
                revision.is_ok_and(|revision| revision >= newest)
            };
            wait::until_async("the filter to adopt the planner's plan", READY_MAX, obeyed).await?;
            // This first delay includes the planner's own start. It must be in Envoy's histogram before a run begins,
            // so that the run does not count it.
            let counted = async || Visible::at(stage).await.is_ok_and(|seen| !seen.is_empty());
            wait::until_async(
                "the plan to appear in Envoy's histogram",
                READY_MAX,
                counted,
            )
            .await?;
        }
        Ok(())
    }

    /// The first stage of the pipeline, or the only one.
    pub(crate) fn entry(&self) -> Result<&Stage> {
        self.stages.first().context("no stages")
    }

    /// The inference URLs of each listener, stage after stage.
    pub(crate) fn targets(&self) -> Result<Vec<Target>> {
        let target = |name: &&str| {
            let url = |stage: &Stage| {
                let listener = stage.envoy.listener(name)?;
                Ok(format!("http://{listener}/v2/models/{MODEL}/infer"))
            };
            let later = self.stages.iter().skip(1);
            Ok(Target {
                name: (*name).to_owned(),
                url: url(self.entry()?)?,
                then: later.map(url).collect::<Result<_>>()?,
                headers: Vec::new(),
            })
        };
        LISTENERS.iter().map(target).collect()
    }

    /// The servers of each listener, one set for each stage.
    pub(crate) fn sets_by_listener(&self) -> Vec<Vec<&Set>> {
        let of = |listener| {
            let sets = self
                .stages
                .iter()
                .filter_map(|stage| stage.sets.get(listener));
            sets.collect()
        };
        (0..LISTENERS.len()).map(of).collect()
    }

    /// Addresses for people and scripts: the planner, the first stage's proxy, all servers behind Weir, and each
    /// stage's proxy by name.
    pub(crate) fn addresses(&self) -> Result<Value> {
        let mut addresses = self.entry()?.addresses()?;
        let mut stages = serde_json::Map::new();
        for stage in &self.stages {
            stages.insert(stage.name.clone(), stage.addresses()?.into());
        }
        let behind_weir = self.stages.iter().filter_map(Stage::weir);
        let backends: serde_json::Map<String, Value> = behind_weir
            .flat_map(|weir| &weir.variants)
            .map(|variant| (variant.model().to_owned(), json!(variant.resources_url())))
            .collect();
        addresses.insert("planner".into(), json!(self.planner.url()));
        addresses.insert("key".into(), json!(self.key));
        addresses.insert("backends".into(), backends.into());
        addresses.insert("stages".into(), stages.into());
        Ok(addresses.into())
    }

    fn variants(&self) -> impl Iterator<Item = &Replicas> {
        let sets = self.stages.iter().flat_map(|stage| &stage.sets);
        sets.flat_map(|set| &set.variants)
    }

    /// Clears everything recorded before the run.
    pub(crate) fn reset(&self) {
        self.variants().for_each(Replicas::reset);
    }

    /// Lets the servers execute everything still queued, abandoned or not, so that every execution can be counted;
    /// then restores their cores.
    pub(crate) async fn drain(&self) -> Result<()> {
        let mut busy: Vec<(&Emulator, f64)> = self
            .variants()
            .flat_map(Replicas::servers)
            .map(|server| (server, server.cores()))
            .filter(|(s, _)| !is_idle(s))
            .collect();
        // Set again on every check, because the planner may have reduced them.
        let abound = || {
            busy.iter()
                .all(|(server, _)| is_idle(server) || server.set_cores(DRAIN_CORES).is_err())
        };
        wait::until("the servers to empty their queues", DRAIN_MAX, abound).await?;
        busy.drain(..)
            .try_for_each(|(server, cores)| server.set_cores(cores))
    }
}

fn is_idle(server: &Emulator) -> bool {
    server.load() == (0, 0)
}

impl Stage {
    async fn start(
        scenario: &Scenario,
        stage: &scenario::Stage,
        sets: Vec<Set>,
        planner: SocketAddr,
        key: &str,
    ) -> Result<Stage> {
        let bootstrap = bootstrap(scenario, stage, &sets, planner, key)?;
        Ok(Stage {
            name: stage.name.clone(),
            envoy: Envoy::start(&bootstrap, WORKERS).await?,
            sets,
        })
    }

    /// The servers that the planner resizes.
    fn weir(&self) -> Option<&Set> {
        self.sets.last()
    }

    fn addresses(&self) -> Result<serde_json::Map<String, Value>> {
        let mut addresses = serde_json::Map::new();
        let admin = format!("http://{}", self.envoy.admin());
        addresses.insert("envoy_admin".into(), json!(admin));
        for name in LISTENERS {
            let url = format!("http://{}", self.envoy.listener(name)?);
            addresses.insert(name.into(), json!(url));
        }
        Ok(addresses)
    }
}

impl Set {
    /// Starts one set behind each listener.
    async fn start_all(
        stage: &scenario::Stage,
        field: Field,
        endpoints: &Path,
        seed: u64,
    ) -> Result<Vec<Set>> {
        let mut sets = Vec::new();
        for listener in LISTENERS {
            let resized = Some(listener) == LISTENERS.last().copied();
            sets.push(Set::start(stage, field, resized.then_some(endpoints), seed).await?);
        }
        Ok(sets)
    }

    async fn start(
        stage: &scenario::Stage,
        field: Field,
        endpoints: Option<&Path>,
        seed: u64,
    ) -> Result<Set> {
        let mut variants = Vec::new();
        for (index, variant) in stage.variants.iter().enumerate() {
            // The same seed in every set: their service times follow the same draws.
            let seed = seed.wrapping_add(index as u64);
            let mut replicas = variant.replicas(field, seed);
            replicas.endpoints = endpoints.map(|folder| Endpoints {
                cluster: variant.cluster.clone(),
                file: folder.join(format!("{}.json", variant.cluster)),
            });
            variants.push(Replicas::start(replicas).await?);
        }
        Ok(Set { variants })
    }

    /// Addresses and lanes of the servers of each variant.
    pub(crate) fn hosts(&self) -> Vec<Vec<(SocketAddr, u32)>> {
        self.variants.iter().map(Replicas::hosts).collect()
    }

    pub(crate) fn core_seconds(&self) -> f64 {
        self.variants.iter().map(Replicas::core_seconds).sum()
    }
}

fn bootstrap(
    scenario: &Scenario,
    stage: &scenario::Stage,
    sets: &[Set],
    planner: SocketAddr,
    key: &str,
) -> Result<Bootstrap> {
    let [plain, careful, weir] = sets else {
        anyhow::bail!("{} sets of servers", sets.len())
    };
    let names = stage.variants.iter().map(|variant| variant.name.as_str());
    let addrs = |hosts: Vec<(SocketAddr, u32)>| hosts.into_iter().map(|(host, _)| host).collect();
    let plain: Vec<(&str, Vec<SocketAddr>)> =
        names.zip(plain.hosts().into_iter().map(addrs)).collect();
    let mut bootstrap = Bootstrap::shipped()?
        .plugin(&scenario.plugin(stage, key))
        .planner(planner)
        .plain(&plain)
        .careful("careful", stage.careful(scenario.slo(), &careful.hosts()));
    for replicas in &weir.variants {
        let Endpoints { cluster, file } = replicas.endpoints().context("no endpoints")?;
        bootstrap = bootstrap.discovered_backend(cluster, file);
    }
    Ok(bootstrap)
}
