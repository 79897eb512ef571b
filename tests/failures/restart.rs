//! Shutdown of an Envoy that holds requests: with a drain, by a hot restart, or at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinHandle;
use weir_api::metrics::Metric;
use weir_bed::envoy::{Bootstrap, Envoy, Launch, Restart};
use weir_bed::planner::free_port;
use weir_bed::scene::{PATIENCE, SERVICE, Scene, Seen, Variant, see};
use weir_bed::wait;

const SLOTS: u32 = 2;
const SLOW: Variant = Variant {
    name: "slow",
    share: 1.0,
    slots: SLOTS,
    service_ms: 400.0,
};
const HELD: u64 = 4;
/// Drain time; Envoy counts whole seconds.
const DRAIN: Duration = Duration::from_secs(2);
/// Time until a successor stops its predecessor: long enough to serve all held requests.
const SHUTDOWN: Duration = Duration::from_secs(5);
const ADDRESS: &str = "/static_resources/listeners/0/address";

type Answer = JoinHandle<anyhow::Result<Seen>>;

fn at(bootstrap: Bootstrap, address: SocketAddr, restart: Option<Restart>) -> Bootstrap {
    let address = json!({ "socket_address": {
        "address": address.ip().to_string(), "port_value": address.port() } });
    bootstrap.amend(ADDRESS, address).launch(Launch {
        drain_time: Some(DRAIN),
        restart,
        ..Launch::default()
    })
}

/// Fills every slot and queues [`HELD`] requests.
async fn holding(scene: &Scene) -> Vec<Answer> {
    let count = u64::from(SLOTS) + HELD;
    let answers: Vec<_> = (0..count)
        .map(|i| {
            let id = format!("before-{i}");
            Scene::spawn(scene.infer_within(9000).header("x-request-id", id))
        })
        .collect();
    scene.until(Metric::HeldRequests, "", HELD).await.unwrap();
    answers
}

/// Ids of all executions with that prefix, duplicates included.
fn executions(scene: &Scene, prefix: &str) -> Vec<String> {
    let mut ids: Vec<_> = scene.backends[0]
        .executions()
        .into_iter()
        .map(|execution| execution.request_id)
        .filter(|id| id.starts_with(prefix))
        .collect();
    ids.sort_unstable();
    ids
}

async fn all_served_once(scene: &Scene, answers: Vec<Answer>) {
    let count = answers.len();
    for answer in answers {
        let seen = answer.await.unwrap().unwrap();
        assert_eq!(seen.refusal(), (200, ""));
    }
    let mut ids = executions(scene, "before-");
    assert_eq!(ids.len(), count, "{ids:?}");
    ids.dedup();
    assert_eq!(ids.len(), count, "executed twice: {ids:?}");
}

#[tokio::test]
async fn drained_envoy_serves_held_requests_and_ends() {
    let address = free_port().unwrap();
    let mut scene = Scene::start(&[SLOW], 1, |bootstrap, _| at(bootstrap, address, None))
        .await
        .unwrap();
    let answers = holding(&scene).await;
    scene.envoy.drain().await.unwrap();
    // The listeners are still open: a request during the drain is served, with `connection: close`.
    let late = see(scene.infer_within(9000)).await.unwrap();
    assert_eq!((late.status, late.header("connection")), (200, "close"));
    all_served_once(&scene, answers).await;
    let closed = async || see(scene.infer()).await.is_err();
    wait::until_async("the listener to close", PATIENCE, closed)
        .await
        .unwrap();
    scene.until(Metric::HeldRequests, "", 0).await.unwrap();
    scene.envoy.quit().await.unwrap();
    let ended = || scene.envoy.exited().unwrap().is_some();
    wait::until("Envoy to end", PATIENCE, ended).await.unwrap();
    assert!(scene.envoy.exited().unwrap().unwrap().success());
}

/// Without a drain, connections break off without an answer. Drain first.
#[tokio::test]
async fn stopped_at_once_it_breaks_off_what_it_holds() {
    let mut scene = Scene::start(&[SLOW], 1, |bootstrap, _| bootstrap)
        .await
        .unwrap();
    let answers = holding(&scene).await;
    scene.envoy.terminate().unwrap();
    for answer in answers {
        assert!(answer.await.unwrap().is_err(), "there was an answer");
    }
    let ended = || scene.envoy.exited().unwrap().is_some();
    wait::until("Envoy to end", PATIENCE, ended).await.unwrap();
    assert_eq!(executions(&scene, "before-").len(), SLOTS as usize);
}

/// The old process serves its held requests; the new one serves new requests at once, with all slots.
#[tokio::test]
async fn a_hot_restart_answers_every_request_exactly_once() {
    let address = free_port().unwrap();
    let mut next = None;
    let mut scene = Scene::start(&[SLOW], 1, |bootstrap, plugin| {
        let bootstrap = at(bootstrap, address, Some(Restart::First));
        next = Some(bootstrap.clone().plugin(plugin));
        bootstrap
    })
    .await
    .unwrap();
    let (load, stop) = light_load(&scene);
    let answers = holding(&scene).await;
    let restart = Restart::Next {
        base_id: scene.envoy.base_id().unwrap(),
        epoch: 1,
        parent_shutdown: SHUTDOWN,
    };
    let next = at(next.unwrap(), address, Some(restart));
    // Longer than the start of the new process, so that the old one is still full then.
    scene.backends[0].slow_by(8.0).unwrap();
    let young = Envoy::start(&next, 1).await.unwrap();
    scene.backends[0].slow_by(1.0).unwrap();

    // On a new connection: a kept one would lead to the old process.
    let stranger = reqwest::Client::new();
    let url = format!("http://{address}/v2/models/model/infer");
    let first = see(stranger.post(url).body("{}")).await.unwrap();
    assert_eq!(first.refusal(), (200, ""));
    assert!(queued_ms(&first) < 100.0, "{:?}", first.headers);
    let held = scene.metric(Metric::HeldRequests, "").await.unwrap();
    assert!(held > 0, "the old process was not full any more");

    all_served_once(&scene, answers).await;
    let ended = || scene.envoy.exited().unwrap().is_some();
    wait::until("the old process to end", PATIENCE, ended)
        .await
        .unwrap();
    stop.store(true, Ordering::Relaxed);
    let mut ids = load.await.unwrap();
    let executed = executions(&scene, "load-");
    ids.sort_unstable();
    assert!(ids.len() > 5, "{ids:?}");
    assert_eq!(ids, executed);
    let none_held = async || {
        let held = young.metric(Metric::HeldRequests, SERVICE, "").await;
        held.is_ok_and(|held| held == 0)
    };
    wait::until_async("no held requests", PATIENCE, none_held)
        .await
        .unwrap();
}

/// Queueing time from the answer's header.
fn queued_ms(seen: &Seen) -> f64 {
    let timing = seen.header("server-timing");
    timing.trim_start_matches("queue;dur=").parse().unwrap()
}

/// Sends requests one after another over kept connections; returns their ids.
fn light_load(scene: &Scene) -> (JoinHandle<Vec<String>>, Arc<AtomicBool>) {
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, request) = (Arc::clone(&stop), scene.infer_within(9000));
    let load = tokio::spawn(async move {
        let mut ids = Vec::new();
        while !stopped.load(Ordering::Relaxed) {
            let id = format!("load-{:04}", ids.len());
            let request = request.try_clone().unwrap().header("x-request-id", &id);
            assert_eq!(see(request).await.unwrap().refusal(), (200, ""), "{id}");
            ids.push(id);
        }
        ids
    });
    (load, stop)
}
