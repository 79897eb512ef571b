//! Costs of the filter: the module's size, and the memory of a held request. The comparison is a request held
//! by Envoy alone, by its fault filter, which delays requests without the filter's state.

use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::scene::{PATIENCE, Scene, Variant};
use weir_bed::wait;

const HELD: u64 = 2000;
/// Maximum memory of a held request beyond Envoy's own, in bytes.
const EXTRA_MAX: f64 = 2048.0;
const FILTERS: &str =
    "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters";

#[test]
fn module_is_under_a_megabyte() {
    let module = weir_bed::built::filter().unwrap();
    let bytes = std::fs::metadata(&module).unwrap().len();
    assert!(bytes < 1_000_000, "{}: {bytes} bytes", module.display());
}

/// Returns the bytes that Envoy has allocated, and its anonymous memory by the kernel, which includes the
/// VMs' memory.
async fn memory(envoy: &Envoy) -> (f64, f64) {
    let url = format!("http://{}/memory", envoy.admin());
    let text = reqwest::get(url).await.unwrap().text().await.unwrap();
    let answer: Value = serde_json::from_str(&text).unwrap();
    let allocated = answer["allocated"].as_str().unwrap().parse().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", envoy.pid())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("RssAnon"))
        .unwrap();
    let kb: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    (allocated, kb * 1024.0)
}

/// Memory that each of [`HELD`] requests adds, measured once `held` reports all of them.
async fn cost(envoy: &Envoy, url: &str, held: impl AsyncFnMut() -> bool) -> (f64, f64) {
    let client = reqwest::Client::new();
    let before = memory(envoy).await;
    let requests: Vec<_> = (0..HELD)
        .map(|_| {
            let request = client.post(url).body("{}").header("x-slo-ms", 60_000);
            Scene::spawn(request)
        })
        .collect();
    wait::until_async("all to be held", PATIENCE, held)
        .await
        .unwrap();
    let after = memory(envoy).await;
    requests.iter().for_each(tokio::task::JoinHandle::abort);
    (
        (after.0 - before.0) / HELD as f64,
        (after.1 - before.1) / HELD as f64,
    )
}

#[tokio::test]
async fn held_request_costs_little_more_memory_than_in_envoy_alone() {
    let _alone = super::alone().await;
    let one = Variant {
        name: "small",
        share: 1.0,
        slots: 1,
        service_ms: 1.0,
    };
    let scene = Scene::start(&[one], 1, |bootstrap, _| bootstrap)
        .await
        .unwrap();
    scene.backends[0].slow_by(100_000.0).unwrap();
    let running = Scene::spawn(scene.infer_within(60_000));
    scene.until(Metric::SlotsInUse, "small", 1).await.unwrap();
    let url = format!(
        "http://{}/v2/models/model/infer",
        scene.envoy.listener("weir").unwrap()
    );
    let held = async || scene.metric(Metric::HeldRequests, "").await.unwrap() == HELD;
    let ours = cost(&scene.envoy, &url, held).await;
    running.abort();

    let delay = json!([
        { "name": "envoy.filters.http.fault", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault",
            "max_active_faults": 100_000,
            "delay": { "fixed_delay": "60s", "percentage": { "numerator": 100 } } } },
        { "name": "envoy.filters.http.router", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router" } }
    ]);
    let bootstrap = Bootstrap::shipped()
        .unwrap()
        .without_filter()
        .backend("small", scene.backends[0].addr())
        .fallback("small")
        .amend(FILTERS, delay);
    let envoy = Envoy::start(&bootstrap, 1).await.unwrap();
    let url = format!(
        "http://{}/v2/models/model/infer",
        envoy.listener("weir").unwrap()
    );
    let held = async || {
        let active = envoy
            .counter("envoy_http_downstream_rq_active")
            .await
            .unwrap();
        active >= HELD
    };
    let envoys = cost(&envoy, &url, held).await;
    println!(
        "a held request, bytes allocated / resident: {ours:.0?} with the filter, {envoys:.0?} by Envoy alone"
    );
    assert!(
        envoys.0 > 5_000.0,
        "the comparison holds nothing: {envoys:?}"
    );
    assert!(
        ours.0 - envoys.0 <= EXTRA_MAX,
        "{ours:?} against {envoys:?}"
    );
}
