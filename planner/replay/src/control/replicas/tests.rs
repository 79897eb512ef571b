//! Changes of replicas, with times in ns.

use weir_planner::capacity::Target;

use super::*;

const DELAY: u64 = 2;
const READINESS: u64 = 5;

/// Replicas with two cores each.
fn set(count: u32) -> ReplicaSet {
    ReplicaSet::new(0, (DELAY, READINESS), (count, 0), Cores::whole(2))
}

fn change(set: &ReplicaSet, replicas: u32, each: u32, start: u32) -> Resize {
    let (each, start) = (Cores::whole(each), Cores::whole(start));
    Resize {
        variant: 0,
        target: Target {
            replicas,
            each,
            start,
        },
        ready: set.actual().ready,
        limited: false,
    }
}

fn request(set: &mut ReplicaSet, now: u64, change: &Resize) -> (u64, bool, Vec<(u32, u64)>) {
    let (mut next, mut due) = (10, Vec::new());
    let (at, blocked) = set.request((now, now + DELAY), change, &mut next, &mut due);
    let due = due.iter().map(|due| (due.server, due.at)).collect();
    (at, blocked.is_some(), due)
}

fn allocation(replicas: u32, each: u32) -> Allocation {
    Allocation::new(replicas, Cores::whole(each))
}

#[test]
fn new_replicas_count_once_they_are_ready() {
    let mut set = set(1);
    let desired = change(&set, 3, 2, 1);
    let first = request(&mut set, 10, &desired);
    assert_eq!(
        first,
        (12, false, vec![(10, 12), (10, 17), (11, 12), (11, 17)])
    );
    let (ready, starting) = (set.actual().ready, set.actual().starting);
    assert_eq!((ready, starting), (allocation(1, 2), allocation(2, 1)));
    assert_eq!(set.actual().reserved, Cores::whole(4));
    let begun = set.carry_out(12, 10).unwrap();
    assert_eq!(
        (begun.cores, begun.is_ready),
        (Some(Cores::whole(1)), false)
    );
    let ready = set.carry_out(17, 10).unwrap();
    assert_eq!((ready.cores, ready.is_ready), (None, true));
    assert_eq!(set.actual().ready, allocation(2, 1));
    assert_eq!(set.actual().starting, allocation(1, 1));
    // The same change again resizes what has become ready, and starts nothing.
    let desired = change(&set, 3, 2, 1);
    let again = request(&mut set, 20, &desired);
    assert_eq!(again, (22, false, vec![(10, 22)]));
}

#[test]
fn scale_down_ends_starting_replicas_first_and_reserves_the_ending_ones() {
    let mut set = set(3);
    let up = change(&set, 4, 2, 2);
    request(&mut set, 0, &up);
    let down = change(&set, 2, 2, 2);
    let (at, blocked, due) = request(&mut set, 5, &down);
    assert_eq!((at, blocked, due), (7, false, vec![(10, 7), (2, 7)]));
    assert_eq!(set.actual().ready, allocation(2, 2));
    assert_eq!(set.actual().starting, Allocation::NONE);
    // The new one did not exist yet; the other one serves until it has drained.
    assert_eq!(set.actual().reserved, Cores::whole(6));
    assert_eq!(set.actual().replicas_reserved, 4);
    assert!(set.carry_out(7, 2).unwrap().drains);
    assert!(!set.carry_out(8, 2).unwrap().drains, "once");
    for server in [2, 10] {
        set.ended(server);
    }
    assert_eq!(set.actual(), Actual::certain(allocation(2, 2)));
    assert_eq!(set.carry_out(9, 2), None);
}

#[test]
fn growth_waits_for_the_cores_of_ending_replicas() {
    let mut set = set(3);
    // 2 × 3 cores instead of 3 × 2: no core is free before the third has ended.
    let desired = change(&set, 2, 3, 3);
    let (at, blocked, due) = request(&mut set, 0, &desired);
    assert_eq!((at, blocked, due), (2, true, vec![(2, 2)]));
    set.carry_out(2, 2);
    set.ended(2);
    let (at, blocked, due) = request(&mut set, 3, &desired);
    assert_eq!((at, blocked, due), (5, false, vec![(0, 5), (1, 5)]));
    assert_eq!(set.actual().ready, allocation(2, 2), "until it is in force");
    assert_eq!(set.actual().reserved, Cores::whole(6));
    // A limited resource: the ending replica occupies it until it has ended.
    let mut set = self::set(2);
    let down = change(&set, 1, 2, 2);
    request(&mut set, 0, &down);
    let up = Resize {
        limited: true,
        ..change(&set, 2, 2, 2)
    };
    assert_eq!(request(&mut set, 1, &up), (1, true, vec![]));
}

#[test]
fn crashed_replica_keeps_its_cores_and_serves_again() {
    let mut set = set(2);
    set.crashed(1);
    assert_eq!(set.actual().ready, allocation(1, 2));
    assert_eq!(set.actual().starting, allocation(1, 2));
    let desired = change(&set, 2, 2, 1);
    assert_eq!(request(&mut set, 0, &desired), (0, false, vec![]));
    set.recovered(1);
    assert_eq!(set.actual(), Actual::certain(allocation(2, 2)));
    let none = change(&set, 0, 0, 0);
    assert_eq!(request(&mut set, 0, &none).2, [(1, 2), (0, 2)]);
    assert_eq!(set.actual().ready, Allocation::NONE);
}
