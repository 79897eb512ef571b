//! A router with gates, each a real Envoy with the shipped file of its role: the division of decisions, the
//! information they exchange, and requests counted only once.

use serde_json::json;
use weir_api::metrics::Metric;
use weir_bed::emulator::Emulator;
use weir_bed::envoy::{Bootstrap, validate};
use weir_bed::path::{Hop, server};
use weir_bed::scene::{PATIENCE, Scene, Seen, Variant, epoch_ms, see};
use weir_bed::wait;

mod slots;

const FAST: Variant = Variant {
    name: "fast",
    share: 0.5,
    slots: 50,
    service_ms: 5.0,
};
const EXACT: Variant = Variant {
    name: "exact",
    share: 0.5,
    slots: 50,
    service_ms: 20.0,
};
/// Execution time that keeps the only slot busy, in ms.
const BUSY_MS: f64 = 1500.0;

/// Starts a gate and its server.
async fn gated(variant: Variant, plugin: serde_json::Value) -> (Hop, Emulator) {
    let backend = server(variant.name, variant.service_ms).await.unwrap();
    let gate = Hop::gate(variant, backend.addr(), plugin).await.unwrap();
    (gate, backend)
}

/// Starts a gate with a single worker; the order among several is tested in `workers`.
async fn gated_alone(variant: Variant, plugin: serde_json::Value) -> (Hop, Emulator) {
    let backend = server(variant.name, variant.service_ms).await.unwrap();
    let bootstrap = Bootstrap::gate().unwrap();
    let bootstrap = bootstrap.backend(variant.name, backend.addr());
    let plugin = Hop::gate_plugin(variant, plugin);
    let gate = Hop::start(bootstrap, &plugin, 1).await.unwrap();
    (gate, backend)
}

async fn sum(hops: &[&Hop], metric: Metric, label: &str) -> u64 {
    let mut sum = 0;
    for hop in hops {
        sum += hop.metric(metric, label).await.unwrap();
    }
    sum
}

/// Fills the only slot of a gate with a long execution, so that later requests wait.
async fn busy(
    hop: &Hop,
    backend: &Emulator,
    service_ms: f64,
) -> tokio::task::JoinHandle<anyhow::Result<Seen>> {
    backend.slow_by(BUSY_MS / service_ms).unwrap();
    let running = Scene::spawn(hop.infer_within(9000));
    wait::until("the first execution", PATIENCE, || backend.load().1 == 1)
        .await
        .unwrap();
    backend.slow_by(1.0).unwrap();
    running
}

#[test]
fn shipped_gate_is_valid() {
    let text = std::fs::read_to_string(Bootstrap::gate_path()).unwrap();
    let module = weir_bed::built::filter().unwrap();
    let text = text.replace("/etc/envoy/weir_filter.wasm", module.to_str().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    std::fs::write(&file, text).unwrap();
    validate(&file).unwrap();
}

/// A gate holds requests too, so it needs all limits of the main file.
#[test]
fn shipped_gate_has_the_main_files_limits() {
    let (all, gate) = (Bootstrap::shipped().unwrap(), Bootstrap::gate().unwrap());
    let listener = "/static_resources/listeners/0";
    let manager = format!("{listener}/filter_chains/0/filters/0/typed_config");
    let plugin = format!("{manager}/http_filters/0/typed_config/config");
    let cluster = "/static_resources/clusters/0";
    let in_manager = [
        "stream_idle_timeout",
        "request_timeout",
        "request_headers_timeout",
        "common_http_protocol_options",
        "http2_protocol_options",
        "normalize_path",
        "merge_slashes",
        "preserve_external_request_id",
    ];
    let in_manager = in_manager.map(|key| format!("{manager}/{key}"));
    let others = [
        "/stats_flush_interval".to_owned(),
        "/overload_manager".to_owned(),
        format!("{listener}/per_connection_buffer_limit_bytes"),
        format!("{listener}/connection_balance_config"),
        format!("{plugin}/vm_config"),
        format!("{plugin}/failure_policy"),
        format!("{plugin}/reload_config"),
        format!("{cluster}/connect_timeout"),
        format!("{cluster}/per_connection_buffer_limit_bytes"),
        format!("{cluster}/circuit_breakers"),
        format!("{cluster}/typed_extension_protocol_options"),
    ];
    for pointer in in_manager.iter().chain(&others) {
        let right = all.value().pointer(pointer);
        assert!(right.is_some(), "{pointer}");
        assert_eq!(gate.value().pointer(pointer), right, "{pointer}");
    }
    // A hold is ended by the filter, not by the route's idle timeout.
    let route = format!("{manager}/route_config/virtual_hosts/0/routes/0/route/idle_timeout");
    let idle = gate.value().pointer(&route).and_then(|idle| idle.as_str());
    let idle: f64 = idle.unwrap().strip_suffix('s').unwrap().parse().unwrap();
    let plugin = gate
        .value()
        .pointer(&format!("{plugin}/configuration/value"));
    let plugin: serde_json::Value =
        serde_json::from_str(plugin.unwrap().as_str().unwrap()).unwrap();
    assert!(idle * 1000.0 > plugin["deadline"]["max_ms"].as_f64().unwrap());
}

#[tokio::test]
async fn router_routes_gates_admit_and_each_counts_its_part() {
    let (fast, fast_server) = gated(FAST, json!({})).await;
    let (exact, exact_server) = gated(EXACT, json!({})).await;
    let gates = [(FAST, fast.address()), (EXACT, exact.address())];
    let router = Hop::router(&gates, json!({})).await.unwrap();
    for _ in 0..40 {
        let sent_ms = epoch_ms() - 100;
        let request = router.infer_within(5000).header("x-slo-start", sent_ms);
        let seen = see(request).await.unwrap();
        assert_eq!(seen.status, 200, "{:?}", seen.refusal());
        let timings = seen.headers.get_all("server-timing").iter().count();
        assert_eq!(timings, 1, "the gate reports the waiting time");
        assert!(!seen.headers.contains_key("x-slo-expected-ms"));
        let backend = match seen.header("x-slo-variant") {
            "fast" => &fast_server,
            _ => &exact_server,
        };
        let execution = backend.executions().pop().unwrap();
        assert_eq!(execution.headers["x-slo-variant"], backend.model());
        let deadline: u64 = execution.headers["x-slo-deadline"].parse().unwrap();
        assert!(deadline.abs_diff(sent_ms + 5000) <= 1, "{deadline}");
        assert!(!execution.headers.contains_key("x-slo-cluster"));
    }
    assert_eq!(fast_server.executions().len(), 20);
    assert_eq!(exact_server.executions().len(), 20);

    let all = [&router, &fast, &exact];
    router.until(Metric::Arrivals, "", 40).await.unwrap();
    for variant in ["fast", "exact"] {
        router.until(Metric::Requests, variant, 20).await.unwrap();
        let gate = if variant == "fast" { &fast } else { &exact };
        for metric in [Metric::Dispatched, Metric::Served, Metric::OnTime] {
            gate.until(metric, variant, 20).await.unwrap();
            assert_eq!(sum(&all, metric, variant).await, 20, "{metric:?}");
        }
        assert_eq!(sum(&all, Metric::Requests, variant).await, 20);
    }
    assert_eq!(sum(&all, Metric::Arrivals, "").await, 40);
    assert_eq!(sum(&all, Metric::Admitted, "").await, 40);
}

#[tokio::test]
async fn gate_behind_two_routers_serves_by_deadline() {
    let slot = Variant { slots: 1, ..FAST };
    let (gate, backend) = gated_alone(slot, json!({})).await;
    let alone = Variant { share: 1.0, ..slot };
    let gates = [(alone, gate.address())];
    let one = Hop::router(&gates, json!({})).await.unwrap();
    let other = Hop::router(&gates, json!({})).await.unwrap();
    let running = busy(&one, &backend, slot.service_ms).await;
    // In an order that neither rises nor falls, through either router.
    let held: Vec<_> = (0..30_u64)
        .map(|i| {
            let router = if i % 2 == 0 { &one } else { &other };
            Scene::spawn(router.infer_within(4000 + (i * 17 % 30) * 50))
        })
        .collect();
    gate.until(Metric::HeldRequests, "", 30).await.unwrap();
    for router in [&one, &other] {
        assert_eq!(router.metric(Metric::HeldRequests, "").await.unwrap(), 0);
    }
    assert_eq!(running.await.unwrap().unwrap().status, 200);
    for answer in held {
        assert_eq!(answer.await.unwrap().unwrap().status, 200);
    }
    let deadlines: Vec<u64> = backend.executions()[1..]
        .iter()
        .map(|execution| execution.headers["x-slo-deadline"].parse().unwrap())
        .collect();
    assert_eq!(deadlines.len(), 30);
    assert!(deadlines.is_sorted(), "not by deadline: {deadlines:?}");
    one.until(Metric::Arrivals, "", 16).await.unwrap();
    other.until(Metric::Arrivals, "", 15).await.unwrap();
    assert_eq!(gate.metric(Metric::Arrivals, "").await.unwrap(), 0);
}

#[tokio::test]
async fn gates_refusal_passes_the_router_and_is_counted_once() {
    // The filter knows long before the deadline that a request cannot meet it.
    let slot = Variant {
        share: 1.0,
        slots: 1,
        service_ms: 200.0,
        ..FAST
    };
    // The limit of held requests is per worker; with a single one it is known which request exceeds it.
    let plugin = json!({ "queue": { "max_requests": 1 } });
    let (gate, backend) = gated_alone(slot, plugin).await;
    let router = Hop::router(&[(slot, gate.address())], json!({}))
        .await
        .unwrap();
    let running = busy(&router, &backend, slot.service_ms).await;
    let in_vain = see(router.infer_within(600)).await.unwrap();
    assert_eq!(in_vain.refusal(), (504, "infeasible"));
    assert!(!in_vain.headers.contains_key("x-slo-expected-ms"));
    let held = Scene::spawn(router.infer_within(6000));
    gate.until(Metric::HeldRequests, "", 1).await.unwrap();
    let shed = see(router.infer_within(8000)).await.unwrap();
    assert_eq!(shed.refusal(), (429, "queue-full"));
    assert_eq!(shed.header("retry-after"), "1");
    assert!(!shed.headers.contains_key("x-slo-expected-ms"));
    assert_eq!(held.await.unwrap().unwrap().status, 200);
    assert_eq!(running.await.unwrap().unwrap().status, 200);

    router.until(Metric::Arrivals, "", 4).await.unwrap();
    for reason in ["infeasible", "queue-full"] {
        gate.until(Metric::Refused, reason, 1).await.unwrap();
        assert_eq!(router.metric(Metric::Refused, reason).await.unwrap(), 0);
    }
    assert_eq!(backend.executions().len(), 2);

    // A request refused by the router reaches no gate.
    let floor = router.infer().header("x-slo-min-accuracy", "99");
    assert_eq!(see(floor).await.unwrap().refusal(), (422, "accuracy"));
    router.until(Metric::Refused, "accuracy", 1).await.unwrap();
    assert_eq!(gate.metric(Metric::Refused, "accuracy").await.unwrap(), 0);
}

/// The plan states 100 ms for both variants. Only the gate knows its queue.
#[tokio::test]
async fn router_avoids_a_gate_that_reports_a_long_wait() {
    let exact = Variant {
        share: 1.0,
        slots: 1,
        service_ms: 100.0,
        ..EXACT
    };
    let fast = Variant {
        share: 0.0,
        ..exact
    };
    let fast = Variant {
        name: "fast",
        ..fast
    };
    let (exact_gate, exact_server) = gated(exact, json!({})).await;
    let (fast_gate, _fast_server) = gated(fast, json!({})).await;
    let gates = [(exact, exact_gate.address()), (fast, fast_gate.address())];
    let router = Hop::router(&gates, json!({})).await.unwrap();
    let crowd: Vec<_> = (0..25)
        .map(|_| Scene::spawn(exact_gate.infer_within(9000)))
        .collect();
    let many = async || exact_gate.metric(Metric::HeldRequests, "").await.unwrap() >= 15;
    wait::until_async("many to wait", PATIENCE, many)
        .await
        .unwrap();
    // A request through the router, more urgent than all others: its answer reports the queue behind it.
    let seen = see(router.infer_within(1500)).await.unwrap();
    assert_eq!(
        seen.header("x-slo-variant"),
        "exact",
        "no wait has been reported yet"
    );
    assert!(
        exact_gate
            .metric(Metric::WaitingRequests, "exact")
            .await
            .unwrap()
            > 8
    );
    let seen = see(router.infer_within(600)).await.unwrap();
    assert_eq!(seen.refusal(), (200, ""));
    assert_eq!(seen.header("x-slo-variant"), "fast");
    router.until(Metric::Requests, "fast", 1).await.unwrap();
    assert_eq!(router.metric(Metric::Requests, "exact").await.unwrap(), 1);
    // A request with enough time still goes there.
    let seen = see(router.infer_within(9000)).await.unwrap();
    assert_eq!(seen.header("x-slo-variant"), "exact");
    for answer in crowd {
        assert_eq!(answer.await.unwrap().unwrap().status, 200);
    }
    assert_eq!(exact_server.executions().len(), 27);
}

#[tokio::test]
async fn forged_headers_at_the_router_are_ignored() {
    let fast = Variant { share: 1.0, ..FAST };
    let exact = Variant {
        share: 0.0,
        ..EXACT
    };
    let (fast_gate, backend) = gated(fast, json!({})).await;
    let (exact_gate, unused) = gated(exact, json!({})).await;
    let gates = [(fast, fast_gate.address()), (exact, exact_gate.address())];
    let router = Hop::router(&gates, json!({})).await.unwrap();
    for forged_deadline in [epoch_ms() + 20, epoch_ms() + 9_000_000] {
        let sent_ms = epoch_ms() - 50;
        let request = router
            .infer_within(3000)
            .header("x-slo-start", sent_ms)
            .header("x-slo-variant", "exact")
            .header("x-slo-variant", "exact")
            .header("x-slo-cluster", "exact")
            .header("x-slo-deadline", forged_deadline)
            .header("x-slo-deadline", forged_deadline)
            .header("x-slo-remaining-ms", "1")
            .header("x-slo-stage-ms", "1")
            .header("x-slo-expected-ms", "1");
        let seen = see(request).await.unwrap();
        assert_eq!(seen.refusal(), (200, ""));
        assert_eq!(seen.header("x-slo-variant"), "fast");
        let headers = backend.executions().pop().unwrap().headers;
        assert_eq!(headers["x-slo-variant"], "fast");
        let deadline: u64 = headers["x-slo-deadline"].parse().unwrap();
        assert!(deadline.abs_diff(sent_ms + 3000) <= 1, "{deadline}");
        let remaining: u64 = headers["x-slo-remaining-ms"].parse().unwrap();
        assert!((1000..=2950).contains(&remaining), "{remaining}");
        assert!(!headers.contains_key("x-slo-stage-ms"), "{headers:?}");
    }
    assert_eq!(unused.executions().len(), 0);
}

#[tokio::test]
async fn gate_without_router_never_uses_another_variant() {
    // The gate's plan contains a faster variant, but the gate stands before the other.
    let slow = Variant {
        service_ms: 300.0,
        slots: 1,
        ..EXACT
    };
    let plan = weir_bed::scene::planned(&[slow, FAST]);
    let (gate, backend) = gated(slow, json!({ "plan": { "variants": plan } })).await;
    let seen = see(gate.infer_within(5000)).await.unwrap();
    assert_eq!(seen.refusal(), (200, ""));
    assert_eq!(seen.header("x-slo-variant"), "exact");
    let expected: u64 = seen.header("x-slo-expected-ms").parse().unwrap();
    assert_eq!(expected, 300, "no request waits");
    let refused = see(gate.infer_within(70)).await.unwrap();
    assert_eq!(refused.refusal(), (504, "infeasible"));
    assert_eq!(
        refused.header("x-slo-expected-ms"),
        seen.header("x-slo-expected-ms")
    );
    let named = gate.infer_within(70).header("x-slo-variant", "fast");
    assert_eq!(see(named).await.unwrap().refusal(), (504, "infeasible"));

    let running = Scene::spawn(gate.infer_within(5000));
    gate.until(Metric::SlotsInUse, "exact", 1).await.unwrap();
    let held = Scene::spawn(gate.infer_within(4000));
    for answer in [running, held] {
        assert_eq!(answer.await.unwrap().unwrap().status, 200);
    }
    let runs = backend.executions();
    assert_eq!(runs.len(), 3);
    assert!(runs[2].started_ms >= runs[1].ended_ms, "one slot: {runs:?}");
    // The gate counts them itself: with more cores the two refused requests might have been served.
    gate.until(Metric::Arrivals, "", 5).await.unwrap();
    gate.until(Metric::Admitted, "", 3).await.unwrap();
    assert_eq!(
        gate.metric(Metric::DowngradedFrom, "exact").await.unwrap(),
        0
    );
}
