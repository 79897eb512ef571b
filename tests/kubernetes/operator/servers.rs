//! Requests to pods: proxies found by labels, and servers that are reconfigured with their cores.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use weir_bed::operate::Proxy;
use weir_bed::wait;

use super::bed::{Cluster, LIMIT};

/// One HTTP server for all pods: a proxy's statistics, and the threads of each model server.
#[derive(Clone)]
struct Pods {
    proxy: Proxy,
    threads: Arc<Mutex<Vec<u64>>>,
    refuses: Arc<Mutex<bool>>,
}

async fn reconfigured(State(pods): State<Pods>, body: String) -> (StatusCode, &'static str) {
    if *pods.refuses.lock().unwrap() {
        return (StatusCode::SERVICE_UNAVAILABLE, "loading");
    }
    let body: Value = serde_json::from_str(&body).unwrap();
    let threads = body["threads"].as_u64().unwrap();
    pods.threads.lock().unwrap().push(threads);
    (StatusCode::OK, "")
}

#[tokio::test]
async fn proxies_are_found_by_labels_and_servers_are_reconfigured() {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let cluster = Cluster::of(|options| options.pods_at = Some(loopback), |_| true).await;
    cluster.apply("istio/gateway/resnet/rights.yaml", |_| true);
    for name in ["small", "large"] {
        cluster.deploy(name, 1, 1);
    }
    let pods = Pods {
        proxy: cluster.proxy.clone(),
        threads: Arc::default(),
        refuses: Arc::default(),
    };
    let stats = pods.proxy.clone();
    let router = Router::new()
        .route("/stats", get(async move || stats.text()))
        .route("/threads", post(reconfigured))
        .with_state(pods.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let labels = json!({"istio": "ingress"});
    let gateway = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "gateway-1", "namespace": "istio-ingress", "labels": labels},
        "spec": {"containers": [{"name": "istio-proxy", "image": "example/none:0"}]},
    });
    cluster.server.store().create(&gateway).unwrap();
    let mut demo = cluster.demo();
    demo["spec"]["proxies"] = json!({"timeout": "200ms", "pods": {"labels": labels, "namespace": "istio-ingress", "port": port, "path": "/stats"}});
    demo["spec"]["variants"][1]["workload"]["reconfigure"] =
        json!({"port": port, "path": "/threads", "body": "{\"threads\": {cores}}"});
    cluster.server.store().create(&demo).unwrap();
    let planner = cluster.planner("weir-a").await;
    cluster.proxy.load(20.0);
    cluster
        .until_cores(&["large"], |cores| cores[0] >= 3.0)
        .await;
    let matches_cores = || {
        let cores = cluster.cores(&["large"])[0];
        pods.threads
            .lock()
            .unwrap()
            .last()
            .map(|threads| *threads as f64)
            == Some(cores)
    };
    wait::until("the threads", LIMIT, matches_cores)
        .await
        .unwrap();
    cluster
        .until_condition("demo", "Actuated", "True InForce")
        .await;

    // A server that refuses the reconfiguration counts with its last confirmed cores.
    *pods.refuses.lock().unwrap() = true;
    cluster.proxy.load(45.0);
    let message = cluster
        .until_condition("demo", "Degraded", "True NotReconfigured")
        .await;
    assert!(
        message.contains("its server could not be reconfigured")
            && message.contains("status 503: loading"),
        "{message}"
    );
    *pods.refuses.lock().unwrap() = false;
    wait::until("the threads again", LIMIT, matches_cores)
        .await
        .unwrap();
    cluster
        .until_condition("demo", "Actuated", "True InForce")
        .await;
    planner.end().await.unwrap();
}

/// On a real cluster a server that could never be told its threads was planned with all its cores.
#[tokio::test]
async fn server_that_never_confirmed_counts_with_its_first_cores() {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let cluster = Cluster::of(|options| options.pods_at = Some(loopback), |_| true).await;
    for name in ["small", "large"] {
        cluster.deploy(name, 1, 1);
    }
    // A port at which nobody answers.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let mut demo = cluster.demo();
    demo["spec"]["variants"][1]["workload"]["reconfigure"] =
        json!({"port": port, "path": "/threads", "body": "{\"threads\": {cores}}"});
    cluster.server.store().create(&demo).unwrap();
    let planner = cluster.planner("weir-a").await;
    cluster.proxy.load(45.0);
    for about in ["Degraded", "Actuated"] {
        let begins = match about {
            "Degraded" => "True NotReconfigured",
            _ => "False NotReconfigured",
        };
        let message = cluster.until_condition("demo", about, begins).await;
        let url = format!("http://127.0.0.1:{port}/threads");
        assert!(
            message.contains("pod large-") && message.contains(&url),
            "{message}"
        );
    }
    cluster
        .until_cores(&["large"], |cores| cores[0] > 1.0)
        .await;
    let plan = planner.plan().await.unwrap();
    let large = &plan["variants"][1];
    assert_eq!(
        (&large["name"], &large["slots"]),
        (&json!("large"), &json!(1)),
        "{plan}"
    );
    planner.end().await.unwrap();
}
