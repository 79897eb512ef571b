//! The shell's bookkeeping, before an emulation of Envoy: how many actions one callback queues, and that nothing that is
//! refused goes on.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use weir_filter::shell::ACTIONS_MAX;
use weir_fuzz::envoy::{Envoy, Place, plan};

/// Requests that wait together: many times as many as one callback may refuse.
const MANY: usize = 3000;

fn variant(name: &str, slots: u32, service_ms: u32) -> String {
    format!(
        r#"{{"name":"{name}","cluster":"{name}","share":1.0,"slots":{slots},"service_ms":{service_ms},"accuracy":70}}"#
    )
}

/// Envoy with one variant of that many slots.
fn one_variant(slots: u32) -> Envoy {
    Envoy::new(&format!(
        r#"{{"service":"demo","queue":{{"max_requests":10000,"concurrency_max":0}},"plan":{{"variants":[{}]}}}}"#,
        variant("a", slots, 10)
    ))
}

/// Sends that many requests with this budget.
fn send(envoy: &mut Envoy, many: usize, budget_ms: u64, body_follows: bool) {
    let budget = budget_ms.to_string();
    for _ in 0..many {
        envoy.request(&[("x-slo-ms", &budget)], body_follows);
    }
}

/// Checks that all these requests are answered locally with that reason, in as many ticks as the bound requires, and none
/// beyond it nested in others.
#[track_caller]
fn assert_answered(envoy: &mut Envoy, many: usize, reason: &str) {
    let ticks = envoy.drain();
    assert_eq!(envoy.local.len(), many);
    assert!(
        envoy.local.iter().all(|(_, why)| *why == reason),
        "{:?}",
        envoy.local.last()
    );
    assert!(ticks >= many / ACTIONS_MAX as usize, "{ticks} ticks");
    let bound = ACTIONS_MAX as usize + 2;
    assert!(envoy.deepest <= bound, "{} callbacks nested", envoy.deepest);
}

#[test]
fn bodies_that_never_come_are_refused_a_few_at_a_time() {
    let mut envoy = one_variant(1);
    send(&mut envoy, MANY, 500, true);
    assert!(envoy.local.is_empty());
    envoy.now_ms += 600;
    assert_answered(&mut envoy, MANY, "expired");
    assert!(envoy.local.is_sorted(), "the first comes first");
}

#[test]
fn requests_that_wait_for_slots_are_refused_a_few_at_a_time() {
    let mut envoy = one_variant(4);
    send(&mut envoy, MANY, 9000, true);
    for id in 1..=MANY as u32 {
        envoy.body(id, 9, true);
    }
    let waiting = envoy.at(Place::Paused).len();
    assert!(waiting > MANY / 4, "{waiting} wait");
    let refused = envoy.local.len();
    envoy.local.clear();
    assert_eq!(waiting + refused + 4, MANY);
    // The servers hang. Those upstream are the proxy's.
    envoy.now_ms += 9001;
    let upstream = envoy.at(Place::Upstream);
    upstream.into_iter().for_each(|id| envoy.disconnect(id));
    assert_answered(&mut envoy, waiting, "expired");
}

#[test]
fn plan_without_slots_refuses_a_few_at_a_time() {
    let mut envoy = one_variant(1);
    envoy.plan(Some(&plan(1, &variant("a", 1, 1))));
    send(&mut envoy, MANY, 9000, false);
    let waiting = envoy.at(Place::Paused).len();
    assert!(waiting > MANY / 2, "{waiting} wait");
    envoy.local.clear();
    envoy.plan(None);
    assert_answered(&mut envoy, waiting, "no-capacity");
}

#[test]
fn missing_cluster_is_met_a_few_at_a_time() {
    let mut envoy = one_variant(1);
    send(&mut envoy, MANY, 60_000, false);
    let waiting = envoy.at(Place::Paused).len();
    assert!(waiting > MANY / 2, "{waiting} wait");
    envoy.clusters_missing = true;
    envoy.local.clear();
    envoy.answer(1);
    assert_answered(&mut envoy, waiting, "no-cluster");
}

#[test]
fn requests_that_can_be_sent_overtake_refusals() {
    let mut envoy = one_variant(1);
    send(&mut envoy, MANY, 500, true);
    envoy.now_ms += 600;
    let running = envoy.request(&[("x-slo-ms", "1000")], false);
    let waits = envoy.request(&[("x-slo-ms", "1000")], false);
    envoy.tick();
    assert!(
        envoy.shell.has_verdicts(),
        "most refusals have still to leave"
    );
    envoy.answer(running);
    envoy.tick();
    assert_eq!(envoy.at(Place::Upstream), [waits]);
    assert!(envoy.shell.has_verdicts());
}

/// Envoy with place for two incoming bodies.
fn two_incoming() -> Envoy {
    Envoy::new(&format!(
        r#"{{"service":"demo","queue":{{"max_requests":2}},"plan":{{"variants":[{}]}}}}"#,
        variant("a", 4, 10)
    ))
}

#[test]
fn body_of_an_evicted_request_does_not_send_it() {
    for complete in [false, true] {
        let mut envoy = two_incoming();
        send(&mut envoy, 3, 500, true);
        // The first is evicted, and its refusal leaves with the next tick.
        assert!(envoy.shell.has_verdicts());
        envoy.body(1, 100, complete);
        assert_eq!(envoy.at(Place::Paused), [1, 2, 3], "complete: {complete}");
        envoy.drain();
        assert_eq!(envoy.local, [(1, "queue-full")]);
    }
}

#[test]
fn one_that_ends_before_its_verdict_leaves_frees_its_slot() {
    let mut envoy = one_variant(1);
    let running = envoy.request(&[("x-slo-ms", "60000")], false);
    let next = envoy.request(&[("x-slo-ms", "60000")], false);
    // So many actions are under way that the next one's has to wait.
    envoy.spend_actions(0);
    envoy.answer(running);
    assert!(envoy.shell.has_verdicts());
    assert_eq!(envoy.at(Place::Paused), [next]);
    envoy.disconnect(next);
    assert!(!envoy.shell.has_verdicts());
    let last = envoy.request(&[("x-slo-ms", "60000")], false);
    assert_eq!(envoy.at(Place::Upstream), [last], "nothing executes");
    assert_eq!(envoy.local, []);
}
