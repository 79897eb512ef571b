//! Division of a whole plan among proxies, regardless of their present slots.
//!
//! Each variant's slots are divided evenly among its owners. The remainder goes to the owners with the
//! fewest slots so far; of equals, to those that own fewer variants, because they have no other source of
//! slots. Hence the owners' slots of a variant differ by at most one, and so do the totals of owners of the
//! same variants. A proxy goes without slots only if there are fewer slots than proxies.

use weir_api::{Plan, Share, VariantPlan};

use super::ownership::{Member, Relation, Role, relations};

/// Refusal: fewer slots than proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{proxies} proxies share {slots} slots, so none is left for this one: put a gate (a proxy of role gate) in front of the servers, or give the service as many slots as it has proxies"
)]
pub struct TooFew {
    /// Proxies that own slots.
    pub proxies: usize,
    /// Slots of all variants.
    pub slots: u64,
}

/// Returns each proxy's plan, for `proxies` in the order of their node ids; every gate fronts all variants.
pub fn divide(plan: &Plan, proxies: &[Role]) -> Vec<Result<Plan, TooFew>> {
    let member = |role: &Role| Member {
        role: *role,
        variant: None,
        live: true,
    };
    let members: Vec<_> = proxies.iter().map(member).collect();
    let relations = relations(&variant_names(plan), &members);
    let whole = variant_slots(plan);
    let parts = divide_slots(&whole, &relations);
    let owners = relations
        .iter()
        .filter(|relations| relations.contains(&Relation::Owns))
        .count();
    let part_of = |(relations, slots): (&Vec<Relation>, Vec<u32>)| {
        if is_superfluous(relations, &slots, &whole) {
            let slots = whole.iter().map(|slots| u64::from(*slots)).sum();
            return Err(TooFew {
                proxies: owners,
                slots,
            });
        }
        Ok(Plan {
            variants: with_slots(&plan.variants, &slots),
            ..plan.clone()
        })
    };
    relations.iter().zip(parts).map(part_of).collect()
}

/// Returns a plan's slots, by variant.
pub(super) fn variant_slots(plan: &Plan) -> Vec<u32> {
    plan.variants.iter().map(|variant| variant.slots).collect()
}

/// Returns the names of a plan's variants.
pub(super) fn variant_names(plan: &Plan) -> Vec<&str> {
    plan.variants
        .iter()
        .map(|variant| variant.name.as_str())
        .collect()
}

/// A proxy's slots while they are divided.
struct Portion<'a> {
    relations: &'a [Relation],
    /// Number of variants that it owns.
    width: usize,
    total: u64,
    slots: Vec<u32>,
}

impl<'a> Portion<'a> {
    fn new(relations: &'a [Relation]) -> Portion<'a> {
        Portion {
            width: relations
                .iter()
                .filter(|relation| **relation == Relation::Owns)
                .count(),
            relations,
            total: 0,
            slots: Vec::with_capacity(relations.len()),
        }
    }
}

/// Returns, by proxy, its slots of each variant: a part of those it owns, and all of those it only routes
/// to.
pub(super) fn divide_slots(whole: &[u32], relations: &[Vec<Relation>]) -> Vec<Vec<u32>> {
    let mut portions: Vec<_> = relations
        .iter()
        .map(|relations| Portion::new(relations))
        .collect();
    for (variant, slots) in whole.iter().enumerate() {
        let mut owners = Vec::with_capacity(portions.len());
        for portion in &mut portions {
            match portion.relations.get(variant) {
                Some(Relation::Owns) => owners.push(portion),
                Some(Relation::Chooses) => portion.slots.push(*slots),
                _ => portion.slots.push(0),
            }
        }
        owners.sort_by_key(|portion| (portion.total, portion.width));
        let count = u32::try_from(owners.len()).unwrap_or(u32::MAX).max(1);
        for (index, portion) in (0..).zip(owners) {
            let share = slots / count + u32::from(index < slots % count);
            portion.total += u64::from(share);
            portion.slots.push(share);
        }
    }
    portions.into_iter().map(|portion| portion.slots).collect()
}

/// Whether a proxy with the slots `part` is superfluous, or has no relation to any variant of the plan. A
/// gate of a variant without slots is neither: its plan says so.
pub(super) fn is_superfluous(relations: &[Relation], part: &[u32], whole: &[u32]) -> bool {
    let owner = |relation: &Relation| matches!(relation, Relation::Owns | Relation::WouldOwn);
    let any = relations.iter().zip(whole);
    let left_out = any
        .into_iter()
        .any(|(relation, slots)| owner(relation) && *slots > 0);
    let unrelated = relations.iter().all(|relation| *relation == Relation::None);
    (left_out || unrelated) && part.iter().all(|slots| *slots == 0)
}

/// Returns the variants with these slots. The share of a variant without slots here goes to the others in
/// proportion to their shares, or to their slots if they have no shares.
pub(super) fn with_slots(variants: &[VariantPlan], slots: &[u32]) -> Vec<VariantPlan> {
    let slots = || slots.iter().copied().chain(std::iter::repeat(0));
    let lost = |(variant, slots): (&VariantPlan, u32)| variant.share.0 > 0.0 && slots == 0;
    let whole = !variants.iter().zip(slots()).any(lost);
    let kept = |variant: &VariantPlan, slots: u32| match slots {
        0 => 0.0,
        _ => variant.share.0,
    };
    let shares: f64 = variants
        .iter()
        .zip(slots())
        .map(|(variant, slots)| kept(variant, slots))
        .sum();
    let total: f64 = slots().take(variants.len()).map(f64::from).sum();
    let share = |variant: &VariantPlan, slots: u32| match () {
        () if whole => variant.share.0,
        () if shares > 0.0 => kept(variant, slots) / shares,
        () if total > 0.0 => f64::from(slots) / total,
        () => 0.0,
    };
    let part = |(variant, slots): (&VariantPlan, u32)| VariantPlan {
        share: Share(share(variant, slots)),
        slots,
        ..variant.clone()
    };
    variants.iter().zip(slots()).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::slot_allocation::tests::whole;
    use proptest::prelude::*;

    #[track_caller]
    fn check(whole: &[u32], owners: usize, expected: &[&[u32]]) {
        let relations = vec![vec![Relation::Owns; whole.len()]; owners];
        assert_eq!(
            divide_slots(whole, &relations),
            expected,
            "{whole:?} among {owners}"
        );
    }

    #[test]
    fn slots_are_divided_evenly() {
        check(&[10], 1, &[&[10]]);
        check(&[10], 3, &[&[4], &[3], &[3]]);
        // An owner that got the odd slot of the first variant does not get that of the second.
        check(&[3, 3], 2, &[&[2, 1], &[1, 2]]);
        check(&[1, 1, 1], 3, &[&[1, 0, 0], &[0, 1, 0], &[0, 0, 1]]);
        check(&[0, 5], 2, &[&[0, 3], &[0, 2]]);
        check(&[1, 1], 3, &[&[1, 0], &[0, 1], &[0, 0]]);
        check(&[2], 4, &[&[1], &[1], &[0], &[0]]);
        check(&[0], 2, &[&[0], &[0]]);
        check(&[4], 0, &[]);
    }

    /// Gates by the variant of a, b and c that they front (nothing: all) → their slots.
    #[track_caller]
    fn check_gates(whole: [u32; 3], gates: &[&'static str], expected: &[[u32; 3]]) {
        let member = |gate: &&'static str| Member {
            role: Role::Gate,
            variant: Some(*gate).filter(|gate| !gate.is_empty()),
            live: true,
        };
        let members: Vec<_> = gates.iter().map(member).collect();
        let relations = relations(&["a", "b", "c"], &members);
        assert_eq!(
            divide_slots(&whole, &relations),
            expected,
            "{whole:?} among {gates:?}"
        );
    }

    #[test]
    fn gate_gets_slots_of_fronted_variants_only() {
        check_gates(
            [7, 4, 0],
            &["a", "a", "b"],
            &[[4, 0, 0], [3, 0, 0], [0, 4, 0]],
        );
        // c has slots and no owner.
        check_gates([2, 2, 9], &["a", "b"], &[[2, 0, 0], [0, 2, 0]]);
        // A gate of all variants shares each with the variant's own gate, which comes first.
        check_gates(
            [3, 3, 2],
            &["", "a", "b"],
            &[[1, 1, 2], [2, 0, 0], [0, 2, 0]],
        );
        check_gates([1, 1, 0], &["", "a"], &[[0, 1, 0], [1, 0, 0]]);
        check_gates([1, 0, 0], &["", "a"], &[[0, 0, 0], [1, 0, 0]]);
        check_gates([3, 0, 0], &["a", "a"], &[[2, 0, 0], [1, 0, 0]]);
    }

    #[test]
    fn share_without_slots_is_redistributed_in_proportion() {
        let plan = whole(&[(0.5, 2), (0.3, 2), (0.2, 2)]);
        for (slots, shares) in [
            ([1, 1, 1], [0.5, 0.3, 0.2]),
            ([0, 1, 1], [0.0, 0.6, 0.4]),
            ([0, 0, 1], [0.0, 0.0, 1.0]),
            ([0, 0, 0], [0.0, 0.0, 0.0]),
        ] {
            let got: Vec<_> = with_slots(&plan.variants, &slots)
                .iter()
                .map(|variant| (variant.share.0 * 1000.0).round() / 1000.0)
                .collect();
            assert_eq!(got, shares, "{slots:?}");
        }
        // Only the variant that should have had no traffic is left to this proxy.
        let spare = whole(&[(1.0, 1), (0.0, 5)]);
        let got = with_slots(&spare.variants, &[0, 3]);
        assert_eq!([got[0].share.0, got[1].share.0], [0.0, 1.0]);
    }

    #[test]
    fn ownership_depends_on_gates_and_refusal_names_remedy() {
        let plan = whole(&[(1.0, 2)]);
        let slots = |parts: Vec<Result<Plan, TooFew>>| -> Vec<Option<u32>> {
            let of = |part: Result<Plan, TooFew>| part.ok().map(|plan| plan.variants[0].slots);
            parts.into_iter().map(of).collect()
        };
        use Role::{Both, Gate, Router};
        for (roles, expected) in [
            (vec![Both], vec![Some(2)]),
            (vec![Both, Router, Both], vec![Some(1), Some(2), Some(1)]),
            (vec![Both, Both, Both], vec![Some(1), Some(1), None]),
            (vec![Both, Gate, Both, Both], vec![Some(2); 4]),
            (
                vec![Gate, Router, Gate, Gate],
                vec![Some(1), Some(2), Some(1), None],
            ),
        ] {
            assert_eq!(slots(divide(&plan, &roles)), expected, "{roles:?}");
        }
        let message = divide(&plan, &[Both; 3])[2]
            .clone()
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with("3 proxies share 2 slots") && message.contains("role gate"),
            "{message}"
        );
    }

    proptest! {
        #[test]
        fn slots_add_up_to_whole_and_differ_by_at_most_one(
            plan in prop::collection::vec((0.0..1.0_f64, 0..40_u32), 1..6),
            owners in 1..12_usize,
        ) {
            let plan = whole(&plan);
            let slots = variant_slots(&plan);
            let total: u32 = slots.iter().sum();
            let parts = divide_slots(&slots, &vec![vec![Relation::Owns; slots.len()]; owners]);
            for (variant, whole) in slots.iter().enumerate() {
                let of: Vec<u32> = parts.iter().map(|part| part[variant]).collect();
                prop_assert_eq!(of.iter().sum::<u32>(), *whole);
                prop_assert!(of.iter().max().unwrap() - of.iter().min().unwrap() <= 1);
            }
            let totals: Vec<u32> = parts.iter().map(|part| part.iter().sum()).collect();
            prop_assert!(totals.iter().max().unwrap() - totals.iter().min().unwrap() <= 1);
            let without = totals.iter().filter(|total| **total == 0).count();
            prop_assert_eq!(without, owners.saturating_sub(total as usize));
            for part in divide(&plan, &vec![Role::Both; owners]).into_iter().flatten() {
                prop_assert_eq!(part.check(), Ok(()));
            }
        }

        /// Three variants with any mix of gates, routers and combined proxies.
        #[test]
        fn variant_slots_are_divided_among_owners(
            slots in prop::array::uniform3(0..30_u32),
            who in prop::collection::vec((0..3_usize, 0..4_usize), 1..9),
        ) {
            const NAMES: [&str; 3] = ["v0", "v1", "v2"];
            let member = |(role, variant): &(usize, usize)| Member {
                role: Role::ALL[*role],
                variant: NAMES.get(*variant).copied().filter(|_| Role::ALL[*role] == Role::Gate),
                live: true,
            };
            let members: Vec<_> = who.iter().map(member).collect();
            let relations = relations(&NAMES, &members);
            let parts = divide_slots(&slots, &relations);
            for (variant, whole) in slots.iter().enumerate() {
                let owns = |place: &usize| relations[*place][variant] == Relation::Owns;
                let of: Vec<u32> = (0..who.len()).filter(owns).map(|place| parts[place][variant]).collect();
                if let (Some(most), Some(min)) = (of.iter().max(), of.iter().min()) {
                    prop_assert_eq!(of.iter().sum::<u32>(), *whole);
                    prop_assert!(most - min <= 1, "{:?}", of);
                }
            }
            let plan = whole(&slots.map(|slots| (0.5, slots)));
            for (place, part) in parts.iter().enumerate() {
                let plan = Plan { variants: with_slots(&plan.variants, part), ..plan.clone() };
                prop_assert_eq!(plan.check(), Ok(()));
                // A superfluous proxy could get a slot only by taking another's last one.
                if is_superfluous(&relations[place], part, &slots) {
                    let shares = |other: &usize| {
                        let both = relations[place].iter().zip(&relations[*other]);
                        both.into_iter().any(|(one, other)| (*one, *other) == (Relation::Owns, Relation::Owns))
                    };
                    let total = |other: usize| -> u32 {
                        let common = |variant: &usize| {
                            relations[place][*variant] == Relation::Owns && relations[other][*variant] == Relation::Owns
                        };
                        (0..slots.len()).filter(common).map(|variant| parts[other][variant]).sum()
                    };
                    for other in (0..who.len()).filter(shares) {
                        prop_assert!(total(other) <= 1, "{} has more than one of what {} has none of", other, place);
                    }
                }
            }
        }
    }
}
