//! Server that executes one request at a time, and the hop to it: idle time while requests wait, cost of the
//! order, and delay of rejections. In simulated time; no test depends on wall-clock time.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use weir_replay::request::{Fate, Outcome, Request};
use weir_replay::scenario::Scenario;

use super::scenarios;

const SERVICE_MS: f64 = 25.0;
const GAP_MS: f64 = 3.0;
const LENGTH_S: f64 = 60.0;

/// Parameters of a replay.
#[derive(Debug, Clone, Copy)]
struct Case {
    workers: u32,
    sigma: f64,
    /// Load as a multiple of the server's capacity.
    load: f64,
    /// Range of the random budgets, ms.
    budgets: (u64, u64),
    overlap: bool,
    seed: u64,
}

/// Results of a replay.
#[derive(Debug, Clone, Copy)]
struct Figures {
    /// Requests sent to the server, relative to a queue at the server that is never empty.
    throughput: f64,
    on_time: f64,
    /// Fraction of pairs that were executed in the wrong order.
    out_of_order: f64,
    /// Fraction of rejections within 50 ms.
    at_once: f64,
}

fn scenario(case: Case) -> Scenario {
    let (workers, sigma, overlap) = (case.workers, case.sigma, case.overlap);
    let text = format!(
        "name: lanes
seed: {}
length_s: {LENGTH_S}
service:
  service: demo
  slo: 600ms
  budget: {{ cores: 1 }}
  variants:
    - name: a
      cluster: a
      accuracy: 70
      cores: {{ initial: 1 }}
      capacity: {{ slopeRps: 40, interceptRps: 0 }}
      latency: {{ etaMs: {SERVICE_MS}, parallelism: 1, tail: 1 }}
servers:
  a: {{ noise_sigma: {sigma}, round_trip_ms: {GAP_MS} }}
load: {{ generator: poisson, rps: 1 }}
proxies: {{ count: 1, workers: {workers}, plugin: {{ queue: {{ overlap: {overlap}, concurrency_max: 0 }} }} }}
contenders: [{{ plane: weir, control: static }}]
",
        case.seed
    );
    scenarios::scenario(&text).0
}

#[allow(
    clippy::disallowed_methods,
    reason = "its last bits decide nothing here"
)]
fn requests(case: Case) -> Vec<Request> {
    let mut random = ChaCha8Rng::seed_from_u64(case.seed);
    let mut sent = 0.0;
    let mut requests = Vec::new();
    let rps = case.load * 1e3 / SERVICE_MS;
    loop {
        sent -= (1.0 - random.random::<f64>()).ln() / rps;
        if sent > LENGTH_S {
            return requests;
        }
        let sent = Duration::from_secs_f64(sent);
        let (min, most) = case.budgets;
        let budget = Duration::from_millis(random.random_range(min..=most));
        requests.push(Request::new(requests.len() as u32, sent, budget));
    }
}

/// Requests sent to the server per second, relative to a queue at the server that is never empty. Without the
/// first two seconds, in which service times are still unknown.
fn throughput(outcomes: &[Outcome]) -> f64 {
    let (from, to) = (Duration::from_secs(2), Duration::from_secs_f64(LENGTH_S));
    let sent = |o: &&Outcome| o.dispatched.is_some_and(|at| from <= at && at < to);
    let sent = outcomes.iter().filter(sent).count() as f64;
    sent / (to - from).as_secs_f64() * SERVICE_MS / 1e3
}

fn measure(case: Case) -> Figures {
    let (scenario, requests) = (scenario(case), requests(case));
    let (weir, _) = scenarios::played(&scenario, &requests);
    let sent = requests.len() as f64;
    let both = || requests.iter().zip(&weir.outcomes);
    let on_time = both().filter(|(request, outcome)| {
        matches!(outcome.fate, Fate::Answered(_)) && outcome.ended <= request.deadline()
    });
    let refused = both().filter(|(_, outcome)| matches!(outcome.fate, Fate::Refused(_)));
    let waits: Vec<Duration> = refused.map(|(r, o)| o.ended - r.arrives).collect();
    let soon = waits
        .iter()
        .filter(|wait| **wait <= Duration::from_millis(50));
    Figures {
        throughput: throughput(&weir.outcomes),
        on_time: on_time.count() as f64 / sent,
        out_of_order: out_of_order(&requests, &weir.outcomes),
        at_once: soon.count() as f64 / waits.len().max(1) as f64,
    }
}

/// Fraction of priority inversions: of all pairs of which one was waiting when the other started before it, those in
/// which the waiting one was more urgent.
fn out_of_order(requests: &[Request], outcomes: &[Outcome]) -> f64 {
    let hop = Duration::from_secs_f64(GAP_MS / 2e3);
    let mut executed: Vec<(Duration, Duration, Duration, Duration)> = requests
        .iter()
        .zip(outcomes)
        .filter(|(_, outcome)| matches!(outcome.fate, Fate::Answered(_)))
        .map(|(r, o)| {
            (
                o.dispatched.unwrap(),
                o.ended - hop,
                r.arrives,
                r.deadline(),
            )
        })
        .collect();
    executed.sort_unstable();
    let (mut wrong, mut pairs) = (0_u64, 0_u64);
    let mut free = Duration::ZERO;
    for (place, (dispatched, ended, _, deadline)) in executed.iter().enumerate() {
        let begins = free.max(*dispatched + hop);
        free = *ended;
        for (_, _, arrived, other) in executed.iter().skip(place + 1).take(200) {
            if *arrived <= begins {
                pairs += 1;
                wrong += u64::from(other < deadline);
            }
        }
    }
    wrong as f64 / pairs.max(1) as f64
}

/// Mixed and equal budgets, 1 and 4 workers, random and constant service times.
fn cases(overlap: bool) -> impl Iterator<Item = Case> {
    let workers = [1, 4].into_iter();
    let with_sigma = workers.flat_map(|workers| [0.0, 0.3].map(|sigma| (workers, sigma)));
    let with_load = with_sigma.flat_map(|with| [0.95, 1.3, 2.0].map(|load| (with, load)));
    let with_budgets =
        with_load.flat_map(|with| [(300, 300), (100, 600)].map(|budgets| (with, budgets)));
    let seeds = with_budgets.flat_map(|with| [1, 2].map(|seed| (with, seed)));
    seeds.map(move |((((workers, sigma), load), budgets), seed)| Case {
        workers,
        sigma,
        load,
        budgets,
        overlap,
        seed,
    })
}

#[test]
fn single_slot_server_is_kept_busy_in_order_and_more_are_on_time() {
    for case in cases(true) {
        let with = measure(case);
        let without = measure(Case {
            overlap: false,
            ..case
        });
        println!("{case:?}\n  {without:.3?}\n  {with:.3?}");
        assert!(
            with.on_time >= without.on_time,
            "{case:?}: {with:?}, {without:?}"
        );
        if case.load < 1.0 {
            continue;
        }
        let min = if case.workers == 1 { 0.97 } else { 0.95 };
        assert!(with.throughput >= min, "{case:?}: {with:?}");
        assert!(with.out_of_order < 0.01, "{case:?}: {with:?}");
        if case.budgets.0 == case.budgets.1 {
            let min = if case.workers == 1 { 0.85 } else { 0.75 };
            assert!(with.at_once >= min, "{case:?}: {with:?}");
        }
    }
}
