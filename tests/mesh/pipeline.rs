//! A pipeline over several real Envoys, with a service for each stage. One deadline holds end to end, passed
//! on in headers that other proxies obey too. A stage knows its downstream time.

use std::collections::BTreeMap;

use serde_json::json;
use weir_api::metrics::Metric;
use weir_bed::emulator::Emulator;
use weir_bed::path::{Hop, server};
use weir_bed::scene::{PATIENCE, Scene, Seen, Variant, epoch_ms, planned, see};
use weir_bed::wait;

const fn model(name: &'static str, service_ms: f64) -> Variant {
    Variant {
        name,
        share: 1.0,
        slots: 10,
        service_ms,
    }
}

const DETECTOR: Variant = model("detector", 30.0);
const CLASSIFIER: Variant = model("classifier", 20.0);
const RANKER: Variant = model("ranker", 10.0);

/// A stage: its own Envoy, the name of its variant, and the model server.
struct Stage {
    hop: Hop,
    backend: Emulator,
}

impl Stage {
    /// Starts a stage. With `trusts` it accepts the deadline of the stage before it; after it the pipeline
    /// needs `downstream_ms`.
    async fn start(variant: Variant, trusts: bool, downstream_ms: f64) -> Stage {
        let backend = server(variant.name, variant.service_ms).await.unwrap();
        let plugin = json!({
            "service": variant.name,
            "deadline": { "trust_deadline": trusts },
            "plan": { "downstream_ms": downstream_ms, "variants": planned(&[variant]) },
        });
        let hop = Hop::both(variant, backend.addr(), plugin).await.unwrap();
        Stage { hop, backend }
    }

    /// Headers of the latest request at the stage's server.
    fn received(&self) -> BTreeMap<String, String> {
        self.backend
            .executions()
            .pop()
            .expect("an execution")
            .headers
    }

    /// The request that a stage's server sends to this stage, with the deadline headers it received itself.
    fn next(&self, received: &BTreeMap<String, String>) -> reqwest::RequestBuilder {
        let infer = self.hop.infer();
        received
            .iter()
            .fold(infer, |infer, (name, value)| infer.header(name, value))
    }
}

fn number(headers: &BTreeMap<String, String>, name: &str) -> u64 {
    let value = headers.get(name).unwrap_or_else(|| panic!("no {name}"));
    value.parse().unwrap_or_else(|_| panic!("{name}: {value}"))
}

fn grpc_ms(headers: &BTreeMap<String, String>) -> u64 {
    let value = headers["grpc-timeout"].strip_suffix('m').expect("in ms");
    value.parse().unwrap()
}

async fn served(request: reqwest::RequestBuilder) -> Seen {
    let seen = see(request).await.unwrap();
    assert_eq!(seen.refusal(), (200, ""));
    seen
}

#[tokio::test]
async fn three_stages_keep_one_deadline_and_receive_the_remaining_time() {
    let stages = [
        Stage::start(DETECTOR, false, 0.0).await,
        Stage::start(CLASSIFIER, true, 0.0).await,
        Stage::start(RANKER, true, 0.0).await,
    ];
    let sent_ms = epoch_ms() - 200;
    let mut received = BTreeMap::from([
        ("x-slo-ms".to_owned(), "4000".to_owned()),
        ("x-slo-start".to_owned(), sent_ms.to_string()),
        ("grpc-timeout".to_owned(), "9S".to_owned()),
    ]);
    let mut left = 3800;
    for stage in &stages {
        let arrived_with = received.clone();
        served(stage.next(&received)).await;
        received = stage.received();
        let deadline = number(&received, "x-slo-deadline");
        assert!(deadline.abs_diff(sent_ms + 4000) <= 2, "{deadline}");
        let remaining = number(&received, "x-slo-remaining-ms");
        assert!((1..=left).contains(&remaining), "{remaining} of {left}");
        assert_eq!(grpc_ms(&received), remaining);
        assert_eq!(received["x-slo-variant"], stage.backend.model());
        assert_eq!(
            received["x-slo-ms"], arrived_with["x-slo-ms"],
            "the client's"
        );
        let took = &stage.backend.executions()[0];
        left = remaining - (took.ended_ms - took.started_ms) as u64;
    }
    assert!(left <= 4000 - 200 - 60, "{left}");
}

/// The same in one path: the answer passes all three Envoys on its way back.
#[tokio::test]
async fn three_envoys_before_one_server_keep_one_deadline() {
    let backend = server("ranker", 10.0).await.unwrap();
    let trusting =
        |service: &str| json!({ "service": service, "deadline": { "trust_deadline": true } });
    let hop = async |service: &str, to| {
        let mut plugin = trusting(service);
        plugin["plan"] = json!({ "variants": planned(&[RANKER]) });
        Hop::both(RANKER, to, plugin).await.unwrap()
    };
    let last = hop("last", backend.addr()).await;
    let middle = hop("middle", last.address()).await;
    let first = {
        let plugin = json!({ "service": "first", "plan": { "variants": planned(&[RANKER]) } });
        Hop::both(RANKER, middle.address(), plugin).await.unwrap()
    };
    let sent_ms = epoch_ms() - 200;
    let request = first.infer_within(3000).header("x-slo-start", sent_ms);
    let seen = served(request.header("grpc-timeout", "1M")).await;
    assert_eq!(seen.headers.get_all("server-timing").iter().count(), 3);
    let received = backend.executions()[0].headers.clone();
    let deadline = number(&received, "x-slo-deadline");
    assert!(deadline.abs_diff(sent_ms + 3000) <= 2, "{deadline}");
    let remaining = number(&received, "x-slo-remaining-ms");
    assert!((1..=2800).contains(&remaining), "{remaining}");
    assert_eq!(grpc_ms(&received), remaining);

    // None of them waits beyond the deadline; the first to notice answers.
    backend.slow_by(1000.0).unwrap();
    let seen = see(first.infer_within(300)).await.unwrap();
    assert_eq!(seen.refusal(), (504, "expired"));
    for hop in [&first, &middle, &last] {
        let over = async || {
            hop.metric(Metric::SlotsInUse, "ranker").await.unwrap() <= 1
                && hop.metric(Metric::HeldRequests, "").await.unwrap() == 0
        };
        wait::until_async("only an orphaned slot to be left", PATIENCE, over)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn request_without_downstream_time_is_refused_at_the_first_stage() {
    let first = Stage::start(DETECTOR, false, 400.0).await;
    let second = Stage::start(CLASSIFIER, true, 0.0).await;
    let alone = Stage::start(DETECTOR, false, 0.0).await;
    // The stage itself takes 30 ms, its downstream time is 400 ms.
    let seen = see(first.hop.infer_within(300)).await.unwrap();
    assert_eq!(seen.refusal(), (504, "infeasible"));
    let seen = see(first.hop.infer_within(406)).await.unwrap();
    assert_eq!(seen.refusal(), (504, "infeasible"), "6 ms are not enough");
    assert_eq!(first.backend.executions().len(), 0);
    served(first.hop.infer_within(2000)).await;
    let received = first.received();
    let (remaining, stage) = (
        number(&received, "x-slo-remaining-ms"),
        number(&received, "x-slo-stage-ms"),
    );
    assert!(
        (399..=401).contains(&(remaining - stage)),
        "{remaining}, {stage}"
    );
    first
        .hop
        .until(Metric::Refused, "infeasible", 2)
        .await
        .unwrap();

    // A later stage without downstream time does not pass the first one's upstream timeout on.
    served(second.next(&received)).await;
    let received = second.received();
    assert!(!received.contains_key("x-slo-stage-ms"), "{received:?}");

    // Without downstream time the same budget suffices.
    served(alone.hop.infer_within(300)).await;
    assert!(!alone.received().contains_key("x-slo-stage-ms"));
}

/// The held request could be answered before its deadline, but without enough downstream time left.
#[tokio::test]
async fn held_request_is_refused_once_downstream_time_runs_out() {
    let single = Variant {
        slots: 1,
        ..DETECTOR
    };
    let first = Stage::start(single, false, 700.0).await;
    first.backend.slow_by(50.0).unwrap();
    let running = Scene::spawn(first.hop.infer_within(9000));
    wait::until("the first execution", PATIENCE, || {
        first.backend.load().1 == 1
    })
    .await
    .unwrap();
    let began = std::time::Instant::now();
    let seen = see(first.hop.infer_within(1200)).await.unwrap();
    assert_eq!(seen.refusal(), (504, "infeasible"));
    let waited = began.elapsed().as_millis();
    // 1200 ms less the downstream time and the 30 ms of this stage.
    assert!((440..=1000).contains(&waited), "after {waited} ms");
    assert_eq!(running.await.unwrap().unwrap().status, 200);
}

/// A later stage refuses what can no longer be done there, and ignores deadlines beyond the maximum budget.
#[tokio::test]
async fn later_stage_refuses_expired_requests() {
    let second = Stage::start(CLASSIFIER, true, 0.0).await;
    let until = |at: u64| second.hop.infer().header("x-slo-deadline", at);
    let seen = see(until(epoch_ms() - 100)).await.unwrap();
    assert_eq!(seen.refusal(), (504, "expired"));
    // Too short for the model.
    let seen = see(until(epoch_ms() + 5)).await.unwrap();
    assert!(matches!(seen.refusal(), (504, "infeasible" | "expired")));
    assert_eq!(second.backend.executions().len(), 0);
    // A small remaining time is passed on as small, never as 0.
    second.backend.slow_by(0.01).unwrap();
    for left in [22, 25, 30, 60] {
        let earlier = second.backend.executions().len();
        let request = until(epoch_ms() + left).header("grpc-timeout", "1S");
        let seen = see(request).await.unwrap();
        let executions = second.backend.executions();
        if seen.status == 200 {
            let headers = &executions[earlier].headers;
            assert!((1..=left).contains(&grpc_ms(headers)), "{headers:?}");
            assert!(number(headers, "x-slo-remaining-ms") >= 1);
        } else {
            assert_eq!(seen.status, 504, "{left}");
        }
    }
    // A deadline beyond the maximum budget is ignored.
    served(until(epoch_ms() + 86_400_000)).await;
    let remaining = number(&second.received(), "x-slo-remaining-ms");
    assert!((59_000..=60_000).contains(&remaining), "{remaining}");
}

#[tokio::test]
async fn forged_deadline_of_an_untrusted_hop_is_ignored() {
    let first = Stage::start(DETECTOR, false, 0.0).await;
    for forged in [epoch_ms() + 40, epoch_ms() + 50_000, 1] {
        let request = first.hop.infer_within(3000);
        let before_ms = epoch_ms();
        served(request.header("x-slo-deadline", forged)).await;
        let received = first.received();
        let deadline = number(&received, "x-slo-deadline");
        assert!(
            (before_ms + 3000..before_ms + 4500).contains(&deadline),
            "{forged}"
        );
        let remaining = number(&received, "x-slo-remaining-ms");
        assert!((1500..=3000).contains(&remaining), "{forged}: {remaining}");
    }
    let invalid_headers = first.hop.metric(Metric::InvalidHeaders, "x-slo-deadline");
    assert_eq!(invalid_headers.await.unwrap(), 0, "ignored, not doubted");
}
