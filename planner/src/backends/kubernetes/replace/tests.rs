//! Pods on nodes without capacity, and their replacement.

use super::*;
use crate::backends::kubernetes::distribute::tests::{cpu, ending, pod, starting, workload};
use crate::backends::kubernetes::pod::Resizing;

const WEB: &str = "Deployment web";

/// Key of the Deployment `web`.
fn web() -> WorkloadKey {
    WorkloadKey {
        kind: crate::service::WorkloadKind::Deployment,
        name: "web".to_owned(),
    }
}

fn never() -> PodBlocker {
    PodBlocker::Infeasible("too large".to_owned())
}

fn deferred() -> PodBlocker {
    PodBlocker::Deferred("full".to_owned())
}

/// Pod with 2 cores whose target is 4 and which waits for them.
fn wishing(name: &str) -> PodState {
    PodState {
        desired: cpu(4000),
        ..pod(name, 2)
    }
}

fn at(begin: Instant, s: u64) -> Instant {
    begin + Duration::from_secs(s)
}

/// Returns the pod that `replacements` chooses with this many spare cores.
fn choose(
    replacements: &mut Replacements,
    workload: &WorkloadState,
    spare: u32,
    now: Instant,
) -> Option<Result<String, ReplacementBlocker>> {
    let chosen = replacements.retire(&web(), workload, Cores::whole(spare), None, now)?;
    Some(chosen.map(|pod| pod.name))
}

/// Checks the choice after a sequence of blockers of `a`, each at a time in seconds.
fn check(found: &[(u64, Option<PodBlocker>)], expected: Option<Result<&str, ReplacementBlocker>>) {
    let (mut replacements, begin) = (Replacements::default(), Instant::now());
    let pods = workload(2, vec![wishing("a"), pod("b", 4)]);
    let mut now = begin;
    for (second, blocker) in found {
        now = at(begin, *second);
        replacements.record(&pods.pods[0], blocker.as_ref(), now);
        replacements.record(&pods.pods[1], None, now);
    }
    let chosen = choose(&mut replacements, &pods, 9, now);
    assert_eq!(
        chosen,
        expected.map(|one| one.map(str::to_owned)),
        "{found:?}"
    );
}

#[test]
fn blocked_pod_is_replaced_after_its_timeout() {
    check(&[(0, None)], None);
    check(&[(0, Some(PodBlocker::RateLimited))], None);
    check(&[(0, Some(never()))], Some(Ok("a")));
    let refused = ApiFailure::Infeasible { why: String::new() };
    check(&[(0, Some(PodBlocker::Refused(refused)))], Some(Ok("a")));
    let left = |s| Some(Err(ReplacementBlocker::NotYet(Duration::from_secs(s))));
    check(&[(0, Some(deferred())), (299, Some(deferred()))], left(1));
    check(
        &[(0, Some(deferred())), (300, Some(deferred()))],
        Some(Ok("a")),
    );
    // It had its target in between, or another blocker.
    check(
        &[(0, Some(deferred())), (200, None), (300, Some(deferred()))],
        left(300),
    );
    let late = || Some(PodBlocker::Late(Duration::ZERO));
    check(
        &[
            (0, Some(deferred())),
            (200, late()),
            (300, Some(deferred())),
        ],
        left(300),
    );
    check(&[(0, late()), (3599, late())], left(1));
    check(&[(0, late()), (3600, late())], Some(Ok("a")));
}

#[test]
fn pod_is_not_replaced_at_cost_of_others() {
    let check = |pods: WorkloadState,
                 spare: u32,
                 allowed: Option<u32>,
                 expected: Result<&str, ReplacementBlocker>| {
        let (mut replacements, now) = (Replacements::default(), Instant::now());
        replacements.record(&wishing("a"), Some(&never()), now);
        let allowed = allowed.map(|pods| DisruptionAllowance {
            budget: "calm".to_owned(),
            pods,
        });
        let chosen = replacements.retire(&web(), &pods, Cores::whole(spare), allowed.as_ref(), now);
        let chosen = chosen.unwrap().map(|pod| pod.name);
        assert_eq!(
            chosen,
            expected.map(str::to_owned),
            "{pods:?} {spare} {allowed:?}"
        );
    };
    let two = || workload(2, vec![wishing("a"), pod("b", 2)]);
    check(two(), 0, None, Ok("a"));
    check(two(), 0, Some(1), Ok("a"));
    check(
        two(),
        0,
        Some(0),
        Err(ReplacementBlocker::Protected("calm".to_owned())),
    );
    let alone = || Err(ReplacementBlocker::Alone(WEB.to_owned()));
    check(workload(1, vec![wishing("a")]), 9, None, alone());
    check(
        workload(2, vec![wishing("a"), starting("b", 2)]),
        9,
        None,
        alone(),
    );
    let busy = || Err(ReplacementBlocker::Busy(WEB.to_owned()));
    check(
        workload(3, vec![wishing("a"), pod("b", 2)]),
        9,
        None,
        busy(),
    );
    check(
        workload(2, vec![wishing("a"), pod("b", 2), ending("c", 2)]),
        9,
        None,
        busy(),
    );
    check(
        workload(3, vec![wishing("a"), pod("b", 2), starting("c", 1)]),
        9,
        None,
        busy(),
    );
    // The new pod takes its template's cores. The growth that the old one waits for is taken back before the
    // eviction.
    let dear = |cores| WorkloadState {
        template: Cores::whole(cores),
        ..two()
    };
    check(dear(2), 0, None, Ok("a"));
    check(
        dear(3),
        0,
        None,
        Err(ReplacementBlocker::OverBudget(Cores::whole(3))),
    );
    check(dear(3), 1, None, Ok("a"));
    check(dear(0), 9, None, Err(ReplacementBlocker::NoTemplateRequest));
    // If the node has already granted the growth, nothing can be taken back.
    let granted = PodState {
        allocated: Some(Cores::whole(4)),
        resizing: Resizing::InProgress,
        ..wishing("a")
    };
    let pods = workload(2, vec![granted, pod("b", 2)]);
    check(
        pods,
        0,
        None,
        Err(ReplacementBlocker::OverBudget(Cores::whole(1))),
    );
}

#[test]
fn one_pod_is_replaced_at_a_time_with_growing_backoff() {
    let (mut replacements, begin) = (Replacements::default(), Instant::now());
    let mut now = begin;
    let lately = |s| Some(Err(ReplacementBlocker::BackingOff(Duration::from_secs(s))));
    let chosen = |name: &str| Some(Ok(name.to_owned()));
    for (name, wait) in [
        ("a", 300),
        ("c", 600),
        ("d", 1200),
        ("e", 2400),
        ("f", 4800),
        ("g", 4800),
    ] {
        let pods = workload(2, vec![wishing(name), pod("b", 2)]);
        replacements.record(&pods.pods[0], Some(&never()), now);
        assert_eq!(choose(&mut replacements, &pods, 9, now), chosen(name));
        assert!(replacements.is_retired(&pods.pods[0].uid));
        // It stays the choice until it ends.
        let mut retired = pods.clone();
        retired.pods[0].retired = true;
        assert_eq!(choose(&mut replacements, &retired, 0, now), chosen(name));
        // The new pod is blocked as well.
        let pods = workload(2, vec![wishing("next"), pod("b", 2)]);
        replacements.retain(|uid| uid == "uid-next" || uid == "uid-b");
        replacements.record(&pods.pods[0], Some(&never()), now);
        assert_eq!(choose(&mut replacements, &pods, 9, now), lately(wait));
        replacements.retain(|uid| uid == "uid-b");
        now += Duration::from_secs(wait);
    }
    replacements.reset_backoff(&web());
    let pods = workload(2, vec![wishing("h"), pod("b", 2)]);
    replacements.record(&pods.pods[0], Some(&never()), now);
    assert_eq!(choose(&mut replacements, &pods, 9, now), chosen("h"));
    // After a refusal plans count on it again, and it is retried sooner.
    let why = ApiFailure::NotFound;
    replacements.record_refused_eviction(&web(), "uid-h", why.clone(), now);
    assert!(!replacements.is_retired("uid-h"));
    let again = REFUSED_AGAIN;
    let refused = Some(Err(ReplacementBlocker::Refused { why, again }));
    assert_eq!(choose(&mut replacements, &pods, 9, now), refused);
    now += again;
    assert_eq!(choose(&mut replacements, &pods, 9, now), chosen("h"));
}
