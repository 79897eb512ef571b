//! What breaks: configuration, clusters, backends, the planner's address.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_tests::envoy::{Bootstrap, Envoy};
use weir_tests::scene::{PATIENCE, Scene, Variant, see};
use weir_tests::wait;

const GOOD: Variant = Variant {
    name: "good",
    share: 0.5,
    slots: 10,
    service_ms: 1.0,
};
const BAD: Variant = Variant {
    name: "bad",
    share: 0.5,
    slots: 10,
    service_ms: 1.0,
};

/// A variant that fails gets 503 with the reason, is counted, and the other one is unharmed.
async fn half_fails(adapt: impl FnOnce(Bootstrap) -> Bootstrap, crash: bool) {
    let mut scene = Scene::start(&[GOOD, BAD], 1, |bootstrap, _| adapt(bootstrap))
        .await
        .unwrap();
    if crash {
        scene.backends[1].crash();
    }
    let (mut served, mut refused) = (0, 0);
    for _ in 0..40 {
        match see(scene.infer()).await.unwrap().refusal() {
            (200, "") => served += 1,
            (503, "no-backend") => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((served, refused), (20, 20));
    assert_eq!(
        scene.metric(Metric::Refused, "no-backend").await.unwrap(),
        20
    );
    assert_eq!(
        scene.metric(Metric::InFlight, "bad").await.unwrap(),
        0,
        "slots were lost"
    );
    assert_eq!(scene.backends[0].executions().len(), 20);
}

#[tokio::test]
async fn a_cluster_that_does_not_exist() {
    half_fails(|bootstrap| bootstrap.without_backend("bad"), false).await;
}

#[tokio::test]
async fn a_cluster_without_hosts() {
    half_fails(
        |bootstrap| bootstrap.without_backend("bad").backends("bad", &[]),
        false,
    )
    .await;
}

#[tokio::test]
async fn a_server_that_refuses_connections() {
    half_fails(|bootstrap| bootstrap, true).await;
}

#[tokio::test]
async fn a_server_that_breaks_off_frees_its_slots() {
    let one = Variant {
        share: 1.0,
        slots: 1,
        service_ms: 3000.0,
        ..GOOD
    };
    let scene = Scene::start(&[one], 1, |bootstrap, _| bootstrap)
        .await
        .unwrap();
    let running = Scene::spawn(scene.infer_within(9000));
    let held = Scene::spawn(scene.infer_within(9000));
    scene.until(Metric::Held, "", 1).await.unwrap();
    scene.backends[0].slow_by(0.001).unwrap();
    scene.backends[0].hang_up();
    assert_eq!(
        running.await.unwrap().unwrap().refusal(),
        (503, "no-backend")
    );
    assert_eq!(held.await.unwrap().unwrap().status, 200);
}

/// An answer that takes longer than the deadline is cut off there, and says why.
#[tokio::test]
async fn an_answer_past_the_deadline_is_cut_off() {
    let one = Variant {
        share: 1.0,
        slots: 1,
        service_ms: 10.0,
        ..GOOD
    };
    let scene = Scene::start(&[one], 1, |bootstrap, _| bootstrap)
        .await
        .unwrap();
    scene.backends[0].slow_by(100.0).unwrap();
    assert_eq!(
        see(scene.infer_within(300)).await.unwrap().refusal(),
        (504, "expired")
    );
}

#[tokio::test]
async fn a_planner_that_is_nowhere_leaves_the_static_plan_in_force() {
    let scene = Scene::start(&[Variant { share: 1.0, ..GOOD }], 1, |bootstrap, plugin| {
        plugin["planner"] = json!({ "cluster": "nowhere", "key": "k" });
        bootstrap
    })
    .await
    .unwrap();
    let failed = async || scene.metric(Metric::PlanUnreachable, "").await.unwrap() >= 2;
    wait::until_async("two failed polls", PATIENCE, failed)
        .await
        .unwrap();
    assert_eq!(see(scene.infer()).await.unwrap().status, 200);
    assert_eq!(
        scene
            .envoy
            .log()
            .matches("there is no cluster 'nowhere'")
            .count(),
        1
    );
}

/// Without any plan requests go by Envoy's own routes, untouched; or are refused, where so configured.
#[tokio::test]
async fn before_the_first_plan() {
    for (on_stale, expected) in [("keep", (200, "")), ("refuse", (503, "no-plan"))] {
        let scene = Scene::start(&[GOOD], 1, |bootstrap, plugin| {
            plugin.as_object_mut().unwrap().remove("plan");
            plugin["planner"] = json!({ "cluster": "nowhere", "key": "k" });
            plugin["on_stale"] = json!(on_stale);
            bootstrap
        })
        .await
        .unwrap();
        let seen = see(scene.infer().header("x-slo-cluster", "nowhere"))
            .await
            .unwrap();
        assert_eq!(seen.refusal(), expected, "{on_stale}");
        assert_eq!(seen.header("x-slo-variant"), "");
    }
}

/// A configuration that is wrong keeps Envoy from starting, and its log says what and where.
#[tokio::test]
async fn a_plugin_configuration_that_is_wrong_is_refused_at_start() {
    let plan = json!({ "variants": [{ "name": "a", "cluster": "a", "share": 1, "slots": 1 }] });
    let table: [(Value, &str); 4] = [
        (
            json!({ "service": "story", "plan": plan, "colour": 1 }),
            "unknown field `colour`, expected one of",
        ),
        (json!({ "service": "story" }), "it needs a `planner`"),
        (
            json!({ "service": "story", "plan": plan, "queue": { "held_max": 0 } }),
            "queue.held_max: 0 must be 1 to 100000",
        ),
        (json!("not even a table"), "invalid type: string"),
    ];
    for (plugin, message) in table {
        let bootstrap = Bootstrap::shipped().unwrap().plugin(&plugin);
        let error = Envoy::start(&bootstrap, 1).await.expect_err(message);
        let said = format!("{error:#}");
        assert!(said.contains(message), "'{message}' is not in:\n{said}");
    }
}
