//! Labels of the filter's metrics in Envoy's Prometheus output: as labels by the shipped `stats_tags`, otherwise in the
//! names. Readers understand both.

use std::time::Duration;

use serde_json::json;
use weir_api::metrics::{GROUP, LABELS, Metric, encode, encode_group};
use weir_bed::scene::{PATIENCE, SERVICE, Scene, Variant, see};
use weir_bed::wait;
use weir_planner::clock::Clock;
use weir_planner::observe::{Observe, ScrapeTargets, Scraper};

const VARIANT: Variant = Variant {
    name: "res-net-18",
    share: 1.0,
    slots: 2,
    service_ms: 5.0,
};

/// A scene in which each label has a value: an answer, an invalid header, and a refusal for want of accuracy.
async fn scene(tags: bool) -> Scene {
    let scene = Scene::start(&[VARIANT], 1, |bootstrap, plugin| {
        plugin["classes"] =
            json!([{ "name": "gold-1", "share": 0.75 }, { "name": "bulk", "share": 0.25 }]);
        plugin["default_class"] = json!("bulk");
        match tags {
            true => bootstrap,
            false => bootstrap.amend("/stats_config/stats_tags", json!([])),
        }
    })
    .await
    .unwrap();
    let gold = scene.infer_within(5000).header("x-slo-class", "gold-1");
    assert_eq!(see(gold).await.unwrap().refusal(), (200, ""));
    let invalid = scene.infer().header("x-slo-ms", "soon");
    assert_eq!(see(invalid).await.unwrap().refusal(), (200, ""));
    let exact = scene
        .infer_within(5000)
        .header("x-slo-min-accuracy", "99.9");
    assert_eq!(see(exact).await.unwrap().refusal(), (422, "accuracy"));
    scene
}

/// Counters with each of the labels, and their counts in a [`scene`].
const COUNTED: [(Metric, &str, u64); 5] = [
    (Metric::Arrivals, "", 2),
    (Metric::Requests, VARIANT.name, 2),
    (Metric::Refused, "accuracy", 1),
    (Metric::InvalidHeaders, "x-slo-ms", 1),
    (Metric::ClassArrivals, "gold-1", 1),
];

/// Group of one execution in a [`scene`].
const OF_GOLD: &str = "class-gold-1";

/// Line that counts the executions of [`OF_GOLD`], once there is one.
async fn group_line(scene: &Scene) -> String {
    let mut found = None;
    let line = async || {
        let text = scene.envoy.stats(Metric::GroupExecutions.name()).await;
        let of_gold = |line: &&str| line.contains("gold") && !line.starts_with('#');
        found = text.unwrap().lines().find(of_gold).map(str::to_owned);
        found.is_some()
    };
    wait::until_async("a group", PATIENCE, line).await.unwrap();
    found.unwrap()
}

#[tokio::test]
async fn shipped_stats_tags_make_labels() {
    let scene = scene(true).await;
    for (metric, value, count) in COUNTED {
        scene.until(metric, value, count).await.unwrap();
        let text = scene.envoy.stats(metric.name()).await.unwrap();
        let start = format!("{}{{", metric.name());
        let lines: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with(&start))
            .collect();
        let mut parts = vec![format!("service=\"{SERVICE}\"")];
        parts.extend(metric.label().map(|label| format!("{label}=\"{value}\"")));
        let found = lines.iter().any(|line| {
            parts.iter().all(|part| line.contains(part)) && line.ends_with(&format!("}} {count}"))
        });
        assert!(found, "{parts:?} {count}: {text}");
        assert!(!text.contains("__"), "{text}");
    }
    let count = async || {
        scene
            .envoy
            .histogram(Metric::WaitMs, SERVICE)
            .await
            .unwrap()
            .0
    };
    wait::until_async("the histogram", PATIENCE, async || count().await > 0)
        .await
        .unwrap();
    let text = scene.envoy.stats(Metric::WaitMs.name()).await.unwrap();
    let bucket = format!("weir_wait_milliseconds_bucket{{service=\"{SERVICE}\",le=");
    assert!(text.contains(&bucket), "{text}");
    let line = group_line(&scene).await;
    let labels = [
        format!("service=\"{SERVICE}\""),
        format!("variant=\"{}\"", VARIANT.name),
        format!("{GROUP}=\"{OF_GOLD}\""),
    ];
    let start = format!("{}{{", Metric::GroupExecutions.name());
    assert!(line.starts_with(&start) && line.ends_with("} 1"), "{line}");
    assert!(labels.iter().all(|label| line.contains(label)), "{line}");
    // Each label has been seen.
    let seen = COUNTED.map(|(metric, ..)| metric.label().unwrap_or("service"));
    let mut further = LABELS.iter().filter(|label| **label != GROUP);
    assert!(further.all(|label| seen.contains(label)));
}

#[tokio::test]
async fn without_stats_tags_names_contain_labels() {
    let scene = scene(false).await;
    for (metric, value, count) in COUNTED {
        scene.until(metric, value, count).await.unwrap();
        let text = scene.envoy.stats(metric.name()).await.unwrap();
        let name = encode(metric, SERVICE, value).replace('-', "_");
        let line = format!("{name}{{}} {count}");
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let name = encode_group(Metric::GroupExecutions, SERVICE, VARIANT.name, OF_GOLD);
    let line = group_line(&scene).await;
    assert_eq!(line, format!("{}{{}} 1", name.replace('-', "_")));
}

#[tokio::test]
async fn planner_reads_labels_in_either_form() {
    for tags in [true, false] {
        let scene = scene(tags).await;
        scene.until(Metric::Arrivals, "", 2).await.unwrap();
        group_line(&scene).await;
        let stats = format!(
            "http://{}/stats/prometheus?filter=weir_",
            scene.envoy.admin()
        );
        let scraper = Scraper::new(
            reqwest::Client::builder().no_proxy().build().unwrap(),
            Clock::start(),
            &[SERVICE],
            ScrapeTargets::Fixed(vec![stats.parse().unwrap()]),
            Duration::from_secs(10),
        );
        let scrapes = scraper.scrape().await;
        let counts = scrapes[0].counts.as_ref().unwrap();
        assert_eq!(counts.arrivals, 2.0, "stats_tags: {tags}");
        let routes = counts.routes.iter();
        let routed: Vec<_> = routes
            .map(|(name, it)| (name.as_str(), it.routed))
            .collect();
        assert_eq!(routed, [(VARIANT.name, 2.0)], "stats_tags: {tags}");
        assert_eq!(counts.failing, [(VARIANT.name.to_owned(), false)].into());
        let gold = counts.groups[VARIANT.name][OF_GOLD];
        assert_eq!(gold.count, 1.0, "stats_tags: {tags}");
    }
}
