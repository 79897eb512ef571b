//! Request classes through a real Envoy: assignment of classes, each class's share of scarce slots, and the
//! metrics.

use std::time::{Duration, Instant};

use reqwest::RequestBuilder;
use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::scene::{PATIENCE, SERVICE, Scene, Seen, Variant, see};
use weir_bed::wait;

const SLOT: Variant = Variant {
    name: "small",
    share: 1.0,
    slots: 1,
    service_ms: 20.0,
};
/// Pointer to the shipped listener's filters.
const FILTERS: &str =
    "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters";

type Answer = tokio::task::JoinHandle<anyhow::Result<Seen>>;

/// Two classes with shares of three to one.
fn gold_and_bulk() -> Value {
    json!({ "default_class": "bulk", "classes": [
        { "name": "gold", "share": 0.75 }, { "name": "bulk", "share": 0.25 }] })
}

fn merge(plugin: &mut Value, rest: &Value) {
    for (key, value) in rest.as_object().unwrap() {
        plugin[key] = value.clone();
    }
}

async fn scene(variant: Variant, workers: u32, rest: Value) -> Scene {
    Scene::start(&[variant], workers, |bootstrap, plugin| {
        merge(plugin, &rest);
        bootstrap
    })
    .await
    .unwrap()
}

/// One slot, and a request that takes it for `factor` times 20 ms, so that later requests queue.
async fn busy(rest: Value, factor: f64) -> (Scene, Answer) {
    let scene = scene(SLOT, 1, rest).await;
    let backend = &scene.backends[0];
    backend.slow_by(factor).unwrap();
    let running = Scene::spawn(scene.infer_within(9000));
    wait::until("the first execution", PATIENCE, || backend.load().1 == 1)
        .await
        .unwrap();
    backend.slow_by(1.0).unwrap();
    (scene, running)
}

fn of(scene: &Scene, class: &str, budget_ms: u64) -> RequestBuilder {
    scene.infer_within(budget_ms).header("x-slo-class", class)
}

/// Sends `each` requests of gold and as many of bulk, with alternating deadlines.
fn alternating(scene: &Scene, each: u64) -> Vec<Answer> {
    let class = |i| if i % 2 == 0 { "gold" } else { "bulk" };
    (0..2 * each)
        .map(|i| Scene::spawn(of(scene, class(i), 8000 + 5 * i)))
        .collect()
}

async fn assert_all_served(answers: impl IntoIterator<Item = Answer>) {
    for answer in answers {
        assert_eq!(answer.await.unwrap().unwrap().refusal(), (200, ""));
    }
}

/// Classes of the executions after the first, in order.
fn executed(scene: &Scene) -> Vec<String> {
    let executions = scene.backends[0].executions().into_iter().skip(1);
    let class = |headers: std::collections::BTreeMap<String, String>| {
        headers.get("x-slo-class").cloned().unwrap_or_default()
    };
    executions
        .map(|execution| class(execution.headers))
        .collect()
}

fn count(classes: &[String], class: &str) -> usize {
    classes.iter().filter(|other| *other == class).count()
}

#[tokio::test]
async fn each_class_gets_its_share_of_scarce_slots() {
    let mut rest = gold_and_bulk();
    rest["queue"] = json!({ "max_requests": 120 });
    let (scene, running) = busy(rest, 100.0).await;
    let held = alternating(&scene, 60);
    scene.until(Metric::HeldRequests, "", 120).await.unwrap();
    // One request beyond the limit shows that slots are scarce.
    let seen = see(of(&scene, "gold", 9500)).await.unwrap();
    assert_eq!(seen.refusal(), (429, "queue-full"));
    assert_all_served(held.into_iter().chain([running])).await;
    // Both classes have requests waiting during at least the first eighty executions.
    let classes = executed(&scene);
    for (until, due) in [(20, 15), (40, 30), (72, 54)] {
        let gold = count(&classes[..until], "gold");
        assert!(gold.abs_diff(due) <= 3, "{gold} of {until}: {classes:?}");
    }
}

/// The same under a continuous load through two workers: twice as many requests of each class as
/// fit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lasting_overload_is_answered_by_share() {
    const SECONDS: u64 = 5;
    let eight = Variant {
        slots: 8,
        service_ms: 100.0,
        ..SLOT
    };
    let scene = scene(eight, 2, gold_and_bulk()).await;
    // 8 slots of 100 ms serve 80 requests/s; 100 of gold and 60 of bulk are offered.
    let mut interval = tokio::time::interval(Duration::from_millis(50));
    let mut answers = Vec::new();
    for _ in 0..SECONDS * 20 {
        interval.tick().await;
        for class in [
            "gold", "gold", "gold", "gold", "gold", "bulk", "bulk", "bulk",
        ] {
            answers.push(Scene::spawn(of(&scene, class, 800)));
        }
    }
    let mut refused = 0;
    for answer in answers {
        let seen = answer.await.unwrap().unwrap();
        match seen.refusal() {
            (200, "") => {}
            (504, "infeasible" | "expired") => refused += 1,
            other => panic!("{other:?} {seen:?}"),
        }
    }
    assert!(refused > 100, "{refused} refused: there was no overload");
    let executions = scene.backends[0].executions();
    // Counted from the second second, when the queue has filled.
    let begin = executions[0].started_ms;
    let settled = executions.iter().filter(|execution| {
        (1000.0..SECONDS as f64 * 1000.0).contains(&(execution.started_ms - begin))
    });
    let classes: Vec<_> = settled
        .map(|execution| execution.headers["x-slo-class"].clone())
        .collect();
    let share = count(&classes, "gold") as f64 / classes.len() as f64;
    assert!((share - 0.75).abs() <= 0.06, "{share} of {}", classes.len());
}

#[tokio::test]
async fn only_deadlines_count_while_slots_suffice() {
    let (scene, running) = busy(gold_and_bulk(), 100.0).await;
    let held = alternating(&scene, 20);
    scene.until(Metric::HeldRequests, "", 40).await.unwrap();
    // A request that not even an empty queue could serve in time does not mean that slots are scarce.
    assert_eq!(
        see(of(&scene, "gold", 10)).await.unwrap().refusal(),
        (504, "infeasible")
    );
    assert_all_served(held.into_iter().chain([running])).await;
    let executions = scene.backends[0].executions();
    let deadlines = executions.iter().skip(1);
    let deadlines: Vec<u64> = deadlines
        .map(|execution| execution.headers["x-slo-deadline"].parse().unwrap())
        .collect();
    assert_eq!(deadlines.len(), 40);
    assert!(deadlines.is_sorted(), "not by deadline: {deadlines:?}");
}

#[tokio::test]
async fn higher_priority_goes_first_and_lower_one_is_not_starved() {
    let rest = json!({ "default_class": "low", "max_skips": 5, "classes": [
        { "name": "high", "share": 1.0, "priority": 3 }, { "name": "low", "share": 1.0 }] });
    let (scene, running) = busy(rest, 100.0).await;
    // Low requests are more urgent, which does not help them.
    let low = (0..8).map(|_| Scene::spawn(of(&scene, "low", 7000)));
    let low: Vec<_> = low.collect();
    let high = (0..30).map(|_| Scene::spawn(of(&scene, "high", 9000)));
    let high: Vec<_> = high.collect();
    scene.until(Metric::HeldRequests, "", 38).await.unwrap();
    assert_all_served(low.into_iter().chain(high).chain([running])).await;
    let classes = executed(&scene);
    assert_eq!(count(&classes[..5], "high"), 5, "{classes:?}");
    // While there are high requests, every sixth execution is low.
    let (together, rest) = classes.split_at(36);
    for round in together.chunks(6) {
        assert_eq!(count(round, "low"), 1, "{classes:?}");
    }
    assert_eq!(count(rest, "low"), 2, "{classes:?}");
}

#[tokio::test]
async fn unknown_class_becomes_the_default_and_upstream_sees_it() {
    let scene = scene(SLOT, 1, gold_and_bulk()).await;
    for (requested, got) in [
        (Some("gold"), Some("gold")),
        (Some("bulk"), Some("bulk")),
        (Some("platinum"), Some("bulk")),
        (Some("gold, bulk"), Some("bulk")),
        (None, None),
    ] {
        let mut request = scene.infer_within(5000);
        if let Some(requested) = requested {
            request = request.header("x-slo-class", requested);
        }
        assert_eq!(see(request).await.unwrap().status, 200);
        let seen = scene.backends[0].executions().pop().unwrap().headers;
        let seen = seen.get("x-slo-class").map(String::as_str);
        assert_eq!(seen, got, "{requested:?}");
    }
    scene
        .until(Metric::InvalidHeaders, "x-slo-class", 2)
        .await
        .unwrap();
    scene.until(Metric::ClassOnTime, "bulk", 4).await.unwrap();
    scene.until(Metric::ClassArrivals, "gold", 1).await.unwrap();
}

/// Two filters before Weir's: one sets a header and one sets metadata with the owner of a token. The first
/// removes the header if the client sent it.
fn identity_filters() -> [Value; 2] {
    let set = json!({ "header": { "key": "x-team", "value": "%REQ(x-token)%" },
                      "append_action": "OVERWRITE_IF_EXISTS_OR_ADD" });
    [
        json!({ "name": "who", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
            "mutations": { "request_mutations": [{ "remove": "x-team" }, { "append": set }] } } }),
        json!({ "name": "who-too", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config",
            "request_rules": [{ "header": "x-token", "remove": false, "on_header_present": {
                "metadata_namespace": "story.who", "key": "team", "type": "STRING" } }] } }),
    ]
}

/// Puts filters before Weir's, which is configured by `plugin`.
fn behind(
    bootstrap: Bootstrap,
    plugin: &Value,
    before: impl IntoIterator<Item = Value>,
) -> Bootstrap {
    let bootstrap = bootstrap.plugin(plugin);
    let config = bootstrap.config().unwrap();
    let ours = config.pointer(FILTERS).and_then(Value::as_array).unwrap();
    let all: Vec<_> = before.into_iter().chain(ours.iter().cloned()).collect();
    bootstrap.amend(FILTERS, json!(all))
}

#[tokio::test]
async fn class_claim_is_proved_by_earlier_filters_or_the_connection() {
    let claimed = |name: &str, claim: Value| json!({ "name": name, "share": 0.1, "claim": claim });
    let metadata = ["metadata", "filter_metadata", "story.who", "team"];
    let near = json!({ "property": ["source", "address"], "values": ["127.0.0.1:*"] });
    let far = json!({ "property": ["source", "address"], "values": ["192.0.2.1:*"] });
    let mtls = json!({ "property": ["connection", "uri_san_peer_certificate"], "values": ["spiffe://a/*"] });
    let rest = json!({ "default_class": "free", "classes": [
        { "name": "free", "share": 0.1 },
        claimed("header", json!({ "header": "x-team", "values": ["vision", "audio-*"] })),
        claimed("metadata", json!({ "property": metadata, "values": ["vision"] })),
        claimed("near", near), claimed("far", far), claimed("mtls", mtls) ] });
    let scene = Scene::start(&[SLOT], 1, |bootstrap, plugin| {
        merge(plugin, &rest);
        behind(bootstrap, plugin, identity_filters())
    })
    .await
    .unwrap();
    /// Requested class, request headers, and whether the class is granted.
    type Case = (&'static str, &'static [(&'static str, &'static str)], bool);
    let table: &[Case] = &[
        ("header", &[("x-token", "vision")], true),
        ("header", &[("x-token", "audio-2")], true),
        ("header", &[("x-token", "vision, audio-2")], false),
        ("header", &[("x-token", "visions")], false),
        ("header", &[], false),
        // The client's own header is no proof.
        ("header", &[("x-team", "vision")], false),
        (
            "header",
            &[("x-team", "vision"), ("x-token", "text")],
            false,
        ),
        ("metadata", &[("x-token", "vision")], true),
        ("metadata", &[("x-token", "visions")], false),
        ("metadata", &[], false),
        ("near", &[], true),
        ("far", &[], false),
        ("mtls", &[], false),
    ];
    let mut invalid_headers = 0;
    for (class, headers, granted) in table {
        let mut request = of(&scene, class, 5000);
        for (name, value) in *headers {
            request = request.header(*name, *value);
        }
        assert_eq!(see(request).await.unwrap().status, 200);
        let seen = scene.backends[0].executions().pop().unwrap().headers;
        let got = if *granted { *class } else { "free" };
        assert_eq!(seen["x-slo-class"], got, "{class} {headers:?}");
        invalid_headers += u64::from(!granted);
    }
    scene
        .until(Metric::ClassOnTime, "free", invalid_headers)
        .await
        .unwrap();
    scene
        .until(Metric::InvalidHeaders, "x-slo-class", invalid_headers)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_class_at_its_limit_sheds_with_429_and_leaves_capacity_for_the_others() {
    let mut rest = gold_and_bulk();
    rest["classes"][1]["max_requests"] = json!(3);
    let (scene, running) = busy(rest, 100.0).await;
    let mut bulk: Vec<_> = [8000, 8000, 8500]
        .map(|budget| Scene::spawn(of(&scene, "bulk", budget)))
        .into();
    scene.until(Metric::HeldRequests, "", 3).await.unwrap();
    // A more urgent request of the class replaces the class's least urgent one.
    let min = bulk.pop().unwrap();
    bulk.push(Scene::spawn(of(&scene, "bulk", 7500)));
    let seen = min.await.unwrap().unwrap();
    assert_eq!(seen.refusal(), (429, "class-limit"));
    let sent = Instant::now();
    let seen = see(of(&scene, "bulk", 8500)).await.unwrap();
    assert_eq!(seen.refusal(), (429, "class-limit"));
    assert_eq!(seen.header("retry-after"), "1");
    assert!(sent.elapsed() < Duration::from_millis(1500));
    let gold: Vec<_> = (0..5)
        .map(|_| Scene::spawn(of(&scene, "gold", 8000)))
        .collect();
    scene.until(Metric::HeldRequests, "", 8).await.unwrap();
    assert_all_served(bulk.into_iter().chain(gold).chain([running])).await;

    // The first request named no class, so it has the default class.
    for (metric, gold, bulk) in [
        (Metric::ClassArrivals, 5, 6),
        (Metric::ClassAdmitted, 5, 5),
        (Metric::ClassOnTime, 5, 4),
        (Metric::ClassRefused, 0, 2),
    ] {
        scene.until(metric, "gold", gold).await.unwrap();
        scene.until(metric, "bulk", bulk).await.unwrap();
    }
    scene
        .until(Metric::Refused, "class-limit", 2)
        .await
        .unwrap();
}

/// Contradictory classes keep Envoy from starting, and the log names the field.
#[tokio::test]
async fn contradictory_classes_are_refused_at_start_with_their_path() {
    let class = |name: &str, share: f64| json!({ "name": name, "share": share });
    let claim = json!({ "header": "x-team", "values": ["vision"] });
    let table = [
        (
            json!({ "default_class": "a", "classes": [class("a", 0.7), class("b", 0.4)] }),
            "classes[].share: class shares over 100 %: a + b of priority 0, 1.1 together,",
        ),
        (
            json!({ "default_class": "c", "classes": [class("a", 0.5)] }),
            "default_class: 'c' must be the name of one of `classes`",
        ),
        (
            json!({ "default_class": "a", "classes": [
                { "name": "a", "share": 0.5, "claim": claim }, class("b", 0.5)] }),
            "default_class: 'a' must be a class without a `claim`",
        ),
        (
            json!({ "default_class": "a", "classes": [class("a", 0.5), class("b", 0.0)] }),
            "classes[1].share: 0 must be 0.001 to 1",
        ),
        (
            json!({ "default_class": "a", "classes": [
                class("a", 0.5), { "name": "b", "share": 0.5, "max_requests": 0 }] }),
            "classes[1].max_requests: 0 must be 1 to 100000",
        ),
    ];
    for (rest, message) in table {
        let mut plugin = json!({ "service": SERVICE, "plan": {
            "variants": [{ "name": "a", "cluster": "a", "share": 1, "slots": 1 }] } });
        merge(&mut plugin, &rest);
        let bootstrap = Bootstrap::shipped().unwrap().plugin(&plugin);
        let error = Envoy::start(&bootstrap, 1).await.expect_err(message);
        let report = format!("{error:#}");
        assert!(report.contains(message), "'{message}' is not in:\n{report}");
    }
}
