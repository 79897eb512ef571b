//! Tests of fault injection: each fault takes effect as its rule states, for the named subjects, the given
//! number of times.

use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;
use weir_apiserver::{ADMIN, Fault, Key, Rule, Verb};

use super::bed::{DEMO, LIMIT, admin, pod, pods, read, refusal, start, stored};

fn config(name: &str) -> ConfigMap {
    read(json!({"metadata": {"name": name}}))
}

#[tokio::test]
async fn fault_affects_only_requests_matching_its_rule() {
    let server = start(|_| {}).await;
    let client = admin(&server).await;
    let configs: Api<ConfigMap> = Api::namespaced(client.clone(), DEMO);
    let pods: Api<Pod> = Api::namespaced(client, DEMO);
    let faults = server.faults();
    faults.add(
        Rule::always(Fault::Error(503))
            .verbs(&[Verb::Create])
            .resource("configmaps")
            .name("")
            .times(1),
    );
    faults.add(
        Rule::always(Fault::TooMany(7))
            .verbs(&[Verb::List])
            .resource("pods")
            .times(1),
    );
    faults.add(Rule::always(Fault::Error(500)).subject("somebody else"));
    let refused = refusal(configs.create(&PostParams::default(), &config("a")).await);
    assert_eq!(refused.code, 503);
    assert!(
        server
            .store()
            .get("configmaps", &Key::new(DEMO, "a"))
            .is_none()
    );
    configs
        .create(&PostParams::default(), &config("a"))
        .await
        .unwrap();
    let refused = refusal(pods.list(&ListParams::default()).await);
    assert_eq!(
        (refused.code, refused.details.unwrap().retry_after_seconds),
        (429, 7)
    );
    pods.list(&ListParams::default()).await.unwrap();
    assert_eq!(faults.met(), 2);
    let codes: Vec<u16> = server
        .log()
        .requests()
        .iter()
        .map(|request| request.status)
        .collect();
    assert_eq!(codes, [503, 201, 429, 200]);
}

#[tokio::test]
async fn kube_client_retries_where_configured() {
    let server = start(|_| {}).await;
    let configs: Api<ConfigMap> = Api::namespaced(server.client(ADMIN).await.unwrap(), DEMO);
    server
        .faults()
        .add(Rule::always(Fault::Error(503)).times(2));
    configs
        .create(&PostParams::default(), &config("a"))
        .await
        .unwrap();
    let codes: Vec<u16> = server
        .log()
        .requests()
        .iter()
        .map(|request| request.status)
        .collect();
    assert_eq!(codes, [503, 503, 201]);
}

#[tokio::test]
async fn lost_answer_may_or_may_not_take_effect() {
    let server = start(|options| options.kubelet = false).await;
    server.store().create(&pod("a", 100)).unwrap();
    let api = pods(&server).await;
    let patch = |value: &str| Patch::Merge(json!({"metadata": {"labels": {"a": value}}}));
    let label = || stored(&server, "a")["metadata"]["labels"]["a"].clone();
    let params = PatchParams::default();
    server
        .faults()
        .add(Rule::always(Fault::HangUp).verbs(&[Verb::Patch]).times(1));
    assert!(!matches!(
        api.patch("a", &params, &patch("1")).await,
        Ok(_) | Err(kube::Error::Api(_))
    ));
    assert_eq!(label(), json!(null));
    server.faults().add(
        Rule::always(Fault::LoseAnswer)
            .verbs(&[Verb::Patch])
            .times(1),
    );
    assert!(!matches!(
        api.patch("a", &params, &patch("2")).await,
        Ok(_) | Err(kube::Error::Api(_))
    ));
    assert_eq!(label(), json!("2"));
    api.patch("a", &params, &patch("3")).await.unwrap();
    // The log contains the requests that took effect, marked as lost, and no others.
    let log: Vec<_> = server
        .log()
        .requests()
        .into_iter()
        .filter(|request| request.verb == Verb::Patch)
        .collect();
    let outcomes: Vec<_> = log
        .iter()
        .map(|request| (request.status, request.lost))
        .collect();
    assert_eq!(outcomes, [(200, true), (200, false)]);
}

#[tokio::test]
async fn late_request_takes_effect_late_and_slow_one_at_once() {
    let server = start(|_| {}).await;
    let configs: Api<ConfigMap> = Api::namespaced(admin(&server).await, DEMO);
    let wait = Duration::from_millis(100);
    let exists = || {
        server
            .store()
            .get("configmaps", &Key::new(DEMO, "a"))
            .is_some()
    };
    for (fault, at_once) in [(Fault::Late(wait), false), (Fault::Slow(wait), true)] {
        server.store().remove("configmaps", &Key::new(DEMO, "a"));
        server.faults().add(Rule::always(fault.clone()).times(1));
        let (params, object) = (PostParams::default(), config("a"));
        let seen = async {
            let met = server.faults().met();
            let begun = || exists() || server.faults().met() > met;
            weir_bed::wait::until("its beginning", LIMIT, begun)
                .await
                .unwrap();
            exists()
        };
        let (made, seen) = futures_util::future::join(configs.create(&params, &object), seen).await;
        made.unwrap();
        assert_eq!(seen, at_once, "{fault:?}");
    }
}

#[tokio::test]
async fn watch_closes_or_lags_as_configured() {
    let server = start(|_| {}).await;
    let configs: Api<ConfigMap> = Api::namespaced(admin(&server).await, DEMO);
    let from = server.store().version().to_string();
    for name in ["a", "b", "c"] {
        configs
            .create(&PostParams::default(), &config(name))
            .await
            .unwrap();
    }
    server
        .faults()
        .add(Rule::always(Fault::CloseWatch(2)).times(1));
    server
        .faults()
        .add(Rule::always(Fault::LagWatch(Duration::from_millis(50))).times(1));
    let events = configs.watch(&WatchParams::default(), &from).await.unwrap();
    let received: Vec<_> = events.collect().await;
    assert_eq!(received.len(), 2);
    let begun = server.elapsed();
    let mut events = Box::pin(configs.watch(&WatchParams::default(), &from).await.unwrap());
    assert!(matches!(
        events.next().await,
        Some(Ok(WatchEvent::Added(_)))
    ));
    assert!(server.elapsed() - begun >= Duration::from_millis(50));
}

#[tokio::test]
async fn fault_probability_is_seeded() {
    let mut runs = Vec::new();
    for seed in [1, 1, 2] {
        let server = start(|options| options.seed = seed).await;
        let configs: Api<ConfigMap> = Api::namespaced(admin(&server).await, DEMO);
        server
            .faults()
            .add(Rule::always(Fault::Error(500)).probability(0.5));
        let mut met = Vec::new();
        for _ in 0..32 {
            met.push(configs.list(&ListParams::default()).await.is_err());
        }
        assert!(met.contains(&true) && met.contains(&false));
        runs.push(met);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[tokio::test]
async fn absent_kind_and_missing_right_are_answered_as_by_a_real_server() {
    let server = start(|_| {}).await;
    let pods = pods(&server).await;
    for (fault, code, reason) in [
        (Fault::NotFound, 404, "NotFound"),
        (Fault::Forbidden, 403, "Forbidden"),
    ] {
        server
            .faults()
            .add(Rule::always(fault).resource("pods").times(1));
        let refused = refusal(pods.list(&ListParams::default()).await);
        assert_eq!((refused.code, refused.reason.as_str()), (code, reason));
    }
    assert!(pods.list(&ListParams::default()).await.is_ok());
}

#[tokio::test]
async fn overdue_request_takes_effect_without_its_client() {
    let server = start(|_| {}).await;
    server.store().create(&config_in_demo("a")).unwrap();
    let overdue = Rule::always(Fault::Overdue(Duration::from_millis(300)));
    server.faults().add(overdue.verbs(&[Verb::Patch]));
    let api: Api<ConfigMap> = Api::namespaced(admin(&server).await, DEMO);
    let patch = Patch::Merge(json!({"data": {"key": "late"}}));
    let params = PatchParams::default();
    let gives_up = Duration::from_millis(100);
    let answer = tokio::time::timeout(gives_up, api.patch("a", &params, &patch)).await;
    assert!(answer.is_err());
    let value = || {
        let found = server.store().get("configmaps", &Key::new(DEMO, "a"));
        found.unwrap()["data"]["key"].clone()
    };
    assert_eq!(value(), json!(null));
    weir_bed::wait::until("the late patch", LIMIT, || value() == json!("late"))
        .await
        .unwrap();
    let logged = server.log().after(0).pop().unwrap();
    let weir_apiserver::What::Request(request) = &logged.what else {
        panic!("no request: {logged:?}");
    };
    assert!(logged.at >= request.arrived + gives_up, "{logged:?}");
}

fn config_in_demo(name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": DEMO}})
}
