//! Scenarios of several services that share a budget.

use super::*;

const SHARED: &str = "\
name: two
seed: 7
length_s: 20
budget: {cores: 12}
services:
- name: vision
  weight: 2
  scenario:
    service:
      service: vision
      slo: 800ms
      variants:
      - name: fast
        cluster: fast
        accuracy: 70
        cores: {initial: 3, min: 2}
        capacity: {slopeRps: 20, interceptRps: -2}
        latency: {gammaMs: 40, epsilonMs: 0, deltaMs: 0, etaMs: 0, parallelism: per-core}
    load: {generator: poisson, rps: 50}
- name: speech
  scenario:
    service:
      service: speech
      slo: 1s
      budget: {cores: 8}
      variants:
      - name: good
        cluster: good
        accuracy: 80
        cores: {initial: 2}
        capacity: {slopeRps: 10, interceptRps: -2}
        latency: {gammaMs: 100, epsilonMs: 0, deltaMs: 0, etaMs: 0, parallelism: 2, tail: 1.26}
    load: {rates: [5, 10], loop: true}
";

fn shared(fixture: &Fixture, text: &str) -> Result<(SharedScenario, Vec<Sending>), FileError> {
    fixture.file("scenario.yaml", text);
    match read_any(&fixture.path(), Overrides::default())? {
        ScenarioFile::Shared(scenario, sendings) => Ok((scenario, sendings)),
        ScenarioFile::Single(_) => panic!("of one service"),
    }
}

#[test]
fn services_have_what_is_common_and_their_own() {
    let (scenario, sendings) = shared(&Fixture::new(), SHARED).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.budget), ("two", 12));
    let services = scenario.services.iter();
    let values = services.map(|one| {
        let member = one.member();
        assert_eq!(one.scenario.length, Duration::from_secs(20));
        (
            one.name.as_str(),
            one.scenario.seed,
            member.weight,
            (member.min, member.max),
        )
    });
    let expected = [("vision", 7, 2.0, (2, 12)), ("speech", 8, 1.0, (1, 8))];
    assert_eq!(values.collect::<Vec<_>>(), expected);
    let labels: Vec<String> = scenario.contenders.iter().map(|one| one.label()).collect();
    assert_eq!(labels, ["weir+planner-shared", "weir+planner-fixed"]);
    // The first one's load is that of a scenario with this service alone.
    let alone = SHARED.replace("budget: {cores: 12}\n", "");
    let (before, after) = alone.split_once("- name: speech").unwrap();
    assert!(!after.is_empty());
    let (before, own) = before.split_once("services:").unwrap();
    let own = own
        .split_once("  scenario:\n")
        .unwrap()
        .1
        .replace("\n    ", "\n");
    let own = own
        .trim_start()
        .replace("slo: 800ms", "slo: 800ms\n  budget: {cores: 12}");
    let fixture = Fixture::new();
    let (_, sending) = fixture.good(&format!("{before}{own}"));
    assert_eq!(sending, sendings[0]);
}

#[test]
fn contenders_have_a_division() {
    let with = |contenders: &str| format!("{SHARED}contenders: [{contenders}]\n");
    let fixture = Fixture::new();
    let text = with(
        "{plane: weir, control: clairvoyant}, {plane: fifo-quotas, control: planner, division: fixed}",
    );
    let (scenario, _) = shared(&fixture, &text).unwrap();
    let labels: Vec<String> = scenario.contenders.iter().map(|one| one.label()).collect();
    assert_eq!(
        labels,
        ["weir+clairvoyant-shared", "fifo-quotas+planner-fixed"]
    );
    // Only the planner's parts follow the demands.
    let text = with(
        "{plane: fifo-timeout, control: static}, {plane: weir, control: hpa}, {plane: weir, control: sm-plus, division: fixed}",
    );
    let (scenario, _) = shared(&fixture, &text).unwrap();
    let labels: Vec<String> = scenario.contenders.iter().map(|one| one.label()).collect();
    assert_eq!(
        labels,
        [
            "fifo-timeout+static-fixed",
            "weir+hpa-fixed",
            "weir+sm-plus-fixed"
        ]
    );
    for (contenders, parts) in [
        ("", vec!["contenders: 0", "1 to 16"]),
        (
            "{plane: weir, control: vpa}",
            vec!["contenders[0].control", "planner", "infaas-paper"],
        ),
        (
            "{plane: weir, control: sm-plus, division: shared}",
            vec![
                "contenders[0].division: shared",
                "fixed: control sm-plus keeps within one part",
            ],
        ),
        (
            "{plane: weir, control: planner, division: equal}",
            vec!["contenders[0].division", "shared", "fixed"],
        ),
        (
            "{plane: fifo-weights, control: planner}",
            vec![
                "contenders[0].plane: fifo-weights",
                "any plane but fifo-weights",
            ],
        ),
        (
            "{plane: weir, control: planner}, {plane: weir, control: planner, division: shared}",
            vec!["contenders[1]: weir+planner-shared", "stands twice"],
        ),
    ] {
        refused(&fixture, &with(contenders), &parts);
    }
}

fn refused(fixture: &Fixture, text: &str, parts: &[&str]) {
    let missing = missing_parts(fixture, text, parts);
    assert!(missing.is_empty(), "{missing:?}");
}

/// Parts that the error of a scenario does not have, and the error.
fn missing_parts(fixture: &Fixture, text: &str, parts: &[&str]) -> Vec<String> {
    let Err(error) = shared(fixture, text) else {
        panic!("taken: {text}");
    };
    let message = error.to_string();
    let file = fixture.path().display().to_string();
    let all = parts.iter().copied().chain([file.as_str()]);
    let missing = all.filter(|part| !message.contains(part));
    missing
        .map(|part| format!("'{message}' does not say '{part}'"))
        .collect()
}

#[test]
fn invalid_shared_scenario_is_refused_with_line_field_and_value() {
    let fixture = Fixture::new();
    let table: &[(&str, &str, &[&str])] = &[
        (
            "length_s: 20",
            "length_s: 0",
            &[":3:", "length_s: 0", "1 to 86400 s"],
        ),
        ("length_s: 20\n", "", &["missing field `length_s`"]),
        ("budget: {cores: 12}\n", "", &["missing field `budget`"]),
        ("seed: 7", "seeds: 7", &[":2:", "seeds", "unknown field"]),
        (
            "name: two",
            "name: ''",
            &[":1:", "name: 0", "1 to 100 characters"],
        ),
        (
            "budget: {cores: 12}",
            "budget: {cores: 0}",
            &[":4:", "budget.cores: 0", "1 to 65536 steps"],
        ),
        (
            "budget: {cores: 12}",
            "budget: {cores: 1.5}",
            &[":4:", "budget.cores: 1.5"],
        ),
        (
            "budget: {cores: 12}",
            "budget: {core: 12}",
            &[":4:", "budget.core", "unknown field"],
        ),
        // Floors of 2 and 1, initial cores of 3 and 2.
        (
            "budget: {cores: 12}",
            "budget: {cores: 2}",
            &["services[0].scenario.service.variants[0].cores.initial: 3"],
        ),
        (
            "budget: {cores: 8}",
            "budget: {cores: 13}",
            &[
                ":25:",
                "services[1].scenario.service.budget.cores: 13",
                "at most budget.cores (12)",
            ],
        ),
        (
            "budget: {cores: 8}",
            "budget: {cores: 8, step: 500m}",
            &[
                ":25:",
                "services[1].scenario.service.budget.step: 0.5",
                "1, as of the first",
            ],
        ),
        (
            "name: speech",
            "name: vision",
            &[":20:", "services[1].name: vision", "another name"],
        ),
        (
            "name: speech",
            "name: ''",
            &[":20:", "services[1].name: 0", "1 to 100"],
        ),
        (
            "weight: 2",
            "weight: 0",
            &[":7:", "services[0].weight: 0", "more than 0, at most 1000"],
        ),
        ("weight: 2", "weight: -1", &["services[0].weight: -1"]),
        ("weight: 2", "weight: 1001", &["services[0].weight"]),
        (
            "weight: 2",
            "weights: 2",
            &[":7:", "weights", "unknown field"],
        ),
        (
            "load: {generator: poisson, rps: 50}",
            "load: {generator: poisson}",
            &[":19:", "services[0].scenario.load.rps: missing"],
        ),
        (
            "load: {generator: poisson, rps: 50}",
            "loads: {generator: poisson, rps: 50}",
            &["services[0].scenario", "loads", "unknown field"],
        ),
        (
            "slo: 800ms",
            "sloo: 800ms",
            &[":11:", "services[0].scenario.service.sloo", "unknown field"],
        ),
        (
            "accuracy: 80",
            "accuracy: 180",
            &[
                ":29:",
                "services[1].scenario.service.variants[0].accuracy: 180",
            ],
        ),
        (
            "load: {rates: [5, 10], loop: true}",
            "load: {rates: [5, 10], loop: true}\n    seed: 3",
            &[
                "services[1].scenario.seed: 3",
                "left out",
                "of all services",
            ],
        ),
        (
            "load: {rates: [5, 10], loop: true}",
            "load: {rates: [5, 10], loop: true}\n    name: other",
            &["services[1].scenario.name", "left out"],
        ),
    ];
    let mut missing = Vec::new();
    for (what, by, parts) in table {
        assert!(SHARED.contains(what), "{what}");
        missing.extend(missing_parts(
            &fixture,
            &SHARED.replacen(what, by, 1),
            parts,
        ));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    let (head, _) = SHARED.split_once("services:").unwrap();
    refused(
        &fixture,
        &format!("{head}services: []\n"),
        &[":5:", "services: 0", "1 to 16"],
    );
    let service = "- {name: a, scenario: {service: {}, load: {}}}\n";
    let many = format!("{head}services:\n{}", service.repeat(17));
    refused(
        &fixture,
        &many,
        &[":6:", "services: 17; it must be 1 to 16 of them"],
    );
    // Together they need more than the budget, though each of them has enough.
    let large = SHARED.replace("{initial: 3, min: 2}", "{initial: 6, min: 5}");
    let large = large
        .replace("{cores: 8}", "{cores: 7}")
        .replace("{cores: 12}", "{cores: 7}");
    let floors = large.replace("{initial: 2}", "{initial: 3, min: 3}");
    refused(
        &fixture,
        &floors,
        &[":4:", "budget.cores: 7; it must be at least 8"],
    );
    refused(
        &fixture,
        &large,
        &[
            ":4:",
            "budget.cores: 7; it must be at least 8",
            "cores.initial",
        ],
    );
}
