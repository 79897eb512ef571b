//! A server that executes one request at a time, some way from a real Envoy: the part of its capacity that is used,
//! the order in which it executes, the requests answered on time, and the time until refusals, with
//! `queue.overlap` and without. Both at the same time and with the same arrivals, so that what else the machine does
//! falls on both.
//!
//! It measures; what is good enough is said by [`Row::check`] alone.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;
use weir_planner::replay::request::Request;

use super::order::at_once;
use super::send::{Seen, id_of, send_since};
use super::way::{Way, round_trip_ms};
use super::{LAG_P99_MAX_MS, lag_ms};
use crate::emulator::{Emulator, Execution, Law, Noise, ServerConfig};
use crate::envoy::{Bootstrap, Envoy};

/// Mean execution, ms.
pub const SERVICE_MS: f64 = 25.0;
/// One way between Envoy and the server, which the emulator adds to the loopback interface's.
pub const HOP: Duration = Duration::from_micros(1500);
/// Envoy's workers.
pub const WORKERS: [u32; 2] = [1, 4];
/// Loads, as multiples of what the server executes.
pub const LOADS: [f64; 3] = [0.95, 1.3, 2.0];
/// Budgets are drawn between these, ms.
pub const BUDGETS_MS: [(u64, u64); 2] = [(300, 300), (100, 600)];
/// Standard deviation of the logarithm of a service time in the run that scatters.
pub const SIGMA: f64 = 0.3;

/// Least executions/s above capacity, percent of a queue of the server's own.
pub const THROUGHPUT_MIN_PERCENT: f64 = 97.0;
/// Most pairs executed in the wrong order, percent.
pub const OUT_OF_ORDER_MAX_PERCENT: f64 = 1.0;
/// Least refusals within [`AT_ONCE`] above capacity where budgets are equal, percent.
pub const AT_ONCE_MIN_PERCENT: f64 = 85.0;
/// Longest time to a refusal that is said at once, as its client measures it from sending.
pub const AT_ONCE: Duration = Duration::from_millis(50);
/// Points of a hundred by which the share on time may differ from run to run.
pub const NOISE_POINTS: f64 = 1.0;

/// Time from the first execution that is not counted: nothing is known of the lane yet.
const WARM_MS: f64 = 2000.0;
/// Time before a run's end that is not counted: the queue gets empty.
const END_MS: f64 = 1000.0;
/// Requests that a full queue of the server's own holds.
const FULL: u32 = 4;
/// Kept back for the answer's way to a client on the same machine, which may be busy.
const RESERVE: Duration = Duration::from_millis(10);
/// Executions later in order that are compared with each.
const LATER_MAX: usize = 200;

/// One pair of runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Case {
    /// Envoy's workers.
    pub workers: u32,
    /// Standard deviation of the logarithm of a service time.
    pub sigma: f64,
    /// Load, as a multiple of what the server executes.
    pub of_capacity: f64,
    /// Budgets are drawn between these, ms.
    pub budgets_ms: (u64, u64),
}

/// One run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// Executions begun each second, once warm.
    pub executed_rps: f64,
    /// The same in percent of a queue of the server's own.
    pub throughput_percent: f64,
    /// Executions whose request lay at the server when the one before it ended, percent, once warm.
    pub lay_percent: f64,
    /// Time for which the server idled before each other, on average, ms.
    pub idle_ms: f64,
    /// Answered within their budgets, percent of all sent.
    pub on_time_percent: f64,
    /// Executed and not on time, percent of all sent.
    pub executed_late_percent: f64,
    /// Pairs of which one was at the proxy when the other's execution began before it.
    pub pairs: usize,
    /// Those of which it was the more urgent, percent.
    pub out_of_order_percent: f64,
    /// Requests refused.
    pub refused: usize,
    /// Those refused within [`AT_ONCE`], percent.
    pub refused_at_once_percent: f64,
    /// Most of those answered 200 that the server had at once.
    pub at_server: usize,
    /// Requests without an answer.
    pub unanswered: usize,
    /// From dispatch to answer, wait and execution at the server not counted, on average, ms.
    pub round_trip_ms: f64,
    /// Lateness of the generator, 99 of 100 requests, ms.
    pub lag_p99_ms: f64,
}

/// Two runs with the same arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Row {
    /// The case that was run.
    pub case: Case,
    /// Requests sent in each.
    pub sent: usize,
    /// Executions/s of the same server from a queue of its own.
    pub capacity_rps: f64,
    /// Without `queue.overlap`.
    pub off: Figures,
    /// With it.
    pub on: Figures,
}

impl Row {
    /// Returns each figure with `queue.overlap` that is not as it is wanted, and what makes the run prove nothing.
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
                format!("the generator was {lag:.1} ms late: the run proves nothing"),
            ),
            (
                unanswered == 0,
                format!("{unanswered} requests without an answer"),
            ),
            (
                at_server.0 <= 1 && at_server.1 <= 2,
                format!("{at_server:?} at the server at once, (1, 2) are wanted at most"),
            ),
            (
                !above_capacity || on.throughput_percent >= THROUGHPUT_MIN_PERCENT,
                format!(
                    "throughput: {:.2} %, {THROUGHPUT_MIN_PERCENT} % are wanted",
                    on.throughput_percent
                ),
            ),
            (
                on.out_of_order_percent <= OUT_OF_ORDER_MAX_PERCENT,
                format!(
                    "out of order: {:.2} %, at most {OUT_OF_ORDER_MAX_PERCENT} % are wanted",
                    on.out_of_order_percent
                ),
            ),
            (
                !(above_capacity && equal) || soon >= AT_ONCE_MIN_PERCENT,
                format!("refused at once: {soon:.1} %, {AT_ONCE_MIN_PERCENT} % are wanted"),
            ),
            (
                below <= NOISE_POINTS,
                format!("on time: {below:.2} points below those without overlap"),
            ),
        ];
        let missed = checks.into_iter().filter(|(holds, _)| !holds);
        let case = self.case;
        missed
            .map(|(_, what)| anyhow::anyhow!("{case:?}: {what}"))
            .collect()
    }
}

/// All cases: equal service times, and one with scatter.
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

/// Executions/s of the server from a queue of its own that is never empty.
///
/// # Errors
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

/// Runs a case for so long, with and without `queue.overlap` at the same time.
///
/// # Errors
/// Something does not start.
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

async fn server(sigma: f64, seed: u64) -> Result<Emulator> {
    let mut config = ServerConfig::new("small", Law::constant(SERVICE_MS));
    config.noise = (sigma > 0.0).then_some(Noise { sigma, seed });
    let emulator = Emulator::start(config).await?;
    emulator.away_by(HOP);
    Ok(emulator)
}

/// Poisson arrivals.
fn requests(case: Case, seed: u64, length: Duration) -> Vec<Request> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let rps = case.of_capacity * 1e3 / SERVICE_MS;
    let (least, most) = case.budgets_ms;
    let mut requests = Vec::new();
    let mut sent_s = 0.0;
    loop {
        sent_s -= (1.0 - random.random::<f64>()).ln() / rps;
        let sent = Duration::from_secs_f64(sent_s);
        if sent > length {
            return requests;
        }
        let budget = Duration::from_millis(random.random_range(least..=most));
        requests.push(Request {
            id: requests.len() as u32,
            sent,
            head: sent,
            arrives: sent,
            bytes: 0,
            budget,
            way_back: Duration::ZERO,
            skew_ms: 0,
            min_accuracy: 0.0,
            class: 0,
            patience: Duration::from_secs(30),
            retries: 0,
        });
    }
}

/// Times, in ms, between which executions count.
fn counted(executions: &[Execution], length: Duration) -> Result<Range<f64>> {
    let first = executions.first().context("nothing was executed")?;
    let from = first.started_ms + WARM_MS;
    let to = first.started_ms + length.as_secs_f64() * 1e3 - END_MS;
    ensure!(from < to, "{length:?} are too short a run");
    Ok(from..to)
}

/// Executions begun each second.
fn executed_rps(executions: &[Execution], length: Duration) -> Result<f64> {
    let span = counted(executions, length)?;
    let begun = executions.iter().map(|run| run.started_ms);
    let begun = begun.filter(|at| span.contains(at)).count();
    Ok(begun as f64 * 1e3 / (span.end - span.start))
}

/// Time for which the server idled before each execution but the first; 0 where its request lay there.
fn idle_ms(executions: &[Execution], length: Duration) -> Result<Vec<f64>> {
    let span = counted(executions, length)?;
    let pairs = executions.iter().zip(executions.iter().skip(1));
    let pairs = pairs.filter(|(_, next)| span.contains(&next.started_ms));
    Ok(pairs
        .map(|(one, next)| (next.started_ms - one.ended_ms).max(0.0))
        .collect())
}

/// Traces that a run left: executions, answers, and its start.
struct Real {
    emulator: Emulator,
    started: Instant,
    seen: Vec<Seen>,
}

impl Real {
    async fn play(case: Case, seed: u64, overlap: bool, requests: &[Request]) -> Result<Real> {
        let emulator = server(case.sigma, seed).await?;
        let plugin = json!({
            "service": "lane", "queue": { "overlap": overlap },
            "deadline": { "reserve_ms": RESERVE.as_millis() as u64 },
            "plan": { "variants": [{ "name": "small", "cluster": "small", "share": 1.0,
                                     "slots": 1, "service_ms": SERVICE_MS, "accuracy": 70.0 }] },
        });
        let bootstrap = Bootstrap::shipped()?.plugin(&plugin);
        let bootstrap = bootstrap.backend("small", emulator.addr());
        let envoy = Envoy::start(&bootstrap, case.workers).await?;
        let url = format!("http://{}/v2/models/small/infer", envoy.listener("weir")?);
        let (started, seen) = send_since(&url, requests).await?;
        Ok(Real {
            emulator,
            started,
            seen,
        })
    }

    fn figures(&self, requests: &[Request], length: Duration, capacity: f64) -> Result<Figures> {
        let executions = self.emulator.executions();
        let runs = executions.iter();
        let by_id: HashMap<&str, &Execution> =
            runs.map(|run| (run.request_id.as_str(), run)).collect();
        ensure!(
            by_id.len() == executions.len(),
            "a request was executed twice"
        );
        let both = || requests.iter().zip(&self.seen);
        let ways: Vec<Way> = both()
            .map(|(request, seen)| Way::of(request, seen, &by_id, RESERVE))
            .collect();
        let on_time = ways.iter().filter(|way| way.is_on_time()).count();
        // What was executed and cut off at its deadline is late, not refused.
        let refused = both().filter(|(request, seen)| {
            !matches!(seen.status, 0 | 200) && !by_id.contains_key(id_of(request).as_str())
        });
        let waits: Vec<Duration> = refused.map(|(_, seen)| seen.ended - seen.left).collect();
        let soon = waits.iter().filter(|wait| **wait <= AT_ONCE).count();
        let answered = both().filter(|(_, seen)| seen.status == 200);
        let answered = answered.filter_map(|(request, _)| by_id.get(id_of(request).as_str()));
        let percent = |part: usize, whole: usize| part as f64 * 100.0 / whole.max(1) as f64;
        let (pairs, wrong) = self.out_of_order(requests, &by_id);
        let executed_rps = executed_rps(&executions, length)?;
        let idle_ms = idle_ms(&executions, length)?;
        let late = executions.len().saturating_sub(on_time);
        let idle: Vec<f64> = idle_ms.iter().copied().filter(|ms| *ms > 0.0).collect();
        Ok(Figures {
            executed_rps,
            lay_percent: percent(idle_ms.len() - idle.len(), idle_ms.len()),
            idle_ms: idle.iter().sum::<f64>() / idle.len().max(1) as f64,
            throughput_percent: executed_rps * 100.0 / capacity,
            on_time_percent: percent(on_time, requests.len()),
            executed_late_percent: percent(late, requests.len()),
            pairs,
            out_of_order_percent: percent(wrong, pairs),
            refused: waits.len(),
            refused_at_once_percent: percent(soon, waits.len()),
            at_server: at_once(answered.map(|run| (run.arrived_ms, run.ended_ms))),
            unanswered: self.seen.iter().filter(|seen| seen.status == 0).count(),
            round_trip_ms: round_trip_ms(&ways)?,
            lag_p99_ms: lag_ms(requests, &self.seen, 99),
        })
    }

    /// The pairs of executions, and those in the wrong order.
    fn out_of_order(
        &self,
        requests: &[Request],
        executions: &HashMap<&str, &Execution>,
    ) -> (usize, usize) {
        let both = requests.iter().zip(&self.seen);
        let executed = both.filter_map(|(request, seen)| {
            let run = executions.get(id_of(request).as_str())?;
            let began = self.emulator.instant(run.started_ms);
            let began = began.saturating_duration_since(self.started);
            Some((run.order, [began, seen.left, request.deadline()]))
        });
        let mut executed: Vec<(u64, [Duration; 3])> = executed.collect();
        executed.sort_unstable();
        let in_order: Vec<[Duration; 3]> = executed.into_iter().map(|(_, times)| times).collect();
        wrong_pairs(&in_order)
    }
}

/// Pairs of executions of which the second's request had left its client when the first began, and those of which the
/// second was the more urgent. Of each in the order of execution: its beginning, its request's leaving, its deadline.
fn wrong_pairs(executed: &[[Duration; 3]]) -> (usize, usize) {
    let (mut pairs, mut wrong) = (0, 0);
    for (place, [began, _, deadline]) in executed.iter().enumerate() {
        for [_, left, other] in executed.iter().skip(place + 1).take(LATER_MAX) {
            if left <= began {
                pairs += 1;
                wrong += usize::from(other < deadline);
            }
        }
    }
    (pairs, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_count_where_both_were_there_and_are_wrong_where_the_later_was_more_urgent() {
        let times = |began, left, deadline| [began, left, deadline].map(Duration::from_millis);
        let first = times(10, 0, 300);
        assert_eq!(wrong_pairs(&[first, times(35, 5, 301)]), (1, 0));
        assert_eq!(wrong_pairs(&[first, times(35, 5, 200)]), (1, 1));
        assert_eq!(wrong_pairs(&[first, times(35, 11, 200)]), (0, 0));
    }
}
