//! Contenders that do not plan, under policies that choose batches: they play the batch that a person would have
//! configured for their cores and objective. In simulated time; no test depends on wall-clock time.

use super::scenarios::{latency, played, scenario, variant};

/// On-time answers, percent, of Sponge's variant on so many cores at first.
fn sponge(cores: u32, rps: u32, contender: &str) -> f64 {
    let model =
        "latency: { gammaMs: 35.9, epsilonMs: 5.5, deltaMs: 0.9, etaMs: 15.1, parallelism: 1 }";
    let keys = format!("cores: {{ initial: {cores} }}, batch: 8, {model}");
    let (scenario, requests) = scenario(&format!(
        "name: unplanned
seed: 1
length_s: 60
service:
  service: demo
  slo: 1s
  policy: sponge
  mode: active
  budget: {{ cores: 16 }}
  variants: [{}]
load: {{ generator: poisson, rps: {rps} }}
contenders: [{contender}]
",
        variant("detector", 100.0, &keys)
    ));
    played(&scenario, &requests).1.on_time_percent
}

/// 2 cores answer 31/s one by one, and 42/s in batches of eight.
#[test]
fn contenders_that_do_not_plan_execute_batches_under_policy_sponge() {
    let full = sponge(2, 36, "{ plane: fifo-weights, control: static }");
    for control in ["static", "hpa", "vpa", "vpa-plus"] {
        let on_time = sponge(2, 36, &format!("{{ plane: weir, control: {control} }}"));
        println!("{control}: {on_time} %, {full} % without Weir");
        assert!(on_time > 97.0, "{control}: {on_time} %");
    }
}

/// 1 core is planned at first; the contender has 4, on which batches of eight answer 83/s.
#[test]
fn static_cores_of_a_contender_have_slots_and_batch_of_their_own() {
    let on_time = sponge(1, 60, "{ plane: weir, control: static, cores: 4 }");
    assert!(on_time > 97.0, "{on_time} %");
}

/// Two stages of 20 + 20·b ms with one core, under 400 ms: 25/s one by one, 33/s in batches of two.
#[test]
fn stages_share_the_objective_in_proportion_to_their_times() {
    let stage = |name: &str| {
        let keys = format!(
            "cores: {{ initial: 1, min: 1, max: 1 }}, batch: 8, {}",
            latency(20.0, 20.0, "1")
        );
        super::scenarios::stage(name, &[variant(&format!("{name}-a"), 80.0, &keys)])
    };
    for policy in ["ipa", "themis"] {
        let (scenario, requests) = scenario(&format!(
            "name: unplanned
seed: 2
length_s: 60
service:
  service: video
  policy: {policy}
  slo: 400ms
  mode: active
  budget: {{ cores: 8 }}
  stages: [{}, {}]
load: {{ generator: poisson, rps: 30 }}
contenders: [{{ plane: weir, control: static }}]
",
            stage("detect"),
            stage("classify")
        ));
        let on_time = played(&scenario, &requests).1.on_time_percent;
        println!("{policy}: {on_time} %");
        assert!(on_time > 85.0, "{policy}: {on_time} %");
    }
}
