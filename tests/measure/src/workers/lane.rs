//! A server that executes one request at a time, at some network distance from a real Envoy. Measures its
//! utilisation, the order of executions, the requests answered on time, and the time until refusals, with
//! `queue.overlap` and without. Both run at the same time with the same arrivals, so that other load on the machine
//! affects both.
//!
//! It measures; [`Row::check`] defines the targets.

mod real;

use std::time::Duration;

use anyhow::{Result, ensure};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use real::{Real, executed_rps, server};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::Instant;
use weir_replay::request::Request;

use super::LAG_P99_MAX_MS;

/// Mean service time, ms.
pub const SERVICE_MS: f64 = 25.0;
/// One-way delay between Envoy and the server, which the emulator adds to that of the loopback interface.
pub const HOP: Duration = Duration::from_micros(1500);
/// Numbers of Envoy's workers.
pub const WORKERS: [u32; 2] = [1, 4];
/// Loads, as multiples of the server's capacity.
pub const LOADS: [f64; 3] = [0.95, 1.3, 2.0];
/// Ranges from which budgets are drawn, ms.
pub const BUDGETS_MS: [(u64, u64); 2] = [(300, 300), (100, 600)];
/// Standard deviation of the logarithm of the service time in the run with scatter.
pub const SIGMA: f64 = 0.3;

/// Minimum executions/s above capacity, percent of those from the server's own queue.
pub const THROUGHPUT_MIN_PERCENT: f64 = 97.0;
/// Maximum pairs executed in the wrong order, percent.
pub const OUT_OF_ORDER_MAX_PERCENT: f64 = 1.0;
/// Minimum refusals within [`AT_ONCE`] above capacity with equal budgets, percent.
pub const AT_ONCE_MIN_PERCENT: f64 = 85.0;
/// Maximum time to an immediate refusal, measured by its client from sending.
pub const AT_ONCE: Duration = Duration::from_millis(50);
/// Noise of the on-time share between runs, in percentage points.
pub const NOISE_POINTS: f64 = 1.0;

/// Number of requests that keep the server's own queue full.
const FULL: u32 = 4;

/// One pair of runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Case {
    /// Envoy's workers.
    pub workers: u32,
    /// Standard deviation of the logarithm of a service time.
    pub sigma: f64,
    /// Load, as a multiple of the server's capacity.
    pub of_capacity: f64,
    /// Range from which budgets are drawn, ms.
    pub budgets_ms: (u64, u64),
}

/// One run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// Executions started per second, after warm-up.
    pub executed_rps: f64,
    /// The same, in percent of the executions from the server's own queue.
    pub throughput_percent: f64,
    /// Executions whose request was at the server when the previous one ended, percent, after warm-up.
    pub lay_percent: f64,
    /// Mean idle time of the server before each other execution, ms.
    pub idle_ms: f64,
    /// Answered within their budgets, percent of all sent.
    pub on_time_percent: f64,
    /// Executed but not on time, percent of all sent.
    pub executed_late_percent: f64,
    /// Pairs of executions in which the later one's request was already at the proxy when the earlier one started.
    pub pairs: usize,
    /// Pairs in which the later one was the more urgent, percent.
    pub out_of_order_percent: f64,
    /// Requests refused.
    pub refused: usize,
    /// Refusals within [`AT_ONCE`], percent.
    pub refused_at_once_percent: f64,
    /// Maximum requests at the server at once, of those answered 200.
    pub at_server: usize,
    /// Requests without a response.
    pub unanswered: usize,
    /// Mean time from dispatch to response, without the wait and the execution at the server, ms.
    pub round_trip_ms: f64,
    /// 99th percentile of the generator's lag, ms.
    pub lag_p99_ms: f64,
}

/// Two runs with the same arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Row {
    /// Parameters of the case.
    pub case: Case,
    /// Requests sent in each run.
    pub sent: usize,
    /// Executions/s of the same server from its own queue.
    pub capacity_rps: f64,
    /// The run without `queue.overlap`.
    pub off: Figures,
    /// The run with `queue.overlap`.
    pub on: Figures,
}

impl Row {
    /// Returns each figure with `queue.overlap` that misses its target, and the reasons why the run proves nothing.
    #[must_use]
    pub fn check(&self) -> Vec<anyhow::Error> {
        let (on, off) = (self.on, self.off);
        let lag = on.lag_p99_ms.max(off.lag_p99_ms);
        let below = off.on_time_percent - on.on_time_percent;
        let above_capacity = self.case.of_capacity > 1.0;
        let equal = self.case.budgets_ms.0 == self.case.budgets_ms.1;
        let unanswered = on.unanswered + off.unanswered;
        let at_server = (off.at_server, on.at_server);
        let soon = on.refused_at_once_percent;
        let checks = [
            (
                lag <= LAG_P99_MAX_MS,
                format!("the generator was {lag:.1} ms late: invalid run"),
            ),
            (
                unanswered == 0,
                format!("{unanswered} requests without a response"),
            ),
            (
                at_server.0 <= 1 && at_server.1 <= 2,
                format!("{at_server:?} at the server at once, must be at most (1, 2)"),
            ),
            (
                !above_capacity || on.throughput_percent >= THROUGHPUT_MIN_PERCENT,
                format!(
                    "throughput: {:.2} %, must be at least {THROUGHPUT_MIN_PERCENT} %",
                    on.throughput_percent
                ),
            ),
            (
                on.out_of_order_percent <= OUT_OF_ORDER_MAX_PERCENT,
                format!(
                    "out of order: {:.2} %, must be at most {OUT_OF_ORDER_MAX_PERCENT} %",
                    on.out_of_order_percent
                ),
            ),
            (
                !(above_capacity && equal) || soon >= AT_ONCE_MIN_PERCENT,
                format!("refused at once: {soon:.1} %, must be at least {AT_ONCE_MIN_PERCENT} %"),
            ),
            (
                below <= NOISE_POINTS,
                format!("on time: {below:.2} points below the run without overlap"),
            ),
        ];
        let missed = checks.into_iter().filter(|(holds, _)| !holds);
        let case = self.case;
        missed
            .map(|(_, what)| anyhow::anyhow!("{case:?}: {what}"))
            .collect()
    }
}

/// All cases: constant service times, and one case with scatter.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for workers in WORKERS {
        for of_capacity in LOADS {
            cases.extend(BUDGETS_MS.map(|budgets_ms| Case {
                workers,
                sigma: 0.0,
                of_capacity,
                budgets_ms,
            }));
        }
    }
    cases.extend(BUDGETS_MS.map(|budgets_ms| Case {
        workers: 4,
        sigma: SIGMA,
        of_capacity: 1.3,
        budgets_ms,
    }));
    cases
}

/// Executions/s of the server from its own queue, which is never empty.
///
/// # Errors
///
/// It does not start, or a request is not answered 200.
pub async fn capacity(sigma: f64, seed: u64, length: Duration) -> Result<f64> {
    let emulator = server(sigma, seed).await?;
    let url = format!("{}/v2/models/small/infer", emulator.url());
    let client = reqwest::Client::builder().http1_only().no_proxy().build()?;
    let ends = Instant::now() + length;
    let mut tasks: JoinSet<Result<()>> = JoinSet::new();
    for _ in 0..FULL {
        let (client, url) = (client.clone(), url.clone());
        tasks.spawn(async move {
            while Instant::now() < ends {
                let answer = client.post(&url).body("{}").send().await?;
                ensure!(answer.status() == 200, "status {}", answer.status());
                answer.bytes().await?;
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    executed_rps(&emulator.executions(), length)
}

/// Runs a case for `length`, with and without `queue.overlap` at the same time.
///
/// # Errors
///
/// A part does not start.
pub async fn run(case: Case, seed: u64, length: Duration, capacity_rps: f64) -> Result<Row> {
    let requests = requests(case, seed, length);
    let one = async |overlap| {
        let real = Real::play(case, seed, overlap, &requests).await?;
        real.figures(&requests, length, capacity_rps)
    };
    let (off, on) = tokio::try_join!(one(false), one(true))?;
    Ok(Row {
        case,
        sent: requests.len(),
        capacity_rps,
        off,
        on,
    })
}

/// Poisson arrivals.
fn requests(case: Case, seed: u64, length: Duration) -> Vec<Request> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let rps = case.of_capacity * 1e3 / SERVICE_MS;
    let (min, most) = case.budgets_ms;
    let mut requests = Vec::new();
    let mut sent_s = 0.0;
    loop {
        sent_s -= (1.0 - random.random::<f64>()).ln() / rps;
        let sent = Duration::from_secs_f64(sent_s);
        if sent > length {
            return requests;
        }
        let budget = Duration::from_millis(random.random_range(min..=most));
        requests.push(Request::new(requests.len() as u32, sent, budget));
    }
}
