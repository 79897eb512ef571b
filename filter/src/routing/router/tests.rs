//! Quotas, credit, and the choice of a variant that no quota gives.

use super::*;
use proptest::prelude::*;

fn variant(
    share: f64,
    service_ms: u64,
    accuracy: f64,
) -> Candidate<impl Fn() -> ResponseTime + Copy> {
    Candidate {
        share,
        has_slots: true,
        failing: false,
        response_time: move || response(0, service_ms),
        accuracy,
        streams_full: false,
    }
}

fn response(wait_ms: u64, service_ms: u64) -> ResponseTime {
    ResponseTime {
        total: Span::from_millis(wait_ms + service_ms),
        service: Span::from_millis(service_ms),
    }
}

fn requirements(left_ms: u64) -> Requirements<'static> {
    Requirements {
        left: Span::from_millis(left_ms),
        min_accuracy: 0.0,
        list: &VariantList::EMPTY,
        after: Span::ZERO,
        group: Group::default(),
    }
}

proptest! {
    /// After any number of requests each variant is within one of its quota, for any quotas and any number
    /// of variants.
    #[test]
    fn shares_follow_the_quotas_within_one_request(
        weights in prop::collection::vec(0.0..1.0_f64, 1..8),
        requests in 1..500_usize,
    ) {
        let sum: f64 = weights.iter().sum();
        prop_assume!(sum > 0.01);
        let candidates: Vec<_> = weights.iter().map(|w| variant(w / sum, 10, 70.0)).collect();
        let mut router = Router::default();
        let mut counts = vec![0_usize; candidates.len()];
        for _ in 0..requests {
            counts[router.choose(candidates.iter().copied(), requirements(100)).unwrap().variant] += 1;
        }
        for (count, candidate) in counts.iter().zip(&candidates) {
            let due = candidate.share * requests as f64;
            prop_assert!((*count as f64 - due).abs() <= 1.0 + 1e-6, "{count} of {due}");
        }
    }
}

#[test]
fn passed_over_variant_is_not_flooded_afterwards() {
    let candidates = [variant(0.5, 10, 70.0), variant(0.5, 500, 78.0)];
    let mut router = Router::default();
    for _ in 0..100 {
        let choice = router
            .choose(candidates.into_iter(), requirements(100))
            .unwrap();
        assert_eq!(choice.variant, 0);
    }
    let next: Vec<_> = (0..10)
        .map(|_| {
            router
                .choose(candidates.into_iter(), requirements(1000))
                .unwrap()
                .variant
        })
        .collect();
    let slow = next.iter().filter(|i| **i == 1).count();
    assert!(
        (5..=7).contains(&slow),
        "one round of credit at most: {next:?}"
    );
}

#[test]
fn variant_that_would_be_late_after_twice_the_wait_comes_after_the_others() {
    // Wait of the variant that is due, and of the other one, in ms; services of 100 and 50 ms → which is chosen.
    for (waits, chosen) in [
        ([0, 0], 0),
        ([149, 0], 0),
        // 2 · 151 + 100 exceed the 400 that are left.
        ([151, 0], 1),
        // So do both: the quota counts.
        ([151, 176], 0),
        // The first is late for sure.
        ([301, 200], 1),
    ] {
        let [first, second] = [(waits[0], 100), (waits[1], 50)].map(|(wait, service)| Candidate {
            share: if service == 100 { 1.0 } else { 0.0 },
            has_slots: true,
            failing: false,
            response_time: move || response(wait, service),
            accuracy: service as f64 / 2.0,
            streams_full: false,
        });
        let choice = Router::default().choose([first, second].into_iter(), requirements(400));
        assert_eq!(choice.map(|choice| choice.variant), Ok(chosen), "{waits:?}");
    }
}

#[test]
fn most_accurate_feasible_variant_is_chosen_if_no_quota_fits() {
    let candidates = [
        variant(1.0, 500, 78.0),
        variant(0.0, 100, 76.0),
        variant(0.0, 50, 70.0),
    ];
    let mut router = Router::default();
    let mut choose = |requirements| {
        let choice = router.choose(candidates.into_iter(), requirements);
        choice.map(|choice| (choice.variant, choice.instead_of))
    };
    assert_eq!(choose(requirements(600)), Ok((0, None)));
    assert_eq!(choose(requirements(200)), Ok((1, Some(0))));
    assert_eq!(choose(requirements(60)), Ok((2, Some(0))));
    assert_eq!(choose(requirements(40)), Err(NoRoute::Infeasible));
    assert_eq!(
        choose(Requirements {
            min_accuracy: 77.0,
            ..requirements(200)
        }),
        Err(NoRoute::Infeasible)
    );
    assert_eq!(
        choose(Requirements {
            min_accuracy: 76.0,
            ..requirements(200)
        }),
        Ok((1, Some(0)))
    );
}

#[test]
fn observed_shares_follow_the_choices() {
    let candidates = [variant(0.75, 10, 70.0), variant(0.25, 10, 78.0)];
    let mut router = Router::default();
    assert_eq!(router.observed_share(0), None, "of no request at all");
    for requests in 1..=4 * FADING as usize {
        router
            .choose(candidates.into_iter(), requirements(100))
            .unwrap();
        if requests >= 100 {
            let off = router.observed_share(0).unwrap() - 0.75;
            assert!(off.abs() < 0.02, "{off} after {requests}");
        }
    }
    for _ in 0..4 * FADING as usize {
        let pressed = [candidates[0], variant(0.25, 500, 78.0)];
        router
            .choose(pressed.into_iter(), requirements(100))
            .unwrap();
    }
    assert!(router.observed_share(1).unwrap() < 0.02);
}

#[test]
fn no_slots_mean_no_capacity() {
    let closed = Candidate {
        has_slots: false,
        ..variant(1.0, 10, 70.0)
    };
    let mut router = Router::default();
    assert_eq!(
        router.choose([closed].into_iter(), requirements(100)),
        Err(NoRoute::NoCapacity)
    );
    assert_eq!(
        router.choose([closed; 0].into_iter(), requirements(100)),
        Err(NoRoute::NoCapacity)
    );
}

#[test]
fn response_time_is_computed_once_for_a_choice() {
    let computed = Cell::new(0);
    let response_time = || {
        computed.set(computed.get() + 1);
        response(0, 500)
    };
    let slow = |accuracy| Candidate {
        share: 0.5,
        has_slots: true,
        failing: false,
        response_time,
        accuracy,
        streams_full: false,
    };
    let mut router = Router::default();
    for choices in 1..=2 {
        let none = router.choose([slow(70.0), slow(78.0)].into_iter(), requirements(100));
        assert_eq!(none, Err(NoRoute::Infeasible));
        assert_eq!(computed.get(), 2 * choices);
    }
}

/// The same choice as [`Router::by_fit`], in as many passes as there are kinds of fit.
fn by_passes<T: Fn() -> ResponseTime>(
    router: &Router,
    candidates: impl Iterator<Item = Candidate<T>> + Clone,
    requirements: Requirements<'_>,
) -> Result<(usize, bool), NoRoute> {
    let cautious = candidates.clone().map(Candidate::cautious);
    if let Ok(variant) = best(cautious, requirements) {
        return Ok((variant, false));
    }
    match router.by_quota(candidates.clone(), requirements).0 {
        Some(variant) => Ok((variant, true)),
        None => best(candidates, requirements).map(|variant| (variant, false)),
    }
}

/// Quarters of a quota; slots, failure and full streams; wait and service in ms; accuracy above 70.
type Drawn = (u8, (bool, bool, bool), (u64, u64), u8);

fn drawn() -> impl Strategy<Value = Drawn> {
    let rarely = || prop::bool::weighted(0.1);
    let flags = (prop::bool::weighted(0.9), rarely(), rarely());
    (0..4_u8, flags, (0..60_u64, 1..60_u64), 0..3_u8)
}

fn candidate(drawn: Drawn) -> Candidate<impl Fn() -> ResponseTime + Copy> {
    let (share, (has_slots, failing, streams_full), (wait, service), accuracy) = drawn;
    Candidate {
        share: f64::from(share) / 4.0,
        has_slots,
        failing,
        response_time: move || response(wait, service),
        accuracy: 70.0 + f64::from(accuracy),
        streams_full,
    }
}

proptest! {
    #[test]
    fn one_pass_chooses_as_several_do(
        drawn in prop::collection::vec(drawn(), 0..6),
        earlier in prop::collection::vec(0..120_u64, 0..30),
        left_ms in 0..120_u64,
        min_accuracy in 69..72_u8,
    ) {
        let candidates: Vec<_> = drawn.into_iter().map(candidate).collect();
        let mut router = Router::default();
        for left_ms in earlier {
            let _ = router.choose(candidates.iter().copied(), requirements(left_ms));
        }
        router.credit(candidates.iter().copied());
        let requirements = Requirements { min_accuracy: f64::from(min_accuracy), ..requirements(left_ms) };
        let one = router.by_fit(candidates.iter().copied(), requirements);
        prop_assert_eq!(one, by_passes(&router, candidates.iter().copied(), requirements));
    }
}
