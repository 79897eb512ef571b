//! Delivery of plans to a real Envoy: adopted without a restart, refused if invalid, kept if the planner is
//! unreachable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_bed::scene::{self, KEY, PATIENCE, Scene, ScriptedPlanner, Variant, see};
use weir_bed::wait;

const OLD: Variant = Variant {
    name: "old",
    share: 1.0,
    slots: 50,
    service_ms: 2.0,
};
const NEW: Variant = Variant {
    name: "new",
    share: 0.0,
    slots: 0,
    service_ms: 2.0,
};

fn only(name: &'static str) -> Vec<Variant> {
    let give = |v: Variant| match v.name == name {
        true => Variant {
            share: 1.0,
            slots: 50,
            ..v
        },
        false => Variant {
            share: 0.0,
            slots: 0,
            ..v
        },
    };
    vec![give(OLD), give(NEW)]
}

fn configure_planner(plugin: &mut Value) {
    plugin["planner"] = json!({ "cluster": "planner", "authority": "planner", "key": KEY });
}

/// Two workers and two variants; the static plan knows only the first.
async fn scripted() -> (Scene, ScriptedPlanner) {
    let planner = ScriptedPlanner::start().await.unwrap();
    let addr = planner.addr();
    let scene = Scene::start(&only("old"), 2, |bootstrap, plugin| {
        configure_planner(plugin);
        bootstrap.planner(addr)
    })
    .await
    .unwrap();
    (scene, planner)
}

async fn serves(scene: &Scene) -> String {
    let seen = see(scene.infer()).await.unwrap();
    assert_eq!(seen.status, 200, "{:?}", seen.refusal());
    seen.header("x-slo-variant").to_owned()
}

/// Waits until both workers and the main thread's VM have adopted a plan, each for itself.
async fn until_everywhere(scene: &Scene, plans: u64) {
    scene
        .until(Metric::PlansAccepted, "", 3 * plans)
        .await
        .unwrap();
}

#[tokio::test]
async fn new_plan_takes_effect_without_restart_or_failed_request() {
    let (scene, planner) = scripted().await;
    let scene = Arc::new(scene);
    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..8)
        .map(|_| {
            let (scene, stop) = (Arc::clone(&scene), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut served = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    served.push(serves(&scene).await);
                }
                served
            })
        })
        .collect();
    wait::until("traffic", PATIENCE, || {
        scene.backends[0].executions().len() > 100
    })
    .await
    .unwrap();
    for revision in 1..=6 {
        planner.publish(
            revision * 10,
            &only(if revision % 2 == 1 { "new" } else { "old" }),
        );
        until_everywhere(&scene, revision).await;
    }
    assert_eq!(scene.metric(Metric::PlanRevision, "").await.unwrap(), 60);
    planner.publish(70, &only("new"));
    until_everywhere(&scene, 7).await;
    let old_before = scene.backends[0].executions().len();
    let new_before = scene.backends[1].executions().len();
    let moved = || scene.backends[1].executions().len() > new_before + 100;
    wait::until("traffic on the new variant", PATIENCE, moved)
        .await
        .unwrap();
    let late = scene.backends[0].executions().len() - old_before;
    assert!(
        late <= 8,
        "{late} requests went by the old plan, more than were under way"
    );
    stop.store(true, Ordering::Relaxed);
    for worker in load {
        assert!(!worker.await.unwrap().is_empty());
    }
    assert_eq!(scene.metric(Metric::PlansRefused, "").await.unwrap(), 0);
}

#[tokio::test]
async fn new_plan_reroutes_held_requests() {
    let (scene, planner) = scripted().await;
    planner.publish(10, &[Variant { slots: 1, ..OLD }]);
    until_everywhere(&scene, 1).await;
    scene.backends[0].slow_by(2000.0).unwrap();
    let running: Vec<_> = (0..12)
        .map(|_| Scene::spawn(scene.infer_within(8000)))
        .collect();
    // One slot, whatever the number of workers.
    scene.until(Metric::HeldRequests, "", 11).await.unwrap();
    planner.publish(20, &only("new"));
    wait::until("the held to be served", PATIENCE, || {
        scene.backends[1].executions().len() == 11
    })
    .await
    .unwrap();
    for answer in running {
        assert_eq!(answer.await.unwrap().unwrap().status, 200);
    }
}

#[tokio::test]
async fn a_plan_that_is_wrong_is_refused_and_the_old_one_stays() {
    let (scene, planner) = scripted().await;
    planner.publish(10, &only("new"));
    until_everywhere(&scene, 1).await;
    let mut weightless = scene::plan(20, &only("old"));
    weightless["variants"][0]["share"] = json!(0.0);
    let mut endless = scene::plan(20, &only("old"));
    endless["variants"][0]["service_ms"] = json!(-1);
    let wrong: Vec<String> = vec![
        "<html>Bad Gateway</html>".into(),
        "{".into(),
        json!({ "format": 2 }).to_string(),
        weightless.to_string(),
        endless.to_string(),
        scene::plan(5, &only("old")).to_string(),
        scene::plan(20, &only("old"))
            .to_string()
            .replace(scene::SERVICE, "other"),
        format!("[{}]", "0,".repeat(100_000)),
    ];
    for (i, body) in wrong.iter().enumerate() {
        planner.respond(20 + i as u64, 200, body);
        let refused = async || scene.metric(Metric::PlansRefused, "").await.unwrap() > i as u64;
        wait::until_async("the refusal", PATIENCE, refused)
            .await
            .unwrap();
        assert_eq!(serves(&scene).await, "new", "{body:.80}");
    }
    assert_eq!(scene.metric(Metric::PlanRevision, "").await.unwrap(), 10);
    let log = scene.envoy.log();
    for text in [
        "they sum to 0",
        "service_ms: -1",
        "revision: 5 is not newer than 10",
        "'other' is not ours",
        "format",
    ] {
        assert!(log.contains(text), "the log does not say '{text}'");
    }
    planner.publish(100, &only("old"));
    until_everywhere(&scene, 2).await;
    assert_eq!(serves(&scene).await, "old");
}

#[tokio::test]
async fn unanswered_polls_are_logged_once_and_then_counted() {
    let (scene, planner) = scripted().await;
    planner.publish(10, &only("new"));
    until_everywhere(&scene, 1).await;
    planner.respond(u64::MAX, 500, "on fire");
    let failed = async || scene.metric(Metric::PlanPollsFailed, "").await.unwrap() >= 3;
    wait::until_async("three failed polls", PATIENCE, failed)
        .await
        .unwrap();
    assert_eq!(serves(&scene).await, "new");
    let logged = scene
        .envoy
        .log()
        .matches("does not answer: status 500")
        .count();
    assert_eq!(logged, 1);
    planner.publish(20, &only("old"));
    until_everywhere(&scene, 2).await;
    assert_eq!(serves(&scene).await, "old");
    assert_eq!(
        scene
            .envoy
            .log()
            .matches("the planner answers again")
            .count(),
        1
    );
}

#[tokio::test]
async fn wrong_key_gets_no_plan() {
    let planner = ScriptedPlanner::start().await.unwrap();
    planner.publish(10, &only("new"));
    let addr = planner.addr();
    let scene = Scene::start(&only("old"), 1, |bootstrap, plugin| {
        configure_planner(plugin);
        plugin["planner"]["key"] = json!("wrong");
        bootstrap.planner(addr)
    })
    .await
    .unwrap();
    let failed = async || scene.metric(Metric::PlanPollsFailed, "").await.unwrap() >= 1;
    wait::until_async("the refused poll", PATIENCE, failed)
        .await
        .unwrap();
    assert_eq!(serves(&scene).await, "old");
    assert!(scene.envoy.log().contains("does not answer: status 401"));
}

/// A plan past its maximum age is replaced by the static one, if so configured.
#[tokio::test]
async fn a_plan_too_old_falls_back_to_the_static_one() {
    let planner = ScriptedPlanner::start().await.unwrap();
    let addr = planner.addr();
    let scene = Scene::start(&only("old"), 1, |bootstrap, plugin| {
        configure_planner(plugin);
        plugin["on_stale"] = json!("static");
        bootstrap.planner(addr)
    })
    .await
    .unwrap();
    let mut short_lived = scene::plan(10, &only("new"));
    short_lived["max_age_ms"] = json!(1500);
    planner.respond(10, 200, short_lived);
    scene.until(Metric::PlansAccepted, "", 2).await.unwrap();
    assert_eq!(serves(&scene).await, "new");
    let fallen_back = async || serves(&scene).await == "old";
    wait::until_async("the static plan", Duration::from_secs(10), fallen_back)
        .await
        .unwrap();
}
