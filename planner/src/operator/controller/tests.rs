//! A controller's task: started anew after an unexpected end, and ended with the operator.

use kube::runtime::events::{Recorder, Reporter};

use super::*;
use crate::clock::Clock;
use crate::operator::RESTART_AFTER;
use crate::operator::leader::Candidate;

/// Name of the resource and of its service.
const DEMO: &str = "demo";

/// State of an operator whose API server does not answer, and what keeps it alive.
fn shared() -> (Arc<Shared>, watch::Sender<()>) {
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = kube::Client::try_from(nowhere).unwrap();
    let (clock, reporter) = (Clock::start(), Reporter::from("weir"));
    let (lives, lifetime) = watch::channel(());
    let shared = Shared {
        recorder: Recorder::new(client.clone(), reporter),
        candidate: Candidate::new(&client, "ns", "weir-a", "http://weir-a", clock),
        client,
        http: crate::app::client().unwrap(),
        fetches: crate::observe::Fetches::new(crate::app::client().unwrap(), clock),
        clock,
        services: Arc::default(),
        budgets: Arc::default(),
        metrics: crate::telemetry::metrics::Metrics::new().unwrap(),
        limiter: Arc::default(),
        followed: Default::default(),
        memories: Default::default(),
        http_memory: Arc::default(),
        outage: Arc::default(),
        parsed: Default::default(),
        fatal: watch::channel(None).0,
        lifetime,
        stores: Vec::new(),
        controllers: Default::default(),
        profiles: Default::default(),
        state: None,
        traces: None,
        failures: Default::default(),
    };
    (Arc::new(shared), lives)
}

fn start(shared: &Arc<Shared>) -> ServiceController {
    let resource = serde_json::json!({
        "apiVersion": "weir.dev/v1alpha1", "kind": "SloService",
        "metadata": {"name": DEMO, "namespace": "ns"},
        "spec": {"slo": "1s", "budget": {"cores": 8}, "proxies": {}, "variants": []},
    });
    let resource: SloService = serde_json::from_value(resource).unwrap();
    let name = Name {
        namespace: "ns".to_owned(),
        name: DEMO.to_owned(),
    };
    let service = crate::spec::tests::service(8);
    ServiceController::start(shared, &name, &resource, service, 1, None).unwrap()
}

/// Its handle is gone from the registry, and comes back in the pause: without one it ends at once.
#[tokio::test(start_paused = true)]
async fn controller_that_ends_unexpectedly_is_started_anew() {
    let (shared, _lives) = shared();
    let controller = start(&shared);
    let name = controller.service.name.clone();
    let handle = shared.services.get(&name).unwrap();
    shared.services.remove(&name);
    sleep(RESTART_AFTER / 2).await;
    shared.services.insert(Arc::clone(&handle));
    sleep(RESTART_AFTER).await;
    assert!(!controller.task.is_finished());
    assert_eq!(*shared.fatal.borrow(), None);
    controller.end().await;
}

#[tokio::test(start_paused = true)]
async fn controller_that_ends_again_and_again_ends_the_process() {
    let (shared, _lives) = shared();
    let controller = start(&shared);
    shared.services.remove(&controller.service.name);
    let mut fatal = shared.fatal.subscribe();
    let why = fatal.wait_for(Option::is_some).await.unwrap().clone();
    let expected = "the controller of ns/demo ended again and again: it ended by itself";
    assert_eq!(why.as_deref(), Some(expected));
    controller.end().await;
}

#[tokio::test(start_paused = true)]
async fn controller_ends_with_the_operator() {
    let (shared, lives) = shared();
    let controller = start(&shared);
    sleep(CHECK_INTERVAL).await;
    assert!(!controller.task.is_finished());
    drop(lives);
    controller.task.await.unwrap();
    assert_eq!(*shared.fatal.borrow(), None);
}
