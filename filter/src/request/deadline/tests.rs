//! The table of the contract, then invariants for any invalid values.

use super::*;
use proptest::prelude::*;

mod budgets;
mod headers;

const EPOCH_MS: u64 = 1_790_000_000_000;

fn policy() -> Policy {
    let ms = Span::from_millis;
    Policy {
        default: ms(1000),
        min: ms(10),
        max: ms(60_000),
        max_age: ms(30_000),
        skew_allowance: ms(50),
        delay_allowance: ms(250),
        finish: Span::from_secs(10),
        reserve: ms(0),
        trust_deadline: false,
        budgets: BudgetHeader::KNOWN.to_vec(),
    }
}

fn now() -> Now {
    Now {
        mono: Mono(5_000_000_000),
        wall: Wall(EPOCH_MS * 1_000_000),
    }
}

fn read_at_now(policy: &Policy, headers: &[(&str, &str)]) -> Reading {
    let headers = headers
        .iter()
        .map(|(name, value)| (*name, value.as_bytes()));
    read(policy, &Wire::pick(headers), now(), None)
}

/// Checks the ms left (`None`: expired) and the invalid fields.
#[track_caller]
fn check(headers: &[(&str, &str)], left_ms: Option<u64>, invalid: &[Field]) {
    let reading = read_at_now(&policy(), headers);
    let left = reading
        .deadline
        .ok()
        .map(|d| d.at.since(now().mono).as_millis());
    assert_eq!(left, left_ms, "{headers:?}");
    assert_eq!(
        reading.invalid.iter().collect::<Vec<_>>(),
        invalid,
        "{headers:?}"
    );
}

#[test]
fn budget_is_the_first_valid_header_clamped() {
    check(&[], Some(1000), &[]);
    check(&[("x-slo-ms", "250")], Some(250), &[]);
    check(&[("x-slo-ms", "250.5")], Some(250), &[]);
    check(&[("x-slo-ms", "250.9999999999")], Some(250), &[]);
    check(&[("x-slo-ms", ".5")], Some(10), &[]);
    check(&[("x-slo-ms", "250.")], Some(250), &[]);
    check(&[("x-slo-ms", " 250 ")], Some(250), &[]);
    check(&[("x-slo-ms", "250"), ("x-slo-ms", "9")], Some(250), &[]);
    check(
        &[("x-llm-d-inference-ttl", "300ms"), ("grpc-timeout", "2S")],
        Some(300),
        &[],
    );
    check(
        &[
            ("x-llm-d-slo-ttft-ms", "200"),
            ("x-llm-d-inference-ttl", "300ms"),
        ],
        Some(200),
        &[],
    );
    for (timeout, ms) in [
        ("2S", 2000),
        ("1M", 60_000),
        ("1H", 60_000),
        ("150m", 150),
        ("50000u", 50),
        ("99999999n", 99),
        (" 2S ", 2000),
    ] {
        check(&[("grpc-timeout", timeout)], Some(ms), &[]);
    }
    check(&[("x-envoy-expected-rq-timeout-ms", "700")], Some(700), &[]);
    check(&[("x-slo-ms", "1")], Some(10), &[]);
    check(
        &[("x-slo-ms", "99999999999999999999999999")],
        Some(60_000),
        &[],
    );
}

#[test]
fn invalid_budget_falls_through_to_the_next_header() {
    for nonsense in [
        "",
        "-",
        "--5",
        "abc",
        "1e3",
        "NaN",
        "inf",
        "0x10",
        "5 0",
        "1.2.3",
        "١٢",
        &"9".repeat(33),
    ] {
        check(&[("x-slo-ms", nonsense)], Some(1000), &[Field::SloMs]);
        check(
            &[("x-slo-ms", nonsense), ("grpc-timeout", "2S")],
            Some(2000),
            &[Field::SloMs],
        );
    }
    for nonsense in ["", "S", "5", "5s", "123456789S", "1.5S", "-1S"] {
        check(
            &[("grpc-timeout", nonsense)],
            Some(1000),
            &[Field::GrpcTimeout],
        );
    }
}

#[test]
fn start_is_read_in_any_unit() {
    for start in [
        "1789999999.9",
        "t=1789999999.900",
        "1789999999900",
        "1789999999900.0",
        "t=1789999999900000",
        "1789999999900000000",
    ] {
        check(&[("x-slo-start", start)], Some(900), &[]);
        check(&[("x-request-start", start)], Some(900), &[]);
    }
    check(
        &[
            ("x-slo-start", "1789999999900"),
            ("x-request-start", "1789999999500"),
        ],
        Some(900),
        &[],
    );
}

#[test]
fn invalid_start_counts_as_now() {
    // Ahead within the allowance, then beyond it.
    check(&[("x-slo-start", "1790000000050")], Some(1000), &[]);
    check(
        &[("x-slo-start", "1790000000051")],
        Some(1000),
        &[Field::Start],
    );
    // At the maximum age, then older.
    check(
        &[("x-slo-ms", "60000"), ("x-slo-start", "1789999970000")],
        Some(30_000),
        &[],
    );
    check(
        &[("x-slo-ms", "60000"), ("x-slo-start", "1789999969999")],
        Some(60_000),
        &[Field::Start],
    );
    for nonsense in [
        "",
        "0",
        "-1",
        "yesterday",
        "t=",
        "1e12",
        "99999999999999999999999",
    ] {
        check(&[("x-slo-start", nonsense)], Some(1000), &[Field::Start]);
        check(
            &[
                ("x-slo-start", nonsense),
                ("x-request-start", "1789999999900"),
            ],
            Some(900),
            &[Field::Start],
        );
    }
}

#[test]
fn past_deadline_is_expired() {
    check(&[("x-slo-start", "1789999999000")], None, &[]);
    check(
        &[("x-slo-ms", "500"), ("x-slo-start", "1789999999499")],
        None,
        &[],
    );
    let reserved = Policy {
        reserve: Span::from_millis(100),
        ..policy()
    };
    assert_eq!(
        read_at_now(&reserved, &[("x-slo-ms", "100")]).deadline,
        Err(Expired)
    );
    let deadline = read_at_now(&reserved, &[("x-slo-ms", "150")])
        .deadline
        .unwrap();
    assert_eq!(
        deadline.client_at.since(deadline.at),
        Span::from_millis(100)
    );
}

#[test]
fn deadline_of_an_earlier_hop_counts_only_if_trusted() {
    let headers = [("x-slo-deadline", "1790000000400"), ("x-slo-ms", "700")];
    check(&headers, Some(700), &[]);
    let trusting = Policy {
        trust_deadline: true,
        ..policy()
    };
    let left = |headers: &[(&str, &str)]| {
        read_at_now(&trusting, headers)
            .deadline
            .ok()
            .map(|d| d.at.since(now().mono).as_millis())
    };
    assert_eq!(left(&headers), Some(400));
    assert_eq!(left(&[("x-slo-deadline", "1789999999999")]), None);
    assert_eq!(left(&[("x-slo-deadline", "1799999999999")]), Some(60_000));
    assert_eq!(
        left(&[("x-slo-deadline", "nonsense"), ("x-slo-ms", "700")]),
        Some(700)
    );
    assert_eq!(
        left(&[("x-slo-deadline", "5"), ("x-slo-ms", "700")]),
        Some(700)
    );
}

proptest! {
    /// The next hop gets the client's value, to the millisecond: 19 digits of nanoseconds exceed a float.
    #[test]
    fn start_is_read_exactly(ago_ms in 0..900_u64, unit in 0..4_usize) {
        let start_ms = EPOCH_MS - ago_ms;
        let start = match unit {
            0 => format!("{}.{:03}", start_ms / 1000, start_ms % 1000),
            1 => start_ms.to_string(),
            2 => format!("{start_ms}000"),
            _ => format!("{start_ms}000000"),
        };
        let deadline = read_at_now(&policy(), &[("x-slo-start", &start)]).deadline.unwrap();
        prop_assert_eq!(deadline.client_wall, Wall((start_ms + 1000) * 1_000_000), "{}", start);
    }

    /// For any values, a request is no more urgent than the most urgent honest one, no less urgent than the
    /// maximum budget, and nothing panics.
    #[test]
    fn invalid_values_gain_no_urgency(
        fields in prop::collection::vec(
            (prop::sample::select(Field::ALL.to_vec()), prop_oneof!["[0-9.t=SmunHMe+-]{0,24}", "\\PC{0,16}"]),
            0..6,
        ),
    ) {
        let headers: Vec<(&str, &str)> = fields.iter().map(|(f, v)| (f.name(), v.as_str())).collect();
        if let Ok(deadline) = read_at_now(&policy(), &headers).deadline {
            prop_assert!(deadline.at > now().mono);
            prop_assert!(deadline.at <= now().mono + policy().max);
            prop_assert!(deadline.client_wall <= now().wall + policy().max);
        }
    }

    /// A start never adds time, and without a valid start the minimum budget is granted in full.
    #[test]
    fn start_only_reduces_the_time_left(budget_ms in 1..100_000_u64, start in "[0-9.]{0,20}") {
        let budget = budget_ms.to_string();
        let whole = read_at_now(&policy(), &[("x-slo-ms", &budget)]).deadline.unwrap();
        prop_assert!(whole.at.since(now().mono) >= policy().min);
        if let Ok(deadline) = read_at_now(&policy(), &[("x-slo-ms", &budget), ("x-slo-start", &start)]).deadline {
            prop_assert!(deadline.at <= whole.at);
        }
    }
}
