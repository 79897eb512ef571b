//! Very many requests whose verdict comes at once: a filter that refused or resumed them all in one callback would exhaust
//! the stack of its VM, and trap.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Bytes;
use serde_json::json;
use tokio::task::JoinHandle;
use weir_api::metrics::Metric;
use weir_bed::load::Protocol;
use weir_bed::scene::{KEY, Scene, ScriptedPlanner, Seen, Variant, epoch_ms, plan, see};
use weir_bed::slow::{Crowd, Habit, SlowClients};

use crate::assert_no_reload;

const ONLY: Variant = Variant {
    name: "only",
    share: 1.0,
    slots: 4,
    service_ms: 5.0,
};
/// Many times what traps, by a callback that does all at once: 306.
const MANY: u32 = 2000;
/// Clients of a crowd; over HTTP/2 the streams of one connection.
const CROWD: u32 = 1000;
/// Honest requests beside them.
const HONEST: usize = 60;

/// Workers that hold as many as come.
async fn scene(variant: Variant, workers: u32, planner: Option<&ScriptedPlanner>) -> Scene {
    Scene::start(&[variant], workers, |bootstrap, plugin| {
        plugin["queue"] = json!({ "max_requests": 30_000 });
        if let Some(planner) = planner {
            plugin["planner"] = json!({ "cluster": "planner", "authority": "p", "key": KEY });
            return bootstrap.planner(planner.addr());
        }
        bootstrap
    })
    .await
    .unwrap()
}

/// Clients that send a head and nothing more, with a deadline that many ms from now.
fn crowd(scene: &Scene, protocol: Protocol, count: u32, budget_ms: u64) -> Crowd {
    Crowd {
        url: format!(
            "http://{}/v2/models/model/infer",
            scene.envoy.listener("weir").unwrap()
        ),
        protocol,
        count,
        habit: Habit::Silent,
        body: Bytes::from_static(b"{}"),
        headers: vec![
            ("x-slo-start", epoch_ms().to_string()),
            ("x-slo-ms", budget_ms.to_string()),
        ],
        stay: Duration::from_secs(60),
    }
}

/// The same in crowds, all with one deadline.
async fn silent(scene: &Scene, protocol: Protocol, count: u32, budget_ms: u64) -> Vec<SlowClients> {
    let all = crowd(scene, protocol, CROWD, budget_ms);
    let mut crowds = Vec::new();
    for begun in (0..count).step_by(CROWD as usize) {
        let crowd = Crowd {
            count: CROWD.min(count - begun),
            ..all.clone()
        };
        crowds.push(crowd.start().unwrap());
    }
    crowds
}

/// Ends of all clients, by status and reason.
async fn ends(crowds: Vec<SlowClients>) -> BTreeMap<(Option<u16>, String), u32> {
    let mut ends = BTreeMap::new();
    for crowd in crowds {
        for end in crowd.finish().await.unwrap() {
            *ends
                .entry((end.status, end.reason + &end.error))
                .or_default() += 1;
        }
    }
    ends
}

/// Sends honest requests, 20 ms apart; returns the number answered well.
async fn honest(scene: &Scene) -> usize {
    let mut sent = Vec::new();
    for _ in 0..HONEST {
        sent.push(Scene::spawn(scene.infer_within(1000)));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut well = 0;
    for one in sent {
        well += usize::from(one.await.unwrap().unwrap().status == 200);
    }
    well
}

async fn assert_no_trap(scene: &Scene) {
    assert_no_reload(&scene.envoy).await;
    let seen = see(scene.infer_within(9000)).await.unwrap();
    assert_eq!(seen.status, 200, "{:?}", seen.refusal());
    scene.until(Metric::SlotsInUse, "only", 0).await.unwrap();
    scene.until(Metric::HeldRequests, "", 0).await.unwrap();
}

/// Sends that many requests at once.
fn burst(scene: &Scene, many: u32, budget_ms: u64) -> Vec<JoinHandle<anyhow::Result<Seen>>> {
    let all = 0..many;
    all.map(|_| Scene::spawn(scene.infer_within(budget_ms)))
        .collect()
}

async fn refusals(sent: Vec<JoinHandle<anyhow::Result<Seen>>>) -> BTreeMap<(u16, String), u32> {
    let mut refusals = BTreeMap::new();
    for one in sent {
        let seen = one.await.unwrap().unwrap();
        let (status, reason) = seen.refusal();
        *refusals.entry((status, reason.to_owned())).or_default() += 1;
    }
    refusals
}

/// Requests with one deadline are all refused with their reason, and the honest load beside them is served.
async fn expire_together(protocol: Protocol, workers: u32, count: u32) {
    let scene = scene(ONLY, workers, None).await;
    let crowds = silent(&scene, protocol, count, 9000).await;
    let held = u64::from(count);
    scene.until(Metric::HeldRequests, "", held).await.unwrap();
    let (ends, ()) = tokio::join!(ends(crowds), async {
        // Until they have all been refused.
        while scene.metric(Metric::HeldRequests, "").await.unwrap() > 0 {
            assert_eq!(honest(&scene).await, HONEST);
        }
    });
    let expired = (Some(504), "expired".to_owned());
    assert_eq!(ends, BTreeMap::from([(expired, count)]));
    assert_no_trap(&scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_one_deadline_are_all_refused_with_their_reason() {
    expire_together(Protocol::Http2, 1, 20_000).await;
    expire_together(Protocol::Http2, 4, 20_000).await;
    expire_together(Protocol::Http1, 1, MANY).await;
}

/// Many requests that wait for the only slot, under a planner's plan.
async fn waiting(planner: &ScriptedPlanner) -> (Scene, Vec<JoinHandle<anyhow::Result<Seen>>>) {
    let slow = Variant {
        slots: 1,
        service_ms: 1000.0,
        ..ONLY
    };
    let promised = Variant {
        service_ms: 1.0,
        ..slow
    };
    planner.respond(1, 200, plan(1, &[promised]));
    let scene = scene(slow, 1, Some(planner)).await;
    scene.until(Metric::PlanRevision, "", 1).await.unwrap();
    let sent = burst(&scene, MANY, 9000);
    let waiting = u64::from(MANY) - 1;
    scene
        .until(Metric::HeldRequests, "", waiting)
        .await
        .unwrap();
    (scene, sent)
}

/// All that wait get this refusal, and with the next plan the proxy serves again.
async fn assert_refused(
    planner: &ScriptedPlanner,
    (scene, sent): (Scene, Vec<JoinHandle<anyhow::Result<Seen>>>),
    refusal: (u16, &str),
) {
    let refusals = refusals(sent).await;
    let of_it = refusals.get(&(refusal.0, refusal.1.to_owned()));
    assert_eq!(of_it, Some(&(MANY - 1)), "{refusals:?}");
    planner.respond(3, 200, plan(3, &[ONLY]));
    scene.until(Metric::PlanRevision, "", 3).await.unwrap();
    scene.until(Metric::Failing, "only", 0).await.unwrap();
    assert_no_trap(&scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_without_slots_refuses_all_that_wait() {
    let planner = ScriptedPlanner::start().await.unwrap();
    let waiting = waiting(&planner).await;
    planner.respond(2, 409, "");
    assert_refused(&planner, waiting, (503, "no-capacity")).await;
}

/// What a plan's missing cluster refuses is answered by Envoy within the very call that sends it on.
#[tokio::test(flavor = "multi_thread")]
async fn plan_with_a_missing_cluster_answers_all_that_wait() {
    let planner = ScriptedPlanner::start().await.unwrap();
    let waiting = waiting(&planner).await;
    let many_slots = Variant {
        slots: MANY,
        service_ms: 1.0,
        ..ONLY
    };
    let mut missing = plan(2, &[many_slots]);
    missing["variants"][0]["cluster"] = json!("missing");
    planner.respond(2, 200, missing);
    assert_refused(&planner, waiting, (503, "no-backend")).await;
}

/// Servers that hang: what waits for them, and what they have, is refused at its deadline.
#[tokio::test(flavor = "multi_thread")]
async fn hung_servers_end_no_vm() {
    let hung = Variant {
        slots: 100,
        service_ms: 60_000.0,
        ..ONLY
    };
    let scene = Scene::start(&[hung], 1, |bootstrap, plugin| {
        plugin["queue"] = json!({ "correct": false });
        // It promises to answer at once.
        plugin["plan"]["variants"][0]["service_ms"] = json!(1.0);
        bootstrap
    })
    .await
    .unwrap();
    let refusals = refusals(burst(&scene, MANY, 2000)).await;
    let by_reason: u32 = refusals.values().sum();
    assert_eq!(by_reason, MANY);
    assert!(
        refusals
            .keys()
            .all(|(status, reason)| *status == 504 && !reason.is_empty()),
        "{refusals:?}"
    );
    assert_no_reload(&scene.envoy).await;
}

/// Uploads that are evicted while their bodies come: no chunk that follows sends one to a server.
async fn evict_uploads(workers: u32) {
    const CLIENTS: u32 = 4;
    const UPLOADS: u32 = 75;
    let scene = Scene::start(&[ONLY], workers, |bootstrap, plugin| {
        // A worker's part of the uploads exceeds that within 2 s.
        let most = CLIENTS * UPLOADS * 30 / workers;
        plugin["body"] = json!({
            "request_max_bytes": most,
            "source_max_bytes": most,
            "total_max_bytes": most,
        });
        plugin["skew"] = json!({ "source_header": "x-client" });
        bootstrap
    })
    .await
    .unwrap();
    let uploads = (0..CLIENTS).map(|client| {
        let mut uploads = crowd(&scene, Protocol::Http1, UPLOADS, 9000);
        (uploads.habit, uploads.body) = (
            Habit::Drip(Duration::from_millis(50)),
            vec![b' '; 1000].into(),
        );
        uploads.headers.push(("x-client", client.to_string()));
        uploads.start().unwrap()
    });
    let uploads: Vec<_> = uploads.collect();
    let held = u64::from(CLIENTS * UPLOADS);
    scene.until(Metric::HeldRequests, "", held).await.unwrap();
    let (ends, well) = tokio::join!(ends(uploads), honest(&scene));
    assert_eq!(well, HONEST);
    let evicted = ends.get(&(Some(429), "body-bytes-limit".to_owned()));
    assert!(evicted.is_some_and(|many| *many >= 50), "{ends:?}");
    let known = ends
        .keys()
        .all(|(status, _)| matches!(status, Some(429 | 504)));
    assert!(known, "{ends:?}");
    let executed = scene.backends[0].executions().len();
    assert_eq!(executed, HONEST, "{ends:?}");
    assert_no_trap(&scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn evicted_uploads_reach_no_server() {
    tokio::join!(evict_uploads(1), evict_uploads(4));
}
