//! Errors of profiles, scenarios, problems and plugin configurations.

use super::*;

#[test]
fn profile_in_another_file_or_document_is_checked_too() {
    let model = "{gammaMs: -1, epsilonMs: 0, deltaMs: 0, etaMs: 0, parallelism: per-core}";
    let variant = "{name: a, cluster: a, accuracy: 101, cores: {initial: 1}, profile: PROFILE}";
    let both = [
        ("PROFILE", "variants[0].latency.gammaMs", "-1; it must be"),
        ("101", "variants[0].accuracy", "101; it must be"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("service.yaml");
    let shared = "slo: 1s, budget: {cores: 8}, proxies: {stats: ['http://a/b']}";
    let service = format!(
        "{{service: a, listen: '127.0.0.1:1', keyEnv: A, {shared}, variants: [{variant}]}}"
    );
    let service = service.replace("PROFILE", "{file: a.yaml}");
    fs::write(&file, &service).unwrap();
    let capacity = "capacity: {slopeRps: 1, interceptRps: 0}";
    fs::write(
        folder.path().join("a.yaml"),
        format!("latency: {model}\n{capacity}\n"),
    )
    .unwrap();
    let found = report(&run(&[file.to_str().unwrap(), "--json"]));
    let paths = |report: &Value| -> Vec<String> {
        let errors = report["errors"].as_array().unwrap().iter();
        errors
            .map(|error| error["path"].as_str().unwrap().to_owned())
            .collect()
    };
    let expected: Vec<&str> = both.iter().map(|(_, path, _)| *path).collect();
    let mut actual = paths(&found);
    actual.sort();
    actual.reverse();
    assert_eq!(actual, expected, "{found:#}");

    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  profile.yaml: |\n    latency: {model}\n    {capacity}\n"
    );
    let spec = format!("spec: {{{shared}, variants: [{variant}]}}");
    let spec = spec.replace("PROFILE", "{configMap: a}");
    let text = format!(
        "{map}---\napiVersion: weir.dev/v1alpha1\nkind: SloService\nmetadata: {{name: a}}\n{spec}\n"
    );
    let found = report(&given(&text, &["--json"]));
    let mut actual = paths(&found);
    actual.sort();
    actual.reverse();
    let expected: Vec<String> = expected.iter().map(|path| format!("spec.{path}")).collect();
    assert_eq!(actual, expected, "{found:#}");
}

#[test]
fn all_errors_of_a_scenario_are_reported() {
    let text = changed(
        "planner/scenarios/burst.yaml",
        &[
            ("seed: 1", "sed: 1"),
            ("budget: { cores: 20 }", "budget: { cores: 0 }"),
            ("low_s: 30", "lows_s: 30"),
            ("accuracy: 69.75", "accuracy: 169.75"),
        ],
    );
    check(
        "scenario",
        &text,
        &[
            ("sed: 1", "sed", "unknown field"),
            ("0 }", "service.budget.cores", "0; it must be 1 to"),
            (
                "169.75",
                "service.variants[0].accuracy",
                "169.75; it must be 0 to 100",
            ),
            ("lows_s", "load.lows_s", "unknown field"),
        ],
    );
}

#[test]
fn all_errors_of_each_problem_are_reported() {
    for (name, changes, expected) in [
        (
            "infadapter",
            [
                ("demand_rps: 75", "demand_rps: -75"),
                ("name: resnet50", "name: resnet18"),
                ("model: line ", "model: parabola "),
            ],
            vec![
                ("-75", "demand_rps", "-75"),
                ("resnet18\n", "variants[1].name", "resnet18"),
                ("parabola", "variants[0].throughput.model", "parabola"),
            ],
        ),
        (
            "sponge",
            [
                ("latency_ms: 97", "latency_ms: -97"),
                ("rate_rps: 60", "rate_rps: -60"),
                ("waited_ms: 190", "waited_ms: -190"),
            ],
            vec![
                ("-97", "latency.points[1].latency_ms", "-97"),
                ("-60", "rate_rps", "-60"),
                ("-190", "waiting[1].waited_ms", "-190"),
            ],
        ),
        (
            "ipa",
            [
                ("accuracy_percent: 45.7", "accuracy_percent: -45.7"),
                ("# after: [detect]", "after: [nobody]"),
                ("sla_ms: 450", "sla: 450"),
            ],
            vec![
                ("-45.7", "stages[0].variants[0].accuracy_percent", "-45.7"),
                ("nobody", "stages[1].after[0]", "nobody"),
                ("sla: 450", "sla", "unknown field"),
            ],
        ),
        (
            "infaas",
            [
                ("cost: 7", "cost: -7"),
                ("resource: gpu", "resource: tpu"),
                ("cost: 8", "cots: 8"),
            ],
            vec![
                ("-7", "architectures[0].variants[1].cost", "-7"),
                ("tpu", "architectures[0].variants[2].resource", "tpu"),
                ("cots", "architectures[1].variants[0].cots", "unknown field"),
            ],
        ),
        (
            "themis",
            [
                ("serial_ms: 10", "serial_ms: -10"),
                ("instances: 2 ", "instances: 20 "),
                ("lasting: false", "lasting: maybe"),
            ],
            vec![
                ("-10", "stages[0].latency.serial_ms", "-10"),
                ("20 ", "stages[0].running.instances", "20"),
                ("maybe", "lasting", "maybe"),
            ],
        ),
    ] {
        check(
            "problem",
            &changed(&format!("planner/problems/{name}.yaml"), &changes),
            &expected,
        );
    }
}

#[test]
fn profile_alone_is_checked_without_the_limits_of_a_service() {
    let latency = "latency: {meanMs: 43.8, parallelism: 3}\n";
    for (cores, batch) in [((1, 1), (1, 1)), ((2, 4), (2, 8)), ((16, 64), (1, 1))] {
        let range = |(min, max)| format!("{{min: {min}, max: {max}}}");
        let profile = format!(
            "{latency}range: {{cores: {}, batch: {}}}\n",
            range(cores),
            range(batch)
        );
        let output = given(&profile, &[]);
        assert_eq!(text(&output.stdout), "-: profile, no errors\n", "{profile}");
    }
    let fractions =
        format!("{latency}range: {{cores: {{min: 0.2, max: 0.8}}, batch: {{min: 1, max: 1}}}}\n");
    assert!(given(&fractions, &[]).status.success());
    let wrong =
        "latency: {meanMs: -1}\nrange: {cores: {min: 4, max: 1}, batch: {min: 1, max: 1}}\n";
    let output = given(wrong, &[]);
    assert!(
        text(&output.stdout).contains("range.cores: 4 to 1"),
        "{output:?}"
    );
}

#[test]
fn all_errors_of_plugin_and_profile_are_reported() {
    let plugin = "{\n  \"service\": \"A b\",\n  \"rle\": \"gate\",\n  \"queue\": {\"max_requests\": 0},\n  \"plan\": {\"variants\": [\n    {\"name\": \"a\", \"cluster\": \"a\", \"share\": 1, \"slots\": 200000, \"service_ms\": 10, \"accuracy\": 700}\n  ]}\n}\n";
    check(
        "plugin",
        plugin,
        &[
            ("\"A b\"", "service", "A b"),
            ("\"rle\"", "rle", "unknown field"),
            ("0}", "queue.max_requests", "0"),
            ("200000", "plan.variants[0].slots", "200000"),
            ("700", "plan.variants[0].accuracy", "700"),
        ],
    );
    let services = "{\n  \"services\": [\n    {\"service\": \"a\", \"match\": {\"hosts\": [\"A.example\"]}, \"plan\": {\"variants\": [\n      {\"name\": \"a\", \"cluster\": \"a\", \"share\": 1, \"slots\": 2, \"service_ms\": 10, \"accuracy\": 70}\n    ]}}\n  ]\n}\n";
    check(
        "plugin",
        services,
        &[("\"A.example\"", "services[0].match.hosts[0]", "A.example")],
    );
    let profile = "latency:\n  gammaMs: -1\n  epsilonMs: 0\n  deltaMs: 0\n  etaMs: x\n  parallelism: 0\ncapacity: {slopeRps: -2, interceptRps: 0, util: 1}\n";
    check(
        "profile",
        profile,
        &[
            ("-1", "latency.gammaMs", "-1"),
            ("x\n", "latency.etaMs", "x; it must be a number"),
            ("0\ncapacity", "latency.parallelism", "0"),
            ("-2", "capacity.slopeRps", "-2"),
            ("util", "capacity.util", "unknown field"),
        ],
    );
}

#[test]
fn old_keys_of_a_plugin_configuration_are_all_reported_with_the_new_ones() {
    let plugin = "{\n  \"service\": \"a\",\n  \"retries_max\": 3,\n  \"deadline\": {\"least_ms\": 20, \"greatest_ms\": 30000},\n  \"queue\": {\"held_max\": 5},\n  \"plan\": {\"variants\": [\n    {\"name\": \"a\", \"cluster\": \"a\", \"share\": 1, \"slots\": 2, \"service_ms\": 10, \"accuracy\": 70}\n  ]}\n}\n";
    check(
        "plugin",
        plugin,
        &[
            (
                "\"retries_max\"",
                "retries_max",
                "no longer a key; it is max_retries",
            ),
            (
                "\"least_ms\"",
                "deadline.least_ms",
                "no longer a key; it is deadline.min_ms",
            ),
            (
                "\"greatest_ms\"",
                "deadline.greatest_ms",
                "no longer a key; it is deadline.max_ms",
            ),
            (
                "\"held_max\"",
                "queue.held_max",
                "no longer a key; it is queue.max_requests",
            ),
        ],
    );
}

#[test]
fn all_errors_of_an_experiment_are_reported() {
    let text = changed(
        "planner/examples/yesterday.yaml",
        &[
            (
                "{ records: requests.csv }",
                "{ generator: poisson, rps: 5 }",
            ),
            ("  name: yesterday\n", "  name: yesterday\n  length_s: 9\n"),
            ("load.budgets: service, ", ""),
            ("accuracy: 78", "accuracy: 780"),
            ("kind: baseline", "kind: base"),
        ],
    );
    check(
        "experiment",
        &text,
        &[
            (
                "780",
                "scenario.service.variants[1].accuracy",
                "780; it must be 0 to 100",
            ),
            ("base,", "rows[2].kind", "unknown variant"),
        ],
    );
}
