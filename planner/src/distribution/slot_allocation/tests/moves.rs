//! Tests of moves between proxies, step by step.

use super::*;
use crate::distribution::slot_allocation::proxy::GRANTS_MAX;

/// An allocation and its time.
pub(super) struct Bed {
    pub(super) allocation: SlotAllocation,
    pub(super) ms: u64,
}

impl Bed {
    pub(super) fn new(variants: &[(f64, u32)]) -> Bed {
        let allocation = SlotAllocation::default();
        let mut bed = Bed { allocation, ms: 0 };
        bed.publish(variants);
        bed
    }

    pub(super) fn publish(&mut self, variants: &[(f64, u32)]) -> Revision {
        let now = now(self.ms);
        let revision = self.allocation.next_revision(now);
        let plan = Plan {
            revision,
            ..whole(variants)
        };
        self.allocation.publish(plan, now);
        revision
    }

    pub(super) fn polls_as(
        &mut self,
        proxy: &str,
        incarnation: u64,
        role: Role,
        after: u64,
    ) -> Ticket {
        let poll = Poll {
            proxy: proxy.into(),
            incarnation,
            workers: 2,
            role,
            variant: None,
            version: None,
            after: Revision(after),
        };
        self.allocation.poll(&poll, now(self.ms)).unwrap().0
    }

    /// Polls as a gate of that variant.
    pub(super) fn gate_polls(&mut self, proxy: &str, variant: &str, after: u64) -> Ticket {
        let poll = Poll {
            proxy: proxy.into(),
            incarnation: 1,
            workers: 2,
            role: Role::Gate,
            variant: Some(variant.into()),
            version: None,
            after: Revision(after),
        };
        self.allocation.poll(&poll, now(self.ms)).unwrap().0
    }

    pub(super) fn polls(&mut self, proxy: &str, after: u64) -> Ticket {
        self.polls_as(proxy, 1, Role::Both, after)
    }

    /// Checks the slots that the poll is answered with; returns the revision.
    #[track_caller]
    pub(super) fn gets(&mut self, ticket: &Ticket, slots: &[u32]) -> u64 {
        let Answer::Plan(plan) = self.allocation.answer(ticket) else {
            panic!("no plan, instead of {slots:?}");
        };
        assert_eq!(plan.check(), Ok(()));
        assert_eq!(divide::variant_slots(&plan), slots);
        self.allocation.leave(ticket, true, now(self.ms));
        plan.revision.0
    }

    /// Lets "a" come, then "b"; returns their pending polls once each has its slots.
    fn a_and_b(&mut self, part_of_a: &[u32], part_of_b: &[u32]) -> (Ticket, Ticket) {
        let first = self.polls("a", 0);
        let first = self.polls_again("a", &first);
        let newcomer = self.polls("b", 0);
        let a = self.gets(&first, part_of_a);
        let a = self.polls("a", a);
        let b = self.gets(&newcomer, part_of_b);
        (a, self.polls("b", b))
    }

    /// Takes the answer, and polls again.
    pub(super) fn polls_again(&mut self, proxy: &str, ticket: &Ticket) -> Ticket {
        let Answer::Plan(plan) = self.allocation.answer(ticket) else {
            panic!("no plan");
        };
        self.allocation.leave(ticket, true, now(self.ms));
        self.polls(proxy, plan.revision.0)
    }

    #[track_caller]
    pub(super) fn waits(&mut self, ticket: &Ticket) {
        assert_eq!(self.allocation.answer(ticket), Answer::Wait);
    }

    /// Advances the time; returns whether anything moved.
    pub(super) fn later(&mut self, ms: u64) -> bool {
        self.ms += ms;
        self.allocation.tick(now(self.ms))
    }

    pub(super) fn breaks_off(&mut self, ticket: &Ticket) {
        self.allocation.leave(ticket, false, now(self.ms));
    }
}

#[test]
fn single_proxy_gets_whole_plan_unchanged() {
    let mut bed = Bed::new(&[(0.5, 3), (0.5, 2)]);
    let published = bed.allocation.whole.as_ref().unwrap().revision.0;
    let first = bed.polls("a", 0);
    assert_eq!(bed.gets(&first, &[3, 2]), published);
    let next = bed.polls("a", published);
    bed.waits(&next);
    assert!(!bed.allocation.is_shared(&next), "nobody to share with");
    let newer = bed.publish(&[(0.5, 4), (0.5, 2)]).0;
    assert_eq!(bed.gets(&next, &[4, 2]), newer);
}

#[test]
fn new_proxy_waits_until_its_slots_are_confirmed_free() {
    let mut bed = Bed::new(&[(1.0, 10)]);
    let a = bed.polls("a", 0);
    let one = bed.gets(&a, &[10]);
    let a = bed.polls("a", one);
    let b = bed.polls("b", 0);
    assert!(bed.allocation.is_shared(&a) && bed.allocation.is_shared(&b));
    bed.waits(&b);
    let two = bed.gets(&a, &[5]);
    assert!(two > one);
    bed.waits(&b);
    // Still the old plan: its answer was lost.
    let again = bed.polls("a", one);
    bed.waits(&b);
    bed.gets(&again, &[5]);
    let a = bed.polls("a", two);
    bed.waits(&a);
    bed.gets(&b, &[5]);
    assert_eq!(
        bed.allocation.counts().moves,
        1,
        "b has the published revision"
    );
}

#[test]
fn slots_of_lost_proxy_move_within_limit() {
    let limit = |ms: Duration| u64::try_from(ms.as_millis()).unwrap();
    for (broken_off, silence) in [(true, limit(BROKEN_OFF_MAX)), (false, limit(SILENT_MAX))] {
        let mut bed = Bed::new(&[(1.0, 10)]);
        let (a, b) = bed.a_and_b(&[5], &[5]);
        if broken_off {
            bed.breaks_off(&b);
        } else {
            bed.allocation.leave(&b, true, now(bed.ms));
        }
        assert!(!bed.later(silence - 1));
        bed.waits(&a);
        assert!(bed.later(1), "gone after {silence} ms");
        bed.gets(&a, &[10]);
        assert_eq!(bed.allocation.counts().left, 1);
        // A proxy whose poll is held is alive, however long.
        let a = bed.polls("a", bed.allocation.floor.0);
        assert!(!bed.later(60_000));
        bed.waits(&a);
    }
}

#[test]
fn new_incarnation_replaces_old_one_at_once() {
    let mut bed = Bed::new(&[(1.0, 10)]);
    let old = bed.polls_as("a", 7, Role::Both, 0);
    let has = bed.gets(&old, &[10]);
    let old = bed.polls_as("a", 7, Role::Both, has);
    let new = bed.polls_as("a", 3, Role::Both, 0);
    assert_eq!(bed.gets(&new, &[10]), has, "nothing to wait for");
    let new = bed.polls_as("a", 3, Role::Both, has);
    // The old one drains: its end, return and silence change nothing.
    bed.breaks_off(&old);
    let draining = bed.polls_as("a", 7, Role::Both, has);
    bed.waits(&draining);
    let shown = &bed.allocation.view(now(bed.ms))["a"];
    assert_eq!(shown.incarnation, 3);
    assert_eq!(shown.replaced_incarnation.unwrap().incarnation, 7);
    assert_eq!(bed.allocation.counts().replaced, 1);
    // The new one is gone, the old one is still there: it counts again.
    bed.breaks_off(&new);
    bed.later(BROKEN_OFF_MAX.as_millis() as u64 - 1);
    bed.polls_as("a", 7, Role::Both, has);
    assert_eq!(bed.allocation.view(now(bed.ms))["a"].incarnation, 3);
    bed.ms += 1;
    bed.polls_as("a", 7, Role::Both, has);
    assert_eq!(bed.allocation.view(now(bed.ms))["a"].incarnation, 7);
}

#[test]
fn proxy_without_slots_returns_its_own_and_is_refused_until_gate_comes() {
    let mut bed = Bed::new(&[(0.5, 1), (0.5, 1)]);
    let b = bed.polls("b", 0);
    let b = bed.polls_again("b", &b);
    let c = bed.polls("c", 0);
    let has = bed.gets(&b, &[1, 0]);
    let b = bed.polls("b", has);
    let c = bed.polls_again("c", &c);
    // "a" comes before both by its name: "c" is superfluous.
    let a = bed.polls("a", 0);
    bed.waits(&a);
    bed.waits(&b);
    let c_empty = bed.gets(&c, &[0, 0]);
    let c = bed.polls("c", c_empty);
    let Answer::Refused(why) = bed.allocation.answer(&c) else {
        panic!("not refused");
    };
    assert_eq!(
        why,
        NoSlots::TooFew(TooFew {
            proxies: 3,
            slots: 2
        })
    );
    bed.allocation.leave(&c, true, now(bed.ms));
    let b_has = bed.gets(&b, &[0, 1]);
    bed.polls("b", b_has);
    bed.gets(&a, &[1, 0]);
    // It is shown for a while, and its return changes nothing.
    bed.later(5_000);
    assert!(
        bed.allocation.view(now(bed.ms))["c"]
            .refused
            .as_ref()
            .unwrap()
            .contains("role gate")
    );
    let gate = bed.polls_as("gate", 1, Role::Gate, 0);
    bed.gets(&gate, &[1, 1]);
    let c = bed.polls("c", c_empty);
    bed.gets(&c, &[1, 1]);
    assert!(!bed.allocation.view(now(bed.ms))["c"].owns_slots);
}

#[test]
fn restarted_planner_listens_and_assumes_slots_in_use() {
    let mut bed = Bed {
        allocation: SlotAllocation::new(LISTEN_TIME),
        ms: 0,
    };
    let known = ["a", "b"].map(|name| bed.polls(name, 500));
    bed.publish(&[(1.0, 12)]);
    let new = bed.polls("c", 0);
    for ticket in known.iter().chain([&new]) {
        bed.waits(ticket);
    }
    assert!(bed.later(LISTEN_TIME.as_millis() as u64));
    // They had six each from the previous planner; c waits for two of each.
    let [a, b] = known.map(|ticket| bed.gets(&ticket, &[4]));
    bed.waits(&new);
    bed.polls("a", a);
    bed.waits(&new);
    bed.polls("b", b);
    bed.gets(&new, &[4]);
}

#[test]
fn proxies_are_limited_and_silent_ones_are_removed() {
    let mut bed = Bed::new(&[(1.0, 5000)]);
    let poll = |name: &str| Poll {
        proxy: name.into(),
        incarnation: 1,
        workers: 0,
        role: Role::Both,
        variant: None,
        version: None,
        after: Revision(0),
    };
    for index in 0..PROXIES_MAX {
        let ticket = bed
            .allocation
            .poll(&poll(&index.to_string()), now(0))
            .unwrap()
            .0;
        bed.allocation.leave(&ticket, true, now(0));
    }
    let full = bed.allocation.poll(&poll("one more"), now(1));
    assert_eq!(
        full.unwrap_err().to_string(),
        "proxy: 1024 others share already, no more can"
    );
    assert!(
        bed.allocation.poll(&poll("0"), now(1)).is_ok(),
        "a known one has its place"
    );
    bed.ms = SILENT_MAX.as_millis() as u64;
    bed.polls("one more", 0);
    let view = bed.allocation.view(now(bed.ms));
    assert_eq!(view.keys().collect::<Vec<_>>(), ["0", "one more"]);
}

#[test]
fn unconfirmed_plans_are_limited_and_merged_at_maximum() {
    let mut bed = Bed::new(&[(1.0, 100)]);
    let a = bed.polls("a", 0);
    bed.gets(&a, &[100]);
    for slots in (1..20).rev() {
        bed.publish(&[(1.0, slots)]);
        let lost = bed.polls("a", 0);
        bed.gets(&lost, &[slots]);
    }
    let a = &bed.allocation.proxies["a"];
    assert_eq!(a.grants.len(), GRANTS_MAX);
    assert_eq!(a.may_hold(0), 100, "it may still work by the first");
    let last = a.current().unwrap().revision.0;
    bed.polls("a", last);
    assert_eq!(bed.allocation.proxies["a"].may_hold(0), 1);
}

#[test]
fn plan_is_adopted_when_no_proxy_may_use_older_one() {
    let mut bed = Bed::new(&[(1.0, 10)]);
    let first = bed.allocation.floor;
    assert!(bed.allocation.all_have(first), "there is nobody");
    let a = bed.polls("a", 0);
    bed.gets(&a, &[10]);
    let second = bed.publish(&[(1.0, 8)]);
    assert!(bed.allocation.all_have(first), "it has that one, or none");
    assert!(!bed.allocation.all_have(second), "it may have the first");
    let a = bed.polls("a", first.0);
    let has = bed.gets(&a, &[8]);
    assert!(!bed.allocation.all_have(second));
    bed.polls("a", has);
    assert!(bed.allocation.all_have(second));
}
