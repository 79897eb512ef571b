//! Requests that compute nothing, such as metadata and statistics, beside inferences: they take no slot, count as no
//! demand, and teach no service time.

use std::time::Duration;

use serde_json::json;
use weir_api::metrics::Metric;
use weir_bed::scene::{Scene, Variant, see};

use crate::http2::url;

const QUICK: Variant = Variant {
    name: "quick",
    share: 0.5,
    slots: 8,
    service_ms: 60.0,
};
/// Takes longer than the requests' budget. It would look quick if answers to polls were measured.
const EXACT: Variant = Variant {
    name: "exact",
    share: 0.5,
    slots: 8,
    service_ms: 400.0,
};
const BUDGET_MS: u64 = 300;
const INFERENCES: u64 = 60;
const INFERENCES_PER_S: u64 = 10;
const POLLS_PER_S: u64 = 80;
const PATHS: [&str; 4] = [
    "/v2/models/model",
    "/v2/models/model/stats",
    "/v1/models/model",
    "/metrics",
];

async fn polls_cost_no_inference(workers: u32) {
    let scene = Scene::start(&[QUICK, EXACT], workers, |bootstrap, plugin| {
        plugin["plan"]["variants"][1]["accuracy"] = json!(90);
        bootstrap
    })
    .await
    .unwrap();
    let (client, urls) = (scene.client.clone(), PATHS.map(|path| url(&scene, path)));
    let polls = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_micros(1_000_000 / POLLS_PER_S));
        let mut sent = 0_u64;
        for address in urls.iter().cycle() {
            ticks.tick().await;
            let request = client.get(address);
            let seen = see(request).await.unwrap();
            assert!(
                matches!(seen.status, 200 | 404),
                "{address}: {}",
                seen.status
            );
            assert_eq!(seen.header("x-slo-variant"), "", "{address}");
            sent += 1;
            if sent == INFERENCES / INFERENCES_PER_S * POLLS_PER_S {
                break;
            }
        }
    });
    let mut ticks = tokio::time::interval(Duration::from_millis(1000 / INFERENCES_PER_S));
    let mut sent = Vec::new();
    for _ in 0..INFERENCES {
        ticks.tick().await;
        sent.push(Scene::spawn(scene.infer_within(BUDGET_MS)));
    }
    for one in sent {
        let seen = one.await.unwrap().unwrap();
        assert_eq!(seen.refusal(), (200, ""), "{workers} workers");
        assert_eq!(seen.header("x-slo-variant"), "quick", "{workers} workers");
    }
    polls.await.unwrap();
    let arrivals = scene.metric(Metric::Arrivals, "").await.unwrap();
    assert_eq!(arrivals, INFERENCES, "polls are no demand");
    assert_eq!(scene.metric(Metric::Failing, "exact").await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_beside_inferences_cost_none_of_them() {
    polls_cost_no_inference(1).await;
    polls_cost_no_inference(4).await;
}
