//! The real planner with one router and two gates.

use std::collections::BTreeSet;

use serde_json::json;
use weir_api::metrics::Metric;
use weir_bed::emulator::Emulator;
use weir_bed::envoy::Bootstrap;
use weir_bed::path::{Hop, server};
use weir_bed::planner::{Planner, free_port};
use weir_bed::scene::{KEY, PATIENCE, SERVICE, Variant, see};
use weir_bed::wait;

use super::{EXACT, FAST};

const KEY_VARIABLE: &str = "WEIR_STORY_KEY";

/// One core for each slot: three for one variant, five for the other.
const SLOTS: [(Variant, u32); 2] = [(FAST, 3), (EXACT, 5)];

fn service_file(
    listen: std::net::SocketAddr,
    proxies: &[&Hop],
    backends: &[&Emulator],
) -> serde_json::Value {
    let stats: Vec<_> = proxies
        .iter()
        .map(|hop| format!("http://{}/stats/prometheus?filter=weir_", hop.envoy.admin()))
        .collect();
    let variants: Vec<_> = SLOTS
        .iter()
        .zip(backends)
        .map(|((v, cores), backend)| {
            json!({ "name": v.name, "cluster": v.name, "accuracy": 70.0,
                    "cores": { "initial": cores },
                    "capacity": { "slopeRps": 20.0, "interceptRps": 0 },
                    "latency": { "gammaMs": v.service_ms, "epsilonMs": 0, "deltaMs": 0,
                                 "etaMs": 0, "parallelism": "per-core" },
                    "resize": format!("{}/emulator/resources", backend.url()) })
        })
        .collect();
    json!({
        "service": SERVICE, "listen": listen, "keyEnv": KEY_VARIABLE, "slo": "1s",
        "mode": "advisory", "cycle": "200ms", "budget": { "cores": 8 }, "planMaxAge": "1m",
        "proxies": { "stats": stats, "timeout": "150ms" },
        "solver": { "timeLimit": "150ms" }, "resize": { "timeout": "150ms" },
        "variants": variants,
    })
}

#[tokio::test]
async fn planner_gives_each_gate_its_variants_slots() {
    let listen = free_port().unwrap();
    let settings = json!({ "planner": { "cluster": "planner", "key": KEY } });
    let mut backends = Vec::new();
    let mut gates = Vec::new();
    for (variant, cores) in SLOTS {
        let backend = server(variant.name, variant.service_ms).await.unwrap();
        backend.set_cores(f64::from(cores)).unwrap();
        let own = Variant {
            share: 1.0,
            slots: 1,
            ..variant
        };
        let plugin = Hop::gate_plugin(own, settings.clone());
        let bootstrap = Bootstrap::gate()
            .unwrap()
            .backend(variant.name, backend.addr())
            .planner(listen)
            .amend("/node/id", json!(format!("gate-{}", variant.name)));
        gates.push(Hop::start(bootstrap, &plugin, 2).await.unwrap());
        backends.push(backend);
    }
    let bootstrap = Bootstrap::shipped()
        .unwrap()
        .backend("fast", gates[0].address())
        .backend("exact", gates[1].address())
        .planner(listen)
        .amend("/node/id", json!("router"));
    let plugin = json!({ "service": SERVICE, "role": "router", "planner": settings["planner"] });
    let router = Hop::start(bootstrap, &plugin, 2).await.unwrap();

    let file = service_file(
        listen,
        &[&router, &gates[0], &gates[1]],
        &[&backends[0], &backends[1]],
    );
    let key = (KEY_VARIABLE, KEY);
    let mut planner = Planner::start(SERVICE, listen, &file.to_string(), key).unwrap();
    planner.until_ready(PATIENCE).await.unwrap();
    for ((variant, slots), gate) in SLOTS.iter().zip(&gates) {
        let (name, slots) = (variant.name, u64::from(*slots));
        gate.until(Metric::Slots, name, slots).await.unwrap();
        router.until(Metric::Slots, name, slots).await.unwrap();
    }
    let known = async || {
        let status = planner.status(1).await.unwrap();
        let all = ["router", "gate-fast", "gate-exact"];
        let polling: BTreeSet<_> = status.proxies.keys().map(String::as_str).collect();
        polling == BTreeSet::from(all)
    };
    wait::until_async("all three to be known", PATIENCE, known)
        .await
        .unwrap();
    let mut served = BTreeSet::new();
    for _ in 0..20 {
        let seen = see(router.infer_within(5000)).await.unwrap();
        assert_eq!(seen.refusal(), (200, ""));
        served.insert(seen.header("x-slo-variant").to_owned());
    }
    assert!(!served.is_empty());
    let executed: usize = backends.iter().map(|b| b.executions().len()).sum();
    assert_eq!(executed, 20);
    for (gate, (variant, _)) in gates.iter().zip(SLOTS) {
        let name = variant.name;
        let other = if name == "fast" { "exact" } else { "fast" };
        assert_eq!(gate.metric(Metric::Slots, other).await.unwrap(), 0);
        assert_eq!(gate.metric(Metric::PlansRefused, "").await.unwrap(), 0);
    }
}
