//! Targets distributed over pods, and actual capacity read from pods.

use proptest::prelude::*;

use super::*;
use crate::backends::kubernetes::pod::{ActuatedCpu, Class, Cpu, PendingRequests, Resizing};

pub(in crate::backends::kubernetes) fn cpu(millis: u32) -> Cpu {
    let request = Cores::from_millis(millis);
    Cpu {
        request,
        limit: Some(request),
    }
}

/// Serving pod with this many cores.
pub(in crate::backends::kubernetes) fn pod(name: &str, cores: u32) -> PodState {
    PodState {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        version: "1".to_owned(),
        container: "app".to_owned(),
        node: Some("n".to_owned()),
        ready: true,
        served: true,
        ending: false,
        ended: false,
        class: Class::Guaranteed,
        generation: 1,
        observed: Some(1),
        restarts: 0,
        desired: cpu(cores * 1000),
        allocated: Some(Cores::whole(cores)),
        actual: ActuatedCpu::Has(cpu(cores * 1000)),
        resizing: Resizing::Settled,
        address: None,
        configured_cores: None,
        pending: None,
        retired: false,
    }
}

pub(in crate::backends::kubernetes) fn starting(name: &str, cores: u32) -> PodState {
    PodState {
        ready: false,
        served: false,
        allocated: None,
        actual: ActuatedCpu::Starting,
        ..pod(name, cores)
    }
}

pub(in crate::backends::kubernetes) fn ending(name: &str, cores: u32) -> PodState {
    PodState {
        ending: true,
        ..pod(name, cores)
    }
}

pub(in crate::backends::kubernetes) fn workload(
    replicas: u32,
    pods: Vec<PodState>,
) -> WorkloadState {
    WorkloadState {
        replicas,
        pending_replicas: None,
        leaving: 0,
        template: Cores::whole(1),
        pods,
    }
}

fn target(replicas: u32, each: u32, start: u32) -> Target {
    Target {
        replicas,
        each: Cores::whole(each),
        start: Cores::whole(start),
    }
}

/// Limit of cores, without a limit of pods.
fn cores(most: u32) -> CapacityLimit {
    CapacityLimit {
        cores: Cores::whole(most),
        replicas: u32::MAX,
    }
}

/// Checks names and cores of the patched pods, the replica count to request, and the number of unaffordable replicas.
fn check(workload: &WorkloadState, target: Target, most: u32, expected: (&str, Option<u32>, u32)) {
    let changes = workload.distribute(target, cores(most), &Refusals::default());
    let patches: Vec<String> = changes
        .patches
        .iter()
        .map(|one| format!("{}={}", one.pod.name, one.change.request))
        .collect();
    let got = (patches.join(" "), changes.scale, changes.unaffordable);
    assert_eq!(
        (got.0.as_str(), got.1, got.2),
        expected,
        "{target:?} {most} {workload:?}"
    );
}

#[test]
fn actual_counts_least_serving_cores_and_reserves_all_cores_used() {
    let growing = PodState {
        desired: cpu(4000),
        ..pod("b", 2)
    };
    let all = workload(
        5,
        vec![
            pod("a", 3),
            growing,
            starting("c", 2),
            ending("d", 7),
            PodState {
                ended: true,
                ..ending("e", 9)
            },
        ],
    );
    let actual = all.actual();
    assert_eq!(actual.ready, Allocation::new(2, Cores::whole(2)));
    // One starts and two do not exist yet.
    assert_eq!(actual.starting, Allocation::new(3, Cores::whole(1)));
    assert_eq!(actual.reserved, Cores::whole(3 + 4 + 2 + 7 + 2));
    assert_eq!(workload(0, vec![]).actual(), Actual::default());
}

#[test]
fn pod_ended_but_not_reported_reserves_another_pod() {
    // Scaled from 3 to 2 and back: one ends beside three.
    let three = || vec![pod("a", 2), pod("b", 2), pod("c", 1)];
    let all = WorkloadState {
        leaving: 1,
        ..workload(3, three())
    };
    assert_eq!(all.reserved(), Cores::whole(5 + 1));
    assert_eq!(all.actual().reserved, Cores::whole(5 + 1));
    // Scaled to 2 and not back: at most three exist.
    let fewer = WorkloadState {
        leaving: 1,
        ..workload(2, three())
    };
    assert_eq!(fewer.reserved(), Cores::whole(5));
    check(&fewer, target(3, 2, 1), 6, ("", Some(3), 0));
    check(&fewer, target(3, 2, 1), 5, ("", None, 1));
    // A pending scale-down is not undone if the budget does not cover it.
    let pending = WorkloadState {
        pending_replicas: Some(2),
        leaving: 1,
        ..workload(3, three())
    };
    check(&pending, target(3, 2, 1), 6, ("", Some(3), 0));
    check(&pending, target(3, 1, 1), 5, ("a=1 b=1", None, 0));
}

#[test]
fn serving_pods_get_each_and_starting_pods_get_start() {
    let two = || vec![pod("a", 2), pod("b", 2), starting("c", 1)];
    check(
        &workload(3, two()),
        target(3, 4, 2),
        10,
        ("a=4 b=4 c=2", None, 0),
    );
    check(&workload(3, two()), target(3, 2, 1), 5, ("", None, 0));
    check(
        &workload(3, two()),
        target(5, 4, 2),
        12,
        ("a=4 b=4 c=2", Some(5), 0),
    );
    check(
        &workload(3, two()),
        target(1, 1, 1),
        1,
        ("a=1 b=1", Some(1), 0),
    );
}

#[test]
fn unready_pod_keeps_its_cores() {
    let unready = |cores| PodState {
        ready: false,
        ..pod("b", cores)
    };
    let two = |cores| workload(2, vec![pod("a", 4), unready(cores)]);
    check(&two(4), target(2, 4, 1), 5, ("", None, 0));
    // It must not come back with more than the others, nor get any before it serves.
    check(&two(4), target(2, 3, 1), 4, ("a=3 b=3", None, 0));
    check(&two(2), target(2, 4, 1), 9, ("", None, 0));
}

#[test]
fn pod_beyond_replica_count_does_not_count() {
    let all = workload(
        2,
        vec![pod("a", 3), pod("b", 3), pod("c", 2), starting("d", 1)],
    );
    let actual = all.actual();
    assert_eq!(actual.ready, Allocation::new(2, Cores::whole(2)));
    assert_eq!(actual.starting, Allocation::NONE);
    assert_eq!(actual.reserved, Cores::whole(3 + 3 + 2 + 1));
}

#[test]
fn pending_write_counts_with_both_outcomes() {
    let growing = PodState {
        pending: Some(PendingRequests::one(Cores::whole(5))),
        ..pod("a", 2)
    };
    let mut all = workload(2, vec![growing, pod("b", 2)]);
    assert_eq!(all.actual().ready, Allocation::new(2, Cores::whole(2)));
    assert_eq!(all.reserved(), Cores::whole(5 + 2));
    // It can be requested again, and the other pod cannot have it meanwhile.
    check(&all, target(2, 5, 5), 8, ("a=5", None, 0));
    all.pending_replicas = Some(4);
    assert_eq!(all.reserved(), Cores::whole(5 + 2 + 2));
    assert_eq!(all.actual().replicas(), 2, "they are still to be asked for");
    check(&all, target(5, 2, 1), 9, ("", Some(4), 1));
    check(&all, target(5, 2, 1), 10, ("", Some(5), 0));
    all.pending_replicas = Some(1);
    assert_eq!(all.actual().ready, Allocation::new(1, Cores::whole(2)));
    assert_eq!(all.reserved(), Cores::whole(5 + 2));
    // The target does not wait for the pending write.
    check(&all, target(2, 2, 1), 7, ("", Some(2), 0));
}

#[test]
fn no_change_exceeds_the_target_cores() {
    // An ending pod occupies its cores until it is gone.
    let all = workload(2, vec![pod("a", 2), pod("b", 2), ending("c", 2)]);
    check(&all, target(2, 4, 4), 8, ("a=4", None, 0));
    check(&all, target(2, 3, 3), 6, ("", None, 0));
    check(&all, target(2, 1, 1), 2, ("a=1 b=1", None, 0));
    // Replicas come first; a template with more cores than `start` allows fewer of them.
    let mut all = workload(1, vec![pod("a", 2)]);
    check(&all, target(3, 4, 1), 6, ("a=4", Some(3), 0));
    check(&all, target(3, 4, 1), 4, ("", Some(3), 0));
    all.template = Cores::whole(3);
    check(&all, target(3, 2, 1), 4, ("", None, 2));
    check(&all, target(3, 2, 1), 5, ("", Some(2), 1));
    all.template = Cores::ZERO;
    check(&all, target(3, 2, 1), 99, ("", None, 2));
}

#[test]
fn ending_pod_counts_against_limit_of_pods() {
    let (template, five) = (Cores::whole(1), Cores::whole(50));
    for (ending_ones, pending_replicas, leaving, most, scale, too_many) in [
        (0, None, 0, 5, Some(5), 0),
        (1, None, 0, 5, Some(4), 1),
        (3, None, 0, 5, None, 3),
        (4, None, 0, 5, None, 3),
        (4, None, 0, u32::MAX, Some(5), 0),
        // Two may have been started already.
        (1, Some(4), 0, 5, Some(4), 1),
        (0, Some(4), 0, 5, Some(5), 0),
        (2, Some(4), 0, 5, Some(4), 1),
        // One was told to end and is not reported as ending.
        (0, None, 1, 5, Some(4), 1),
    ] {
        let names = ["c", "d", "e", "f"];
        let end = names.iter().take(ending_ones).map(|name| ending(name, 1));
        let pods = [pod("a", 1), pod("b", 1)].into_iter().chain(end);
        let all = WorkloadState {
            pending_replicas,
            leaving,
            template,
            ..workload(2, pods.collect())
        };
        let most = CapacityLimit {
            cores: five,
            replicas: most,
        };
        let changes = all.distribute(target(5, 1, 1), most, &Refusals::default());
        let got = (changes.scale, changes.unaffordable);
        assert_eq!(
            got,
            (scale, too_many),
            "{ending_ones} {pending_replicas:?} {leaving} {most:?}"
        );
    }
}

#[test]
fn growth_does_not_use_cores_of_unfinished_shrink() {
    let all = workload(2, vec![pod("a", 4), starting("b", 1)]);
    check(&all, target(2, 2, 3), 5, ("a=2", None, 0));
    let changes = all.distribute(target(2, 2, 3), cores(5), &Refusals::default());
    assert_eq!(changes.waiting, ["uid-b".to_owned()].into());
}

#[test]
fn final_refusal_stops_same_request_until_pod_changes() {
    let mut refusals = Refusals::default();
    let new_target = target(1, 9, 9);
    let why = "too big".to_owned();
    let one = pod("a", 2);
    let patched = |pod: &PodState, target: Target, refusals: &Refusals| {
        let workload = workload(1, vec![pod.clone()]);
        !workload
            .distribute(target, cores(99), refusals)
            .patches
            .is_empty()
    };
    refusals.remember(&one, new_target.each, &ApiFailure::Conflict);
    assert!(patched(&one, new_target, &refusals), "a conflict passes");
    refusals.remember(&one, new_target.each, &ApiFailure::Infeasible { why });
    assert!(!patched(&one, new_target, &refusals));
    assert!(patched(&one, target(1, 8, 8), &refusals), "another wish");
    let changed = PodState {
        generation: 2,
        ..one.clone()
    };
    assert!(patched(&changed, new_target, &refusals), "another spec");
    refusals.retain(|uid| uid != one.uid);
    assert!(patched(&one, new_target, &refusals), "another pod");
}

#[test]
fn unpatchable_pod_has_a_reason() {
    let untold = PodState {
        actual: ActuatedCpu::Untold,
        ..pod("a", 2)
    };
    let changes =
        workload(1, vec![untold]).distribute(target(1, 3, 3), cores(9), &Refusals::default());
    assert_eq!(changes.patches, []);
    assert_eq!(
        changes.unpatchable,
        [("uid-a".to_owned(), NotPatchable::NoSupport)].into()
    );
}

fn any_pod() -> impl Strategy<Value = PodState> {
    let amounts = (1u32..9, 1u32..9, prop::option::of(1u32..9));
    let pending = prop::option::of(
        (1u32..9)
            .prop_map(Cores::whole)
            .prop_map(PendingRequests::one),
    );
    (amounts, pending, any::<[bool; 2]>()).prop_map(
        |((desired, actual, allocated), pending, [ready, ending])| PodState {
            ready,
            ending,
            pending,
            desired: cpu(desired * 1000),
            allocated: allocated.map(Cores::whole),
            ..pod("", actual)
        },
    )
}

proptest! {
    /// Worst case: pods grow at once, never shrink, and ending pods stay.
    #[test]
    fn reserved_never_exceeds_target_or_previous_reserve(
        pods in prop::collection::vec(any_pod(), 0..6),
        (replicas, pending_replicas, template) in (0u32..8, prop::option::of(0u32..8), 0u32..5),
        (target_replicas, each, start) in (0u32..8, 0u32..9, 0u32..9),
        most in 0u32..40,
        pods_most in prop_oneof![0u32..8, Just(u32::MAX)],
    ) {
        let mut pods = pods;
        for (i, pod) in pods.iter_mut().enumerate() {
            pod.uid = i.to_string();
        }
        let mut all = WorkloadState { replicas, pending_replicas, leaving: 0, template: Cores::whole(template), pods };
        let (before, pods_before) = (all.reserved(), all.reserved_replicas());
        let changes = all.distribute(target(target_replicas, each, start), CapacityLimit { cores: Cores::whole(most), replicas: pods_most }, &Refusals::default());
        for patched in &changes.patches {
            let pod = all.pods.iter_mut().find(|pod| pod.uid == patched.pod.uid).unwrap();
            pod.desired.request = pod.desired.request.max(patched.change.request);
        }
        all.replicas = all.replicas.max(changes.scale.unwrap_or(0));
        prop_assert!(all.reserved() <= before.max(Cores::whole(most)));
        prop_assert!(all.reserved_replicas() <= pods_before.max(pods_most));
        let actual = all.actual();
        prop_assert!(actual.ready.cores() <= actual.reserved);
    }
}
