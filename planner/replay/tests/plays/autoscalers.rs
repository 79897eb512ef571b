//! Autoscalers that change the number of replicas: those that start take their time, and the budget holds.

use std::time::Duration;

use super::replicas::replicas;
use super::scenarios::{latency, played_twice, scenario, stage, variant};

/// From 10 to 60 requests/s of 50 ms each: 3 cores are busy. A replica is usable 3.4 s after the request for it.
const STEP: &str = "generator: step, low_rps: 10, high_rps: 60, at_s: 20";
const RISE: Duration = Duration::from_secs(20);

#[test]
fn autoscalers_start_replicas_that_serve_once_they_are_ready() {
    for (control, period_s, most_min) in [
        ("hpa", 15, 3.0),
        ("sm-plus", 1, 4.0),
        ("infaas-paper", 1, 4.0),
        ("fa2", 1, 4.0),
    ] {
        for plane in ["weir", "fifo-timeout"] {
            let contender = format!("{{ plane: {plane}, control: {control} }}");
            let (scenario, requests) = replicas(2, STEP, &contender, "");
            let (play, summary) = played_twice(&scenario, &requests);
            let cores = play.resizes.iter().map(|resize| resize.cores);
            let most = cores.fold(0.0, f64::max);
            println!(
                "{plane}+{control}: up to {most} cores, {} % on time",
                summary.on_time_percent
            );
            assert!((most_min..=12.0).contains(&most), "{control}: {most} cores");
            assert_eq!(summary.refused.get("no-backend"), None, "{control}");
            let after = |resize: &&weir_replay::request::Resize| resize.at > RISE;
            let mut grows = play.resizes.iter().filter(after);
            let first = grows.next().unwrap();
            // Cores are there 400 ms after a cycle, and executions 3 s later.
            let since_cycle = first.at.as_millis() % (period_s * 1000);
            assert!(
                [0, 400].contains(&(since_cycle % 1000)),
                "{control}: {first:?}"
            );
            let more = play.resizes.iter().filter(after);
            let serves = more.clone().find(|resize| resize.slots > 2).unwrap();
            assert!(
                serves.at >= RISE + Duration::from_millis(3400),
                "{serves:?}"
            );
        }
    }
}

/// Pipeline of two stages whose replicas have one core: 40 and 80 ms for each request.
fn pipeline(contender: &str) -> String {
    let stage = |name: &str, ms: f64| {
        let latency = latency(ms, 0.0, "1");
        let keys = format!(
            "cores: {{ initial: 1, min: 1, max: 4 }}, replicas: {{ initial: 2, min: 1, max: 10 }}, readiness: 3s, {latency}"
        );
        stage(name, &[variant(&format!("{name}-a"), 80.0, &keys)])
    };
    format!(
        "name: autoscalers
seed: 3
length_s: 120
service:
  service: video
  policy: themis
  slo: 1s
  mode: active
  budget: {{ cores: 14 }}
  stages: [{}, {}]
load: {{ generator: step, low_rps: 10, high_rps: 50, at_s: 20 }}
contenders: [{contender}]
",
        stage("detect", 40.0),
        stage("classify", 80.0)
    )
}

#[test]
fn each_stage_has_an_autoscaler_of_its_own() {
    for plane in ["weir", "fifo-timeout"] {
        let (scenario, requests) =
            scenario(&pipeline(&format!("{{ plane: {plane}, control: hpa }}")));
        let (play, summary) = played_twice(&scenario, &requests);
        let last = &play.seconds.last().unwrap().cores_actual;
        println!("{plane}: {last:?}, {} %", summary.on_time_percent);
        // 50/s of 40 ms are 2 cores, of 80 ms 4: at 70 % 3 and 6.
        assert!((3.0..=5.0).contains(&last[0]), "{last:?}");
        assert!((5.0..=10.0).contains(&last[1]), "{last:?}");
        let most = play.seconds.iter().map(|one| one.cores_actual.iter().sum());
        assert!(most.fold(0.0, f64::max) <= 14.0);
        let late = |from_s: usize| {
            let each = play.outcomes.iter().enumerate();
            let lost = each.filter(|(index, outcome)| {
                requests[*index].sent >= Duration::from_secs(from_s as u64)
                    && !matches!(outcome.fate, weir_replay::request::Fate::Answered(_))
            });
            lost.count()
        };
        assert!(late(90) < 100, "{} after all have started", late(90));
    }
}
