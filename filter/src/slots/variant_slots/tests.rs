//! Orphans, wake times and reports of a variant's slots.

use super::*;
use crate::waiting::class::ClassId;
use crate::waiting::queue::Place;

#[test]
fn orphan_keeps_its_slot_until_the_predicted_end() {
    let mut slots = VariantSlots::default();
    slots.take(Mono(100));
    slots.orphan(Mono(10), Mono(100), 0, 0, Mono(0));
    assert!(!slots.expire_orphans(Mono(99)));
    assert_eq!((slots.taken(), slots.until()), (1, Mono(100)));
    assert!(slots.expire_orphans(Mono(100)));
    assert_eq!((slots.taken(), slots.until()), (0, Mono(0)));
    assert!(slots.is_idle());
}

#[test]
fn orphan_is_bounded_and_a_past_end_releases_at_once() {
    let mut slots = VariantSlots::default();
    slots.take(Mono(0));
    slots.take(Mono(0));
    slots.orphan(Mono(10), Mono(10), 0, 0, Mono(0));
    slots.orphan(Mono(10), Mono(u64::MAX), 1, 0, Mono(0));
    assert_eq!(slots.taken(), 1);
    slots.expire_orphans(Mono(10) + crate::priority::ORPHAN_MAX);
    assert_eq!(slots.taken(), 0);
}

#[test]
fn answer_to_a_later_request_releases_the_orphans_before_it() {
    let mut slots = VariantSlots::default();
    for sent in [1, 2, 3] {
        slots.take(Mono(100));
        slots.orphan(Mono(10), Mono(100), sent, 0, Mono(sent));
    }
    slots.release_passed(Mono(3));
    assert_eq!((slots.taken(), slots.until()), (1, Mono(100)));
    slots.release_passed(Mono(4));
    assert_eq!((slots.taken(), slots.until()), (0, Mono(0)));
}

#[test]
fn wakes_for_orphan_end_and_latest_start() {
    let mut slots = VariantSlots::default();
    let wake = |slots: &VariantSlots| {
        let service = Span::from_nanos(30);
        slots.next_wake(slots.queue.latest_start(|_, _| service))
    };
    slots.take(Mono(50));
    slots.orphan(Mono(0), Mono(50), 0, 0, Mono(0));
    assert_eq!(wake(&slots), Some(Mono(50)), "others may wait for it");
    let place = Place {
        deadline: Mono(70),
        arrival: 0,
    };
    slots.queue.push(ClassId(0), place, 7);
    assert_eq!(wake(&slots), Some(Mono(40)));
    slots.queue.cancel(ClassId(0), place);
    slots.expire_orphans(Mono(50));
    assert_eq!(wake(&slots), None);
}

#[test]
fn is_synced_once_everything_is_reported() {
    let mut slots = VariantSlots::default();
    assert!(slots.is_synced());
    slots.take(Mono(1));
    assert!(!slots.is_synced());
    slots.reported.taken = 1;
    assert!(slots.is_synced());
    slots.reported.head = Some(Urgency(9));
    assert!(!slots.is_synced());
}
