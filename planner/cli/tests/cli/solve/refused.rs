//! Unsolvable and invalid problems: exit code and error message.

use super::*;

#[test]
fn unsolvable_problem_exits_with_3_and_reason() {
    for (name, what, by, why) in [
        (
            "infadapter",
            "demand_rps: 75",
            "demand_rps: 750",
            "a demand of 825.0 requests/s exceeds the 386.3 that 20 cores can carry",
        ),
        (
            "sponge",
            "rate_rps: 60",
            "rate_rps: 600",
            "a rate of 600.0 requests/s exceeds the 129.0",
        ),
        (
            "sponge",
            "waited_ms: 210",
            "waited_ms: 390",
            "of 10 waiting requests 9 at most can be on time",
        ),
        (
            "ipa",
            "sla_ms: 450",
            "sla_ms: 150",
            "along detect → classify is 153 ms, above the SLA of 150 ms",
        ),
        (
            "infaas",
            "{name: gpu, available: 2}",
            "{name: gpu, available: 0}",
            "gpu",
        ),
        (
            "themis",
            "budget_cores: 24",
            "budget_cores: 7",
            "a load of 60.0 requests/s takes 8 cores, more than the budget of 7",
        ),
    ] {
        let input = changed(name, what, by);
        let output = given(&input, &["--json"]);
        assert_eq!(output.status.code(), Some(3), "{name}, {by}");
        let answer = answer(&output);
        assert_eq!(answer["outcome"], "infeasible", "{name}, {by}");
        let reported = answer["why"].as_str().unwrap();
        assert!(reported.contains(why), "{name}, {by}: {reported}");
        assert!(answer["plan"].is_object(), "{name}, {by}: no best effort");
        let people = given(&input, &[]);
        assert_eq!(people.status.code(), Some(3));
        assert!(text(&people.stdout).contains(&format!("\nwhy: {reported}\n")));
    }
}

#[test]
fn invalid_problem_is_refused_with_field() {
    for (name, what, by, message) in [
        (
            "infadapter",
            "demand_rps",
            "demands_rps",
            "unknown field `demands_rps`",
        ),
        (
            "infadapter",
            "demand_rps: 75",
            "demand_rps: -75",
            "demand_rps: -75 must be above 0",
        ),
        (
            "infadapter",
            "cores: 20 ",
            "cores: 20.5 ",
            "budget_cores: 20.5 must be a whole number, 0 or more",
        ),
        ("infadapter", "demand_rps: 75", "demand_rps: .nan", ".nan"),
        (
            "infadapter",
            "name: resnet50",
            "name: resnet18",
            "variants[1].name: 'resnet18'",
        ),
        (
            "infadapter",
            "model: line ",
            "model: parabola ",
            "variants[0].throughput.model",
        ),
        (
            "sponge",
            "latency_ms: 97",
            "latency_ms: -97",
            "points[1].latency_ms: -97 must be above 0",
        ),
        (
            "sponge",
            "rate_rps: 60",
            "rate_rps: -60",
            "rate_rps: -60 must be 0 to",
        ),
        (
            "sponge",
            "waited_ms: 190",
            "waited_ms: -190",
            "waiting[1].waited_ms: -190",
        ),
        (
            "ipa",
            "accuracy_percent: 45.7",
            "accuracy_percent: -45.7",
            "stages[0].variants[0].accuracy_percent: -45.7",
        ),
        (
            "ipa",
            "# after: [detect]",
            "after: [nobody]",
            "stages[1].after[0]: 'nobody'",
        ),
        ("ipa", "sla_ms: 450", "", "missing field `sla_ms`"),
        (
            "infaas",
            "cost: 7",
            "cost: -7",
            "architectures[0].variants[1].cost: -7",
        ),
        (
            "infaas",
            "resource: gpu",
            "resource: tpu",
            "architectures[0].variants[2].resource: 'tpu'",
        ),
        (
            "themis",
            "serial_ms: 10",
            "serial_ms: -10",
            "stages[0].latency.serial_ms: -10",
        ),
        (
            "themis",
            "instances: 2 ",
            "instances: 20 ",
            "stages[0].running.instances: 20",
        ),
        (
            "themis",
            "lasting: false",
            "lasting: maybe",
            "lasting: invalid type",
        ),
        (
            "themis",
            "formulation: themis",
            "formulation: gurobi",
            "formulation: 'gurobi' must be one of",
        ),
    ] {
        let output = given(changed(name, what, by), &["--json"]);
        refused(&output, 1, &["problem -", message]);
    }
}

#[test]
fn unparsable_problem_is_refused() {
    for (input, message) in [
        (&b""[..], "must be an object"),
        (b"# nothing but a remark\n", "must be an object"),
        (b"[1, 2]", "the document: a list must be an object"),
        (b"sponge", "the document: a text must be an object"),
        (b"a: b: c", "YAML"),
        (b"[1, 2", "line 1 column 1"),
        (b"{formulation: sponge, cores: 0}", "missing field"),
        (b"{\"formulation\": ", "JSON"),
        (b"formulation: \xff\xfe", "UTF-8"),
    ] {
        refused(&given(input, &[]), 1, &["problem -", message]);
    }
    let missing = run(&["planner/problems/nobody.yaml"]);
    refused(
        &missing,
        1,
        &["problem planner/problems/nobody.yaml", "No such file"],
    );
    refused(&run(&["planner/problems"]), 1, &["directory"]);
    let other = run(&[&path("ipa"), "--formulation", "sponge"]);
    refused(
        &other,
        1,
        &["formulation: ipa must be sponge, which is requested"],
    );
}

#[test]
fn wrong_arguments_are_refused() {
    let file = path("ipa");
    for (arguments, code, parts) in [
        (&["--time-limit-ms", "0"][..], 2, ["--time-limit-ms", "0"]),
        (
            &["--time-limit-ms", "3600001"],
            2,
            ["--time-limit-ms", "3600001"],
        ),
        (&["--time-limit-ms", "-1"], 2, ["-1", ""]),
        (
            &["--formulation", "gurobi"],
            2,
            ["--formulation", "infadapter, sponge"],
        ),
        (
            &["--solver", "gurobi"],
            1,
            ["--solver", "'gurobi' must be own, highs"],
        ),
    ] {
        let output = run(&[&[&*file], arguments].concat());
        refused(&output, code, &parts);
    }
    refused(&run(&[]), 2, &["<FILE>"]);
}
