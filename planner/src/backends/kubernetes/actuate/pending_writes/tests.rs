//! Writes that the watches do not show yet, and when they are dropped.

use kube::core::Selector;
use serde_json::json;

use super::*;

/// Key of the Deployment `web`.
fn web() -> WorkloadKey {
    WorkloadKey {
        kind: crate::service::WorkloadKind::Deployment,
        name: "web".to_owned(),
    }
}

fn pod(generation: i64, version: &str) -> Pod {
    let resources = json!({"requests": {"cpu": "1"}});
    serde_json::from_value(json!({
        "metadata": {"name": "a", "uid": "u", "generation": generation, "resourceVersion": version},
        "spec": {"containers": [{"name": "app", "resources": resources}]},
    }))
    .unwrap()
}

fn state(version: &str) -> PodState {
    PodState::of(&pod(1, version), "app").unwrap()
}

#[test]
fn answered_pod_is_newest_until_watch_catches_up() {
    let (mut writes, now) = (UnobservedWrites::default(), Instant::now());
    writes.record_pod(pod(2, "9"));
    let newest = |writes: &UnobservedWrites, generation| {
        let observed = Arc::new(pod(generation, "1"));
        writes.newest(observed).resource_version()
    };
    assert_eq!(newest(&writes, 1).as_deref(), Some("9"));
    assert_eq!(newest(&writes, 2).as_deref(), Some("1"));
    writes.prune(&[("u".to_owned(), Some(1))].into(), now);
    assert_eq!(writes.ahead.len(), 1);
    writes.prune(&[("u".to_owned(), Some(2))].into(), now);
    assert_eq!(writes.ahead.len(), 0);
}

#[test]
fn pending_patch_counts_until_another_version_or_for_a_minute() {
    let (mut writes, now) = (UnobservedWrites::default(), Instant::now());
    let two = Cores::whole(2);
    writes.record_pending_patch(&state("10"), two, now);
    for (version, after, expected) in [
        ("10", Duration::ZERO, Some(two)),
        // A watch that lags.
        ("9", Duration::ZERO, Some(two)),
        ("11", Duration::ZERO, None),
        ("10", PENDING_WRITE_TTL, None),
    ] {
        let got = writes.pending_requests(&state(version), now + after);
        let expected = expected.map(PendingRequests::one);
        assert_eq!(got, expected, "{version} {after:?}");
    }
    writes.prune(&[("u".to_owned(), Some(1))].into(), now);
    assert_eq!(writes.pending_patches.len(), 1);
    writes.prune(&BTreeMap::new(), now);
    assert_eq!(writes.pending_patches.len(), 0, "its pod is gone");
}

/// The first patch may still be carried out when the second, of the same version, is not answered either.
#[test]
fn all_pending_patches_of_a_version_count_and_a_refused_one_does_not() {
    let (mut writes, now) = (UnobservedWrites::default(), Instant::now());
    let range = |min, max| {
        Some(PendingRequests {
            min: Cores::whole(min),
            max: Cores::whole(max),
        })
    };
    writes.record_pending_patch(&state("10"), Cores::whole(4), now);
    let before = writes.record_pending_patch(&state("10"), Cores::whole(2), now);
    assert_eq!(writes.pending_requests(&state("10"), now), range(2, 4));
    writes.restore_pending_patches("u", before);
    assert_eq!(writes.pending_requests(&state("10"), now), range(4, 4));
    // Of another version: the first never will be.
    writes.record_pending_patch(&state("11"), Cores::whole(3), now);
    assert_eq!(writes.pending_requests(&state("11"), now), range(3, 3));
    writes.restore_pending_patches("u", None);
    assert!(writes.is_idle(now));
}

#[test]
fn refused_scaling_leaves_the_record_as_it_was() {
    let (mut writes, now) = (UnobservedWrites::default(), Instant::now());
    let pods = || BTreeSet::from(["a".to_owned(), "b".to_owned()]);
    let scale_down = |writes: &mut UnobservedWrites, replicas| {
        let before = writes.scaling_record(&web());
        writes.record_scale_down(&web(), pods(), replicas, now);
        writes.record_pending_scaling(&web(), &spec("d", 3, 2), "7", replicas, now);
        before
    };
    let known = |writes: &UnobservedWrites| {
        let spec = writes.spec(&web(), spec("d", 3, 2), now);
        (spec.pending_replicas, writes.leaving(&web(), |_| true, now))
    };
    let before = scale_down(&mut writes, 1);
    assert_eq!(known(&writes), (Some(1), 1));
    let first = scale_down(&mut writes, 0);
    assert_eq!(known(&writes), (Some(0), 2));
    writes.restore_scalings(&web(), first);
    assert_eq!(known(&writes), (Some(1), 1));
    writes.restore_scalings(&web(), before);
    assert_eq!(known(&writes), (None, 0));
    assert!(writes.is_idle(now));
}

fn spec(uid: &str, generation: i64, replicas: u32) -> WorkloadSpec {
    WorkloadSpec {
        container: "app".to_owned(),
        version: "7".to_owned(),
        uid: uid.to_owned(),
        generation,
        replicas,
        pending_replicas: None,
        template: Cores::whole(1),
        selector: Selector::default(),
    }
}

#[test]
fn scaling_holds_until_watch_reports_it() {
    let (mut writes, now) = (UnobservedWrites::default(), Instant::now());
    // Known state when the watch reports `observed`: replicas, and replicas of a pending write.
    let known = |writes: &UnobservedWrites, observed: WorkloadSpec, now| {
        let spec = writes.spec(&web(), observed, now);
        (spec.replicas, spec.pending_replicas)
    };
    assert_eq!(known(&writes, spec("d", 3, 2), now), (2, None));
    writes.record_scaling(&web(), &spec("d", 3, 2), 4, now);
    assert_eq!(known(&writes, spec("d", 3, 2), now), (4, None));
    assert_eq!(known(&writes, spec("d", 5, 1), now), (1, None));
    assert_eq!(
        known(&writes, spec("new", 1, 1), now),
        (1, None),
        "another of its name"
    );
    // A pending scaling, while the watch still lags behind the first.
    let latest = writes.spec(&web(), spec("d", 3, 2), now);
    writes.record_pending_scaling(&web(), &latest, "7", 6, now);
    for observed in [spec("d", 3, 2), spec("d", 4, 4)] {
        assert_eq!(known(&writes, observed, now), (4, Some(6)));
    }
    assert_eq!(
        known(&writes, spec("d", 4, 5), now + PENDING_WRITE_TTL),
        (5, None)
    );
    assert_eq!(known(&writes, spec("d", 5, 6), now), (6, None));
}

#[test]
fn ended_pod_counts_until_reported_or_for_a_minute() {
    let (mut writes, now) = (UnobservedWrites::default(), Instant::now());
    let uids = |text: &str| -> BTreeSet<String> { text.chars().map(String::from).collect() };
    let leaving = |writes: &UnobservedWrites, staying: &str, after: Duration| {
        writes.leaving(&web(), |uid| staying.contains(uid), now + after)
    };
    writes.record_scale_down(&web(), uids("abc"), 2, now);
    for (staying, expected) in [("abc", 1), ("abcd", 1), ("ac", 0), ("acd", 0), ("", 0)] {
        assert_eq!(
            leaving(&writes, staying, Duration::ZERO),
            expected,
            "{staying}"
        );
    }
    let other = WorkloadKey {
        name: "other".to_owned(),
        ..web()
    };
    assert_eq!(writes.leaving(&other, |_| true, now), 0, "another workload");
    // Scaled down again: counted against all pods, and against each scaling.
    writes.record_scale_down(&web(), uids("abcd"), 1, now);
    assert_eq!(leaving(&writes, "abcd", Duration::ZERO), 3);
    assert_eq!(leaving(&writes, "ab", Duration::ZERO), 1);
    assert_eq!(leaving(&writes, "abcd", PENDING_WRITE_TTL), 0);
    for _ in 0..2 * SCALE_DOWNS_MAX {
        writes.record_scale_down(&web(), uids("ab"), 1, now);
    }
    assert_eq!(writes.scale_downs[&web()].len(), SCALE_DOWNS_MAX);
    writes.prune(&BTreeMap::new(), now + PENDING_WRITE_TTL);
    assert!(writes.scale_downs.is_empty() && writes.is_idle(now + PENDING_WRITE_TTL));
}

#[test]
fn pending_scaling_is_open_until_another_version_and_largest_counts() {
    let (mut writes, now) = (UnobservedWrites::default(), Instant::now());
    let observed = |version: &str| WorkloadSpec {
        version: version.to_owned(),
        ..spec("d", 3, 2)
    };
    writes.record_pending_scaling(&web(), &observed("7"), "7", 6, now);
    let latest = writes.spec(&web(), observed("7"), now);
    assert_eq!(latest.pending_replicas, Some(6));
    // A smaller one for the same version: the larger may be carried out all the same.
    writes.record_pending_scaling(&web(), &latest, "7", 1, now);
    for (version, pending) in [("6", Some(6)), ("7", Some(6)), ("8", None)] {
        let latest = writes.spec(&web(), observed(version), now);
        assert_eq!(latest.pending_replicas, pending, "{version}");
    }
}
