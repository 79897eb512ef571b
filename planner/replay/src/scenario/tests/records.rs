//! Errors in the files that a scenario names, and their valid contents.

use super::*;

#[test]
fn invalid_records_and_rates_are_refused_with_file_and_line() {
    let fixture = Fixture::new();
    let load = "load: {generator: poisson, rps: 50}";
    let table: &[(&str, &str, &[&str])] = &[
        (
            "a.csv",
            "arrival_s\n2\n1\n",
            &["a.csv:3:", "arrival_s: 1;", "(2 s)", "sort"],
        ),
        (
            "a.csv",
            "arrival_s\n1\n1\n",
            &["a.csv:3:", "arrival_s: 1;", "ties: true"],
        ),
        (
            "a.csv",
            "arrival_s\n-1\n",
            &["a.csv:2:", "arrival_s: -1;", "0 to 86400 s"],
        ),
        ("a.csv", "arrival_s\nNaN\n", &["a.csv:2:", "arrival_s: NaN"]),
        (
            "a.csv",
            "arrival_s\n1\n1e9\n",
            &["a.csv:3:", "arrival_s: 1000000000"],
        ),
        (
            "a.csv",
            "arrival_s,budget_ms\n1,5\n,5\n",
            &["a.csv:3:", "arrival_s", "missing"],
        ),
        (
            "a.csv",
            "arrival_ms\n1000\n90000\n",
            &["a.csv:3:", "90000", "60 s", "silence_s"],
        ),
        (
            "a.csv",
            "arrival_ms\nsoon\n",
            &["a.csv:2:", "arrival_ms: soon", "a number"],
        ),
        (
            "a.csv",
            "arrival_s,arrival_ms\n1,\n",
            &["a.csv:1:", "give one"],
        ),
        (
            "a.csv",
            "arrival\n1\n",
            &["a.csv:1:", "header: arrival;", "arrival_s, arrival_ms"],
        ),
        (
            "a.csv",
            "arrival_s,class,class\n1,a,a\n",
            &["a.csv:1:", "class", "twice"],
        ),
        (
            "a.csv",
            "budget_ms\n1\n",
            &["a.csv:1:", "arrival_ms is missing"],
        ),
        (
            "a.csv",
            "arrival_s,budget_ms\n1\n",
            &["a.csv:2:", "1 columns", "has 2"],
        ),
        (
            "a.csv",
            "arrival_s,budget_ms\n1,0\n",
            &["a.csv:2:", "budget_ms: 0;", "1 to 3600000"],
        ),
        (
            "a.csv",
            "arrival_s,size_bytes\n1,-1\n",
            &["a.csv:2:", "size_bytes: -1"],
        ),
        (
            "a.csv",
            "arrival_s,class\n1,gold\n",
            &["a.csv:2:", "class: gold", "default"],
        ),
        (
            "a.csv",
            "arrival_s,min_accuracy\n1,101\n",
            &["a.csv:2:", "min_accuracy: 101"],
        ),
        ("a.csv", "arrival_s\n", &["a.csv:", "no records"]),
        ("a.csv", "", &["a.csv:1:", "missing"]),
        (
            "a.jsonl",
            "{\"arrival_s\": 1}\n{\"arrival_s\": 0}\n",
            &["a.jsonl:2:", "arrival_s: 0;"],
        ),
        (
            "a.jsonl",
            "{\"arrival_s\": 1}\n\n",
            &["a.jsonl:2:", "a blank line"],
        ),
        (
            "a.jsonl",
            "{\"arrival_s\": 1, \"budget\": 2}\n",
            &["a.jsonl:1:", "budget", "budget_ms"],
        ),
        (
            "a.jsonl",
            "{\"arrival_s\": \"1\"}\n",
            &["a.jsonl:1:", "arrival_s", "invalid type"],
        ),
        (
            "a.jsonl",
            "{\"budget_ms\": 5}\n",
            &["a.jsonl:1:", "arrival_s or arrival_ms: missing"],
        ),
    ];
    for (name, text, parts) in table {
        fixture.file(name, text);
        fixture.bad(load, &format!("load: {{records: {name}}}"), parts);
    }
    fixture.file("a.csv", &format!("arrival_s\n1{}\n", " ".repeat(5000)));
    fixture.bad(
        load,
        "load: {records: a.csv}",
        &["a.csv:2:", "5001 bytes", "4096"],
    );
    for (text, parts) in [
        ("5\n\n6\n", ["line 2", "'nothing'"]),
        ("5\n-6\n", ["line 2", "'-6'"]),
    ] {
        fixture.file("bad.txt", text);
        fixture.bad(
            load,
            "load: {file: bad.txt}",
            &[":21:", "load.file", "bad.txt", parts[0], parts[1]],
        );
    }
    // As many zeros as a recording gap has, in the part that is played.
    fixture.file(
        "gap.txt",
        &format!("7\n{}8\n{}9\n", "0\n".repeat(60), "0\n".repeat(61)),
    );
    let whole = "load: {file: gap.txt, loop: true}";
    let text = SMALL.replace("length_s: 20\n", "");
    let refused = fixture.read(&text.replace(load, whole)).unwrap_err();
    let refused = refused.to_string();
    for part in &["load.file: gap.txt: 61 s", "second 62", "60 s", "silence_s"] {
        assert!(refused.contains(part), "'{refused}' does not say '{part}'");
    }
    fixture.bad(
        load,
        "load: {file: gap.txt, from_s: 62, loop: true, silence_s: 10}",
        &["load.file: gap.txt: 20 s", "second 62", "10 s"],
    );
    fixture.good(
        &SMALL
            .replace(load, "load: {file: gap.txt}")
            .replace("length_s: 20", "length_s: 62"),
    );
    fixture.good(&text.replace(load, "load: {file: gap.txt, silence_s: 61}"));
    // Intended gaps are allowed.
    fixture.file(
        "a.jsonl",
        "{\"arrival_s\": 1}\n{\"arrival_ms\": 1000}\n{\"arrival_s\": 99}\n",
    );
    let meant = "load: {records: a.jsonl, ties: true, silence_s: 100}";
    let (_, sending) = fixture.good(&SMALL.replace(load, meant));
    assert_eq!(sending.arrivals.len(), 2, "the third is after length_s");
}

#[test]
fn recorded_budgets_count_unless_the_service_is_named() {
    let fixture = Fixture::new();
    let budgets_ms = |keys: &str| {
        let load = format!("load: {{records: ok.csv{keys}}}");
        let text = SMALL.replace("load: {generator: poisson, rps: 50}", &load);
        let (scenario, sending) = fixture.good(&text.replace("length_s: 20\n", ""));
        let requests = requests(scenario.seed, &sending);
        let budgets = requests.iter().map(|request| request.budget.as_millis());
        budgets.collect::<Vec<_>>()
    };
    assert_eq!(budgets_ms(""), [800, 300]);
    assert_eq!(budgets_ms(", budgets: recorded"), [800, 300]);
    assert_eq!(budgets_ms(", budgets: service"), [800, 800]);
}

#[test]
fn records_after_the_length_are_counted() {
    let fixture = Fixture::new();
    let left_out = |length: &str| {
        let text = SMALL.replace(
            "load: {generator: poisson, rps: 50}",
            "load: {records: ok.csv}",
        );
        let (_, sending) = fixture.good(&text.replace("length_s: 20\n", length));
        (sending.arrivals.len(), sending.left_out)
    };
    assert_eq!(left_out(""), (2, 0));
    assert_eq!(left_out("length_s: 1\n"), (1, 1));
}

#[test]
fn error_in_a_service_file_names_that_file_and_its_line() {
    let fixture = Fixture::new();
    let (_, service) = SMALL.split_once("service:\n").unwrap();
    let (service, load) = service.split_once("load:").unwrap();
    let service = service.replace("\n  ", "\n");
    let service = service.trim_start();
    let text = format!("name: a\nlength_s: 20\nservice: service.yaml\nload:{load}");
    fixture.file("service.yaml", service);
    fixture.good(&text);
    for (what, by, expected) in [
        (
            "accuracy: 80",
            "acuracy: 80",
            "service.yaml:13: variants[1].acuracy: unknown field",
        ),
        (
            "accuracy: 80",
            "accuracy: 180",
            "service.yaml:13: variants[1].accuracy: 180; it must be",
        ),
        (
            "slo: 800ms",
            "slo: 0s",
            "service.yaml:2: slo: 0s; it must be",
        ),
        (
            "slo: 800ms",
            "slo: 800ms\nslo: 1s",
            "service.yaml:3: slo: a duplicate key",
        ),
        ("slo: 800ms", "slo: [1", "service.yaml:"),
    ] {
        assert!(service.contains(what), "{service}");
        fixture.file("service.yaml", &service.replacen(what, by, 1));
        let refused = fixture.read(&text).unwrap_err();
        let message = refused.to_string();
        assert!(
            message.contains(expected) && refused.line.is_some(),
            "{message}"
        );
    }
    let missing = text.replace("service: service.yaml", "service: none.yaml");
    let message = fixture.read(&missing).unwrap_err().to_string();
    assert!(message.contains("scenario.yaml:3: service: "), "{message}");
    assert!(
        message.contains("none.yaml") && message.contains("No such file"),
        "{message}"
    );
}
