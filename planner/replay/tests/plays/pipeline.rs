//! Pipelines: a request passes stage after stage under one deadline. In simulated time; no test depends on wall-clock
//! time.

use std::time::Duration;

use super::scenarios::{
    self, PLANNER, STATIC, latency, played_twice, scenario as read_text, variant,
};
use weir_replay::bound::Kind;
use weir_replay::report::{Report, yardsticks};
use weir_replay::request::{Fate, Request};
use weir_replay::scenario::Scenario;

/// Stage with one variant that executes one request at a time on each core.
struct Stage {
    name: &'static str,
    variant: &'static str,
    cores: u32,
    service_ms: f64,
}

const DETECT: Stage = Stage {
    name: "detect",
    variant: "a",
    cores: 3,
    service_ms: 60.0,
};
const CLASSIFY: Stage = Stage {
    name: "classify",
    variant: "b",
    cores: 2,
    service_ms: 40.0,
};

impl Stage {
    /// Text of its variant.
    fn variant(&self) -> String {
        let latency = latency(self.service_ms, 0.0, "per-core");
        let cores = format!("cores: {{ initial: {}, min: 1, max: 8 }}", self.cores);
        variant(
            self.variant,
            80.0,
            &format!("{cores}, readiness: 2s, {latency}"),
        )
    }
}

/// Scenario of a service with those variants or stages.
fn scenario(service: &str, variants: &str, rest: &str) -> (Scenario, Vec<Request>) {
    read(
        &format!("seed: 5\nlength_s: 40\nservice: {{ service: {service}, policy: ipa"),
        variants,
        rest,
    )
}

/// Scenario of a service that begins with those keys, and goes on with those variants or stages.
fn read(head: &str, variants: &str, rest: &str) -> (Scenario, Vec<Request>) {
    read_text(&format!(
        "name: pipeline
{head}, slo: 400ms, mode: active, budget: {{ cores: 10 }}, demand: {{ window: 10s }}, {variants} }}
{rest}
"
    ))
}

fn pipeline(stages: &[Stage], rest: &str) -> (Scenario, Vec<Request>) {
    let stage = |stage: &Stage| scenarios::stage(stage.name, &[stage.variant()]);
    let stages: Vec<String> = stages.iter().map(stage).collect();
    scenario("video", &format!("stages: [{}]", stages.join(", ")), rest)
}

fn rest(rps: u32, contender: &str, more: &str) -> String {
    format!("load: {{ generator: poisson, rps: {rps} }}\ncontenders: [{contender}]\n{more}")
}

#[test]
fn pipeline_of_one_stage_plays_like_the_service() {
    for contender in [STATIC, PLANNER] {
        for rps in [30, 60] {
            let more = "proxies: { count: 2, workers: 2 }\nfaults: [{ at_s: 10, what: proxy-restart, proxy: 1 }]";
            let rest = rest(rps, contender, more);
            let variants = format!("variants: [{}]", DETECT.variant());
            let (plain, requests) = scenario("detect", &variants, &rest);
            let (staged, same) = pipeline(&[DETECT], &rest);
            assert_eq!(requests, same);
            let (one, other) = (
                played_twice(&plain, &requests),
                played_twice(&staged, &requests),
            );
            assert_eq!(one, other, "{contender}, {rps}/s");
            assert!(one.0.passages.is_empty() && one.1.stages.is_empty());
        }
    }
}

#[test]
fn times_of_a_lone_request_add_up_over_the_stages() {
    let more = "servers: { a: { noise_sigma: 0, round_trip_ms: 4 }, b: { noise_sigma: 0, round_trip_ms: 6 } }";
    let (scenario, _) = pipeline(&[DETECT, CLASSIFY], &rest(1, STATIC, more));
    let slo = Duration::from_millis(400);
    let at = |id: u32| Duration::from_secs(u64::from(id));
    let requests: Vec<Request> = (0..5).map(|id| Request::new(id, at(id), slo)).collect();
    let (play, summary) = played_twice(&scenario, &requests);
    for outcome in &play.outcomes {
        assert_eq!(outcome.fate, Fate::Answered(1));
        let took = outcome.ended - at(outcome.request);
        assert_eq!(took, Duration::from_millis(60 + 4 + 40 + 6));
    }
    assert_eq!(summary.on_time, 5);
    assert_eq!(summary.mean_accuracy, Some(64.0), "80 % of 80 %");
    let [detect, classify] = summary.stages.as_slice() else {
        panic!("{:?}", summary.stages);
    };
    assert_eq!((detect.arrived, detect.passed), (5, 5));
    assert_eq!((detect.service_ms, classify.service_ms), (60.0, 40.0));
    assert_eq!(
        (detect.server_queue_ms, classify.server_queue_ms),
        (2.0, 3.0)
    );
    assert_eq!((detect.queue_ms, classify.queue_ms), (0.0, 0.0));
}

#[test]
fn request_that_cannot_finish_the_later_stages_is_refused_at_the_first() {
    let more = "servers: { a: { noise_sigma: 0 }, b: { noise_sigma: 0 } }";
    let (scenario, _) = pipeline(&[DETECT, CLASSIFY], &rest(1, STATIC, more));
    // Less than a quarter of the first stage's time beside the second's, which is not tried, and enough for both.
    let requests = [50, 150].map(|ms| (ms, Duration::from_millis(ms)));
    let mut all = Vec::new();
    for (id, (_, budget)) in (0..).zip(requests) {
        all.push(Request::new(id, Duration::from_secs(u64::from(id)), budget));
    }
    let (play, summary) = played_twice(&scenario, &all);
    assert_eq!(play.outcomes[0].fate, Fate::Refused("infeasible"));
    assert_eq!(play.outcomes[0].ended, Duration::ZERO, "at once");
    assert_eq!(play.outcomes[1].fate, Fate::Answered(1));
    assert_eq!(
        (summary.stages[0].arrived, summary.stages[1].arrived),
        (2, 1)
    );
}

#[test]
fn overload_of_the_second_stage_is_shared_by_deadline_and_stays_below_the_bound() {
    // The first stage answers 50/s, the second 50/s.
    for rps in [35, 48, 70] {
        for workers in [1, 3] {
            let more = format!("proxies: {{ count: 1, workers: {workers} }}\n");
            let (scenario, requests) = pipeline(&[DETECT, CLASSIFY], &rest(rps, STATIC, &more));
            let (play, summary) = played_twice(&scenario, &requests);
            let plays = [play];
            let bounds = yardsticks(&scenario, &requests, &plays);
            let bound = &bounds[0].0;
            println!("{rps}/s: {} of {}", summary.on_time, bound.on_time);
            assert_eq!(bound.kind, Kind::Estimate, "with noise");
            assert!(bound.why.starts_with("stage "), "{}", bound.why);
            assert!(summary.on_time <= bound.on_time + 2, "{rps}");
            assert!(summary.on_time * 100 >= bound.on_time * 70, "{rps}");
            // Envoy's timeouts are whole milliseconds, rounded up.
            assert!(summary.max_ms.unwrap() < 401.0, "{summary:?}");
            let min = bounds[0].1.as_ref().unwrap().core_seconds;
            assert!(min <= summary.core_seconds, "{min}");
            let report = Report::new(&scenario, &requests, &plays, &bounds).unwrap();
            let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
            let stages = &json["contenders"][0]["stages"];
            let percent: f64 = ["queue_percent", "server_queue_percent", "service_percent"]
                .iter()
                .flat_map(|key| [&stages[0][key], &stages[1][key]])
                .map(|value| value.as_f64().unwrap())
                .sum();
            assert!((percent - 100.0).abs() < 0.01, "{stages}");
        }
    }
}

#[test]
fn planner_moves_cores_between_the_stages() {
    let more = "servers: { a: { resize_delay_ms: 300 }, b: { resize_delay_ms: 300 } }\nfaults: [{ random: 4 }]";
    let (mut scenario, requests) = pipeline(&[DETECT, CLASSIFY], &rest(75, PLANNER, more));
    let faults = std::mem::take(&mut scenario.faults);
    let (play, summary) = played_twice(&scenario, &requests);
    let last = play.seconds.last().unwrap();
    println!("{:?}, {} %", last.cores_actual, summary.on_time_percent);
    assert!(last.cores_actual.iter().sum::<f64>() <= 10.0);
    assert!(last.cores_actual[0] > 4.0 && last.cores_actual[1] > 2.0);
    assert_eq!(last.shares, [1.0, 1.0], "of each stage");
    assert!(summary.on_time_percent > 80.0, "{summary:?}");
    // Whatever fails, at whichever stage, each request ends once.
    scenario.faults = faults;
    played_twice(&scenario, &requests);
}

#[test]
fn planes_without_weir_pass_all_stages_too() {
    for plane in [
        "fifo-round-robin",
        "fifo-weights",
        "fifo-timeout",
        "weir-global",
        "edf-without-feasibility",
        "gateway-receipt",
    ] {
        let contender = format!("{{ plane: {plane}, control: static }}");
        let (scenario, requests) = pipeline(
            &[DETECT, CLASSIFY],
            &rest(25, &contender, "clients: { retries: 2 }"),
        );
        let (play, summary) = played_twice(&scenario, &requests);
        assert!(summary.on_time_percent > 95.0, "{plane}: {summary:?}");
        assert!(
            play.passages
                .iter()
                .all(|passage| passage.arrived.is_some())
                || summary.refused_total() > 0
        );
    }
}

#[test]
fn replicas_of_a_stage_grow_with_the_load() {
    let rest = format!(
        "load: {{ generator: step, low_rps: 15, high_rps: 60, at_s: 10 }}
contenders: [{PLANNER}]
servers: {{ a: {{ resize_delay_ms: 300 }}, b: {{ resize_delay_ms: 300 }} }}"
    );
    let (mut scenario, requests) = replicated_pipeline(5, &rest);
    let (play, summary) = played_twice(&scenario, &requests);
    let slots = |variant: u16| {
        let own = play
            .resizes
            .iter()
            .filter(|resize| resize.variant == variant);
        own.map(|resize| resize.slots).max().unwrap_or(2)
    };
    println!(
        "{} and {} replicas, {} %",
        slots(0),
        slots(1),
        summary.on_time_percent
    );
    assert!(
        play.resizes.iter().any(|resize| resize.each > 1.0),
        "larger ones serve"
    );
    let cores = play
        .seconds
        .iter()
        .map(|second| second.cores_actual.iter().sum::<f64>());
    assert!(cores.fold(0.0, f64::max) <= 10.0);
    assert!(summary.on_time_percent > 70.0, "{summary:?}");
    assert_eq!(summary.refused.get("no-backend"), None, "replicas drain");
    scenario.contenders[0].control = weir_replay::scenario::Control::Static;
    let (_, fixed) = played_twice(&scenario, &requests);
    assert!(fixed.on_time < summary.on_time, "{fixed:?}");
}

#[test]
fn growth_that_the_budget_refuses_holds_no_cores_for_good() {
    let stage = |name: &str, of: &str, gamma_ms: f64, eta_ms: f64| {
        let latency = latency(gamma_ms, eta_ms, "1");
        let keys = format!(
            "cores: {{ initial: 1, min: 1, max: 8 }}, replicas: {{ initial: 4, min: 1, max: 32 }}, readiness: 4s, \
             batch: 4, tellBatch: true, {latency}"
        );
        scenarios::stage(name, &[variant(of, 70.0, &keys)])
    };
    let stages = [
        stage("detect", "a", 57.3, 22.7),
        stage("classify", "b", 44.3, 28.7),
    ];
    let text = format!(
        "name: burst
seed: 1
length_s: 600
service: {{ service: video, policy: themis, slo: 1s, latencyBudget: 0.35, mode: active, budget: {{ cores: 48 }},
  stages: [{}] }}
servers: {{ a: {{ resize_delay_ms: 100, round_trip_ms: 3.4 }}, b: {{ resize_delay_ms: 100, round_trip_ms: 3.4 }} }}
load: {{ generator: burst, low_rps: 20, high_rps: 120, low_s: 60, high_s: 10 }}
clients: {{ timeout_ms: 5000 }}
proxies: {{ count: 1, workers: 2 }}
contenders: [{PLANNER}]
",
        stages.join(", ")
    );
    let (play, summary) = scenarios::played_text(&text);
    // A steady load of the peak takes 26 cores. While both stages kept what they had requested it was 46, nearly all.
    let cores: Vec<f64> = play
        .seconds
        .iter()
        .map(|second| second.cores_actual.iter().sum())
        .collect();
    let mean = cores.iter().sum::<f64>() / cores.len() as f64;
    println!("{mean} cores, {} %", summary.on_time_percent);
    assert!(cores.iter().all(|cores| *cores <= 48.0));
    assert!(mean <= 36.0, "{mean}");
    assert!(summary.on_time_percent > 99.0, "{summary:?}");
}

/// Two stages whose variants have two replicas at the start.
fn replicated_pipeline(seed: u64, rest: &str) -> (Scenario, Vec<Request>) {
    let stage = |name: &str, of: &str, service_ms: f64| {
        let latency = latency(service_ms, 5.0, "1");
        let keys = format!(
            "cores: {{ initial: 1, min: 1, max: 4 }}, replicas: {{ initial: 2, min: 1, max: 8 }}, readiness: 2s, {latency}"
        );
        scenarios::stage(name, &[variant(of, 70.0, &keys)])
    };
    let (detect, classify) = (stage("detect", "a", 40.0), stage("classify", "b", 30.0));
    read(
        &format!("seed: {seed}\nlength_s: 60\nservice: {{ service: video, policy: themis"),
        &format!("stages: [{detect}, {classify}]"),
        rest,
    )
}

#[test]
fn requests_of_replicated_stages_end_once_whatever_fails() {
    let mut ended = std::collections::BTreeSet::new();
    for seed in 1..=30 {
        let plane = ["weir", "weir", "edf-per-worker", "fifo-timeout"][seed as usize % 4];
        let control = if plane == "weir" { "planner" } else { "static" };
        let rest = format!(
            "load: {{ generator: poisson, rps: 45 }}
contenders: [{{ plane: {plane}, control: {control} }}]
proxies: {{ count: 2, workers: 2 }}
clients: {{ retries: 2, timeout_ms: 900, slow_readers: {{ share: 0.2, bytes_per_s: 30000 }} }}
payload_bytes: 100000
answer_bytes: 100000
network: {{ constant: {{ bytes_per_s: 2000000, round_trip_ms: 10 }} }}
servers: {{ a: {{ resize_delay_ms: 300, round_trip_ms: 3 }}, b: {{ resize_delay_ms: 300 }} }}
faults:
  - {{ random: 8 }}
  - {{ at_s: 5, what: server-crash, variant: a, replica: random, lasts_s: 2 }}
  - {{ at_s: 6, what: server-crash, variant: b, replica: 0, lasts_s: 9 }}
  - {{ at_s: 7, what: server-crash, variant: b, lasts_s: 1 }}
"
        );
        let (scenario, requests) = replicated_pipeline(seed, &rest);
        let (_, summary) = played_twice(&scenario, &requests);
        assert!(summary.on_time > 0, "seed {seed}: {summary:?}");
        ended.extend(summary.refused.keys().copied());
        ended.extend((summary.lost > 0).then_some("lost"));
        ended.extend((summary.disconnected > 0).then_some("disconnected"));
    }
    println!("{ended:?}");
    for end in ["lost", "no-backend", "infeasible", "timeout"] {
        assert!(ended.contains(end), "{end} does not occur");
    }
}
