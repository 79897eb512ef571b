//! The closed loop: a real Envoy with the filter, the real planner, emulated servers. The load changes the
//! plan, and the plan changes the filter's behavior; each keeps running without the other.

use std::net::SocketAddr;

use futures_util::StreamExt;
use serde_json::json;
use weir_api::metrics::Metric;
use weir_bed::planner::{Planner, free_port};
use weir_bed::scene::{KEY, PATIENCE, SERVICE, Scene, Variant, see};
use weir_bed::wait;

const FAST: Variant = Variant {
    name: "fast",
    share: 0.5,
    slots: 4,
    service_ms: 5.0,
};
const EXACT: Variant = Variant {
    name: "exact",
    share: 0.5,
    slots: 4,
    service_ms: 50.0,
};
const KEY_VARIABLE: &str = "WEIR_STORY_KEY";

/// Starts Envoy with two workers; it polls the planner at `planner`.
async fn scene(planner: SocketAddr) -> Scene {
    Scene::start(&[FAST, EXACT], 2, |bootstrap, plugin| {
        plugin["planner"] = json!({ "cluster": "planner", "key": KEY });
        bootstrap.planner(planner)
    })
    .await
    .unwrap()
}

/// Two variants on eight cores: the exact one sustains 18 requests/s per core, the fast one 180.
async fn planner(scene: &Scene, address: SocketAddr) -> Planner {
    let stats = format!(
        "http://{}/stats/prometheus?filter=weir_",
        scene.envoy.admin()
    );
    let variant = |index: usize, v: Variant, accuracy: f64, slope: f64| {
        json!({ "name": v.name, "cluster": v.name, "accuracy": accuracy, "cores": { "initial": 4 },
                "capacity": { "slopeRps": slope, "interceptRps": 0 },
                "latency": { "gammaMs": v.service_ms, "epsilonMs": 0, "deltaMs": 0, "etaMs": 0,
                             "parallelism": "per-core" },
                "resize": format!("{}/emulator/resources", scene.backends[index].url()) })
    };
    let service = json!({
        "service": SERVICE, "listen": address, "keyEnv": KEY_VARIABLE, "slo": "1s",
        "mode": "active", "cycle": "200ms", "budget": { "cores": 8 }, "planMaxAge": "1m",
        "proxies": { "stats": [stats], "timeout": "150ms" },
        "solver": { "timeLimit": "150ms" }, "resize": { "timeout": "150ms" },
        "variants": [variant(0, FAST, 70.0, 180.0), variant(1, EXACT, 78.0, 18.0)],
    });
    let key = (KEY_VARIABLE, KEY);
    let mut planner = Planner::start(SERVICE, address, &service.to_string(), key).unwrap();
    planner.until_ready(PATIENCE).await.unwrap();
    planner
}

/// Sends requests one after another on each of `clients`, until `done`; all must be answered.
async fn load(scene: &Scene, clients: usize, what: &str, mut done: impl AsyncFnMut() -> bool) {
    let answers = futures_util::stream::repeat(())
        .map(|()| see(scene.infer_within(5000)))
        .buffer_unordered(clients);
    let answered = answers.for_each(|seen| {
        let seen = seen.unwrap();
        assert_eq!(seen.status, 200, "{:?}", seen.refusal());
        std::future::ready(())
    });
    tokio::select! {
        () = answered => unreachable!("the load has no end"),
        waited = wait::until_async(what, PATIENCE, &mut done) => waited.unwrap(),
    }
}

async fn share_of(planner: &Planner, name: &str) -> f64 {
    let status = planner.status(1).await.unwrap();
    status
        .cycles
        .last()
        .map_or(0.0, |cycle| cycle.variants[name].share)
}

#[tokio::test]
async fn load_changes_the_plan_and_plan_changes_the_filter() {
    let _alone = super::alone().await;
    let address = free_port().unwrap();
    let scene = scene(address).await;
    let planner = planner(&scene, address).await;
    let obeyed = async || {
        let revision = planner.status(1).await.unwrap().revision.unwrap();
        scene.metric(Metric::PlanRevision, "").await.unwrap() == revision
    };
    load(&scene, 1, "light load on the exact variant", async || {
        share_of(&planner, "exact").await > 0.9 && obeyed().await
    })
    .await;
    let before = scene.backends[0].executions().len();
    load(&scene, 64, "heavy load on the fast variant", async || {
        share_of(&planner, "fast").await > 0.6 && obeyed().await
    })
    .await;
    assert!(
        scene.backends[0].executions().len() > before,
        "the fast variant got nothing"
    );
    let cores: f64 = scene.backends.iter().map(|backend| backend.cores()).sum();
    assert!(cores <= 8.0, "{cores} cores are more than the budget");
    assert_eq!(scene.metric(Metric::PlansRefused, "").await.unwrap(), 0);
}

#[tokio::test]
async fn planner_can_die_and_be_restarted() {
    let _alone = super::alone().await;
    let address = free_port().unwrap();
    let scene = scene(address).await;
    let first = planner(&scene, address).await;
    let planned = async || scene.metric(Metric::PlansAccepted, "").await.unwrap() >= 3;
    load(&scene, 4, "the first plan", planned).await;
    drop(first);

    let failed = scene.metric(Metric::PlanPollsFailed, "").await.unwrap();
    let missed = async || scene.metric(Metric::PlanPollsFailed, "").await.unwrap() > failed + 1;
    load(&scene, 4, "polls without an answer", missed).await;
    let revision = scene.metric(Metric::PlanRevision, "").await.unwrap();

    let second = planner(&scene, address).await;
    let newer = async || scene.metric(Metric::PlanRevision, "").await.unwrap() > revision;
    load(&scene, 4, "a plan of the planner started anew", newer).await;
    drop(second);
    let answered = see(scene.infer()).await.unwrap();
    assert_eq!(answered.status, 200);
}

/// Names, clusters and an objective: the times are measured, and shares follow them.
#[tokio::test]
async fn service_without_profiles_is_shared_by_measured_rates() {
    let _alone = super::alone().await;
    let address = free_port().unwrap();
    let scene = scene(address).await;
    let admin = scene.envoy.admin();
    let service = format!(
        "service: {SERVICE}
listen: {address}
keyEnv: {KEY_VARIABLE}
slo: 1s
proxies: {{stats: ['http://{admin}/stats/prometheus?filter=weir_']}}
variants:
- {{name: fast, cluster: fast}}
- {{name: exact, cluster: exact}}
"
    );
    let key = (KEY_VARIABLE, KEY);
    let mut planner = Planner::start(SERVICE, address, &service, key).unwrap();
    planner.until_ready(PATIENCE).await.unwrap();
    let measured = async || {
        let status = planner.status(1).await.unwrap();
        let why = status.cycles.last().map(|cycle| cycle.why.clone());
        let why = why.unwrap_or_default();
        let named = ["fast", "exact"].map(|name| format!("; {name}: no profile; measured "));
        let is_named = named.iter().all(|named| why.contains(named));
        is_named && share_of(&planner, "fast").await > 0.7
    };
    load(&scene, 8, "shares by measured rates", measured).await;
    let exact = share_of(&planner, "exact").await;
    assert!(exact > 0.0, "{exact}");
}
