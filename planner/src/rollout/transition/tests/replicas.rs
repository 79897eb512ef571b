//! Transitions of replicas, within resource limits.

use super::*;

/// Steps from the replicas of one variant to the target, with new replicas ready at once or only starting.
fn way_of_replicas(
    from: (u32, u32),
    (replicas, each, start): (u32, u32, u32),
    budget: u32,
    ready_at_once: bool,
) -> Vec<String> {
    let target = Target {
        replicas,
        each: Cores::whole(each),
        start: Cores::whole(start),
    };
    let actual = certain(&several(&[from]));
    let transition = Transition::new(
        &actual,
        &[target],
        Cores::whole(budget),
        &ResourceLimits::default(),
    );
    walk(transition, if ready_at_once { at_once } else { starts })
}

#[test]
fn replicas_start_before_others_shrink_or_end() {
    let way = way_of_replicas;
    assert_eq!(
        way((2, 1), (4, 1, 1), 8, true),
        ["resize 0=4 × 1 + 1", "publish 4 × 1"]
    );
    assert_eq!(
        way((2, 1), (4, 1, 1), 8, false),
        ["resize 0=4 × 1 + 1", "publish 2 × 1"]
    );
    assert_eq!(
        way((2, 1), (4, 1, 1), 3, true),
        ["resize 0=3 × 1 + 1", "publish 3 × 1"]
    );
    assert_eq!(
        way((4, 2), (2, 2, 2), 8, true),
        ["publish 2 × 2", "resize 0=2 × 2"]
    );
    // Serving replicas get their cores at once, whatever starts.
    assert_eq!(
        way((1, 2), (4, 5, 1), 8, false),
        ["resize 0=4 × 5 + 1", "publish 5"]
    );
    // Fewer and larger ones: what the budget allows first, then the rest.
    let fewer = [
        "publish 2 × 2",
        "resize 0=2 × 2",
        "resize 0=2 × 4",
        "publish 2 × 4",
    ];
    assert_eq!(way((4, 2), (2, 4, 4), 8, true), fewer);
}

#[test]
fn starting_replicas_count_in_budget_and_not_in_plan() {
    let mut actual = certain(&several(&[(1, 4), (1, 2)]));
    actual[0].starting = Allocation::new(3, Cores::whole(1));
    actual[0].reserved = Cores::whole(7);
    let targets = targets(&several(&[(4, 4), (1, 4)]));
    let transition = Transition::new(
        &actual,
        &targets,
        Cores::whole(10),
        &ResourceLimits::default(),
    );
    let Step::Resize(changes) = transition.next() else {
        panic!("{:?}", transition.next())
    };
    assert_eq!(text(&changes), " 1=3", "one core is left");
    let mut transition = Transition::new(
        &actual,
        &targets,
        Cores::whole(9),
        &ResourceLimits::default(),
    );
    assert_eq!(transition.next(), Step::Publish(several(&[(1, 4), (1, 2)])));
    transition.published(several(&[(1, 4), (1, 2)]));
    assert_eq!(transition.next(), Step::Done);
}

/// Steps for variants a and b, whose replicas have one core each, with a limit of memory.
fn bounded(from: (u32, u32), desired: (u32, u32), most: u64) -> Vec<String> {
    let of = |(a, b): (u32, u32)| several(&[(a, 1), (b, 1)]);
    let limits = ResourceLimits(vec![ResourceLimit {
        name: "memory".to_owned(),
        most,
        each: vec![2, 3],
    }]);
    let targets = targets(&of(desired));
    let transition = Transition::new(&certain(&of(from)), &targets, Cores::whole(99), &limits);
    walk(transition, at_once)
}

#[test]
fn replicas_start_within_resource_limits() {
    let at_once = ["resize 1=2 × 1 + 1", "publish 1 2 × 1"];
    assert_eq!(bounded((1, 0), (1, 2), 8), at_once);
    let one_by_one = [
        "resize 1=1",
        "publish 1 1",
        "resize 0=1",
        "resize 1=2 × 1 + 1",
        "publish 1 2 × 1",
    ];
    assert_eq!(bounded((2, 0), (1, 2), 8), one_by_one);
    // The resources kept for the first replica of b are not given to a.
    assert_eq!(bounded((1, 0), (3, 1), 8)[0], "resize 0=2 × 1 + 1 1=1");
    // The limit is exceeded already: it only shrinks.
    assert_eq!(bounded((3, 2), (4, 2), 8), ["publish 3 × 1 2 × 1"]);
}
