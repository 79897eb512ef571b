//! Client clocks through a real Envoy: stamps in any unit, ahead, behind, or forged; and synchronization of a
//! client's clock with the proxy's.

mod latency;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_bed::scene::{PATIENCE, SERVICE, Scene, Seen, Variant, epoch_ms, see};
use weir_bed::wait;
use weir_planner::clock::Clock;
use weir_planner::observe::slack::{Buckets, EDGES_MS};
use weir_planner::observe::{Observe, Scrape, ScrapeTargets, Scraper, Slack};

const ONE: Variant = Variant {
    name: "small",
    share: 1.0,
    slots: 100,
    service_ms: 1.0,
};
/// Budget of every request here, in ms.
const BUDGET: u64 = 8000;
/// Tolerance for delays between a stamp and its reading on a busy machine, in ms.
const SLACK: u64 = 400;
/// Header by which a trusted proxy tells clients apart.
const CLIENT: &str = "x-client";

/// Starts an Envoy with these settings for `skew` and `deadline`.
async fn clock(skew: Value, deadline: Value) -> Scene {
    Scene::start(&[ONE], 1, |bootstrap, plugin| {
        plugin["skew"] = skew;
        plugin["deadline"] = deadline;
        bootstrap
    })
    .await
    .unwrap()
}

fn epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

async fn served(request: reqwest::RequestBuilder) -> Seen {
    let seen = see(request).await.unwrap();
    assert_eq!(seen.refusal(), (200, ""));
    seen
}

/// Age in ms that the filter computes for a request with this stamp.
async fn age(scene: &Scene, name: &str, stamp: String) -> u64 {
    served(scene.infer_within(BUDGET).header(name, stamp)).await;
    BUDGET - remaining(scene)
}

fn remaining(scene: &Scene) -> u64 {
    let headers = scene.backends[0].executions().pop().unwrap().headers;
    headers["x-slo-remaining-ms"].parse().unwrap()
}

#[track_caller]
fn about(what: &str, age: u64, truth: u64) {
    assert!(
        (truth..=truth + SLACK).contains(&age),
        "{what}: {age} ms, not {truth}"
    );
}

#[tokio::test]
async fn stamps_in_every_unit_give_the_same_age() {
    let scene = clock(json!({ "estimate": false }), json!({})).await;
    let ago = || epoch() - Duration::from_millis(1500);
    for header in ["x-slo-start", "x-request-start"] {
        for prefix in ["", "t="] {
            let stamps = [
                format!("{prefix}{}.{:09}", ago().as_secs(), ago().subsec_nanos()),
                format!("{prefix}{}", ago().as_millis()),
                format!("{prefix}{}.125", ago().as_millis()),
                format!("{prefix}{}", ago().as_micros()),
                format!("{prefix}{}", ago().as_nanos()),
            ];
            for stamp in stamps {
                about(&stamp, age(&scene, header, stamp.clone()).await, 1500);
            }
        }
    }
    // Whole seconds stand for the end of theirs, so that nobody is charged for the truncated part.
    let whole = age(&scene, "x-slo-start", ago().as_secs().to_string()).await;
    assert!((500..=1500 + SLACK).contains(&whole), "{whole}");
    let doubted = scene.metric(Metric::InvalidHeaders, "x-slo-start");
    assert_eq!(doubted.await.unwrap(), 0);
}

#[tokio::test]
async fn impossible_stamp_counts_as_now_and_in_the_metric() {
    let scene = clock(json!({ "estimate": false }), json!({})).await;
    // Within the skew allowance a clock may be ahead.
    let ahead = (epoch_ms() + 40).to_string();
    about("a little ahead", age(&scene, "x-slo-start", ahead).await, 0);
    let doubted = async || {
        scene
            .metric(Metric::InvalidHeaders, "x-slo-start")
            .await
            .unwrap()
    };
    assert_eq!(doubted().await, 0);
    let now = epoch_ms();
    let table = [
        ("10 s ahead", now + 10_000),
        ("a day ahead", now + 86_400_000),
        ("minutes old", now - 300_000),
        ("the epoch's first day", 1),
    ];
    for (what, stamp) in table {
        about(what, age(&scene, "x-slo-start", stamp.to_string()).await, 0);
    }
    scene
        .until(Metric::InvalidHeaders, "x-slo-start", table.len() as u64)
        .await
        .unwrap();
    // If the first header is not accepted, the other one still counts.
    let request = scene
        .infer_within(BUDGET)
        .header("x-slo-start", now + 60_000)
        .header("x-request-start", epoch_ms() - 1000);
    served(request).await;
    about("the second header", BUDGET - remaining(&scene), 1000);
}

/// Stamps alone cannot tell a network latency of 2 s from a clock 2 s behind. No network is always so slow,
/// so it counts as skew; the allowance bounds the correction.
#[tokio::test]
async fn slow_clock_is_corrected_within_the_allowance() {
    let scene = clock(json!({}), json!({ "skew_allowance_ms": 500 })).await;
    let behind = || (epoch_ms() - 2000).to_string();
    for stamp in 1..4 {
        let age = age(&scene, "x-slo-start", behind()).await;
        about(&format!("stamp {stamp}: too few"), age, 2000);
    }
    for stamp in 4..8 {
        let age = age(&scene, "x-slo-start", behind()).await;
        about(&format!("stamp {stamp}"), age, 1500);
    }
    scene.until(Metric::SkewClamped, "", 4).await.unwrap();

    // With an allowance above the skew, all of it except the longest latency is corrected.
    let scene = clock(json!({}), json!({ "skew_allowance_ms": 3000 })).await;
    for _ in 0..6 {
        age(&scene, "x-slo-start", behind()).await;
    }
    let corrected = age(&scene, "x-slo-start", behind()).await;
    about("corrected", corrected, 250);
    assert_eq!(scene.metric(Metric::SkewClamped, "").await.unwrap(), 0);
}

/// Sources are told apart by a trusted proxy's header, or by their addresses without it.
#[tokio::test]
async fn clock_skew_is_kept_per_source() {
    let allowance = json!({ "skew_allowance_ms": 3000 });
    let named = clock(json!({ "source_header": CLIENT }), allowance.clone()).await;
    let liar = async |stamp: u64| {
        let request = named.infer_within(BUDGET).header(CLIENT, "liar");
        served(request.header("x-slo-start", stamp)).await;
        BUDGET - remaining(&named)
    };
    let honest = async || {
        let request = named.infer_within(BUDGET).header(CLIENT, "honest");
        served(request.header("x-slo-start", epoch_ms())).await;
        BUDGET - remaining(&named)
    };
    about("before", honest().await, 0);
    for _ in 0..20 {
        about("ahead, as corrected", liar(epoch_ms() + 2000).await, 0);
    }
    about("after", honest().await, 0);
    // The source's own honest stamps no longer count: its clock is taken to be ahead.
    about("the liar", liar(epoch_ms()).await, 2000);
    about("long after", honest().await, 0);

    let by_address = clock(json!({}), allowance).await;
    let from = |last: u8| {
        let client = reqwest::Client::builder().local_address(Some([127, 0, 0, last].into()));
        client.build().unwrap()
    };
    let (liar, honest) = (from(2), from(3));
    let address = by_address.envoy.listener("weir").unwrap();
    let url = format!("http://{address}/v2/models/model/infer");
    let age = async |client: &reqwest::Client, stamp: u64| {
        let request = client.post(&url).body("{}").header("x-slo-ms", BUDGET);
        served(request.header("x-slo-start", stamp)).await;
        BUDGET - remaining(&by_address)
    };
    for _ in 0..20 {
        age(&liar, epoch_ms() + 2000).await;
    }
    about("the liar", age(&liar, epoch_ms()).await, 2000);
    about("the other", age(&honest, epoch_ms()).await, 0);
}

/// A client that sends the header itself, before the line that its proxy appends.
#[tokio::test]
async fn a_repeated_source_header_names_no_source() {
    let allowance = json!({ "skew_allowance_ms": 3000 });
    let named = clock(json!({ "source_header": CLIENT }), allowance).await;
    let age = async |clients: &[&str], stamp: u64| {
        let mut request = named.infer_within(BUDGET).header("x-slo-start", stamp);
        for client in clients {
            request = request.header(CLIENT, *client);
        }
        served(request).await;
        BUDGET - remaining(&named)
    };
    for _ in 0..20 {
        age(&["honest", "liar"], epoch_ms() + 2000).await;
        age(&["liar", "honest"], epoch_ms() + 2000).await;
    }
    about("whom it named", age(&["honest"], epoch_ms()).await, 0);
    about("itself", age(&["liar"], epoch_ms()).await, 0);
    let stamp = epoch_ms() - 1000;
    about("uncorrected", age(&["liar", "liar"], stamp).await, 1000);
    // Nor do all clients that repeat it count as one source.
    let stamp = epoch_ms() + 2000;
    for _ in 0..5 {
        age(&["a", "b"], stamp).await;
    }
    about("another", age(&["c", "d"], epoch_ms()).await, 0);
}

/// As in NTP, with four timestamps, two from each clock.
#[tokio::test]
async fn client_can_set_its_clock_by_the_answer() {
    let scene = clock(json!({}), json!({})).await;
    let shift = 37_000_i64;
    let theirs = || i64::try_from(epoch_ms()).unwrap() + shift;
    let mut best: Option<(i64, i64)> = None;
    for _ in 0..10 {
        let sent = theirs();
        let seen = served(scene.infer_within(BUDGET).header("x-slo-start", sent)).await;
        let back = theirs();
        let clock = seen.header("x-slo-clock");
        let (came, left) = clock
            .strip_prefix("in=")
            .and_then(|rest| rest.split_once(";out="))
            .unwrap_or_else(|| panic!("x-slo-clock: '{clock}'"));
        let (came, left): (i64, i64) = (came.parse().unwrap(), left.parse().unwrap());
        assert!(came <= left, "{clock}");
        let offset = ((came - sent) + (left - back)) / 2;
        let way = (back - sent) - (left - came);
        best = best.min(Some((way, offset))).or(Some((way, offset)));
    }
    let (way, offset) = best.unwrap();
    println!("an offset of {offset} ms, by an answer {way} ms under way");
    // The error is at most half the round trip, besides the truncation to whole ms.
    assert!((offset + shift).abs() <= way / 2 + 2, "{offset} ({way})");

    let doubted = async || {
        scene
            .metric(Metric::InvalidHeaders, "x-slo-start")
            .await
            .unwrap()
    };
    scene
        .until(Metric::InvalidHeaders, "x-slo-start", 10)
        .await
        .unwrap();
    let corrected = (theirs() + offset - 300).to_string();
    let age = age(&scene, "x-slo-start", corrected).await;
    let error = u64::try_from(way / 2 + 2).unwrap();
    assert!((300 - error..=300 + error + SLACK).contains(&age), "{age}");
    assert_eq!(doubted().await, 10);

    let unasked = served(scene.infer_within(BUDGET)).await;
    assert!(!unasked.headers.contains_key("x-slo-clock"));
}

/// A request that no variant could serve counts neither as demand nor for the network latency, whatever its
/// stamp.
#[tokio::test]
async fn what_nobody_could_serve_is_no_demand() {
    let scene = clock(json!({}), json!({})).await;
    for _ in 0..20 {
        let expired = scene
            .infer_within(10)
            .header("x-slo-start", epoch_ms() - 900);
        assert_eq!(see(expired).await.unwrap().refusal(), (504, "expired"));
        let floor = scene.infer().header("x-slo-min-accuracy", "99.9");
        let floor = floor.header("x-slo-start", epoch_ms() - 900);
        assert_eq!(see(floor).await.unwrap().refusal(), (422, "accuracy"));
    }
    let honest = scene.infer_within(BUDGET).header("x-slo-start", epoch_ms());
    served(honest).await;
    scene.until(Metric::Unservable, "", 40).await.unwrap();
    scene.until(Metric::Arrivals, "", 1).await.unwrap();
    let counted = async || {
        let histogram = scene.envoy.histogram(Metric::NetworkLatencyMs, SERVICE);
        histogram.await.unwrap().0
    };
    let flushed = async || counted().await > 0;
    wait::until_async("the histogram", PATIENCE, flushed)
        .await
        .unwrap();
    assert_eq!(counted().await, 1);
}
