//! Scenarios small enough to compute by hand, and random schedules (`schedules`), in which every step
//! of every engine is checked.

mod baselines;
mod failing;
mod network_fade;
pub(crate) mod planner_cycle;
mod readers;
mod resizes;
mod schedules;
mod speed;
mod uploads;

use std::time::Duration;

use serde_json::json;
use weir_sim::server::{BatchWindow, LatencyModel, Parallelism};

use super::*;
use crate::request::{Fate, Reading};
use crate::scenario::{
    Contender, Control, Fault, FaultKind, LoadBalancing, Plane, Proxies, ResizeFault, Server,
};
use weir_planner::service::Service;

/// Service of two variants and eight cores.
pub(crate) fn two_variants() -> Service {
    let file = include_str!("../../../src/spec/tests/small.yaml");
    Service::from_yaml(file).unwrap()
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) const WEIR: Contender = Contender {
    plane: Plane::Weir,
    control: Control::Static,
    breaker: None,
};

/// Server that executes one request at a time on one core, `service_ms` each.
pub(crate) fn server(name: &str, service_ms: f64, cores: f64) -> Server {
    Server {
        name: name.to_owned(),
        latency: LatencyModel::constant(service_ms).into(),
        parallelism: Parallelism::PerCore,
        batch_max: 1,
        batch_delay: Duration::ZERO,
        batch_window: BatchWindow::default(),
        noise_sigma: 0.0,
        readiness: Duration::ZERO,
        resize_delay: Duration::ZERO,
        round_trip: Duration::ZERO,
        cores,
        replicas: None,
    }
}

/// Variants a (70 %, 50 ms) and b (80 %, 100 ms) with `slots`. The planned service times are the
/// true ones, and b has all shares.
pub(crate) fn scenario(slots: [u32; 2]) -> Scenario {
    let service = two_variants();
    let variant = |name: &str, slots: u32, share: f64, service_ms: f64, accuracy: f64| {
        json!({"name": name, "cluster": name, "share": share, "slots": slots,
            "service_ms": service_ms, "accuracy": accuracy})
    };
    let (a, b) = if slots[1] > 0 { (0.0, 1.0) } else { (1.0, 0.0) };
    Scenario {
        name: "small".to_owned(),
        seed: 1,
        length: Duration::from_secs(2),
        variants: vec![
            server("a", 50.0, f64::from(slots[0])),
            server("b", 100.0, f64::from(slots[1])),
        ],
        classes: vec!["default".to_owned()],
        proxies: Proxies {
            count: 1,
            workers: 1,
            plugin: json!({"service": service.name, "queue": {"concurrency_max": 0}, "plan": {"variants": [
                variant("a", slots[0], a, 50.0, 70.0), variant("b", slots[1], b, 100.0, 80.0)]}}),
            later_plugins: Vec::new(),
            plan_delay: ms(5),
            notify_delay: Duration::from_micros(100),
            load_balancing: LoadBalancing::default(),
        },
        service,
        contenders: vec![WEIR],
        faults: Vec::new(),
    }
}

/// Requests at (sent, budget), in ms, that arrive when sent; their clients are patient.
pub(crate) fn requests(times: &[(u64, u64)]) -> Vec<Request> {
    let request = |(id, (at, budget))| Request::new(id, ms(at), ms(budget));
    (0..).zip(times.iter().copied()).map(request).collect()
}

#[track_caller]
fn played(scenario: &Scenario, requests: &[Request], contender: Contender) -> Vec<(Fate, u64)> {
    let play = play(scenario, requests, contender, 1).unwrap();
    let fate = |outcome: &Outcome| (outcome.fate, outcome.ended.as_millis() as u64);
    play.outcomes.iter().map(fate).collect()
}

const A: Fate = Fate::Answered(0);
const B: Fate = Fate::Answered(1);

#[test]
fn queued_requests_are_dispatched_by_deadline_downgraded_or_rejected() {
    // One slot of b: the third is more urgent than the second. The fourth can still be served by a, the
    // fifth by no variant.
    let all = requests(&[(0, 1000), (10, 900), (20, 400), (30, 70), (40, 30)]);
    assert_eq!(
        played(&scenario([1, 1]), &all, WEIR),
        [
            (B, 100),
            (B, 300),
            (B, 200),
            (A, 80),
            (Fate::Refused("infeasible"), 40)
        ]
    );
}

#[test]
fn expired_request_is_rejected_unless_deadline_counts_from_receipt() {
    let mut all = requests(&[(0, 200)]);
    (all[0].head, all[0].arrives) = (ms(200), ms(200));
    let plane = |plane| Contender { plane, ..WEIR };
    let scenario = scenario([1, 1]);
    assert_eq!(
        played(&scenario, &all, WEIR),
        [(Fate::Refused("expired"), 200)]
    );
    assert_eq!(
        played(&scenario, &all, plane(Plane::GatewayReceipt)),
        [(B, 300)]
    );
    // Without feasibility 30 ms suffice for a try; the engine ends it with the first ms after them.
    let all = requests(&[(0, 30)]);
    let tried = played(&scenario, &all, plane(Plane::EdfWithoutFeasibility));
    assert_eq!(tried, [(Fate::Refused("expired"), 31)]);
}

#[test]
fn without_weir_servers_queue_and_timeouts_do_not_stop_executions() {
    let fifo = |plane| Contender {
        plane,
        control: Control::Static,
        breaker: None,
    };
    let mut scenario = scenario([1, 0]);
    scenario.service.slo = ms(120);
    // Weighted by capacity: 18 requests/s. By Little's law the breaker admits two at once.
    let all = requests(&[(0, 1000), (0, 1000), (0, 1000), (110, 1000)]);
    assert_eq!(
        played(&scenario, &all, fifo(Plane::FifoRoundRobin)),
        [(A, 50), (A, 100), (A, 150), (A, 200)]
    );
    let careful = played(&scenario, &all, fifo(Plane::FifoTimeout));
    assert_eq!(careful[..2], [(A, 50), (A, 100)]);
    assert_eq!(careful[2], (Fate::Refused("overflow"), 0));
    scenario.variants[0] = server("a", 200.0, 1.0);
    let careful = played(
        &scenario,
        &requests(&[(0, 1000), (130, 1000)]),
        fifo(Plane::FifoTimeout),
    );
    // The first times out at 120 ms and executes until 200; the second starts then.
    assert_eq!(
        careful,
        [
            (Fate::Refused("timeout"), 120),
            (Fate::Refused("timeout"), 250)
        ]
    );
}

#[test]
fn clients_disconnect_at_their_timeout_and_rejected_ones_retry() {
    let mut all = requests(&[(0, 1000), (0, 1000), (0, 1000)]);
    all[1].timeout = ms(40);
    let mut scenario = scenario([0, 1]);
    assert_eq!(
        played(&scenario, &all, WEIR),
        [(B, 100), (Fate::Disconnected, 40), (B, 200)]
    );
    // Down for 150 ms: refused at once, again after 100 ms, and again after 200.
    scenario.faults = vec![Fault {
        at: Duration::ZERO,
        what: FaultKind::ServerCrash {
            variant: 1,
            lasts: ms(150),
        },
    }];
    let mut all = requests(&[(0, 1000), (0, 1000)]);
    all[1].retries = 2;
    let fates = played(&scenario, &all, WEIR);
    assert_eq!(fates, [(Fate::Refused("no-backend"), 0), (B, 400)]);
}

#[test]
fn each_fault_has_its_documented_effect() {
    let fault = |at, what| {
        let mut scenario = scenario([0, 1]);
        scenario.faults = vec![Fault { at: ms(at), what }];
        // One in flight until 100 ms, one queued, one later.
        played(
            &scenario,
            &requests(&[(0, 1000), (10, 1000), (500, 900)]),
            WEIR,
        )
    };
    let lost = Fate::Lost;
    let broken = Fate::Refused("no-backend");
    let (proxy, worker) = (0, 0);
    assert_eq!(
        fault(50, FaultKind::ProxyRestart { proxy }),
        [(lost, 50), (lost, 50), (B, 600)]
    );
    assert_eq!(
        fault(50, FaultKind::WorkerTrap { proxy, worker }),
        [(broken, 50), (lost, 50), (B, 600)]
    );
    // The queued one is dispatched into the crash.
    assert_eq!(
        fault(
            50,
            FaultKind::ServerCrash {
                variant: 1,
                lasts: ms(100)
            }
        ),
        [(broken, 50), (broken, 50), (B, 600)]
    );
    assert_eq!(
        fault(
            50,
            FaultKind::ServerSlow {
                variant: 1,
                percent: 300,
                lasts: ms(100)
            }
        ),
        [(B, 100), (B, 400), (B, 600)]
    );
    assert_eq!(
        fault(5, FaultKind::LostNotification { proxy, worker }),
        [(B, 100), (B, 200), (B, 600)],
        "an answer wakes too"
    );
}

#[test]
fn hop_takes_half_a_round_trip_each_way() {
    let mut scenario = scenario([0, 1]);
    scenario.variants[1].round_trip = ms(20);
    // The third, the most urgent, is sent when the first's answer is back: too few wait to send one before.
    let all = requests(&[(0, 1000), (10, 1000), (20, 360)]);
    assert_eq!(
        played(&scenario, &all, WEIR),
        [(B, 120), (B, 360), (B, 240)]
    );
    // The requests queue at the server already: only the round trip is added.
    let fifo = Contender {
        plane: Plane::FifoRoundRobin,
        ..WEIR
    };
    let all = requests(&[(0, 1000), (10, 1000)]);
    assert_eq!(played(&scenario, &all, fifo), [(B, 120), (B, 220)]);
    // Its client disconnects while the request is on its way; the server executes it all the same.
    let mut impatient = all.clone();
    impatient[0].timeout = ms(5);
    assert_eq!(
        played(&scenario, &impatient, fifo),
        [(Fate::Disconnected, 5), (B, 220)]
    );
    // Down from 115 ms on: the first answer was on its way by then. The proxy notices the failure of the
    // second 10 ms later; the third finds the server down and gets an error.
    scenario.faults = vec![Fault {
        at: ms(115),
        what: FaultKind::ServerCrash {
            variant: 1,
            lasts: ms(50),
        },
    }];
    let all = requests(&[(0, 1000), (10, 1000), (120, 1000), (200, 1000)]);
    let broken = Fate::Refused("no-backend");
    assert_eq!(
        played(&scenario, &all, fifo),
        [(B, 120), (broken, 125), (broken, 140), (B, 320)]
    );
}

#[test]
fn invalid_scenarios_and_requests_return_errors() {
    let refused = |change: fn(&mut Scenario, &mut Vec<Request>)| {
        let (mut scenario, mut all) = (scenario([1, 1]), requests(&[(0, 100), (5, 100)]));
        change(&mut scenario, &mut all);
        play(&scenario, &all, WEIR, 1).unwrap_err().to_string()
    };
    for (error, expected) in [
        (refused(|_, all| all[1].id = 5), "requests[1]: its id"),
        (
            refused(|_, all| all[0].sent = ms(9)),
            "requests[0]: it arrives before",
        ),
        (
            refused(|_, all| all[0].head = ms(9)),
            "requests[0]: its body has come before",
        ),
        (
            refused(|s, _| s.variants.truncate(1)),
            "1 servers for 2 variants",
        ),
        (
            refused(|s, _| s.variants[0].batch_max = 0),
            "server of a: batch_max: 0",
        ),
        (
            refused(|s, _| s.proxies.plugin = json!(7)),
            "proxies.plugin: it must be a mapping",
        ),
        (
            refused(|s, _| s.proxies.plugin["queue"] = json!({"held": 1})),
            "held",
        ),
    ] {
        assert!(
            error.contains(expected),
            "'{error}' does not say '{expected}'"
        );
    }
}
