//! Several servers behind one cluster of a real Envoy. Servers join once they have loaded, leave when their
//! work is done, and are configured with the planner's batch size.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use weir_bed::emulator::{Endpoints, LatencyModel, Replicas, ReplicasConfig, ServerConfig};
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::planner::{Planner, free_port};
use weir_bed::scene::{KEY, PATIENCE};
use weir_bed::wait;

const KEY_VARIABLE: &str = "WEIR_STORY_KEY";
const THREE: NonZeroU32 = NonZeroU32::new(3).unwrap();

/// Starts three servers as the cluster `model`. They load for 0.4 s, and wait up to `delay_ms` for a full
/// batch. The folder holds their endpoints.
async fn replicas(cores: f64, batch: u32, delay_ms: u64) -> (Replicas, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let model = LatencyModel {
        gamma_ms: 20.0,
        eta_ms: 20.0,
        ..LatencyModel::default()
    };
    let server = ServerConfig {
        cores,
        batch_max: NonZeroU32::new(batch).unwrap(),
        batch_delay: Duration::from_millis(delay_ms),
        ..ServerConfig::new("model", model)
    };
    let config = ReplicasConfig {
        count: THREE,
        readiness: Duration::from_millis(400),
        resize_delay: [Duration::from_millis(50), Duration::from_millis(100)],
        endpoints: Some(Endpoints {
            cluster: "model".to_owned(),
            file: folder.path().join("model.json"),
        }),
        ..ReplicasConfig::one(server)
    };
    (Replicas::start(config).await.unwrap(), folder)
}

fn bootstrap(replicas: &Replicas) -> Bootstrap {
    let Endpoints { cluster, file } = replicas.endpoints().unwrap();
    Bootstrap::shipped()
        .unwrap()
        .discovered_backend(cluster, file)
        .fallback(cluster)
}

/// Sends requests from `clients` clients until `done`; all must be answered with 200.
async fn load(url: &str, clients: usize, done: impl Future<Output = ()>) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let sent = futures_util::stream::repeat(())
        .map(|()| client.post(url).body("{}").send())
        .buffer_unordered(clients);
    let answered = sent.for_each(|answer| {
        assert_eq!(answer.unwrap().status(), 200);
        std::future::ready(())
    });
    tokio::select! {
        () = answered => unreachable!("the load has no end"),
        () = done => {}
    }
}

async fn resize(replicas: &Replicas, cores: f64) -> (Value, Duration) {
    let (client, begin) = (reqwest::Client::new(), Instant::now());
    let request = client.put(replicas.resources_url());
    let answer = request
        .json(&json!({ "cores": cores }))
        .send()
        .await
        .unwrap();
    (answer.json().await.unwrap(), begin.elapsed())
}

/// Number of executions so far on each server.
fn executed(replicas: &Replicas) -> Vec<usize> {
    let servers = replicas.servers().iter();
    servers.map(|server| server.executions().len()).collect()
}

#[tokio::test]
async fn servers_join_loaded_and_leave_drained() {
    let (replicas, _folder) = replicas(0.0, 1, 0).await;
    let bootstrap = bootstrap(&replicas).without_filter();
    let envoy = Envoy::start(&bootstrap, 2).await.unwrap();
    let url = format!(
        "http://{}/v2/models/model/infer",
        envoy.listener("weir").unwrap()
    );
    let (actual, took) = resize(&replicas, 2.0).await;
    assert_eq!(actual["cores"], 2.0);
    assert!(took >= Duration::from_millis(450), "{took:?}");
    load(&url, 6, async {
        wait::until("two servers", PATIENCE, || executed(&replicas)[1] > 5)
            .await
            .unwrap();
        let (actual, _) = resize(&replicas, 3.0).await;
        assert_eq!(actual["cores"], 3.0);
        wait::until("the third server", PATIENCE, || executed(&replicas)[2] > 5)
            .await
            .unwrap();
        let (actual, _) = resize(&replicas, 1.0).await;
        assert_eq!(actual["cores"], 1.0);
        let refuses = || {
            let removed = &replicas.servers()[1..];
            removed
                .iter()
                .all(|server| std::net::TcpStream::connect(server.addr()).is_err())
        };
        wait::until("two to refuse", PATIENCE, refuses)
            .await
            .unwrap();
        let before = executed(&replicas);
        let more = || executed(&replicas)[0] > before[0] + 10;
        wait::until("the first to go on", PATIENCE, more)
            .await
            .unwrap();
        let after = executed(&replicas);
        assert!(
            after[0] > before[0] && after[1..] == before[1..],
            "{before:?} {after:?}"
        );
    })
    .await;
}

/// Starts a proxy and a planner for those servers: six cores carry 150 requests/s with batches of one, 200
/// with two, 225 with three. `keys` override those of the variant. Also returns the URL for requests.
async fn planned(replicas: &Replicas, keys: Value) -> (Envoy, Planner, String) {
    let address = free_port().unwrap();
    let variant = json!({ "name": "model", "cluster": "model", "share": 1.0, "slots": 6, "service_ms": 80.0,
                          "accuracy": 70.0 });
    let plugin = json!({ "service": "detect", "planner": { "cluster": "planner", "key": KEY },
                         "plan": { "variants": [variant] } });
    let bootstrap = bootstrap(replicas).plugin(&plugin).planner(address);
    let envoy = Envoy::start(&bootstrap, 2).await.unwrap();
    let mut variant = json!({
        "name": "model", "cluster": "model", "accuracy": 70.0, "cores": { "initial": 6, "min": 0 },
        "resize": replicas.resources_url(),
        "latency": { "gammaMs": 20, "epsilonMs": 0, "deltaMs": 0, "etaMs": 20, "parallelism": "per-core" },
    });
    for (key, value) in keys.as_object().unwrap() {
        variant[key] = value.clone();
    }
    let service = json!({
        "service": "pipe", "listen": address, "keyEnv": KEY_VARIABLE, "slo": "1s", "policy": "ipa",
        "mode": "active", "cycle": "200ms", "budget": { "cores": 6 },
        "proxies": { "stats": [format!("http://{}/stats/prometheus?filter=weir_", envoy.admin())], "timeout": "150ms" },
        "solver": { "timeLimit": "150ms" }, "resize": { "timeout": "150ms" },
        "demand": { "smoothing": "1s", "window": "2s", "moving": "1s" },
        "stages": [{ "name": "detect", "variants": [variant] }],
    });
    let key = (KEY_VARIABLE, KEY);
    let mut planner = Planner::start("pipe", address, &service.to_string(), key).unwrap();
    planner.until_ready(PATIENCE).await.unwrap();
    let url = format!(
        "http://{}/v2/models/model/infer",
        envoy.listener("weir").unwrap()
    );
    (envoy, planner, url)
}

#[tokio::test]
async fn servers_are_configured_with_the_planned_batch_and_never_exceed_it() {
    let (replicas, _folder) = replicas(6.0, 8, 5).await;
    let options = json!({ "batch": 8, "batchDelay": "5ms", "tellBatch": true });
    let (_envoy, planner, url) = planned(&replicas, options).await;
    let batches = || -> Vec<u32> {
        let servers = replicas.servers().iter();
        servers.map(|server| server.batch().get()).collect()
    };
    load(&url, 4, async {
        wait::until("batches of one", PATIENCE, || batches() == [1; 3])
            .await
            .unwrap();
    })
    .await;
    load(&url, 40, async {
        wait::until("greater batches", PATIENCE, || batches()[0] > 1)
            .await
            .unwrap();
        let before = replicas.executions().len();
        let more = || replicas.executions().len() >= before + 40;
        wait::until("40 executions", PATIENCE, more).await.unwrap();
        let done = replicas.executions();
        let most = done[before..].iter().map(|one| one.batch).max().unwrap();
        // A smaller batch is not set for 30 s.
        assert!((2..=batches()[0]).contains(&most), "{most} {:?}", batches());
        let shown = async || {
            let status = planner.status(1).await.unwrap();
            let shown = status.cycles.last().unwrap().variants["model"].batch;
            batches() == [shown; 3]
        };
        wait::until_async("the status", PATIENCE, shown)
            .await
            .unwrap();
    })
    .await;
}

/// A profile of 40 ms, for servers with a batch window of 200 ms.
#[tokio::test]
async fn batches_missing_in_the_profile_are_reported_in_the_reason() {
    let (replicas, _folder) = replicas(6.0, 8, 200).await;
    let (_envoy, planner, url) =
        planned(&replicas, json!({ "cores": { "initial": 6, "min": 6 } })).await;
    load(&url, 4, async {
        let reported = async || {
            let status = planner.status(1).await.unwrap();
            let why = &status.cycles.last().unwrap().why;
            why.contains("; model: measured ") && why.contains(" × profile over ")
        };
        wait::until_async("the why", PATIENCE * 3, reported)
            .await
            .unwrap();
    })
    .await;
}
