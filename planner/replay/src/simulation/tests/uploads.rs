//! Bodies that arrive after their heads: an uploading request has no slot, and its deadline runs on.

use super::*;

/// Makes the head arrive at `head` and the body end at `arrives`, in ms.
fn uploading(all: &mut [Request], index: usize, head: u64, arrives: u64) {
    (all[index].head, all[index].arrives) = (ms(head), ms(arrives));
    all[index].bytes = 200_000;
}

#[test]
fn slow_upload_takes_no_slot_before_its_last_byte() {
    // One slot of a, 50 ms each: the first uploads for 200 ms, the second is sent at once.
    let mut all = requests(&[(0, 1000), (10, 1000)]);
    uploading(&mut all, 0, 0, 200);
    assert_eq!(played(&scenario([1, 0]), &all, WEIR), [(A, 250), (A, 60)]);
}

#[test]
fn infeasible_upload_is_rejected_before_its_end() {
    let mut all = requests(&[(0, 300)]);
    uploading(&mut all, 0, 0, 5000);
    let ends = played(&scenario([1, 1]), &all, WEIR);
    // a takes 50 ms by the plan, and nothing is measured: a quarter of it is left. The engine wakes with the next ms.
    assert_eq!(ends, [(Fate::Refused("expired"), 288)]);
}

#[test]
fn complete_upload_with_earliest_deadline_is_dispatched_first() {
    // The slot is taken until 150. The second has waited longer and has a later deadline.
    let mut all = requests(&[(0, 1000), (20, 900), (30, 250)]);
    all[0].min_accuracy = 75.0;
    all[1].min_accuracy = 75.0;
    all[2].min_accuracy = 75.0;
    uploading(&mut all, 2, 30, 90);
    assert_eq!(
        played(&scenario([0, 1]), &all, WEIR),
        [(B, 100), (B, 300), (B, 200)]
    );
}

#[test]
fn body_above_queue_limit_is_forwarded_while_it_arrives() {
    let mut all = requests(&[(0, 1000), (10, 1000)]);
    uploading(&mut all, 0, 0, 200);
    let limits = json!({ "request_max_bytes": 100_000 });
    let mut two_slots = scenario([2, 0]);
    two_slots.proxies.plugin["body"] = limits.clone();
    // Its slot is taken after 131,072 bytes; the server works from the last byte on.
    let ends = played(&two_slots, &all, WEIR);
    assert_eq!(ends, [(A, 250), (A, 60)]);
    // Of one slot none is for it.
    let mut one_slot = scenario([1, 0]);
    one_slot.proxies.plugin["body"] = limits;
    let ends = played(&one_slot, &all, WEIR);
    assert_eq!(ends, [(Fate::Refused("body-bytes-limit"), 150), (A, 60)]);
}

#[test]
fn disconnect_during_upload_leaks_nothing() {
    let mut all = requests(&[(0, 1000), (10, 1000)]);
    uploading(&mut all, 0, 0, 900);
    all[0].timeout = ms(100);
    let ends = played(&scenario([1, 0]), &all, WEIR);
    assert_eq!(ends, [(Fate::Disconnected, 100), (A, 60)]);
}

#[test]
fn dripping_clients_do_not_affect_others() {
    // 20 dripping clients, and 70 quick ones whose load is 0.7 of the capacity of b.
    let quick: Vec<(u64, u64)> = (0..70).map(|nth| (40 + nth * 143, 2000)).collect();
    let alone = played(&scenario([0, 1]), &requests(&quick), WEIR);
    let drips = (0..20).map(|nth| (nth, 10_000));
    let all: Vec<(u64, u64)> = drips.chain(quick).collect();
    let mut all = requests(&all);
    for index in 0..20 {
        uploading(&mut all, index, index as u64, 60_000);
        all[index].timeout = Duration::from_secs(60);
    }
    let beside = played(&scenario([0, 1]), &all, WEIR);
    assert_eq!(beside[20..], alone[..]);
    for (fate, at) in &beside[..20] {
        assert_eq!(*fate, Fate::Refused("expired"), "{at}");
    }
}

#[test]
fn gateway_without_weir_forwards_complete_requests_only() {
    let mut all = requests(&[(0, 1000)]);
    uploading(&mut all, 0, 0, 200);
    let fifo = Contender {
        plane: Plane::FifoRoundRobin,
        control: Control::Static,
        breaker: None,
    };
    assert_eq!(played(&scenario([1, 0]), &all, fifo), [(A, 250)]);
}
