//! Headers with budgets: their units, and what each means.

use super::*;
use crate::request::budget::Unit;
use crate::request::wire::Names;

/// Nothing is left, whatever header says so.
#[test]
fn used_up_budget_is_expired() {
    for (header, value) in [
        ("x-slo-ms", "0"),
        ("x-slo-ms", "0.0"),
        ("x-slo-ms", "-5"),
        ("x-slo-ttft-ms", "0"),
        ("x-llm-d-slo-ttft-ms", "-1"),
        ("x-llm-d-inference-ttl", "0"),
        ("x-llm-d-inference-ttl", "-2s"),
        ("grpc-timeout", "0n"),
        ("grpc-timeout", "0S"),
        ("connect-timeout-ms", "0"),
        ("request-timeout-ms", "0"),
        ("x-litellm-timeout", "0"),
        ("x-litellm-timeout", "-0.5"),
    ] {
        check(&[(header, value)], None, &[]);
    }
    check(&[("grpc-timeout", "1n")], Some(10), &[]);
    check(&[("x-slo-ms", "0"), ("grpc-timeout", "2S")], None, &[]);
    // Envoy writes 0 for no timeout.
    check(&[("x-envoy-expected-rq-timeout-ms", "0")], Some(1000), &[]);
}

#[test]
fn budgets_of_known_clients_are_read_in_their_units() {
    for (header, value, ms) in [
        ("x-slo-ttft-ms", "300", 300),
        ("x-llm-d-inference-ttl", "2s", 2000),
        ("x-llm-d-inference-ttl", "500ms", 500),
        ("x-llm-d-inference-ttl", "1.5s", 1500),
        ("x-llm-d-inference-ttl", "0m1s250ms", 1250),
        ("x-llm-d-inference-ttl", "999999h", 60_000),
        ("connect-timeout-ms", "700", 700),
        ("request-timeout-ms", "700", 700),
        ("x-litellm-timeout", "0.5", 500),
        // When a client gives up bounds its budget, and is none.
        ("x-stainless-read-timeout", "600", 1000),
        ("x-stainless-read-timeout", "0.4", 400),
        ("x-stainless-timeout", "600", 1000),
    ] {
        check(&[(header, value)], Some(ms), &[]);
    }
    let gives_up = [("x-slo-ms", "5000"), ("x-stainless-timeout", "2")];
    check(&gives_up, Some(2000), &[]);
    for nonsense in ["300", "2S", "1s5", "s", "1.2.3s", "1m 2s", "1d", "-"] {
        let ttl = [("x-llm-d-inference-ttl", nonsense)];
        check(&ttl, Some(1000), &[Field::InferenceTtl]);
    }
    check(
        &[("x-stainless-timeout", "0")],
        Some(1000),
        &[Field::ClientTimeout],
    );
}

/// A proxy may merge lines of one header into one.
#[test]
fn first_of_merged_values_counts() {
    check(&[("x-slo-ms", "800, 900")], Some(800), &[]);
    check(&[("x-slo-ms", "800,x")], Some(800), &[]);
    check(&[("x-slo-ms", ", 900")], Some(1000), &[Field::SloMs]);
    check(&[("grpc-timeout", "2S,1S")], Some(2000), &[]);
    let merged = [("x-request-start", "t=1789999999900, t=1789999999000")];
    check(&merged, Some(900), &[]);
}

/// Whole seconds stand for any time of theirs, and the client is not charged for what it did not say.
#[test]
fn whole_second_counts_as_its_end() {
    check(&[("x-slo-start", "1789999999")], Some(1000), &[]);
    check(&[("x-slo-start", "1789999998")], None, &[]);
    let longer = [("x-slo-ms", "3000"), ("x-slo-start", "1789999998")];
    check(&longer, Some(2000), &[]);
    check(&[("x-slo-start", "1790000000")], Some(1000), &[]);
    check(
        &[("x-slo-start", "1790000001")],
        Some(1000),
        &[Field::Start],
    );
}

#[test]
fn configured_headers_have_their_names_and_units() {
    let headers = [
        ("x-deadline-at", Unit::Epoch),
        ("x-patience", Unit::S),
        ("expect-within", Unit::Go),
    ];
    let names = headers.map(|(name, _)| name.to_owned());
    let policy = Policy {
        budgets: (0..)
            .zip(headers)
            .map(|(index, (_, unit))| BudgetHeader {
                source: Source::Named(index),
                unit,
                caps: false,
            })
            .collect(),
        ..policy()
    };
    for (headers, left_ms) in [
        (&[("x-deadline-at", "1790000000400")][..], Some(400)),
        (&[("x-deadline-at", "1789999999999")], None),
        (&[("x-patience", "0.25")], Some(250)),
        (
            &[("expect-within", "150ms"), ("x-slo-ms", "700")],
            Some(150),
        ),
        // It is not configured.
        (&[("x-slo-ms", "700")], Some(1000)),
        (
            &[("x-patience", "soon"), ("expect-within", "2s")],
            Some(2000),
        ),
    ] {
        let bytes = headers
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()));
        let wire = Wire::pick_with(
            bytes,
            Names {
                claims: &[],
                budgets: &names,
            },
        );
        let reading = read(&policy, &wire, now(), None);
        let left = reading.deadline.ok();
        let left = left.map(|deadline| deadline.at.since(now().mono).as_millis());
        assert_eq!(left, left_ms, "{headers:?}");
        let invalid: Vec<usize> = reading.invalid.named().collect();
        let expected = usize::from(headers[0].1 == "soon");
        assert_eq!(invalid.len(), expected, "{headers:?}");
    }
}
