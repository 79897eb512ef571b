//! Errors in files that the checked one names, and errors that others cause.

use super::*;

/// Writes files into a folder, and returns the report of the first.
fn checked(files: &[(&str, &str)]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let first = folder.path().join(files[0].0);
    report(&run(&[first.to_str().unwrap(), "--json"]))
}

/// Paths and messages of a report.
fn errors(report: &Value) -> Vec<(String, String)> {
    let text = |error: &Value, key: &str| error[key].as_str().unwrap().to_owned();
    let errors = report["errors"].as_array().unwrap().iter();
    errors
        .map(|error| (text(error, "path"), text(error, "message")))
        .collect()
}

/// Service of one variant, with these keys of it.
fn service(variant: &str) -> String {
    format!(
        "service: a\nlisten: 127.0.0.1:8080\nkeyEnv: A\nslo: 1s\nbudget: {{cores: 8}}\nproxies: {{stats: ['http://a/b']}}\n\
         variants:\n- name: a\n  cluster: a\n  cores: {{initial: 1, min: 1, max: 1}}\n{variant}"
    )
}

const LATENCY: &str = "latency: {meanMs: 40}\n";

#[test]
fn error_in_a_profile_has_its_file_line_and_field() {
    let service = service("  accuracy: 70\n  profile: {file: small.yaml}\n");
    for (profile, message) in [
        (
            "# measured\nmeasured:\n  parallelism: 1\n  latencies: [{cores: 1, batch: 1, ms: 40}]\n",
            "file small.yaml, line 4: measured.latencies: 1; it must be 4 to 4096",
        ),
        (
            "latency: {meanMs: 40}\nreadiness\n",
            "file small.yaml, line 2: simple key expected",
        ),
        (
            "latency: {meanMs: 40}\nreadyness: 1s\n",
            "file small.yaml, line 2: readyness: unknown field `readyness`",
        ),
    ] {
        let report = checked(&[("service.yaml", &service), ("small.yaml", profile)]);
        let errors = errors(&report);
        assert_eq!(errors.len(), 1, "{report:#}");
        assert_eq!(errors[0].0, "variants[0].profile");
        assert!(errors[0].1.starts_with(message), "{report:#}");
        assert_eq!(report["errors"][0]["line"], 12, "{report:#}");
    }
    let range = "latency: {meanMs: -4}\n";
    let report = checked(&[("service.yaml", &service), ("small.yaml", range)]);
    let message = "-4; it must be 0 to 3600000 ms, in file small.yaml".to_owned();
    let path = "variants[0].latency.meanMs".to_owned();
    assert_eq!(errors(&report), [(path, message)]);
}

#[test]
fn profile_with_an_accuracy_beyond_its_range_is_refused() {
    let report = report(&given(&format!("{LATENCY}accuracy: 101\n"), &["--json"]));
    let message = "101; it must be 0 to 100 percent".to_owned();
    assert_eq!(errors(&report), [("accuracy".to_owned(), message)]);
    for accuracy in ["", "accuracy: 100\n", "accuracy: null\n"] {
        let output = given(&format!("{LATENCY}{accuracy}"), &[]);
        assert_eq!(
            text(&output.stdout),
            "-: profile, no errors\n",
            "{accuracy}"
        );
    }
}

#[test]
fn error_in_a_service_file_of_a_scenario_has_its_file_and_line() {
    let service = service("  acuracy: 70\n  latency: {meanMs: 40}\n");
    let scenario =
        "name: a\nlength_s: 10\nservice: a.yaml\nload: {generator: poisson, rps: 1}\nseeed: 1\n";
    let report = checked(&[("scenario.yaml", scenario), ("a.yaml", &service)]);
    let errors = errors(&report);
    assert_eq!(errors.len(), 2, "{report:#}");
    assert_eq!(report["errors"][0]["line"], 3, "{report:#}");
    assert_eq!(errors[0].0, "service");
    let message = "a.yaml:11: variants[0].acuracy: unknown field `acuracy`";
    assert!(errors[0].1.contains(message), "{report:#}");
    assert_eq!(errors[1].0, "seeed");
}

#[test]
fn tab_is_reported_at_its_line() {
    for (text, line, column) in [
        ("slo: 1s\n\tmode: active\n", 2, 1),
        ("budget:\n\tcores: 1\n", 2, 2),
        ("budget:\n  cores: 1\n  \tstep: 1\nslo: 1s\n", 3, 3),
    ] {
        let report = report(&given(text, &["--json", "--kind", "service"]));
        let error = &report["errors"][0];
        assert_eq!(
            (&error["line"], &error["column"]),
            (&json!(line), &json!(column)),
            "{report:#}"
        );
    }
}

/// One wrong key has the first error; what its repair causes has none.
#[test]
fn error_that_a_repair_causes_is_not_reported() {
    let variant = "  latency: {meanMs: 40}\n  profile: {file: a.yaml}\n  accuracy: 70\n";
    let missing = service("  profile: {file: nobody.yaml}\n");
    let both = service(variant);
    let two = "planner/scenarios/two-services.yaml";
    for (kind, text, expected) in [
        // Its accuracy would be the profile's.
        ("service", missing, &["variants[0].profile.file"][..]),
        (
            "service",
            both,
            &["variants[0].latency", "variants[0].profile.file"],
        ),
        (
            "scenario",
            changed(two, &[("services:", "srvices:")]),
            &["srvices"],
        ),
        (
            "scenario",
            changed(two, &[("    service:\n", "    zzz:\n")]),
            &["services[0].scenario.service", "services[0].scenario.zzz"],
        ),
        (
            "scenario",
            changed(
                "planner/scenarios/burst.yaml",
                &[
                    ("generator: burst", "generator: [1]"),
                    ("seed: 1", "seed: x"),
                ],
            ),
            &["load.generator", "seed"],
        ),
    ] {
        let report = report(&given(&text, &["--json"]));
        assert_eq!(report["kind"], kind, "{report:#}");
        let mut paths: Vec<String> = errors(&report).into_iter().map(|(path, _)| path).collect();
        paths.sort();
        assert_eq!(paths, expected, "{report:#}");
    }
}
