//! Replicas and stages: values, and errors with file, line and field.

use super::*;

const STAGED: &str = "\
name: staged
seed: 7
length_s: 20
service:
  service: video
  policy: themis
  slo: 800ms
  budget: {cores: 12}
  stages:
  - name: detect
    variants:
    - name: a
      cluster: a
      accuracy: 70
      cores: {initial: 1, max: 4}
      replicas: {initial: 2, max: 4}
      latency: {meanMs: 40, parallelism: 1}
  - name: classify
    variants:
    - name: b
      cluster: b
      accuracy: 80
      cores: {initial: 1, max: 4}
      replicas: {initial: 3, max: 4}
      latency: {meanMs: 100, parallelism: 1}
load: {generator: poisson, of_capacity: 0.5}
";

/// Reads `STAGED` with a part replaced, which must fail with an error that contains all `parts`.
fn bad(what: &str, by: &str, parts: &[&str]) {
    Fixture::new().bad_in(STAGED, what, by, parts);
}

fn more(keys: &str) -> String {
    format!("load: {{generator: poisson, rps: 5}}\n{keys}\n")
}

#[test]
fn stages_have_replicas_and_proxies_of_their_own() {
    let fixture = Fixture::new();
    let (scenario, sending) = fixture.good(STAGED);
    let replicas: Vec<_> = scenario.variants.iter().map(|one| one.replicas).collect();
    assert_eq!(replicas, [Some(2), Some(3)]);
    assert_eq!(scenario.stages().collect::<Vec<_>>(), [0..1, 1..2]);
    // 2 × 25/s and 3 × 10/s: half of what the second stage answers.
    assert!((scenario.capacity_rps() - 30.0).abs() < 1e-9);
    assert!((250..350).contains(&sending.arrivals.len()));
    let names: Vec<String> = scenario
        .contenders
        .iter()
        .map(|one| one.label(&scenario.service))
        .collect();
    assert!(names.contains(&"weir+planner".to_owned()), "{names:?}");
    assert!(names.contains(&"weir+hpa".to_owned()), "{names:?}");
    assert!(!names.contains(&"weir+vpa".to_owned()), "{names:?}");
    assert_eq!(scenario.proxies.load_balancing, LoadBalancing::FullScan);
    let configs = [0, 1].map(|stage| {
        let plugin = scenario.proxies.plugin_of(stage).to_string();
        let config = weir_filter::config::Config::parse(plugin.as_bytes()).unwrap();
        let plan = config.static_plan.unwrap();
        let slots = plan.variants[0].slots;
        (plan.service.clone(), slots, config.deadline.trust_deadline)
    });
    let expected = [("detect", 2, false), ("classify", 3, true)];
    assert_eq!(
        configs,
        expected.map(|(name, slots, trusts)| (name.to_owned(), slots, trusts))
    );
    let last = "faults: [{at_s: 1, what: proxy-restart, proxy: 3}]\nproxies: {count: 2}";
    fixture.good(&STAGED.replace("load: {generator: poisson, of_capacity: 0.5}", &more(last)));
}

#[test]
fn invalid_replicas_and_stages_are_refused_with_field_and_value() {
    let load = "load: {generator: poisson, of_capacity: 0.5}";
    for (keys, parts) in [
        (
            "contenders: [{plane: weir, control: static}, {plane: weir, control: vpa}]",
            &[
                ":27:",
                "contenders[1].control: vpa",
                "planner, clairvoyant, static, hpa or one of IPA's, as the service has stages",
            ] as &[&str],
        ),
        (
            "contenders: [{plane: weir, control: infaas-paper}]",
            &["contenders[0].control: infaas-paper", "static, hpa or one"],
        ),
        (
            "faults: [{at_s: 1, what: server-crash, variant: a, replica: 4, lasts_s: 1}]",
            &[":27:", "faults[0].replica: 4", "random, or 0 to 3"],
        ),
        (
            "faults: [{at_s: 1, what: server-slow, variant: a, percent: 200, replica: 0, lasts_s: 1}]",
            &["faults[0].replica: given", "left out"],
        ),
        (
            "faults: [{at_s: 1, what: proxy-restart, proxy: 2}]",
            &["faults[0].proxy: 2", "0 to 1"],
        ),
        (
            "proxies: {load_balancing: random}",
            &[
                "proxies.load_balancing",
                "full-scan",
                "least-request",
                "round-robin",
            ],
        ),
        (
            "proxies: {plugin: {service: video}}",
            &["proxies.plugin.service: \"video\"", "left out"],
        ),
        (
            "proxies: {plugin: {service: detect}}",
            &["proxies.plugin.service: \"detect\"", "left out"],
        ),
        (
            "proxies: {plugin: {queue: {held: 1}}}",
            &["proxies.plugin.queue", "held"],
        ),
        (
            "servers: {c: {noise_sigma: 0}}",
            &["servers.c", "a variant of the service: a, b"],
        ),
    ] {
        bad(load, &more(keys), parts);
    }
    bad(
        "replicas: {initial: 3, max: 4}",
        "replicas: {initial: 5, max: 4}",
        &[":24:", "service.stages[1].variants[0].replicas.initial: 5"],
    );
    bad(
        "policy: themis",
        "policy: sponge",
        &[":10:", "service.stages: given", "left out"],
    );
    let fixture = Fixture::new();
    let one = "faults: [{at_s: 1, what: server-crash, variant: fast, replica: 0, lasts_s: 1}]";
    let text = format!("{SMALL}{one}\n");
    let refused = fixture.read(&text).unwrap_err().to_string();
    assert!(
        refused.contains("faults[0].replica: 0; it must be left out: the variant is one server"),
        "{refused}"
    );
}

#[test]
fn replicas_of_one_stage_are_refused_to_controls_of_single_servers() {
    let (head, stages) = STAGED.split_once("  stages:\n").unwrap();
    let (_, variant) = stages.split_once("    variants:\n").unwrap();
    let (variant, _) = variant.split_once("  - name: classify\n").unwrap();
    let variant = variant.replace(
        "cores: {initial: 1, max: 4}",
        "cores: {initial: 2, min: 2, max: 2}",
    );
    let variant = variant
        .replace("max: 4}", "min: 0, max: 4}")
        .replace("\n    ", "\n  ");
    let head = head.replace("policy: themis", "policy: infaas");
    let text = format!("{head}  variants:\n  {}\n", variant.trim());
    let with = |control: &str| {
        let contenders = format!("contenders: [{{plane: weir, control: {control}}}]");
        Fixture::new().read(&format!("{text}{}", more(&contenders)))
    };
    for control in ["planner", "static", "hpa", "sm-plus", "infaas-paper"] {
        assert!(
            with(control).is_ok(),
            "{control}: {:?}",
            with(control).err()
        );
    }
    for (control, right) in [
        (
            "vpa",
            "infaas-paper, fa2 or one of IPA's, as variant a has replicas",
        ),
        (
            "fa2",
            "one variant, with replicas of one core (cores.initial)",
        ),
    ] {
        let message = with(control).unwrap_err().to_string();
        assert!(message.contains(right), "{message}");
    }
}
