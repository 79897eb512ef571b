//! Controls of IPA's paper on a pipeline with replicas. In simulated time.

use super::scenarios::{latency, played_twice, scenario, stage, variant};

/// Two stages under 10 requests/s: b costs more than a, d as much as c.
fn text(contender: &str) -> String {
    let variant = |name: &str, accuracy: f64, cores: u32, eta_ms: u32, initial: u32| {
        let keys = format!(
            "cores: {{ initial: {cores}, min: {cores}, max: {cores} }}, \
             replicas: {{ initial: {initial}, min: 0, max: 20 }}, readiness: 3s, batch: 2, tellBatch: true, \
             latency: {{ deltaMs: 10, etaMs: {eta_ms}, parallelism: 1, tail: 1.1 }}"
        );
        variant(name, accuracy, &keys)
    };
    let (a, b) = (variant("a", 50.0, 1, 90, 3), variant("b", 80.0, 2, 140, 0));
    let (c, d) = (variant("c", 60.0, 1, 90, 3), variant("d", 90.0, 1, 90, 0));
    let (detect, classify) = (stage("detect", &[a, b]), stage("classify", &[c, d]));
    format!(
        "name: ipa
length_s: 60
service:
  service: video
  policy: ipa
  ipa: {{ alpha: 0.02, beta: 1 }}
  slo: 3s
  mode: active
  budget: {{ cores: 100 }}
  stages: [{detect}, {classify}]
proxies: {{ count: 1, workers: 1, plugin: {{ queue: {{ batch_wait_ms: 200 }} }} }}
load: {{ generator: poisson, rps: 10 }}
contenders: [{contender}]
"
    )
}

fn play(control: &str) -> (Vec<Vec<f64>>, f64, f64) {
    let contender = format!("{{ plane: edf-without-feasibility, {control} }}");
    let (scenario, requests) = scenario(&text(&contender));
    let (play, summary) = played_twice(&scenario, &requests);
    let cores = play
        .seconds
        .iter()
        .map(|second| second.cores_actual.clone());
    let accuracy = summary.mean_accuracy.unwrap();
    (cores.collect(), summary.on_time_percent, accuracy)
}

/// A control keeps the first replicas until 10 s have passed. Then d replaces c, which costs no more; b costs more than
/// it is worth.
#[test]
fn first_decision_follows_after_ten_seconds_and_new_variants_take_over_when_ready() {
    for control in ["ipa-paper", "ipa-code"] {
        let (cores, on_time, accuracy) = play(&format!("control: {control}"));
        assert_eq!(cores[8], [3.0, 0.0, 3.0, 0.0], "{control}");
        let (loading, later) = (&cores[11], &cores[59]);
        assert!(
            loading[2] > 0.0 && loading[3] > 0.0,
            "{control}: {loading:?}"
        );
        assert!(later[0] > 0.0 && later[1] == 0.0, "{control}: {later:?}");
        assert!(later[2] == 0.0 && later[3] > 0.0, "{control}: {later:?}");
        // The program plans with mean latencies, and loses more.
        let enough = if control == "ipa-code" { 85.0 } else { 95.0 };
        assert!(on_time > enough, "{control}: {on_time} %");
        // From 30 to 45 % in the 47 s after the change.
        assert!((40.0..45.0).contains(&accuracy), "{control}: {accuracy} %");
    }
}

#[test]
fn rim_keeps_its_replicas_and_known_load_is_no_worse() {
    let (cores, on_time, _) = play("control: rim");
    let later = &cores[59];
    let replicas = [later[0] + later[1] / 2.0, later[2] + later[3]];
    assert_eq!(replicas, [3.0, 3.0]);
    assert!(on_time > 95.0, "{on_time} %");
    let (_, known, _) = play("control: ipa-paper, predictor: known");
    assert!(known > 95.0, "{known} %");
}

/// Policy themis may give replicas up to four cores; IPA knows one base allocation.
#[test]
fn replicas_keep_the_cores_that_they_have_at_first() {
    let stage = |name: &str| {
        let keys = format!(
            "cores: {{ initial: 1, min: 1, max: 4 }}, replicas: {{ initial: 3, min: 1, max: 20 }}, {}",
            latency(50.0, 0.0, "1")
        );
        stage(name, &[variant(&format!("{name}-a"), 80.0, &keys)])
    };
    let (scenario, requests) = scenario(&format!(
        "name: ipa
length_s: 30
service:
  service: video
  policy: themis
  slo: 3s
  mode: active
  budget: {{ cores: 30 }}
  stages: [{}, {}]
load: {{ generator: poisson, rps: 10 }}
contenders: [{{ plane: edf-without-feasibility, control: rim }}]
",
        stage("detect"),
        stage("classify")
    ));
    let (play, _) = played_twice(&scenario, &requests);
    assert!(
        play.seconds
            .iter()
            .all(|second| second.cores_actual == [3.0, 3.0])
    );
}

#[test]
fn wrong_contenders_are_refused_with_the_reason() {
    use weir_replay::scenario::first_error;
    let folder = std::path::Path::new("");
    for (control, path, complaint) in [
        (
            "control: planner, predictor: known",
            "contenders[0].predictor",
            "left out, unless control is ipa-paper",
        ),
        (
            "control: ipa-code, predictor: forecaster",
            "contenders[0].predictor",
            "with service.demand.forecaster",
        ),
        (
            "control: rim, variant: a",
            "contenders[0].variant",
            "left out: this control changes all variants",
        ),
    ] {
        let contender = format!("{{ plane: weir, {control} }}");
        let (at, message) = first_error(&text(&contender), folder).unwrap();
        assert_eq!(at, path);
        assert!(message.contains(complaint), "{message}");
    }
    let contender = "{ plane: weir, control: ipa-paper }";
    let single = text(contender).replace(
        "replicas: { initial: 3, min: 0, max: 20 }",
        "replicas: { initial: 1, min: 1, max: 1 }",
    );
    let (at, message) = first_error(&single, folder).unwrap();
    assert_eq!(at, "contenders[0].control");
    assert!(
        message.contains("this one starts and ends them"),
        "{message}"
    );
}
