//! A whole plan → a part for each proxy. It knows nothing of who has what, or since when.
//!
//! Slots are dealt like cards: what does not divide evenly goes round, each variant beginning where the
//! last one stopped, so that no proxy is always the one with less, and the totals differ by at most
//! one, too. Hence a proxy goes without any slot only where there are fewer slots than proxies.

use serde::{Deserialize, Serialize};
use weir_api::{Plan, Share, VariantPlan};

/// What a proxy's filter does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Deadline and choice of variant.
    Router,
    /// Slots and order.
    Gate,
    /// Both in one.
    #[default]
    Both,
}

impl Role {
    /// All there are.
    pub const ALL: [Role; 3] = [Role::Router, Role::Gate, Role::Both];

    /// As polls and people name it.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Router => "router",
            Role::Gate => "gate",
            Role::Both => "both",
        }
    }

    /// Whether it owns slots, where `gated` says that some live proxy is a gate.
    pub const fn owns(self, gated: bool) -> bool {
        match self {
            Role::Router => false,
            Role::Gate => true,
            Role::Both => !gated,
        }
    }
}

/// There is no slot for this proxy.
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

/// What each of `proxies`, in the order of their node ids, gets of `plan`.
pub fn divide(plan: &Plan, proxies: &[Role]) -> Vec<Result<Plan, TooFew>> {
    let gated = proxies.contains(&Role::Gate);
    let owners = proxies.iter().filter(|role| role.owns(gated)).count();
    let whole = slots_of(plan);
    let total = whole.iter().map(|slots| u64::from(*slots)).sum();
    let mut parts = deal(&whole, owners).into_iter();
    let part_of = |role: &Role| {
        if !role.owns(gated) {
            return Ok(plan.clone());
        }
        let slots = parts.next().unwrap_or_default();
        if slots.iter().all(|slots| *slots == 0) {
            let (proxies, slots) = (owners, total);
            return Err(TooFew { proxies, slots });
        }
        let variants = with_slots(&plan.variants, &slots);
        Ok(Plan {
            variants,
            ..plan.clone()
        })
    };
    proxies.iter().map(part_of).collect()
}

/// The slots of a plan, by variant.
pub(super) fn slots_of(plan: &Plan) -> Vec<u32> {
    plan.variants.iter().map(|variant| variant.slots).collect()
}

/// By owner, the part of each variant's slots.
pub(super) fn deal(whole: &[u32], owners: usize) -> Vec<Vec<u32>> {
    let total: u64 = whole.iter().map(|slots| u64::from(*slots)).sum();
    // Fewer slots than owners: the first ones get one each, the others nothing.
    let served = usize::try_from(total).map_or(owners, |total| owners.min(total));
    let mut parts = vec![Vec::with_capacity(whole.len()); owners];
    let count = u32::try_from(served).unwrap_or(u32::MAX).max(1);
    let mut begin = 0;
    for slots in whole {
        for (place, part) in (0..).zip(&mut parts) {
            let turn = (place + count - begin) % count;
            let dealt = slots / count + u32::from(turn < slots % count);
            part.push(if place < count { dealt } else { 0 });
        }
        begin = (begin + slots % count) % count;
    }
    parts
}

/// The variants with these slots. A share of what has no slot here goes to the others in proportion
/// to theirs, or to their slots where they have none.
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
    use crate::sharing::tests::whole;
    use proptest::prelude::*;

    #[track_caller]
    fn check(whole: &[u32], owners: usize, expected: &[&[u32]]) {
        assert_eq!(deal(whole, owners), expected, "{whole:?} among {owners}");
    }

    #[test]
    fn slots_are_dealt_round() {
        check(&[10], 1, &[&[10]]);
        check(&[10], 3, &[&[4], &[3], &[3]]);
        // Who got the odd one of the first variant does not get that of the second.
        check(&[3, 3], 2, &[&[2, 1], &[1, 2]]);
        check(&[1, 1, 1], 3, &[&[1, 0, 0], &[0, 1, 0], &[0, 0, 1]]);
        check(&[0, 5], 2, &[&[0, 3], &[0, 2]]);
        check(&[1, 1], 3, &[&[1, 0], &[0, 1], &[0, 0]]);
        check(&[2], 4, &[&[1], &[1], &[0], &[0]]);
        check(&[0], 2, &[&[0], &[0]]);
        check(&[4], 0, &[]);
    }

    #[test]
    fn a_share_without_slots_goes_to_the_others_in_proportion() {
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
    fn who_owns_depends_on_gates_and_who_gets_nothing_is_told_what_to_do() {
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
        let said = divide(&plan, &[Both; 3])[2]
            .clone()
            .unwrap_err()
            .to_string();
        assert!(
            said.starts_with("3 proxies share 2 slots") && said.contains("role gate"),
            "{said}"
        );
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_whole_and_differ_by_at_most_one(
            plan in prop::collection::vec((0.0..1.0_f64, 0..40_u32), 1..6),
            owners in 1..12_usize,
        ) {
            let plan = whole(&plan);
            let slots = slots_of(&plan);
            let total: u32 = slots.iter().sum();
            let parts = deal(&slots, owners);
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
    }
}
