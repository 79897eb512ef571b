//! Extraction of headers, and arbitrary bytes in them.

use super::*;
use crate::request::protocol::{Bypass, Streams, shape};
use crate::request::wire::{CLAIMS_MAX, Names};

#[test]
fn each_field_is_found_only_by_its_name() {
    for field in Field::ALL {
        let name = field.name();
        let near = [
            name.to_uppercase(),
            format!("{name} "),
            name[1..].to_owned(),
            format!("{}_", &name[..name.len() - 1]),
        ];
        let mut headers: Vec<(&str, &[u8])> =
            near.iter().map(|n| (n.as_str(), &b"no"[..])).collect();
        headers.push((name, b"yes"));
        headers.push((name, b"again"));
        let wire = Wire::pick(headers.iter().copied());
        for other in Field::ALL {
            let expected = (other == field).then_some(&b"yes"[..]);
            assert_eq!(wire.get(other), expected, "{name}: {}", other.name());
        }
    }
    assert_eq!(
        Field::ALL.map(|field| field as usize),
        std::array::from_fn(|i| i)
    );
}

/// Fields with a budget.
const BUDGETS: [Field; 11] = [
    Field::SloMs,
    Field::SloTtftMs,
    Field::TtftMs,
    Field::InferenceTtl,
    Field::GrpcTimeout,
    Field::ConnectTimeoutMs,
    Field::RequestTimeoutMs,
    Field::LitellmTimeout,
    Field::ReadTimeout,
    Field::ClientTimeout,
    Field::EnvoyTimeoutMs,
];

fn names(claims: &[String]) -> Names<'_> {
    Names {
        claims,
        budgets: &[],
    }
}

#[test]
fn configured_headers_are_extracted() {
    let claims = ["x-team", "x-slo-class", "x-team", "x-gone"].map(str::to_owned);
    let headers: [(&str, &[u8]); 3] = [
        ("x-team", b"blue"),
        ("x-slo-class", b"gold"),
        ("X-Gone", b"no"),
    ];
    let wire = Wire::pick_with(headers, names(&claims));
    assert_eq!(wire.claim(0), Some(&b"blue"[..]));
    assert_eq!(wire.claim(1), Some(&b"gold"[..]));
    assert_eq!(wire.get(Field::Class), Some(&b"gold"[..]));
    assert_eq!(wire.claim(2), Some(&b"blue"[..]), "named twice");
    assert_eq!(wire.claim(3), None);
    assert_eq!(wire.claim(usize::MAX), None);

    let many: Vec<String> = (0..CLAIMS_MAX + 3).map(|i| format!("x-{i}")).collect();
    let headers = many.iter().map(|name| (name.as_str(), name.as_bytes()));
    let wire = Wire::pick_with(headers, names(&many));
    for (index, name) in many.iter().enumerate() {
        let kept = (index < CLAIMS_MAX).then_some(name.as_bytes());
        assert_eq!(wire.claim(index), kept);
    }
}

/// A client's own line precedes the one that a trusted hop appends: neither proves anything.
#[test]
fn repeated_claim_header_has_no_value() {
    let claims = ["x-team", "x-tier", "x-slo-class"].map(str::to_owned);
    let headers: [(&str, &[u8]); 8] = [
        ("x-team", b"vision"),
        ("x-tier", b"gold"),
        ("x-slo-class", b"gold"),
        ("x-team", b"audio"),
        ("accept", b"*/*"),
        ("x-tier", b"gold"),
        ("x-slo-class", b"bulk"),
        ("x-team", b"vision"),
    ];
    let wire = Wire::pick_with(headers, names(&claims));
    assert_eq!(wire.claim(0), None, "three lines");
    assert_eq!(wire.claim(1), None, "the same twice");
    assert_eq!(wire.claim(2), None);
    assert_eq!(
        wire.get(Field::Class),
        Some(&b"gold"[..]),
        "what a client asks for proves nothing: the first counts"
    );
}

#[test]
fn network_latency_is_read_from_a_valid_start() {
    let age = |headers: &[(&str, &str)]| {
        let reading = read_at_now(&policy(), headers);
        (reading.stamped, reading.age.map(|age| age.as_millis()))
    };
    assert_eq!(age(&[]), (false, None));
    assert_eq!(age(&[("x-slo-start", "1789999999900")]), (true, Some(100)));
    assert_eq!(
        age(&[("x-request-start", "1789999999900")]),
        (true, Some(100))
    );
    assert_eq!(age(&[("x-slo-start", "1790000000050")]), (true, Some(0)));
    assert_eq!(age(&[("x-slo-start", "soon")]), (true, None));
    let trusting = Policy {
        trust_deadline: true,
        ..policy()
    };
    let headers = [
        ("x-slo-deadline", "1790000000400"),
        ("x-slo-start", "1789999999900"),
    ];
    let reading = read_at_now(&trusting, &headers);
    assert_eq!((reading.stamped, reading.age), (true, None), "not asked");
}

/// Arbitrary bytes, and values like those of the contract; some of them very long.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![any::<u8>(), b'0'..=b'9'];
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..40),
        4 => prop::collection::vec(byte.clone(), 0..40),
        4 => "[0-9.t=SmunHMe+-]{0,24}".prop_map(String::into_bytes),
        // Digits of times around now, in all units.
        3 => (1_789_999_900_000_u64..1_790_000_100_000, 0..4_usize).prop_map(|(ms, unit)| {
            [(ms / 1000).to_string(), ms.to_string(), format!("{ms}000"), format!("{ms}000000")][unit]
                .clone()
                .into_bytes()
        }),
        2 => "\\PC{0,24}".prop_map(String::into_bytes),
        1 => (byte, 0..=65_536_usize).prop_map(|(byte, length)| vec![byte; length]),
    ]
}

fn headers(most: usize) -> impl Strategy<Value = Vec<(Field, Vec<u8>)>> {
    prop::collection::vec(
        (prop::sample::select(Field::ALL.to_vec()), value()),
        0..most,
    )
}

fn wire_of(headers: &[(Field, Vec<u8>)]) -> Wire<'_> {
    Wire::pick(
        headers
            .iter()
            .map(|(field, value)| (field.name(), value.as_slice())),
    )
}

proptest! {
    /// For any bytes in any headers, repeated or not: nothing panics; a deadline lies between now and the
    /// maximum budget; and a request without a valid start or trusted deadline has at least the minimum budget.
    #[test]
    fn arbitrary_header_bytes_gain_no_urgency(headers in headers(12), trust_deadline: bool) {
        let policy = Policy { trust_deadline, ..policy() };
        let wire = wire_of(&headers);
        let mut sources = Sources::default();
        for skew in [None, Some((&mut sources, 1))] {
            let reading = read(&policy, &wire, now(), skew);
            let trusted = trust_deadline
                && wire.get(Field::Deadline).is_some()
                && !reading.invalid.iter().any(|field| field == Field::Deadline);
            let has_budget = BUDGETS.iter().any(|field| wire.get(*field).is_some());
            match reading.deadline {
                Ok(deadline) => {
                    prop_assert!(deadline.at > now().mono);
                    prop_assert!(deadline.at <= now().mono + policy.max);
                    prop_assert!(deadline.at <= deadline.client_at);
                    if reading.age.is_none() && !trusted {
                        prop_assert!(deadline.at >= now().mono + policy.min);
                    }
                }
                // Or a budget says that nothing is left.
                Err(Expired) => prop_assert!(reading.age.is_some() || trusted || has_budget),
            }
            prop_assert!(reading.age.is_none_or(|age| age <= policy.max_age));
            prop_assert!(!reading.clamped, "one stamp moves nothing");
        }
        prop_assert!(wire.min_accuracy().is_none_or(|floor| (0.0..=100.0).contains(&floor)));
        let _ = shape(&Bypass::default(), &Streams::default(), &wire, false);
    }

    /// A repeated header counts once, and headers that are not part of the deadline do not affect it.
    #[test]
    fn first_value_of_a_repeated_deadline_header_counts(headers in headers(12)) {
        let all = read(&policy(), &wire_of(&headers), now(), None);
        let mut own: Vec<(Field, Vec<u8>)> = Vec::new();
        for (field, value) in &headers {
            let of_deadline = BUDGETS.contains(field) || Field::STARTS.contains(field);
            if of_deadline && own.iter().all(|(seen, _)| seen != field) {
                own.push((*field, value.clone()));
            }
        }
        prop_assert_eq!(all, read(&policy(), &wire_of(&own), now(), None));
    }

    /// Arbitrary bytes as a budget leave the default, in full.
    #[test]
    fn invalid_budget_bytes_give_the_default(value in prop::collection::vec(128..=255_u8, 0..200)) {
        for field in BUDGETS {
            let headers = [(field, value.clone())];
            let reading = read(&policy(), &wire_of(&headers), now(), None);
            prop_assert_eq!(reading.deadline.unwrap().at, now().mono + policy().default);
            prop_assert_eq!(reading.invalid.iter().collect::<Vec<_>>(), vec![field]);
        }
    }
}
