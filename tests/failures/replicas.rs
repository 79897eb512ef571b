//! One replica of several hangs, fails or refuses; a whole variant hangs. Beside it the same Envoy without the filter.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use weir_api::metrics::Metric;
use weir_bed::emulator::{Emulator, LatencyModel, ServerConfig};
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::planner::{Planner, free_port};
use weir_bed::scene::{KEY, SERVICE, Seen, keep_to_slots, see};
use weir_bed::wait;

const SERVICE_MS: f64 = 20.0;
const BUDGET_MS: u64 = 200;
/// Requests a second, and in a phase.
const RATE: u64 = 80;
const FIRST: u64 = 800;
const LATER: u64 = 400;
const VARIANT_ROUTE: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/route_config/virtual_hosts/0/routes";

const KEY_VARIABLE: &str = "WEIR_REPLICAS_KEY";
/// The first plan, after the start of a planner.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whose plan is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// The configuration's.
    Plan,
    /// A planner's, in mode `advisory`: cores stay as they are.
    Planner,
}

/// A variant: its name, share, slots, replicas, service time in ms, and accuracy.
#[derive(Debug, Clone, Copy)]
struct Variant(&'static str, f64, u32, u32, f64, f64);

/// What a bad server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bad {
    /// Takes requests and answers nothing.
    Hangs,
    /// Answers 500 at once.
    Fails,
    /// Refuses connections.
    Refuses,
}

/// Starts a bad server, which counts the requests that it gets.
async fn bad(how: Bad) -> (SocketAddr, Arc<AtomicUsize>) {
    let got = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    if how == Bad::Refuses {
        return (address, got);
    }
    let count = Arc::clone(&got);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let mut bytes = vec![0; 4096];
                while let Ok(1..) = stream.read(&mut bytes).await {
                    count.fetch_add(1, Ordering::Relaxed);
                    if how == Bad::Fails {
                        let answer =
                            b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
                        stream.write_all(answer).await.unwrap();
                    }
                }
            });
        }
    });
    (address, got)
}

async fn good(name: &str, ms: f64) -> Emulator {
    let mut server = ServerConfig::new(name, LatencyModel::constant(ms));
    server.cores = 1000.0;
    server.aliases.push("model".to_owned());
    Emulator::start(server).await.unwrap()
}

fn static_plan(variants: &[Variant]) -> serde_json::Value {
    let variant = |Variant(name, share, slots, replicas, ms, accuracy): &Variant| {
        json!({ "name": name, "cluster": name, "share": share, "slots": slots, "replicas": replicas,
                "service_ms": ms, "accuracy": accuracy })
    };
    variants.iter().map(variant).collect()
}

/// Envoy before these servers, with the filter.
async fn weir(bootstrap: Bootstrap, variants: &[Variant], by: By) -> (Envoy, Option<Planner>) {
    let mut plugin = json!({ "service": SERVICE, "plan": { "variants": static_plan(variants) } });
    keep_to_slots(&mut plugin);
    if by == By::Plan {
        let envoy = Envoy::start(&bootstrap.plugin(&plugin), 2).await.unwrap();
        return (envoy, None);
    }
    let listen = free_port().unwrap();
    plugin["planner"] = json!({ "cluster": "planner", "key": KEY });
    let bootstrap = bootstrap.planner(listen).plugin(&plugin);
    let envoy = Envoy::start(&bootstrap, 2).await.unwrap();
    let variant = |Variant(name, _, slots, replicas, ms, accuracy): &Variant| {
        json!({ "name": name, "cluster": name, "accuracy": accuracy,
                "cores": { "initial": slots / replicas },
                "replicas": { "initial": replicas },
                "latency": { "gammaMs": 0, "epsilonMs": 0, "deltaMs": 0, "etaMs": ms, "parallelism": "per-core" } })
    };
    let stats = format!("http://{}/stats/prometheus?filter=weir_", envoy.admin());
    let file = json!({
        "service": SERVICE, "listen": listen, "keyEnv": KEY_VARIABLE, "slo": "600ms",
        "mode": "advisory", "cycle": "1s", "proxies": { "stats": [stats] },
        "solver": { "timeLimit": "150ms" },
        "variants": variants.iter().map(variant).collect::<serde_json::Value>(),
    });
    let mut planner =
        Planner::start(SERVICE, listen, &file.to_string(), (KEY_VARIABLE, KEY)).unwrap();
    planner.until_ready(PATIENCE).await.unwrap();
    let polled = async || {
        let revision = envoy.metric(Metric::PlanRevision, SERVICE, "").await;
        revision.is_ok_and(|revision| revision > 0)
    };
    let what = "the planner's plan in the filter";
    wait::until_async(what, PATIENCE, polled).await.unwrap();
    (envoy, Some(planner))
}

/// The same Envoy with a careful route alone.
async fn plain(bootstrap: Bootstrap, variants: &[Variant]) -> Envoy {
    let plugin = json!({ "service": SERVICE, "plan": { "variants": static_plan(variants) } });
    let bootstrap = bootstrap.plugin(&plugin).without_filter().amend(
        &format!("{VARIANT_ROUTE}/2/route/timeout"),
        json!(format!("{}s", BUDGET_MS as f64 / 1e3)),
    );
    Envoy::start(&bootstrap, 2).await.unwrap()
}

/// Sends requests at a constant rate; returns those that were not answered well, each with its place.
async fn lost(envoy: &Envoy, requests: u64, rate: u64, budget_ms: u64) -> Vec<(u64, Seen)> {
    let client = reqwest::Client::new();
    let url = format!(
        "http://{}/v2/models/model/infer",
        envoy.listener("weir").unwrap()
    );
    let mut ticks = tokio::time::interval(Duration::from_micros(1_000_000 / rate));
    let mut sent = Vec::new();
    for _ in 0..requests {
        ticks.tick().await;
        let request = client.post(&url).header("x-slo-ms", budget_ms).body("{}");
        sent.push(tokio::spawn(async move { see(request).await }));
    }
    let mut lost = Vec::new();
    for (place, one) in (0..).zip(sent) {
        let seen = one.await.unwrap().unwrap();
        if seen.status != 200 {
            lost.push((place, seen));
        }
    }
    lost
}

/// Three good replicas and a bad one: what is lost in the first ten seconds, with the filter and without it, and later.
async fn one_of_four(how: Bad, by: By) {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(good("only", SERVICE_MS).await);
    }
    let ((with_filter, got), (without_filter, got_without)) = (bad(how).await, bad(how).await);
    let hosts = |bad: SocketAddr| {
        let mut hosts = vec![bad];
        hosts.extend(servers.iter().map(Emulator::addr));
        hosts
    };
    let plan = [Variant("only", 1.0, 8, 4, SERVICE_MS, 70.0)];
    let before = |bad| Bootstrap::shipped().unwrap().backends("only", &hosts(bad));
    let (weir, _planner) = weir(before(with_filter), &plan, by).await;
    let plain = plain(before(without_filter), &plan).await;
    let (with, without) = tokio::join!(
        lost(&weir, FIRST, RATE, BUDGET_MS),
        lost(&plain, FIRST, RATE, BUDGET_MS)
    );
    // What the machine delays is lost too, so those that met the bad replica are counted.
    let met = |lost: &[(u64, Seen)], got: &AtomicUsize| match how {
        Bad::Hangs | Bad::Fails => got.load(Ordering::Relaxed),
        Bad::Refuses => lost.iter().filter(|(_, seen)| seen.status == 503).count(),
    };
    let (with, without) = (met(&with, &got), met(&without, &got_without));
    eprintln!("{how:?}, {by:?}: {with} lost with the filter, {without} without");
    assert!(
        (1..=FIRST as usize / 100).contains(&with),
        "{how:?}, {by:?}: {with}"
    );
    // A few may be under way at the last of the errors in a row.
    assert!(with <= without + 3, "{how:?}, {by:?}: {with} and {without}");
    let ejected = "envoy_cluster_outlier_detection_ejections_active";
    assert_eq!(weir.counter(ejected).await.unwrap(), 1, "{how:?}");
    got.store(0, Ordering::Relaxed);
    let later = lost(&weir, LATER, RATE, BUDGET_MS).await;
    assert_eq!(met(&later, &got), 0, "{how:?}, {by:?}: {later:?}");
    let failing = weir.metric(Metric::Failing, SERVICE, "only").await.unwrap();
    assert_eq!(failing, 0, "{how:?}, {by:?}: the others serve");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_replica_of_four_costs_a_few_requests() {
    tokio::join!(
        one_of_four(Bad::Hangs, By::Plan),
        one_of_four(Bad::Fails, By::Plan),
        one_of_four(Bad::Refuses, By::Plan)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_replica_of_four_costs_no_more_under_a_planner() {
    tokio::join!(
        one_of_four(Bad::Hangs, By::Planner),
        one_of_four(Bad::Fails, By::Planner),
        one_of_four(Bad::Refuses, By::Planner)
    );
}

/// A variant whose only server hangs, beside two good ones.
async fn hung_variant(by: By) {
    let quick = good("quick", 20.0).await;
    let large = good("large", 150.0).await;
    let (hung, got) = bad(Bad::Hangs).await;
    // The planner fills the most accurate first.
    let plan = [
        Variant("quick", 0.5, 8, 1, 60.0, 70.0),
        Variant("hung", 0.3, 4, 1, 130.0, 80.0),
        Variant("large", 0.2, 2, 1, 300.0, 75.0),
    ];
    let bootstrap = Bootstrap::shipped()
        .unwrap()
        .backend("quick", quick.addr())
        .backend("hung", hung)
        .backend("large", large.addr());
    let (weir, _planner) = weir(bootstrap, &plan, by).await;
    let (rate, seconds) = (40, 20);
    lost(&weir, rate, rate, 600).await;
    let in_first_second = got.swap(0, Ordering::Relaxed);
    lost(&weir, rate * (seconds - 1), rate, 600).await;
    let later = got.load(Ordering::Relaxed) as u64;
    eprintln!("hung variant, {by:?}: {in_first_second} lost in the first second, {later} later");
    assert!((1..=rate * (seconds - 1) / 200).contains(&later), "{later}");
    assert_eq!(
        weir.metric(Metric::Failing, SERVICE, "hung").await.unwrap(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hung_variant_costs_what_its_trials_do() {
    tokio::join!(hung_variant(By::Plan), hung_variant(By::Planner));
}
