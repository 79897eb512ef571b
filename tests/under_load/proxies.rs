//! Two real Envoys share the slots of one service. The allocations add up to the total, and change within two
//! seconds when a proxy dies or returns.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use weir_api::metrics::Metric;
use weir_bed::planner::{Planner, Status, free_port};
use weir_bed::scene::{KEY, PATIENCE, SERVICE, Scene, Variant, see};
use weir_bed::wait;

const KEY_VARIABLE: &str = "WEIR_STORY_KEY";
/// Maximum time until slots are reallocated.
const MOVE_MAX: Duration = Duration::from_secs(2);

/// Three and five slots: neither is divisible by two.
const VARIANTS: [(Variant, u32); 2] = [(FAST, 3), (EXACT, 5)];
const FAST: Variant = Variant {
    name: "fast",
    share: 0.5,
    slots: 1,
    service_ms: 5.0,
};
const EXACT: Variant = Variant {
    name: "exact",
    share: 0.5,
    slots: 1,
    service_ms: 20.0,
};

/// Starts an Envoy with that node id; it polls the planner at `planner`.
async fn proxy(node: &str, planner: SocketAddr) -> Scene {
    Scene::start(&[FAST, EXACT], 2, |bootstrap, plugin| {
        plugin["planner"] = json!({ "cluster": "planner", "key": KEY });
        bootstrap.planner(planner).amend("/node/id", json!(node))
    })
    .await
    .unwrap()
}

/// Starts an advisory planner for as many cores as there are slots.
async fn planner(scene: &Scene, address: SocketAddr) -> Planner {
    for (backend, (_, slots)) in scene.backends.iter().zip(VARIANTS) {
        let url = format!("{}/emulator/resources", backend.url());
        let cores = json!({ "cores": slots }).to_string();
        let set = see(scene
            .client
            .put(url)
            .header("content-type", "application/json")
            .body(cores));
        assert_eq!(set.await.unwrap().status, 200);
    }
    let variant = |index: usize| {
        let (v, slots) = VARIANTS[index];
        json!({ "name": v.name, "cluster": v.name, "accuracy": 70.0 + index as f64,
                "cores": { "initial": slots },
                "capacity": { "slopeRps": 20.0, "interceptRps": 0 },
                "latency": { "gammaMs": v.service_ms, "epsilonMs": 0, "deltaMs": 0, "etaMs": 0,
                             "parallelism": "per-core" },
                "resize": format!("{}/emulator/resources", scene.backends[index].url()) })
    };
    let stats = format!(
        "http://{}/stats/prometheus?filter=weir_",
        scene.envoy.admin()
    );
    let service = json!({
        "service": SERVICE, "listen": address, "keyEnv": KEY_VARIABLE, "slo": "1s",
        "mode": "advisory", "cycle": "200ms", "budget": { "cores": 8 }, "planMaxAge": "1m",
        "proxies": { "stats": [stats], "timeout": "150ms" },
        "solver": { "timeLimit": "150ms" }, "resize": { "timeout": "150ms" },
        "variants": [variant(0), variant(1)],
    });
    let key = (KEY_VARIABLE, KEY);
    let mut planner = Planner::start(SERVICE, address, &service.to_string(), key).unwrap();
    planner.until_ready(PATIENCE).await.unwrap();
    planner
}

/// Slots of a variant on each proxy that has confirmed its allocation; 0 for the others.
fn parts(status: &Status, variant: &str) -> Vec<u32> {
    let sharers = status.proxies.values();
    let part = |sharer: &weir_bed::planner::Sharer| {
        let part = sharer.slots.get(variant).copied();
        part.filter(|_| sharer.confirmed).unwrap_or(0)
    };
    sharers.map(part).collect()
}

/// Whether exactly these proxies have confirmed allocations that add up to the total and differ by at most
/// one slot.
async fn shared(planner: &Planner, proxies: &[(&str, &Scene)]) -> bool {
    let status = planner.status(1).await.unwrap();
    let mut shared = status.proxies.len() == proxies.len();
    for (variant, slots) in VARIANTS {
        let parts = parts(&status, variant.name);
        let sum: u32 = parts.iter().sum();
        assert!(sum <= slots, "{}: {parts:?} of {slots}", variant.name);
        let (min, most) = (parts.iter().min(), parts.iter().max());
        shared &= sum == slots && most.zip(min).is_some_and(|(most, min)| most - min <= 1);
    }
    for (node, scene) in proxies {
        let reported = status
            .proxies
            .get(*node)
            .and_then(|sharer| sharer.allocation_revision);
        let obeyed = scene.metric(Metric::PlanRevision, "").await.unwrap();
        shared &= reported == Some(obeyed);
    }
    shared
}

#[tokio::test]
async fn surviving_proxy_takes_over_all_slots() {
    let _alone = super::alone().await;
    let address = free_port().unwrap();
    let a = proxy("envoy-a", address).await;
    let b = proxy("envoy-b", address).await;
    let planner = planner(&a, address).await;
    let both = async || shared(&planner, &[("envoy-a", &a), ("envoy-b", &b)]).await;
    wait::until_async("both to share", PATIENCE, both)
        .await
        .unwrap();
    let first = planner.status(1).await.unwrap().proxies["envoy-b"].incarnation;
    for scene in [&a, &b] {
        assert_eq!(see(scene.infer()).await.unwrap().status, 200);
    }

    let killed = Instant::now();
    let id = b.envoy.pid().to_string();
    let kill = Command::new("kill").args(["-KILL", &id]).status().unwrap();
    assert!(kill.success());
    let alone = async || shared(&planner, &[("envoy-a", &a)]).await;
    wait::until_async("the other to have the whole", PATIENCE, alone)
        .await
        .unwrap();
    let took = killed.elapsed();
    println!("the whole {took:?} after the other one was killed");
    assert!(took < MOVE_MAX, "{took:?}");
    assert_eq!(see(a.infer()).await.unwrap().status, 200);

    drop(b);
    let b = proxy("envoy-b", address).await;
    let ready = Instant::now();
    let both = async || shared(&planner, &[("envoy-a", &a), ("envoy-b", &b)]).await;
    wait::until_async("both to share again", PATIENCE, both)
        .await
        .unwrap();
    let took = ready.elapsed();
    println!("shared {took:?} after it was ready again");
    assert!(took < MOVE_MAX, "{took:?}");
    let again = planner.status(1).await.unwrap().proxies["envoy-b"].incarnation;
    assert_ne!(first, again);
    assert_eq!(a.metric(Metric::PlansRefused, "").await.unwrap(), 0);
    assert_eq!(b.metric(Metric::PlansRefused, "").await.unwrap(), 0);
}
