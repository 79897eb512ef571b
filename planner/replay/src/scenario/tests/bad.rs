//! Errors of service and load: file, line, field, value, and the expected value.

use std::path::Path;

use super::*;

#[test]
fn invalid_scenario_is_refused_with_line_field_and_value() {
    let fixture = Fixture::new();
    let service = "service:\n  service: demo";
    let load = "load: {generator: poisson, rps: 50}";
    let table: &[(&str, &str, &[&str])] = &[
        (
            "length_s: 20",
            "lenght_s: 20",
            &[":3:", "lenght_s", "unknown field", "length_s"],
        ),
        (
            "length_s: 20",
            "length_s: soon",
            &[":3:", "length_s: soon", "whole number"],
        ),
        (
            "length_s: 20",
            "length_s: 0",
            &[":3:", "length_s: 0", "1 to 86400 s"],
        ),
        ("length_s: 20\n", "", &["length_s: missing", "generator"]),
        (
            "length_s: 20",
            "length_s: 20\nlength_s: 3",
            &[":4:", "duplicate", "length_s"],
        ),
        (
            "length_s: 20",
            "length_s: 20\nnetwork: {constant: {bytes_per_s: .nan, round_trip_ms: 1}}",
            &[":4:", "network", "NaN"],
        ),
        ("  slo: 800ms", "  slo: .nan", &[":6:", "service.slo"]),
        (
            "name: small",
            "name: ''",
            &[":1:", "name: 0", "1 to 100 characters"],
        ),
        ("seed: 7", "seed: -7", &[":2:", "seed: -7"]),
        ("name: small\n", "", &["missing field `name`"]),
        (
            service,
            "service: demo\nother:\n  x: 1",
            &["unknown field", "other"],
        ),
        (
            "  slo: 800ms",
            "  slo: 0s",
            &[":6:", "service.slo: 0s", "1ms to 1h"],
        ),
        (
            "  slo: 800ms",
            "  sloo: 800ms",
            &["service.sloo", "unknown field", ", slo,"],
        ),
        (
            "  slo: 800ms",
            "  slo_ms: 800",
            &[
                ":6:",
                "service.slo_ms: no longer a key; it is slo, a duration",
            ],
        ),
        (
            "  slo: 800ms",
            "  slo: 800",
            &[":6:", "service.slo: 800; it must be a duration"],
        ),
        (
            "accuracy: 80",
            "accuracy: 180",
            &[":17:", "service.variants[1].accuracy: 180"],
        ),
        (
            "cores: {initial: 2}",
            "cores: {initial: 9}",
            &["variants[0].cores.initial: 9"],
        ),
        (
            load,
            "load: {generator: possion, rps: 50}",
            &[":21:", "possion", "poisson"],
        ),
        (
            load,
            "load: {generator: poisson}",
            &[":21:", "load.rps: missing"],
        ),
        (
            load,
            "load: {generator: poisson, rps: -1}",
            &["load: ", "-1", "0 to 100000"],
        ),
        (
            load,
            "load: {generator: poisson, rps: 5, at_s: 3}",
            &["load.at_s: given", "rps"],
        ),
        (
            load,
            "load: {generator: step, low_rps: 1, high_rps: 2}",
            &["load.at_s: missing"],
        ),
        (
            load,
            "load: {generator: step, low_rps: 1, high_rps: 2, at_s: 20}",
            &[
                ":21:",
                "load.at_s: 20; it must be 1 to 19 s, before length_s",
            ],
        ),
        (
            load,
            "load: {generator: step, low_rps: 1, high_rps: 2, at_s: 2, budgets: service}",
            &[":21:", "load.budgets: given; it must be left out"],
        ),
        (
            load,
            "load: {records: ok.csv, budgets: mine}",
            &[":21:", "mine", "recorded, service"],
        ),
        (
            load,
            "load: {records: none.csv}",
            &[
                "scenario.yaml:21: load.records: ",
                "none.csv",
                "No such file",
            ],
        ),
        (
            load,
            "load: {rates: [1], file: rates.txt}",
            &["load: 2 of them", "exactly one"],
        ),
        (load, "load: {}", &["load: 0 of them", "exactly one"]),
        (
            load,
            "load: {rates: [1, 2]}",
            &["load.rates", "2 s", "20 s", "loop: true"],
        ),
        (
            load,
            "load: {rates: [], loop: true}",
            &["load.rates: 0 seconds"],
        ),
        (
            load,
            "load: {file: rates.txt}",
            &["load.file", "4 s", "20 s", "loop: true"],
        ),
        (
            load,
            "load: {file: none.txt}",
            &[":21:", "load.file", "none.txt", "No such file"],
        ),
        (
            load,
            "load: {generator: poisson, rps: 0}",
            &["load: 0 requests"],
        ),
        (
            load,
            "load: {generator: poisson, rps: 1, of_capacity: 0}",
            &["load.of_capacity: 0"],
        ),
        (
            load,
            "load: {generator: poisson, rps: 1, scale: 1, of_capacity: 1}",
            &["load.scale"],
        ),
        (
            load,
            "load: {records: ok.csv}",
            &["load.records", "1.25 s", "20 s"],
        ),
    ];
    for (what, by, parts) in table {
        if *by == "load: {records: ok.csv}" {
            // Within the tolerated silence the end may be later than the last arrival.
            let text = SMALL.replacen(what, "load: {records: ok.csv, silence_s: 5}", 1);
            let refused = fixture.read(&text).unwrap_err().to_string();
            assert!(parts.iter().all(|part| refused.contains(part)), "{refused}");
            continue;
        }
        fixture.bad(what, by, parts);
    }
    let text = SMALL.replacen("  slo: 800ms", "  sloo: 800ms", 1);
    let refused = fixture.read(&text).unwrap_err();
    assert_eq!(refused.line, Some(6));
    assert!(!refused.message.contains(" line "), "{refused}");
    let many = format!("length_s: 80000\n{load}").replace("rps: 50", "rps: 99");
    let text = SMALL.replace("length_s: 20\n", "").replace(load, &many);
    let refused = fixture.read(&text).unwrap_err().to_string();
    assert!(
        refused.contains("7920000 requests") && refused.contains("5000000"),
        "{refused}"
    );
    let missing = read(&fixture.0.path().join("none.yaml"), Overrides::default());
    assert!(missing.unwrap_err().to_string().contains("none.yaml"));
    let large = "#".repeat(SCENARIO_BYTES_MAX as usize + 1);
    assert!(
        fixture
            .read(&large)
            .unwrap_err()
            .to_string()
            .contains("2097152 bytes")
    );
}

#[test]
fn variant_without_a_profile_needs_the_times_of_its_servers() {
    let text = |servers: &str, control: &str| {
        format!(
            "name: a\nlength_s: 10\nservice: {{service: demo, slo: 1s, variants: [{{name: small, cluster: small}}]}}\n\
             servers: {servers}\nload: {{generator: poisson, rps: 5}}\ncontenders: [{{plane: weir, control: {control}}}]\n"
        )
    };
    let times = "{small: {latency: {model: linear, item_ms: 20, fixed_ms: 0}}}";
    let read = |text: &str| read_text(text, Path::new(""), Overrides::default());
    read(&text(times, "planner")).unwrap();
    for (servers, control, expected) in [
        (
            "{}",
            "planner",
            "servers.small.latency: missing; it must be given, because variant small has no profile; or `weir profile FILE \
             small=URL` writes one for `profile: {file: small.profile.yaml}`",
        ),
        (
            times,
            "vpa",
            "contenders: weir+vpa; it must be one with control planner or static: variant small has no profile to plan by",
        ),
    ] {
        let error = read(&text(servers, control)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
