//! The whole system on free ports of the loopback interface: three identical sets of emulated servers,
//! one Envoy with three listeners, the planner. All of it ends when this is dropped.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use rand::RngExt;
use rand::distr::Alphanumeric;
use serde_json::{Value, json};
use weir_tests::emulator::Emulator;
use weir_tests::envoy::{Bootstrap, Envoy};
use weir_tests::load::Target;
use weir_tests::planner::{Planner, free_port};
use weir_tests::wait;

use crate::scenario::{MODEL, Scenario};
use crate::visible::Visible;

/// The listeners, in the order in which they are shown. Their names are the report's keys.
pub(crate) const LISTENERS: [&str; 3] = ["plain", "careful", "weir"];
/// Envoy's worker threads.
const WORKERS: u32 = 2;
/// How long the parts may take to find each other.
const READY_MAX: Duration = Duration::from_secs(30);
/// How long what is queued may take once cores abound.
const DRAIN_MAX: Duration = Duration::from_secs(30);
/// Cores that abound.
const DRAIN_CORES: f64 = 1000.0;

/// The servers behind one listener.
#[derive(Debug)]
pub(crate) struct Set {
    /// One for each variant, in the scenario's order.
    pub(crate) servers: Vec<Emulator>,
}

/// Everything that runs. Dropped in this order: nobody is asked who is gone already.
#[derive(Debug)]
pub(crate) struct System {
    pub(crate) planner: Planner,
    pub(crate) envoy: Envoy,
    /// In the order of [`LISTENERS`].
    pub(crate) sets: Vec<Set>,
    /// What polls for plans must carry.
    pub(crate) key: String,
}

impl System {
    /// Starts it and waits until the filter obeys the planner's plan.
    pub(crate) async fn start(scenario: &Scenario, seed: u64) -> Result<System> {
        let key: String = rand::rng()
            .sample_iter(Alphanumeric)
            .take(32)
            .map(char::from)
            .collect();
        let mut sets = Vec::new();
        for _ in LISTENERS {
            sets.push(Set::start(scenario, seed).await?);
        }
        let planner_at = free_port()?;
        let bootstrap = bootstrap(scenario, &sets, planner_at, &key)?;
        let envoy = Envoy::start(&bootstrap, WORKERS).await?;
        let stats = format!("http://{}/stats/prometheus", envoy.admin());
        let weir = sets.last().context("no set of servers")?;
        let resize: Vec<String> = weir.servers.iter().map(resize_url).collect();
        let file = scenario.service_file(planner_at, &stats, &resize)?;
        let planner = Planner::start(
            &scenario.service,
            planner_at,
            &file,
            (&scenario.key_env, &key),
        )?;
        let mut system = System {
            planner,
            envoy,
            sets,
            key,
        };
        system.until_ready().await?;
        Ok(system)
    }

    async fn until_ready(&mut self) -> Result<()> {
        self.planner.until_ready(READY_MAX).await?;
        let newest = self
            .planner
            .status(1)
            .await?
            .revision
            .context("the planner has no plan")?;
        let metric = weir_api::metrics::Metric::PlanRevision;
        let service = self.planner.service().to_owned();
        let obeyed = async || {
            let revision = self.envoy.metric(metric, &service, "").await;
            revision.is_ok_and(|revision| revision >= newest)
        };
        wait::until_async("the filter to take the planner's plan", READY_MAX, obeyed).await?;
        // How long that took includes the planner's own start; it must be in Envoy's histogram before
        // a run begins, so that the run does not count it.
        let counted = async || Visible::read(self).await.is_ok_and(|seen| !seen.is_empty());
        wait::until_async("Envoy to count it", READY_MAX, counted).await
    }

    /// Where each listener accepts requests for inference.
    pub(crate) fn targets(&self) -> Result<Vec<Target>> {
        let target = |name: &&str| {
            let url = format!(
                "http://{}/v2/models/{MODEL}/infer",
                self.envoy.listener(name)?
            );
            Ok(Target {
                name: (*name).to_owned(),
                url,
                then: Vec::new(),
                headers: Vec::new(),
            })
        };
        LISTENERS.iter().map(target).collect()
    }

    /// For people and scripts.
    pub(crate) fn addresses(&self) -> Result<Value> {
        let mut addresses = json!({
            "planner": self.planner.url(),
            "envoy_admin": format!("http://{}", self.envoy.admin()),
            "key": self.key,
        });
        for name in LISTENERS {
            let url = format!("http://{}", self.envoy.listener(name)?);
            addresses
                .as_object_mut()
                .context("no object")?
                .insert(name.into(), json!(url));
        }
        let weir = self.sets.last().context("no set of servers")?;
        let backends: serde_json::Map<String, Value> = weir
            .servers
            .iter()
            .map(|server| (server.model().to_owned(), json!(server.url())))
            .collect();
        addresses
            .as_object_mut()
            .context("no object")?
            .insert("backends".into(), backends.into());
        Ok(addresses)
    }

    /// Forgets what happened before the run.
    pub(crate) fn reset(&self) {
        self.sets
            .iter()
            .flat_map(|set| &set.servers)
            .for_each(Emulator::reset);
    }

    /// Lets the servers execute what is still queued, abandoned or not, so that every execution can
    /// be counted; then gives them the cores back that they had.
    pub(crate) async fn drain(&self) -> Result<()> {
        let servers = self.sets.iter().flat_map(|set| &set.servers);
        let mut busy: Vec<(&Emulator, f64)> = servers
            .map(|server| (server, server.cores()))
            .filter(|(s, _)| !is_idle(s))
            .collect();
        // Given again at every look: the planner may have taken them away.
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

impl Set {
    async fn start(scenario: &Scenario, seed: u64) -> Result<Set> {
        let mut servers = Vec::new();
        for (index, variant) in scenario.variants.iter().enumerate() {
            // The same for every set: their service times follow the same draws.
            let seed = seed.wrapping_add(index as u64);
            servers.push(Emulator::start(variant.emulator(seed)).await?);
        }
        Ok(Set { servers })
    }

    pub(crate) fn addrs(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(Emulator::addr).collect()
    }

    pub(crate) fn core_seconds(&self) -> f64 {
        self.servers.iter().map(Emulator::core_seconds).sum()
    }
}

fn bootstrap(
    scenario: &Scenario,
    sets: &[Set],
    planner: SocketAddr,
    key: &str,
) -> Result<Bootstrap> {
    let [plain, careful, weir] = sets else {
        anyhow::bail!("{} sets of servers", sets.len())
    };
    let names = scenario
        .variants
        .iter()
        .map(|variant| variant.name.as_str());
    let plain: Vec<(&str, SocketAddr)> = names.zip(plain.addrs()).collect();
    let mut bootstrap = Bootstrap::shipped()?
        .plugin(&scenario.plugin(key))
        .planner(planner)
        .plain(&plain)
        .careful(scenario.careful(&careful.addrs()));
    for (variant, host) in scenario.variants.iter().zip(weir.addrs()) {
        bootstrap = bootstrap.backend(&variant.cluster, host);
    }
    Ok(bootstrap)
}

fn resize_url(server: &Emulator) -> String {
    format!("{}/emulator/resources", server.url())
}
