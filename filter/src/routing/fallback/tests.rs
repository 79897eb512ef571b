//! The choice by a list against its definition, for any variants and lists; its text.

use proptest::prelude::*;

use super::*;
use crate::routing::group_times::Group;

#[derive(Debug, Clone, Copy)]
struct Plain {
    has_slots: bool,
    failing: bool,
    takes_ms: u64,
    accuracy: f64,
    streams_full: bool,
}

impl Plain {
    fn candidate(self) -> Candidate<impl Fn() -> ResponseTime + Copy> {
        Candidate {
            share: 0.5,
            has_slots: self.has_slots,
            failing: self.failing,
            response_time: move || {
                let service = Span::from_millis(self.takes_ms);
                let total = service;
                ResponseTime { total, service }
            },
            accuracy: self.accuracy,
            streams_full: self.streams_full,
        }
    }
}

fn list_of(members: &[(Option<u16>, Option<u64>)]) -> VariantList {
    let mut list = VariantList::EMPTY;
    for (variant, within_ms) in members {
        list.push(variant.map(VariantId), within_ms.map(Span::from_millis));
    }
    list
}

fn requirements(list: &VariantList, left_ms: u64, after_ms: u64) -> Requirements<'_> {
    Requirements {
        left: Span::from_millis(left_ms),
        min_accuracy: 70.0,
        list,
        after: Span::from_millis(after_ms),
        group: Group::default(),
    }
}

const FAST: Plain = Plain {
    has_slots: true,
    failing: false,
    takes_ms: 20,
    accuracy: 70.0,
    streams_full: false,
};
const MEDIUM: Plain = Plain {
    takes_ms: 100,
    accuracy: 75.0,
    ..FAST
};
const LARGE: Plain = Plain {
    takes_ms: 300,
    accuracy: 80.0,
    ..FAST
};

/// Chooses among large (0), medium (1) and fast (2), and returns the text.
fn choose(variants: [Plain; 3], list: &VariantList, left_ms: u64, after_ms: u64) -> Option<String> {
    let mut recorded = *list;
    let candidates = variants.into_iter().map(Plain::candidate);
    let _ = Router::default().choose_listed(
        &mut recorded,
        candidates,
        requirements(list, left_ms, after_ms),
        None,
    );
    recorded.text(|id| ["large", "7b", "fast"].get(usize::from(id.0)).copied())
}

#[test]
fn skipped_variants_are_named_with_their_reasons() {
    let all = [LARGE, MEDIUM, FAST];
    let list = list_of(&[(Some(0), Some(400)), (Some(1), Some(250)), (Some(2), None)]);
    for (left_ms, after_ms, expected) in [
        (1000, 0, "large"),
        (1000, 100, "large"),
        (1000, 101, "large;skipped=infeasible, \"7b\""),
        (299, 0, "large;skipped=infeasible, \"7b\""),
        (
            1000,
            151,
            "large;skipped=infeasible, \"7b\";skipped=infeasible, fast",
        ),
        (
            1000,
            400,
            "large;skipped=expired, \"7b\";skipped=expired, fast",
        ),
        (
            19,
            300,
            "large;skipped=infeasible, \"7b\";skipped=expired, fast;skipped=infeasible",
        ),
    ] {
        let text = choose(all, &list, left_ms, after_ms);
        assert_eq!(text.as_deref(), Some(expected), "{left_ms} {after_ms}");
    }
    let wrong = [
        Plain {
            has_slots: false,
            failing: true,
            ..LARGE
        },
        Plain {
            failing: true,
            accuracy: 0.0,
            ..MEDIUM
        },
        Plain {
            accuracy: 69.9,
            takes_ms: 9999,
            ..FAST
        },
    ];
    let text = choose(wrong, &list, 1000, 0);
    assert_eq!(
        text.as_deref(),
        Some("large;skipped=no-capacity, \"7b\";skipped=no-backend, fast;skipped=accuracy")
    );
    assert_eq!(list.text(|_| Some("any")), None, "nothing is decided");
}

#[test]
fn any_other_variant_is_chosen_as_without_a_list() {
    let all = [LARGE, MEDIUM, FAST];
    let list = list_of(&[(Some(0), None), (None, Some(200))]);
    for (left_ms, after_ms, expected) in [
        (1000, 0, "large"),
        (299, 0, "large;skipped=infeasible, *"),
        (19, 0, "large;skipped=infeasible, *;skipped=infeasible"),
        (299, 200, "large;skipped=infeasible, *;skipped=expired"),
    ] {
        let text = choose(all, &list, left_ms, after_ms);
        assert_eq!(text.as_deref(), Some(expected), "{left_ms} {after_ms}");
    }
    let mut counts = [0; 3];
    let mut router = Router::default();
    for _ in 0..100 {
        let candidates = all.into_iter().map(Plain::candidate);
        let wants = requirements(&list, 299, 0);
        let chosen = router.choose_listed(&mut list.clone(), candidates, wants, None);
        counts[usize::from(chosen.unwrap().0)] += 1;
    }
    assert_eq!(counts, [0, 50, 50], "by shares among the others");
}

#[test]
fn expiry_is_of_the_entry_that_allows_the_variant() {
    let list = list_of(&[(Some(3), Some(5)), (Some(4), None), (None, Some(7))]);
    let ms = |variant| {
        let expiry = list.expiry(VariantId(variant));
        expiry.map(|at| at.as_millis())
    };
    assert_eq!([ms(3), ms(4), ms(5)], [Some(5), None, Some(7)]);
    let always = |variant| list.allows_always(VariantId(variant));
    assert_eq!([always(3), always(4), always(5)], [false, true, false]);
    assert!(VariantList::EMPTY.allows_always(VariantId(3)));
    let hour = list_of(&[(Some(0), Some(3_600_000))]);
    assert!(hour.expiry(VariantId(0)).is_some(), "within the range");
    let full = list_of(&[(Some(1), None); LISTED_MAX + 1]);
    assert_eq!(full.variants().count(), LISTED_MAX);
}

#[test]
fn failed_over_request_names_who_answered() {
    let name = |id: VariantId| ["a", "b", "c"].get(usize::from(id.0)).copied();
    let mut list = list_of(&[(Some(0), None), (Some(1), None), (Some(2), None)]);
    list.serve_by(VariantId(0));
    list.fail_over(VariantId(2));
    let text = list.text(name).unwrap();
    assert_eq!(text, "a;skipped=no-backend, b;skipped=no-backend, c");
    assert_eq!(list.passed_over(), Some(VariantId(0)));
    list.fail_over(VariantId(0));
    assert_eq!(list.text(name).unwrap(), "a");
}

#[test]
fn labels_of_skips_are_distinct_names() {
    for (index, skip) in Skip::ALL.iter().enumerate() {
        assert!(weir_api::plan::is_name(skip.label()));
        let others = Skip::ALL[..index].iter();
        assert!(others.clone().all(|other| other.label() != skip.label()));
    }
}

fn plain() -> impl Strategy<Value = Plain> {
    let seldom = prop::bool::weighted(0.2);
    let flags = (prop::bool::weighted(0.8), seldom, seldom);
    (flags, 0..100_u64, 60..90_u32).prop_map(|(flags, takes_ms, accuracy)| {
        let (has_slots, failing, streams_full) = flags;
        Plain {
            has_slots,
            failing,
            takes_ms,
            accuracy: f64::from(accuracy),
            streams_full,
        }
    })
}

/// Distinct members, `*` last.
fn members(variants: u16) -> impl Strategy<Value = Vec<(Option<u16>, Option<u64>)>> {
    let order: Vec<u16> = (0..variants).collect();
    let within = prop::collection::vec(prop::option::of(1..150_u64), usize::from(variants) + 1);
    let many = 0..=usize::from(variants);
    (Just(order).prop_shuffle(), within, many, any::<bool>()).prop_map(
        |(order, within, many, any)| {
            let named = order.into_iter().map(Some).take(many);
            let all = named.chain((any || many == 0).then_some(None));
            all.zip(within).collect()
        },
    )
}

proptest! {
    /// The first member that meets the requirements serves; nothing else ever does, and not after its time.
    #[test]
    fn first_member_that_can_serves(
        variants in prop::collection::vec(plain(), 5),
        members in members(5),
        left_ms in 0..200_u64,
        after_ms in 0..200_u64,
        except in prop::option::of(0..5_u16),
    ) {
        let list = list_of(&members);
        let named: Vec<u16> = members.iter().filter_map(|(variant, _)| *variant).collect();
        let meets = |variant: u16, within_ms: Option<u64>| {
            let plain = variants[usize::from(variant)];
            let until_ms = within_ms.map_or(u64::MAX, |within_ms| within_ms.saturating_sub(after_ms));
            plain.has_slots && !plain.failing && plain.accuracy >= 70.0 && except != Some(variant)
                && !plain.streams_full && until_ms > 0 && plain.takes_ms <= left_ms.min(until_ms)
        };
        let able: Vec<Vec<u16>> = members
            .iter()
            .map(|(variant, within_ms)| {
                let allowed: Vec<u16> = match variant {
                    Some(variant) => vec![*variant],
                    None => (0..5).filter(|other| !named.contains(other)).collect(),
                };
                allowed.into_iter().filter(|one| meets(*one, *within_ms)).collect()
            })
            .collect();
        let mut recorded = list;
        let candidates = variants.iter().map(|plain| plain.candidate());
        let except = except.map(VariantId);
        let wants = requirements(&list, left_ms, after_ms);
        let chosen = Router::default().choose_listed(&mut recorded, candidates, wants, except);
        let expected = able.iter().position(|able| !able.is_empty());
        prop_assert_eq!(chosen.is_ok(), expected.is_some());
        prop_assert_eq!(recorded.chosen.map(usize::from), expected);
        if let (Ok(chosen), Some(place)) = (chosen, expected) {
            prop_assert!(able[place].contains(&chosen.0), "{chosen:?} of {able:?}");
        }
        for (place, entry) in recorded.entries().iter().enumerate() {
            let before = expected.is_none_or(|chosen| place < chosen);
            prop_assert_eq!(entry.skip.is_some(), before);
        }
    }
}
