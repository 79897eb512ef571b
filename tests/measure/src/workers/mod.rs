//! Compares the queue shared by a proxy's workers with a single queue. A real Envoy with several workers gets a load,
//! and replay runs the same arrivals through one engine.
//!
//! It measures; [`Row::check`] defines the targets. [`crowd`] queues many requests at once, [`cost`] measures the
//! processor time, [`lane`] keeps a server busy that executes one request at a time.

pub mod cost;
pub mod crowd;
pub mod gauges;
pub mod lane;
pub mod order;
pub mod send;
mod way;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use weir_api::metrics::Metric;
use weir_replay::input::requests;
use weir_replay::request::{Fate, Request};
use weir_replay::scenario::{self, Contender, Control, Overrides, Plane, Scenario};
use weir_replay::simulation;

use self::gauges::Percentiles;
use self::order::{GRAIN, Stay, at_once, inversions};
use self::send::{Seen, id_of, send};
use self::way::{RequestRecord, round_trip_ms};
use weir_bed::emulator::{Emulator, Execution, Noise, ServerConfig};
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::wait;

/// The shipped scenario.
pub const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/workers.yaml");
/// Numbers of Envoy's workers.
pub const WORKERS: [u32; 3] = [1, 2, 4];
/// The loads, as multiples of the servers' capacity.
pub const LOADS: [f64; 2] = [0.95, 1.5];

/// Maximum deficit of the on-time share against a single queue, in percentage points.
pub const POINTS_MAX: f64 = 1.0;
/// Maximum dispatches out of order, percent.
pub const INVERSIONS_MAX_PERCENT: f64 = 1.0;
/// 99th percentile of the time for which a slot may be free while another worker's request waits, in ms.
pub const HANDOVER_P99_MAX_MS: f64 = 2.0;
/// Maximum lag of the generator's 99th percentile; beyond it a run proves nothing.
pub const LAG_P99_MAX_MS: f64 = 20.0;
/// Time limit for Envoy to flush its histograms.
const FLUSH_MAX: Duration = Duration::from_secs(10);

/// Scope of the queue in the real run: the plugin's `queue.scope`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// One queue for all workers.
    Proxy,
    /// One queue per worker.
    Worker,
}

impl Scope {
    /// Its name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scope::Proxy => "proxy",
            Scope::Worker => "worker",
        }
    }
}

/// One run of a real Envoy, and the replay of the same arrivals with one queue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Row {
    /// Envoy's workers.
    pub workers: u32,
    /// Scope of the queue.
    pub scope: Scope,
    /// The load, as a multiple of the servers' capacity.
    pub of_capacity: f64,
    /// Requests sent.
    pub sent: usize,
    /// Requests without a response.
    pub unanswered: usize,
    /// Answered within their budgets, percent of all sent.
    pub on_time_percent: f64,
    /// The same share with a single queue, replayed.
    pub single_queue_percent: f64,
    /// Requests sent upstream.
    pub dispatched: usize,
    /// Dispatches certainly out of order by a millisecond or more, percent.
    pub inversions_percent: f64,
    /// Upper bound of the dispatches out of order, percent: includes those that only seem so.
    pub inversions_at_most_percent: f64,
    /// Time for which slots were free while another worker's request waited, µs.
    pub handover_us: Percentiles,
    /// CAS conflicts: changes of the slot table that were retried.
    pub cas_conflicts: u64,
    /// Resets of the slot table.
    pub slot_table_resets: u64,
    /// The proxy's slots.
    pub slots: u32,
    /// Maximum requests at the server at once, of those that were answered.
    pub at_once: usize,
    /// Mean time from dispatch to response without the execution, ms; replay uses the same.
    pub round_trip_ms: f64,
    /// 99th percentile of the generator's lag, ms.
    pub lag_p99_ms: f64,
    /// Maximum lag of the generator, ms.
    pub lag_max_ms: f64,
}

impl Row {
    /// Checks that the run is valid and meets the targets of a shared queue.
    ///
    /// # Errors
    ///
    /// A figure misses its target.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.lag_p99_ms <= LAG_P99_MAX_MS,
            "the generator was late: invalid run: {self:?}"
        );
        self.conserves()?;
        let below = self.single_queue_percent - self.on_time_percent;
        ensure!(
            below <= POINTS_MAX,
            "on time: {below:.2} points below a single queue: {self:?}"
        );
        ensure!(
            self.inversions_percent <= INVERSIONS_MAX_PERCENT,
            "{:.2} % out of order: {self:?}",
            self.inversions_percent
        );
        let handover_ms = self.handover_us.p99 / 1e3;
        ensure!(
            handover_ms < HANDOVER_P99_MAX_MS,
            "hand-over takes {handover_ms:.2} ms: {self:?}"
        );
        Ok(())
    }

    /// Checks that every request was answered and that at most one waited at the server behind each executing one.
    /// The latter does not hold with a queue per worker, whose slots change when workers start.
    ///
    /// # Errors
    ///
    /// A sum is wrong.
    pub fn conserves(&self) -> Result<()> {
        ensure!(
            self.unanswered == 0,
            "requests without a response: {self:?}"
        );
        let fits = self.at_once <= 2 * self.slots as usize;
        ensure!(
            fits || self.scope == Scope::Worker,
            "too many requests at the server: {self:?}"
        );
        ensure!(
            self.slot_table_resets == 0,
            "the slot table was reset: {self:?}"
        );
        Ok(())
    }
}

/// Runs the scenario at that load for `seconds` through an Envoy with `workers` workers.
///
/// # Errors
///
/// The scenario is invalid, or a part does not start.
pub async fn run(
    file: &Path,
    workers: u32,
    scope: Scope,
    of_capacity: f64,
    length: Duration,
) -> Result<Row> {
    let overrides = Overrides {
        seed: None,
        of_capacity: Some(of_capacity),
        requests_max: None,
    };
    let (mut scenario, sending) = scenario::read(file, overrides)?;
    let mut requests = requests(scenario.seed, &sending);
    requests.retain(|request| request.sent < length);
    scenario.length = length.min(scenario.length);
    let real = Real::play(&scenario, workers, scope, &requests).await?;
    real.row(scenario, &requests, workers, scope, of_capacity)
}

/// The records of a real run.
struct Real {
    seen: Vec<Seen>,
    executions: Vec<Execution>,
    handover_us: Percentiles,
    cas_conflicts: u64,
    slot_table_resets: u64,
}

impl Real {
    async fn play(
        scenario: &Scenario,
        workers: u32,
        scope: Scope,
        requests: &[Request],
    ) -> Result<Real> {
        let server = scenario.variants.first().context("no server")?;
        let variant = scenario.service.variants.first().context("no variant")?;
        let mut config = ServerConfig::new(&server.name, server.latency.clone());
        config.cores = server.cores;
        config.parallelism = server.parallelism;
        config.noise = (server.noise_sigma > 0.0).then_some(Noise {
            sigma: server.noise_sigma,
            seed: scenario.seed,
        });
        let emulator = Emulator::start(config).await?;
        let mut plugin = scenario.proxies.plugin.clone();
        if let Some(keys) = plugin.as_object_mut() {
            // The comparison is of queues with the same slots.
            let queue = serde_json::json!({ "scope": scope.name(), "concurrency_max": 0 });
            keys.insert("queue".to_owned(), queue);
        }
        let bootstrap = Bootstrap::shipped()?
            .plugin(&plugin)
            .backend(&variant.cluster, emulator.addr());
        let envoy = Envoy::start(&bootstrap, workers).await?;
        let url = format!(
            "http://{}/v2/models/{}/infer",
            envoy.listener("weir")?,
            server.name
        );
        let seen = send(&url, requests).await?;
        let executions = emulator.executions();
        let service = scenario.service.name.as_str();
        let dispatched = executions.len() as u64;
        let flushed = async || {
            let count = gauges::count(&envoy, Metric::WaitMs, service).await;
            count.is_ok_and(|count| count >= dispatched)
        };
        wait::until_async("Envoy's histograms", FLUSH_MAX, flushed).await?;
        Ok(Real {
            seen,
            executions,
            handover_us: gauges::percentiles(&envoy, Metric::HandoverUs, service).await?,
            cas_conflicts: envoy.metric(Metric::CasConflicts, service, "").await?,
            slot_table_resets: envoy.metric(Metric::SlotTableResets, service, "").await?,
        })
    }

    fn row(
        &self,
        mut scenario: Scenario,
        requests: &[Request],
        workers: u32,
        scope: Scope,
        of_capacity: f64,
    ) -> Result<Row> {
        let plugin = &scenario.proxies.plugin;
        let number = |at: &str| plugin.pointer(at).and_then(serde_json::Value::as_f64);
        let reserve = number("/deadline/reserve_ms").unwrap_or(0.0);
        let reserve = Duration::from_secs_f64(reserve / 1e3);
        let slots = number("/plan/variants/0/slots").context("no slots")? as u32;
        let predicted = number("/plan/variants/0/service_ms").context("no service_ms")?;
        let latest = reserve + Duration::from_secs_f64(predicted / 1e3);
        let runs = self.executions.iter();
        let executions: HashMap<&str, &Execution> =
            runs.map(|run| (run.request_id.as_str(), run)).collect();
        let ways: Vec<RequestRecord> = requests
            .iter()
            .zip(&self.seen)
            .map(|(request, seen)| RequestRecord::of(request, seen, &executions, reserve))
            .collect();
        let round_trip_ms = round_trip_ms(&ways)?;
        let stays: Vec<Stay> = ways.iter().map(|way| way.stay(latest)).collect();
        let (dispatched, certain) = inversions(&stays, GRAIN * 2);
        let (_, at_most) = inversions(&stays, Duration::ZERO);
        let percent = |part: usize, whole: usize| part as f64 * 100.0 / whole.max(1) as f64;
        let on_time = ways.iter().filter(|way| way.is_on_time()).count();
        if let Some(server) = scenario.variants.first_mut() {
            server.round_trip = Duration::from_secs_f64(round_trip_ms.max(0.0) / 1e3);
        }
        scenario.proxies.workers = 1;
        // Only answered ones: the slot of a request abandoned at its timeout is freed at its *predicted* end, which
        // the server may miss by some ms.
        let answered: HashSet<String> = requests
            .iter()
            .zip(&self.seen)
            .filter(|(_, seen)| seen.status == 200)
            .map(|(request, _)| id_of(request))
            .collect();
        let executing = self.executions.iter();
        let executing = executing.filter(|run| answered.contains(&run.request_id));
        Ok(Row {
            workers,
            scope,
            of_capacity,
            sent: requests.len(),
            unanswered: self.seen.iter().filter(|seen| seen.status == 0).count(),
            on_time_percent: percent(on_time, requests.len()),
            single_queue_percent: single_queue(&scenario, requests, &self.seen)?,
            dispatched,
            inversions_percent: percent(certain, dispatched),
            inversions_at_most_percent: percent(at_most, dispatched),
            handover_us: self.handover_us,
            cas_conflicts: self.cas_conflicts,
            slot_table_resets: self.slot_table_resets,
            slots,
            at_once: at_once(executing.map(|run| (run.arrived_ms, run.ended_ms))),
            round_trip_ms,
            lag_p99_ms: lag_ms(requests, &self.seen, 99),
            lag_max_ms: lag_ms(requests, &self.seen, 100),
        })
    }
}

/// The given percentile of the delay between planned and real send times.
fn lag_ms(requests: &[Request], seen: &[Seen], percent: usize) -> f64 {
    let lag = |(request, seen): (&Request, &Seen)| seen.left.saturating_sub(request.sent);
    let mut lags: Vec<Duration> = requests.iter().zip(seen).map(lag).collect();
    lags.sort_unstable();
    let at = (lags.len() * percent / 100).min(lags.len().saturating_sub(1));
    lags.get(at).map_or(0.0, |lag| lag.as_secs_f64() * 1e3)
}

/// The on-time percentage with a single queue: a replay in which the requests reach the proxy at their real send
/// times.
fn single_queue(scenario: &Scenario, requests: &[Request], seen: &[Seen]) -> Result<f64> {
    let at_proxy = |(request, seen): (&Request, &Seen)| {
        let left = seen.left.max(request.sent);
        Request {
            head: left,
            arrives: left,
            ..*request
        }
    };
    let requests: Vec<Request> = requests.iter().zip(seen).map(at_proxy).collect();
    let contender = Contender {
        plane: Plane::WeirGlobal,
        control: Control::Static,
        breaker: None,
    };
    let play = simulation::play(scenario, &requests, contender, scenario.seed)?;
    let outcomes = requests.iter().zip(&play.outcomes);
    let on_time = outcomes.filter(|(request, outcome)| {
        matches!(outcome.fate, Fate::Answered(_)) && outcome.ended <= request.deadline()
    });
    Ok(on_time.count() as f64 * 100.0 / requests.len().max(1) as f64)
}
