//! A pipeline over several real Envoys, a service for each stage: one deadline from end to end, told
//! from hop to hop in headers that others obey too, and a stage that knows what the rest needs.

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

/// A stage: an Envoy of its own, the model's name for its service, and the model.
struct Stage {
    hop: Hop,
    backend: Emulator,
}

impl Stage {
    /// It believes the stage before it where `trusts`; after it the pipeline needs `rest_ms`.
    async fn start(variant: Variant, trusts: bool, rest_ms: f64) -> Stage {
        let backend = server(variant.name, variant.service_ms).await.unwrap();
        let plugin = json!({
            "service": variant.name,
            "deadline": { "trust_deadline": trusts },
            "plan": { "rest_ms": rest_ms, "variants": planned(&[variant]) },
        });
        let hop = Hop::both(variant, backend.addr(), plugin).await.unwrap();
        Stage { hop, backend }
    }

    /// What its server was told with the latest request.
    fn told(&self) -> BTreeMap<String, String> {
        self.backend
            .executions()
            .pop()
            .expect("an execution")
            .headers
    }

    /// The request that a server of the stage before makes: with what it was told itself.
    fn next(&self, told: &BTreeMap<String, String>) -> reqwest::RequestBuilder {
        let infer = self.hop.infer();
        told.iter()
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
async fn three_stages_keep_one_deadline_and_each_is_told_what_is_left() {
    let stages = [
        Stage::start(DETECTOR, false, 0.0).await,
        Stage::start(CLASSIFIER, true, 0.0).await,
        Stage::start(RANKER, true, 0.0).await,
    ];
    let sent_ms = epoch_ms() - 200;
    let mut told = BTreeMap::from([
        ("x-slo-ms".to_owned(), "4000".to_owned()),
        ("x-slo-start".to_owned(), sent_ms.to_string()),
        ("grpc-timeout".to_owned(), "9S".to_owned()),
    ]);
    let mut left = 3800;
    for stage in &stages {
        let arrived_with = told.clone();
        served(stage.next(&told)).await;
        told = stage.told();
        let deadline = number(&told, "x-slo-deadline");
        assert!(deadline.abs_diff(sent_ms + 4000) <= 2, "{deadline}");
        let remaining = number(&told, "x-slo-remaining-ms");
        assert!((1..=left).contains(&remaining), "{remaining} of {left}");
        assert_eq!(grpc_ms(&told), remaining);
        assert_eq!(told["x-slo-variant"], stage.backend.model());
        assert_eq!(told["x-slo-ms"], arrived_with["x-slo-ms"], "the client's");
        let took = &stage.backend.executions()[0];
        left = remaining - (took.ended_ms - took.started_ms) as u64;
    }
    assert!(left <= 4000 - 200 - 60, "{left}");
}

/// The same in one path: the answer passes all three on its way back.
#[tokio::test]
async fn three_envoys_before_one_server_keep_one_deadline_too() {
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
    let told = backend.executions()[0].headers.clone();
    let deadline = number(&told, "x-slo-deadline");
    assert!(deadline.abs_diff(sent_ms + 3000) <= 2, "{deadline}");
    let remaining = number(&told, "x-slo-remaining-ms");
    assert!((1..=2800).contains(&remaining), "{remaining}");
    assert_eq!(grpc_ms(&told), remaining);

    // None of them is patient beyond the deadline; the first to notice answers.
    backend.slow_by(1000.0).unwrap();
    let seen = see(first.infer_within(300)).await.unwrap();
    assert_eq!(seen.refusal(), (504, "expired"));
    for hop in [&first, &middle, &last] {
        let over = async || {
            hop.metric(Metric::InFlight, "ranker").await.unwrap() <= 1
                && hop.metric(Metric::Held, "").await.unwrap() == 0
        };
        wait::until_async("only a ghost to be left", PATIENCE, over)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn who_cannot_finish_the_rest_is_refused_at_the_first_stage() {
    let first = Stage::start(DETECTOR, false, 400.0).await;
    let second = Stage::start(CLASSIFIER, true, 0.0).await;
    let alone = Stage::start(DETECTOR, false, 0.0).await;
    // The stage alone takes 30 ms, what comes after it 400 ms.
    let seen = see(first.hop.infer_within(300)).await.unwrap();
    assert_eq!(seen.refusal(), (504, "infeasible"));
    let seen = see(first.hop.infer_within(410)).await.unwrap();
    assert_eq!(seen.refusal(), (504, "infeasible"), "10 ms are not enough");
    assert_eq!(first.backend.executions().len(), 0);
    served(first.hop.infer_within(2000)).await;
    let told = first.told();
    let (remaining, stage) = (
        number(&told, "x-slo-remaining-ms"),
        number(&told, "x-slo-stage-ms"),
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

    // A later stage without a rest of its own does not pass the first one's budget on.
    served(second.next(&told)).await;
    let told = second.told();
    assert!(!told.contains_key("x-slo-stage-ms"), "{told:?}");

    // Without a rest the same budget will do.
    served(alone.hop.infer_within(300)).await;
    assert!(!alone.told().contains_key("x-slo-stage-ms"));
}

/// Held, it could be answered before its deadline, but not so long before it that the rest is done.
#[tokio::test]
async fn who_is_held_is_refused_when_the_rest_cannot_be_done_any_more() {
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
    // 1200 less the rest and the 30 ms of this stage.
    assert!((440..=1000).contains(&waited), "after {waited} ms");
    assert_eq!(running.await.unwrap().unwrap().status, 200);
}

/// The plan of a whole stage is checked: a rest that is no time is refused with its path.
#[tokio::test]
async fn a_later_stage_refuses_what_has_expired_on_the_way() {
    let second = Stage::start(CLASSIFIER, true, 0.0).await;
    let until = |at: u64| second.hop.infer().header("x-slo-deadline", at);
    let seen = see(until(epoch_ms() - 100)).await.unwrap();
    assert_eq!(seen.refusal(), (504, "expired"));
    // Too short for what its model takes.
    let seen = see(until(epoch_ms() + 10)).await.unwrap();
    assert!(matches!(seen.refusal(), (504, "infeasible" | "expired")));
    assert_eq!(second.backend.executions().len(), 0);
    // Little left is told as little, and never as none.
    second.backend.slow_by(0.01).unwrap();
    for left in [22, 25, 30, 60] {
        let told = second.backend.executions().len();
        let request = until(epoch_ms() + left).header("grpc-timeout", "1S");
        let seen = see(request).await.unwrap();
        let executions = second.backend.executions();
        if seen.status == 200 {
            let headers = &executions[told].headers;
            assert!((1..=left).contains(&grpc_ms(headers)), "{headers:?}");
            assert!(number(headers, "x-slo-remaining-ms") >= 1);
        } else {
            assert_eq!(seen.status, 504, "{left}");
        }
    }
    // Beyond the greatest budget nobody's word counts.
    served(until(epoch_ms() + 86_400_000)).await;
    let remaining = number(&second.told(), "x-slo-remaining-ms");
    assert!((59_000..=60_000).contains(&remaining), "{remaining}");
}

#[tokio::test]
async fn where_no_hop_is_trusted_a_forged_deadline_is_ignored() {
    let first = Stage::start(DETECTOR, false, 0.0).await;
    for forged in [epoch_ms() + 40, epoch_ms() + 50_000, 1] {
        let request = first.hop.infer_within(3000);
        let before_ms = epoch_ms();
        served(request.header("x-slo-deadline", forged)).await;
        let told = first.told();
        let deadline = number(&told, "x-slo-deadline");
        assert!(
            (before_ms + 3000..before_ms + 4500).contains(&deadline),
            "{forged}"
        );
        let remaining = number(&told, "x-slo-remaining-ms");
        assert!((1500..=3000).contains(&remaining), "{forged}: {remaining}");
    }
    let disbelieved = first.hop.metric(Metric::Disbelieved, "x-slo-deadline");
    assert_eq!(disbelieved.await.unwrap(), 0, "ignored, not doubted");
}
