//! Pods on nodes without room, and their replacement.

use super::*;
use crate::backends::kubernetes::deal::tests::{cpu, ending, pod, seen, starting};
use crate::backends::kubernetes::pod::Resizing;

const WEB: &str = "Deployment web";

fn never() -> Unmet {
    Unmet::Infeasible("too large".to_owned())
}

fn deferred() -> Unmet {
    Unmet::Deferred("full".to_owned())
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

/// Returns the pod that `replacing` chooses with this many spare cores.
fn choose(
    replacing: &mut Replacing,
    seen: &Seen,
    room: u32,
    now: Instant,
) -> Option<Result<String, Kept>> {
    let chosen = replacing.retire(0, WEB, seen, Cores::whole(room), None, now)?;
    Some(chosen.map(|pod| pod.name))
}

/// Checks the choice after a sequence of blockers of `a`, each at a time in seconds.
fn check(found: &[(u64, Option<Unmet>)], expected: Option<Result<&str, Kept>>) {
    let (mut replacing, begin) = (Replacing::default(), Instant::now());
    let pods = seen(2, vec![wishing("a"), pod("b", 4)]);
    let mut now = begin;
    for (second, unmet) in found {
        now = at(begin, *second);
        replacing.see(&pods.pods[0], unmet.as_ref(), now);
        replacing.see(&pods.pods[1], None, now);
    }
    let chosen = choose(&mut replacing, &pods, 9, now);
    assert_eq!(
        chosen,
        expected.map(|one| one.map(str::to_owned)),
        "{found:?}"
    );
}

#[test]
fn blocked_pod_is_replaced_after_its_timeout() {
    check(&[(0, None)], None);
    check(&[(0, Some(Unmet::Left))], None);
    check(&[(0, Some(never()))], Some(Ok("a")));
    let refused = Refused::Infeasible { why: String::new() };
    check(&[(0, Some(Unmet::Refused(refused)))], Some(Ok("a")));
    let left = |s| Some(Err(Kept::NotYet(Duration::from_secs(s))));
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
    let late = || Some(Unmet::Late(Duration::ZERO));
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
    let check = |pods: Seen, room: u32, allowed: Option<u32>, expected: Result<&str, Kept>| {
        let (mut replacing, now) = (Replacing::default(), Instant::now());
        replacing.see(&wishing("a"), Some(&never()), now);
        let allowed = allowed.map(|pods| Allowed {
            budget: "calm".to_owned(),
            pods,
        });
        let chosen = replacing.retire(0, WEB, &pods, Cores::whole(room), allowed.as_ref(), now);
        let chosen = chosen.unwrap().map(|pod| pod.name);
        assert_eq!(
            chosen,
            expected.map(str::to_owned),
            "{pods:?} {room} {allowed:?}"
        );
    };
    let two = || seen(2, vec![wishing("a"), pod("b", 2)]);
    check(two(), 0, None, Ok("a"));
    check(two(), 0, Some(1), Ok("a"));
    check(two(), 0, Some(0), Err(Kept::Protected("calm".to_owned())));
    let alone = || Err(Kept::Alone(WEB.to_owned()));
    check(seen(1, vec![wishing("a")]), 9, None, alone());
    check(
        seen(2, vec![wishing("a"), starting("b", 2)]),
        9,
        None,
        alone(),
    );
    let busy = || Err(Kept::Busy(WEB.to_owned()));
    check(seen(3, vec![wishing("a"), pod("b", 2)]), 9, None, busy());
    check(
        seen(2, vec![wishing("a"), pod("b", 2), ending("c", 2)]),
        9,
        None,
        busy(),
    );
    check(
        seen(3, vec![wishing("a"), pod("b", 2), starting("c", 1)]),
        9,
        None,
        busy(),
    );
    // The new pod takes its template's cores. The growth that the old one waits for is taken back before the
    // eviction.
    let dear = |cores| Seen {
        template: Cores::whole(cores),
        ..two()
    };
    check(dear(2), 0, None, Ok("a"));
    check(dear(3), 0, None, Err(Kept::NoRoom(Cores::whole(3))));
    check(dear(3), 1, None, Ok("a"));
    check(dear(0), 9, None, Err(Kept::Unpriced));
    // If the node has already granted the growth, nothing can be taken back.
    let granted = PodState {
        allocated: Some(Cores::whole(4)),
        resizing: Resizing::InProgress,
        ..wishing("a")
    };
    let pods = seen(2, vec![granted, pod("b", 2)]);
    check(pods, 0, None, Err(Kept::NoRoom(Cores::whole(1))));
}

#[test]
fn one_pod_is_replaced_at_a_time_with_growing_backoff() {
    let (mut replacing, begin) = (Replacing::default(), Instant::now());
    let mut now = begin;
    let lately = |s| Some(Err(Kept::Lately(Duration::from_secs(s))));
    let chosen = |name: &str| Some(Ok(name.to_owned()));
    for (name, wait) in [
        ("a", 300),
        ("c", 600),
        ("d", 1200),
        ("e", 2400),
        ("f", 4800),
        ("g", 4800),
    ] {
        let pods = seen(2, vec![wishing(name), pod("b", 2)]);
        replacing.see(&pods.pods[0], Some(&never()), now);
        assert_eq!(choose(&mut replacing, &pods, 9, now), chosen(name));
        assert!(replacing.is_retired(&pods.pods[0].uid));
        // It stays the choice until it ends.
        let mut gone = pods.clone();
        gone.pods[0].retired = true;
        assert_eq!(choose(&mut replacing, &gone, 0, now), chosen(name));
        // The new pod is blocked as well.
        let pods = seen(2, vec![wishing("next"), pod("b", 2)]);
        replacing.retain(|uid| uid == "uid-next" || uid == "uid-b");
        replacing.see(&pods.pods[0], Some(&never()), now);
        assert_eq!(choose(&mut replacing, &pods, 9, now), lately(wait));
        replacing.retain(|uid| uid == "uid-b");
        now += Duration::from_secs(wait);
    }
    replacing.settled(0);
    let pods = seen(2, vec![wishing("h"), pod("b", 2)]);
    replacing.see(&pods.pods[0], Some(&never()), now);
    assert_eq!(choose(&mut replacing, &pods, 9, now), chosen("h"));
    // After a refusal plans count on it again, and it is retried sooner.
    let why = Refused::Gone;
    replacing.keep(0, "uid-h", why.clone(), now);
    assert!(!replacing.is_retired("uid-h"));
    let again = REFUSED_AGAIN;
    let refused = Some(Err(Kept::Refused { why, again }));
    assert_eq!(choose(&mut replacing, &pods, 9, now), refused);
    now += again;
    assert_eq!(choose(&mut replacing, &pods, 9, now), chosen("h"));
}
