//! Writes that the watches do not show yet, and when they are dropped.

use kube::core::Selector;
use serde_json::json;

use super::*;

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
    let (mut memory, now) = (Memory::default(), Instant::now());
    memory.answered(pod(2, "9"));
    let newest = |memory: &Memory, generation| {
        let told = Arc::new(pod(generation, "1"));
        memory.newest(told).resource_version()
    };
    assert_eq!(newest(&memory, 1).as_deref(), Some("9"));
    assert_eq!(newest(&memory, 2).as_deref(), Some("1"));
    memory.tidy(&[("u".to_owned(), Some(1))].into(), now);
    assert_eq!(memory.ahead.len(), 1);
    memory.tidy(&[("u".to_owned(), Some(2))].into(), now);
    assert_eq!(memory.ahead.len(), 0);
}

#[test]
fn pending_patch_counts_until_another_version_or_for_a_minute() {
    let (mut memory, now) = (Memory::default(), Instant::now());
    let two = Cores::whole(2);
    memory.unanswered(&state("10"), two, now);
    for (version, after, expected) in [
        ("10", Duration::ZERO, Some(two)),
        // A watch that lags.
        ("9", Duration::ZERO, Some(two)),
        ("11", Duration::ZERO, None),
        ("10", DOUBT_MAX, None),
    ] {
        let got = memory.maybe(&state(version), now + after);
        assert_eq!(got, expected, "{version} {after:?}");
    }
    memory.tidy(&[("u".to_owned(), Some(1))].into(), now);
    assert_eq!(memory.doubts.len(), 1);
    memory.tidy(&BTreeMap::new(), now);
    assert_eq!(memory.doubts.len(), 0, "its pod is gone");
}

fn spec(uid: &str, generation: i64, replicas: u32) -> Spec {
    Spec {
        container: "app".to_owned(),
        uid: uid.to_owned(),
        generation,
        replicas,
        maybe: None,
        template: Cores::whole(1),
        selector: Selector::default(),
    }
}

#[test]
fn scaling_holds_until_watch_reports_it() {
    let (mut memory, now) = (Memory::default(), Instant::now());
    // Known state when the watch reports `told`: replicas, and replicas of a pending write.
    let known = |memory: &Memory, told: Spec, now| {
        let spec = memory.spec(0, told, now);
        (spec.replicas, spec.maybe)
    };
    assert_eq!(known(&memory, spec("d", 3, 2), now), (2, None));
    memory.scaled(0, &spec("d", 3, 2), 4, now);
    assert_eq!(known(&memory, spec("d", 3, 2), now), (4, None));
    assert_eq!(known(&memory, spec("d", 5, 1), now), (1, None));
    assert_eq!(
        known(&memory, spec("new", 1, 1), now),
        (1, None),
        "another of its name"
    );
    // A pending scaling, while the watch still lags behind the first.
    let latest = memory.spec(0, spec("d", 3, 2), now);
    memory.maybe_scaled(0, &latest, 6, now);
    for told in [spec("d", 3, 2), spec("d", 4, 4)] {
        assert_eq!(known(&memory, told, now), (4, Some(6)));
    }
    assert_eq!(known(&memory, spec("d", 4, 5), now + DOUBT_MAX), (5, None));
    assert_eq!(known(&memory, spec("d", 5, 6), now), (6, None));
}

#[test]
fn ended_pod_counts_until_reported_or_for_a_minute() {
    let (mut memory, now) = (Memory::default(), Instant::now());
    let uids = |text: &str| -> BTreeSet<String> { text.chars().map(String::from).collect() };
    let leaving = |memory: &Memory, staying: &str, after: Duration| {
        memory.leaving(0, |uid| staying.contains(uid), now + after)
    };
    memory.scaled_down(0, uids("abc"), 2, now);
    for (staying, expected) in [("abc", 1), ("abcd", 1), ("ac", 0), ("acd", 0), ("", 0)] {
        assert_eq!(
            leaving(&memory, staying, Duration::ZERO),
            expected,
            "{staying}"
        );
    }
    assert_eq!(memory.leaving(1, |_| true, now), 0, "another variant");
    // Scaled down again: counted against all pods, and against each scaling.
    memory.scaled_down(0, uids("abcd"), 1, now);
    assert_eq!(leaving(&memory, "abcd", Duration::ZERO), 3);
    assert_eq!(leaving(&memory, "ab", Duration::ZERO), 1);
    assert_eq!(leaving(&memory, "abcd", DOUBT_MAX), 0);
    for _ in 0..2 * FEWER_MAX {
        memory.scaled_down(0, uids("ab"), 1, now);
    }
    assert_eq!(memory.fewer[&0].len(), FEWER_MAX);
    memory.tidy(&BTreeMap::new(), now + DOUBT_MAX);
    assert_eq!(memory.fewer[&0].len(), 0);
}
