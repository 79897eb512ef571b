//! Tests of several proxies over real HTTP: slots, moves between proxies, refusals, and the status.

use super::*;
use crate::distribution::slot_allocation::tests::whole;
use crate::distribution::slot_allocation::{BROKEN_OFF_MAX, HOLD_SHARED, MOVE_MAX, PROXIES_MAX};
use crate::plan::Draft;

/// Allowance for a loaded test machine, where this takes milliseconds.
const SLACK: Duration = Duration::from_millis(500);

impl Endpoints {
    fn publish_slots(&self, slots: [u32; 2]) -> Revision {
        let variants = whole(&slots.map(|slots| (0.5, slots))).variants;
        let downstream_ms = 0.0;
        let publisher = self.handle.publishers.entry();
        publisher
            .publish(
                Draft {
                    variants,
                    downstream_ms,
                },
                self.app.clock.now(),
            )
            .unwrap()
            .revision
    }

    /// Starts a poll in a task of its own, as a proxy does.
    fn poll_of(&self, proxy: &str, after: u64, role: &str) -> tokio::task::JoinHandle<Response> {
        self.poll_beside(format!(
            "?proxy={proxy}&incarnation=1&workers=2&role={role}&after={after}"
        ))
    }

    async fn shown(&self) -> Value {
        self.status("?cycles=0").await.json().await.unwrap()
    }

    /// Polls like a filter until aborted; returns the slots in use.
    fn live(&self, proxy: &'static str) -> (watch::Receiver<u32>, tokio::task::JoinHandle<()>) {
        let (slots, seen) = watch::channel(0);
        let (client, address) = (self.client.clone(), self.address);
        let living = tokio::spawn(async move {
            let mut after = 0;
            loop {
                let url = format!(
                    "http://{address}/v1/plans/demo?proxy={proxy}&incarnation=1&after={after}"
                );
                let answer = client.get(url).bearer_auth(KEY).send().await.unwrap();
                if answer.status() == 200 {
                    let plan = plan(answer).await;
                    assert!(plan.revision.0 > after, "a filter would refuse it");
                    after = plan.revision.0;
                    slots.send_replace(plan.variants.iter().map(|part| part.slots).sum());
                }
            }
        });
        (seen, living)
    }
}

async fn until_slots(seen: &mut watch::Receiver<u32>, slots: u32) {
    let reached = seen.wait_for(|now| *now == slots);
    let reached = tokio::time::timeout(MOVE_MAX + SLACK, reached).await;
    assert!(
        reached.is_ok_and(|seen| seen.is_ok()),
        "never {slots} slots"
    );
}

#[tokio::test]
async fn slots_move_when_proxy_comes_and_goes() {
    let endpoints = Endpoints::open(LONG, 64).await;
    endpoints.publish_slots([5, 1]);
    let whole = 6;
    let (mut a, _a) = endpoints.live("a");
    until_slots(&mut a, whole).await;
    let (mut b, living) = endpoints.live("b");
    until_slots(&mut b, 3).await;
    assert_eq!(
        *a.borrow(),
        3,
        "b has its part only now that a works by its own"
    );
    let shown = endpoints.shown().await;
    let part = |proxy: &str| shown["proxies"][proxy]["slots"]["v0"].as_u64().unwrap();
    assert_eq!(part("a") + part("b"), 5);
    let aborted_at = tokio::time::Instant::now();
    living.abort();
    until_slots(&mut a, whole).await;
    assert!(
        aborted_at.elapsed() > BROKEN_OFF_MAX - Duration::from_millis(50),
        "it might have come back"
    );
    assert!(
        aborted_at.elapsed() < MOVE_MAX,
        "{:?}",
        aborted_at.elapsed()
    );
    let (mut b, _b) = endpoints.live("b");
    until_slots(&mut b, 3).await;
    assert_eq!(*a.borrow(), 3);
    let text = endpoints.get("/metrics").await.text().await.unwrap();
    for line in [
        "weir_planner_proxies{service=\"demo\"} 2",
        "weir_planner_proxies_left_total{service=\"demo\"} 1",
        "weir_planner_proxy_slots{proxy=\"a\",role=\"both\",service=\"demo\"} 3",
        "weir_planner_proxy_slots{proxy=\"b\",role=\"both\",service=\"demo\"} 3",
    ] {
        assert!(text.contains(line), "no '{line}' in\n{text}");
    }
}

#[tokio::test]
async fn polls_are_held_briefly_while_slots_are_shared() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let first = endpoints.publish_slots([5, 1]).0;
    plan(endpoints.poll_of("a", 0, "both").await.unwrap()).await;
    let alone = endpoints.poll_of("a", first, "both");
    endpoints.until_held(1).await;
    // A router shares nothing. The next proxy does, and held polls end early.
    plan(endpoints.poll_of("r", 0, "router").await.unwrap()).await;
    let _router = endpoints.poll_of("r", first, "router");
    endpoints.until_held(2).await;
    let begin = tokio::time::Instant::now();
    let second = endpoints.poll_of("b", 0, "both");
    let answer = plan(alone.await.unwrap()).await;
    let again = endpoints.poll_of("a", answer.revision.0, "both");
    assert_eq!(again.await.unwrap().status(), 204);
    let held = begin.elapsed();
    assert!(
        held >= HOLD_SHARED && held < HOLD_SHARED + SLACK,
        "{held:?}"
    );
    assert_eq!(second.await.unwrap().status(), 200);
}

#[tokio::test]
async fn proxy_without_slots_is_refused_with_remedy() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let first = endpoints.publish_slots([1, 1]);
    let (mut a, _a) = endpoints.live("a");
    let (mut b, _b) = endpoints.live("b");
    until_slots(&mut a, 1).await;
    until_slots(&mut b, 1).await;
    let refused = error(endpoints.poll_of("c", 0, "both").await.unwrap(), 409).await;
    for part in ["'c'", "3 proxies share 2 slots", "role gate"] {
        assert!(refused.contains(part), "'{refused}' does not say '{part}'");
    }
    let shown = endpoints.shown().await;
    assert_eq!(shown["counters"]["polls_refused"], 1);
    assert!(
        shown["proxies"]["c"]["refused"]
            .as_str()
            .unwrap()
            .contains("3 proxies")
    );
    let text = endpoints.get("/metrics").await.text().await.unwrap();
    assert!(
        text.contains("weir_planner_polls_total{answer=\"refused\",service=\"demo\"} 1"),
        "{text}"
    );
    assert!(
        text.contains("weir_planner_proxies_refused{service=\"demo\"} 1"),
        "{text}"
    );
    // Behind a gate all proxies are routers; the slots stay as they are.
    let gate = plan(endpoints.poll_of("gate", 0, "gate").await.unwrap()).await;
    assert_eq!(gate.variants[0].slots, 1);
    let c = plan(endpoints.poll_of("c", 0, "both").await.unwrap()).await;
    assert!(c.revision >= first);
    assert_eq!([c.variants[0].slots, c.variants[1].slots], [1, 1]);
    until_slots(&mut a, 2).await;
}

#[tokio::test]
async fn gates_of_one_variant_get_its_slots_and_status_shows_variant() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let first = endpoints.publish_slots([1, 4]).0;
    let slots = |plan: &Plan| [plan.variants[0].slots, plan.variants[1].slots];
    let gate = |name: &str, variant: &str, after: u64| {
        endpoints.poll_of(
            name,
            after,
            &format!("gate&variant={variant}&version=1.2.3"),
        )
    };
    let one = plan(gate("one", "v0", 0).await.unwrap()).await;
    assert_eq!((slots(&one), one.variants[0].share.0), ([1, 0], 1.0));
    let _one = gate("one", "v0", first);
    let two = plan(gate("two", "v1", 0).await.unwrap()).await;
    assert_eq!(slots(&two), [0, 4]);
    let _two = gate("two", "v1", first);
    let router = plan(endpoints.poll_of("router", 0, "router").await.unwrap()).await;
    assert_eq!(slots(&router), [1, 4]);
    let refused = error(gate("too-many", "v0", 0).await.unwrap(), 409).await;
    for part in ["'too-many'", "2 gates share 1 slots of variant 'v0'"] {
        assert!(refused.contains(part), "'{refused}' does not say '{part}'");
    }
    let refused = error(gate("lost", "v7", 0).await.unwrap(), 409).await;
    assert!(
        refused.contains("'v7'") && refused.contains("v0, v1"),
        "{refused}"
    );
    let refused = endpoints.poll("?proxy=x&role=both&variant=v0").await;
    assert!(
        error(refused, 400)
            .await
            .contains("only a proxy of role gate")
    );
    let shown = endpoints.shown().await;
    let two = &shown["proxies"]["two"];
    assert_eq!(
        (&two["role"], &two["variant"]),
        (&"gate".into(), &"v1".into())
    );
    assert_eq!(
        (&two["owns"], &two["slots"]["v1"]),
        (&serde_json::json!(["v1"]), &4.into())
    );
    assert_eq!(two["version"], "1.2.3");
    for unknown in ["variant", "version"] {
        assert_eq!(shown["proxies"]["router"][unknown], Value::Null);
    }
    assert!(
        shown["proxies"]["lost"]["refused"]
            .as_str()
            .unwrap()
            .contains("'v7'")
    );
    let text = endpoints.get("/metrics").await.text().await.unwrap();
    for line in [
        "weir_planner_proxy_slots{proxy=\"two\",role=\"gate\",service=\"demo\"} 4",
        "weir_planner_proxy_info{incarnation=\"1\",proxy=\"two\",role=\"gate\",variant=\"v1\",version=\"1.2.3\",workers=\"2\",service=\"demo\"} 1",
    ] {
        assert!(text.contains(line), "no '{line}' in\n{text}");
    }
}

#[tokio::test]
async fn proxies_beyond_limit_get_retry_after() {
    let endpoints = Endpoints::open(LONG, 64).await;
    endpoints.publish_slots([1, 1]);
    // The polls are held to the end: however slow the machine, no proxy expires.
    let poll = |index| {
        let poll = crate::distribution::slot_allocation::Poll {
            proxy: format!("p{index}"),
            incarnation: 1,
            workers: 1,
            role: crate::distribution::slot_allocation::Role::Router,
            variant: None,
            version: None,
            after: Revision(0),
        };
        endpoints
            .handle
            .publishers
            .entry()
            .long_poll(&poll, endpoints.app.clock)
            .unwrap()
    };
    let polls: Vec<_> = (0..PROXIES_MAX).map(poll).collect();
    let full = endpoints.poll("?proxy=more").await;
    assert_eq!(full.headers()["retry-after"], "1");
    let refused = error(full, 503).await;
    assert_eq!(refused, "proxy: 1024 others share already, no more can");
    assert_eq!(
        endpoints.poll("").await.status(),
        200,
        "who does not say who it is shares nothing"
    );
    drop(polls);
}
