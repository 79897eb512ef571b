//! Tests of gates of one variant each, step by step.

use super::moves::Bed;
use super::*;

/// Returns the shares and slots that the poll is answered with, by variant; and the revision.
#[track_caller]
fn takes(bed: &mut Bed, ticket: &Ticket) -> (Vec<(f64, u32)>, u64) {
    let Answer::Plan(plan) = bed.allocation.answer(ticket) else {
        panic!("no plan");
    };
    assert_eq!(plan.check(), Ok(()));
    bed.allocation.leave(ticket, true, now(bed.ms));
    let of = |variant: &VariantPlan| (variant.share.0, variant.slots);
    (plan.variants.iter().map(of).collect(), plan.revision.0)
}

#[test]
fn gates_of_same_variant_share_slots_and_routers_get_all() {
    let mut bed = Bed::new(&[(0.75, 5), (0.25, 2)]);
    let router = bed.polls_as("router", 1, Role::Router, 0);
    let (whole, _) = takes(&mut bed, &router);
    assert_eq!(whole, [(0.75, 5), (0.25, 2)]);
    let first = bed.gate_polls("gate-a1", "v0", 0);
    let (part, has) = takes(&mut bed, &first);
    assert_eq!(part, [(1.0, 5), (0.0, 0)], "all that comes to it is v0's");
    let first = bed.gate_polls("gate-a1", "v0", has);
    // A gate of the other variant: no proxy has to give anything up.
    let other = bed.gate_polls("gate-b", "v1", 0);
    assert_eq!(takes(&mut bed, &other).0, [(0.0, 0), (1.0, 2)]);
    bed.waits(&first);
    // A gate of the same variant: make before break.
    let second = bed.gate_polls("gate-a2", "v0", 0);
    bed.waits(&second);
    let (part, has) = takes(&mut bed, &first);
    assert_eq!(part, [(1.0, 3), (0.0, 0)]);
    bed.waits(&second);
    bed.gate_polls("gate-a1", "v0", has);
    assert_eq!(takes(&mut bed, &second).0, [(1.0, 2), (0.0, 0)]);
    let shown = &bed.allocation.view(now(bed.ms))["gate-a2"];
    assert_eq!(shown.variant.as_deref(), Some("v0"));
    assert_eq!(
        (shown.owns_slots, &*shown.owns),
        (true, &["v0".to_owned()][..])
    );
}

#[test]
fn gate_of_one_variant_leaves_others_to_combined_proxies() {
    let mut bed = Bed::new(&[(0.5, 6), (0.5, 4)]);
    let (a, b) = {
        let a = bed.polls("a", 0);
        let a = bed.polls_again("a", &a);
        let b = bed.polls("b", 0);
        let a = bed.gets(&a, &[3, 2]);
        let a = bed.polls("a", a);
        let b = bed.gets(&b, &[3, 2]);
        (a, bed.polls("b", b))
    };
    let gate = bed.gate_polls("gate", "v0", 0);
    let has = bed.gets(&gate, &[6, 0]);
    let held = bed.gate_polls("gate", "v0", has);
    // They still own v1, and route to as much of v0 as the gate has.
    let a = bed.gets(&a, &[6, 2]);
    let b = bed.gets(&b, &[6, 2]);
    let [a, b] = [("a", a), ("b", b)].map(|(name, has)| bed.polls(name, has));
    let shown = bed.allocation.view(now(bed.ms));
    assert_eq!(shown["a"].owns, ["v1"]);
    assert_eq!(shown["gate"].owns, ["v0"]);
    // The gate goes: they own v0 again.
    bed.breaks_off(&held);
    assert!(bed.later(BROKEN_OFF_MAX.as_millis() as u64));
    bed.gets(&a, &[3, 2]);
    bed.gets(&b, &[3, 2]);
}

#[test]
fn combined_proxies_behind_gates_and_routers_own_nothing() {
    let mut bed = Bed::new(&[(0.5, 6), (0.5, 4)]);
    for (name, variant) in [("gate-0", "v0"), ("gate-1", "v1")] {
        let gate = bed.gate_polls(name, variant, 0);
        let (_, has) = takes(&mut bed, &gate);
        bed.gate_polls(name, variant, has);
    }
    let both = bed.polls("both", 0);
    bed.gets(&both, &[6, 4]);
    assert!(!bed.allocation.view(now(bed.ms))["both"].owns_slots);
    // Without any gate a router still owns nothing: the slots wait for an owner.
    let mut bed = Bed::new(&[(1.0, 3)]);
    let router = bed.polls_as("router", 1, Role::Router, 0);
    bed.gets(&router, &[3]);
    let shown = &bed.allocation.view(now(bed.ms))["router"];
    assert_eq!((shown.owns_slots, shown.refused.as_deref()), (false, None));
}

#[test]
fn superfluous_gate_and_gate_of_unknown_variant_are_refused() {
    let mut bed = Bed::new(&[(0.5, 1), (0.5, 9)]);
    let first = bed.gate_polls("gate-1", "v0", 0);
    let has = bed.gets(&first, &[1, 0]);
    bed.gate_polls("gate-1", "v0", has);
    let refused = |bed: &mut Bed, ticket: &Ticket| {
        let Answer::Refused(why) = bed.allocation.answer(ticket) else {
            panic!("not refused");
        };
        bed.allocation.leave(ticket, true, now(bed.ms));
        why.to_string()
    };
    let second = bed.gate_polls("gate-2", "v0", 0);
    let why = refused(&mut bed, &second);
    assert!(
        why.starts_with("2 gates share 1 slots of variant 'v0'"),
        "{why}"
    );
    let lost = bed.gate_polls("gate-3", "v9", 0);
    let why = refused(&mut bed, &lost);
    assert!(
        why.starts_with("variant 'v9'") && why.ends_with("none of the plan's: v0, v1"),
        "{why}"
    );
    let shown = bed.allocation.view(now(bed.ms));
    assert!(
        shown["gate-3"]
            .refused
            .as_ref()
            .is_some_and(|message| *message == why)
    );
    assert_eq!(shown["gate-1"].refused, None);
    // It returns as the gate of a variant with spare slots.
    let found = bed.gate_polls("gate-3", "v1", 0);
    bed.gets(&found, &[0, 9]);
}

#[test]
fn gate_of_variant_without_slots_gets_empty_plan() {
    let mut bed = Bed::new(&[(1.0, 4), (0.0, 0)]);
    let gate = bed.gate_polls("gate", "v1", 0);
    let (part, has) = takes(&mut bed, &gate);
    assert_eq!(part, [(0.0, 0), (0.0, 0)]);
    let gate = bed.gate_polls("gate", "v1", has);
    bed.waits(&gate);
    assert_eq!(bed.allocation.view(now(bed.ms))["gate"].refused, None);
    bed.publish(&[(0.5, 4), (0.5, 2)]);
    assert_eq!(takes(&mut bed, &gate).0, [(0.0, 0), (1.0, 2)]);
}

#[test]
fn restarted_planner_assumes_gates_hold_own_variant_only() {
    let mut bed = Bed {
        allocation: SlotAllocation::new(LISTEN_TIME),
        ms: 0,
    };
    let known = ["v0", "v1"].map(|variant| bed.gate_polls(variant, variant, 500));
    let new = bed.gate_polls("v1-too", "v1", 0);
    bed.publish(&[(0.5, 3), (0.5, 8)]);
    assert!(bed.later(LISTEN_TIME.as_millis() as u64));
    let [first, second] = known;
    bed.gets(&first, &[3, 0]);
    bed.waits(&new);
    let has = bed.gets(&second, &[0, 4]);
    bed.waits(&new);
    bed.gate_polls("v1", "v1", has);
    bed.gets(&new, &[0, 4]);
}
