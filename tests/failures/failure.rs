//! What breaks: configuration, clusters, backends, the planner's address, a plan's age, the wall clock.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_bed::envoy::{Bootstrap, Clock, Envoy, Launch};
use weir_bed::scene::{self, KEY, PATIENCE, Scene, ScriptedPlanner, Variant, epoch_ms, see};
use weir_bed::wait;

/// When a story's short-lived plan is too old.
const STALE_AFTER_MS: u64 = 1500;

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

/// Most requests that a variant out of reach costs: it is left at the first.
const COST_MAX: u64 = 2;

/// A variant out of reach costs hardly a request, which gets 503 with the reason and is counted; the other one
/// carries all.
async fn half_fails(adapt: impl FnOnce(Bootstrap) -> Bootstrap, crash: bool) {
    let scene = Scene::start(&[GOOD, BAD], 1, |bootstrap, _| adapt(bootstrap))
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
    assert!((1..=COST_MAX).contains(&refused), "{refused} refused");
    assert_eq!(scene.metric(Metric::Failed, "bad").await.unwrap(), refused);
    scene.until(Metric::Failing, "bad", 1).await.unwrap();
    assert_eq!(
        scene.metric(Metric::Refused, "no-backend").await.unwrap(),
        refused
    );
    // Or slots were lost.
    scene.until(Metric::InFlight, "bad", 0).await.unwrap();
    assert_eq!(scene.backends[0].executions().len(), served);
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

/// Lets the shipped route retry and hedge, as a route of one's own may.
fn with_retries(bootstrap: Bootstrap) -> Bootstrap {
    let route = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/route_config\
                 /virtual_hosts/0/routes/0/route";
    let retries = json!({ "retry_on": "5xx", "num_retries": 2, "per_try_timeout": "0.1s" });
    let hedges = json!({ "hedge_on_per_try_timeout": true });
    bootstrap
        .amend(&format!("{route}/retry_policy"), retries)
        .amend(&format!("{route}/hedge_policy"), hedges)
        .amend("/static_resources/clusters/0/circuit_breakers", json!({}))
}

/// A retry is another execution, which no slot counts: none is made unless the configuration allows it.
#[tokio::test]
async fn retries_of_a_route_are_refused_unless_allowed() {
    for (allowed, status, retried) in [(None, 500, 0), (Some(2), 200, 2)] {
        let one = Variant { share: 1.0, ..GOOD };
        let scene = Scene::start(&[one], 1, |bootstrap, plugin| {
            if let Some(allowed) = allowed {
                plugin["retries_max"] = json!(allowed);
            }
            with_retries(bootstrap)
        })
        .await
        .unwrap();
        scene.backends[0].fail_next(2);
        let seen = see(scene.infer()).await.unwrap();
        assert_eq!(seen.status, status, "{allowed:?}");
        scene.until(Metric::Retried, "good", retried).await.unwrap();
    }
}

/// A hedge is a second execution beside the first.
#[tokio::test]
async fn hedges_of_a_route_are_refused_unless_allowed() {
    for (allowed, executions) in [(0, 1), (1, 2)] {
        let one = Variant { share: 1.0, ..GOOD };
        let scene = Scene::start(&[one], 1, |bootstrap, plugin| {
            plugin["retries_max"] = json!(allowed);
            with_retries(bootstrap)
        })
        .await
        .unwrap();
        scene.backends[0].slow_by(500.0).unwrap();
        let seen = see(scene.infer_within(5000)).await.unwrap();
        assert_eq!(seen.status, 200, "{allowed}");
        assert_eq!(scene.backends[0].executions().len(), executions);
    }
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

/// A plan that has grown too old and has no successor: kept or refused, as configured.
#[tokio::test]
async fn a_plan_too_old_is_kept_or_nothing_served() {
    for (on_stale, expected) in [("keep", (200, "")), ("refuse", (503, "no-plan"))] {
        let planner = ScriptedPlanner::start().await.unwrap();
        let addr = planner.addr();
        let scene = Scene::start(&[GOOD], 1, |bootstrap, plugin| {
            plugin.as_object_mut().unwrap().remove("plan");
            plugin["planner"] = json!({ "cluster": "planner", "key": KEY });
            plugin["on_stale"] = json!(on_stale);
            bootstrap.planner(addr)
        })
        .await
        .unwrap();
        let only = [Variant { share: 1.0, ..GOOD }];
        let mut plan = scene::plan(10, &only);
        plan["max_age_ms"] = json!(STALE_AFTER_MS);
        planner.say(10, 200, plan);
        scene.until(Metric::PlanAccepted, "", 2).await.unwrap();
        let received = Instant::now();
        assert_eq!(see(scene.infer()).await.unwrap().refusal(), (200, ""));
        let too_old = async || {
            let seen = see(scene.infer()).await.unwrap();
            received.elapsed() > Duration::from_millis(STALE_AFTER_MS + 500)
                && seen.refusal() == expected
        };
        wait::until_async(on_stale, PATIENCE, too_old)
            .await
            .unwrap();
        // A plan too old is no reason not to take a new one.
        planner.publish(20, &only);
        let again = async || see(scene.infer()).await.unwrap().refusal() == (200, "");
        wait::until_async("the new plan", PATIENCE, again)
            .await
            .unwrap();
    }
}

/// Envoy's wall clock jumps, by more than any start is believed, by less, and backwards. What is held
/// stays held and in order; new requests are judged by the new clock, where their start is believed.
#[tokio::test]
async fn a_clock_step() {
    const STEPS_S: [i64; 4] = [3600, 5, -5, -3600];
    let clock = Clock::new().unwrap();
    let one = Variant {
        share: 1.0,
        slots: 1,
        service_ms: 1.0,
        ..GOOD
    };
    let launch = Launch {
        clock: Some(clock.clone()),
        ..Launch::default()
    };
    let scene = Scene::start(&[one], 1, |bootstrap, _| bootstrap.launch(launch))
        .await
        .unwrap();
    let started = |budget_ms| {
        scene
            .infer_within(budget_ms)
            .header("x-slo-start", epoch_ms())
    };
    assert_eq!(see(started(2000)).await.unwrap().refusal(), (200, ""));
    scene.backends[0].slow_by(4000.0).unwrap();
    let running = Scene::spawn(started(9000));
    scene.until(Metric::InFlight, "good", 1).await.unwrap();
    scene.backends[0].slow_by(1.0).unwrap();
    let begun = Instant::now();
    let expiring = Scene::spawn(started(2000));
    let waiting: Vec<_> = (0..3).map(|_| Scene::spawn(started(9000))).collect();
    scene.until(Metric::Held, "", 4).await.unwrap();
    for step in STEPS_S {
        clock.set(step).unwrap();
        // Nothing that is held minds, through many ticks and another arrival.
        let probe = see(scene.infer_within(50)).await.unwrap();
        assert_eq!(probe.status, 504, "{step}");
        scene.until(Metric::Held, "", 4).await.unwrap();
    }
    clock.set(3600).unwrap();
    assert_eq!(expiring.await.unwrap().unwrap().status, 504);
    let waited = begun.elapsed().as_millis();
    assert!((1900..2500).contains(&waited), "expired after {waited} ms");
    for served in waiting.into_iter().chain([running]) {
        assert_eq!(served.await.unwrap().unwrap().refusal(), (200, ""));
    }
    for (step, expected, disbelieved) in [
        (3600, (200, ""), true),
        (5, (504, "expired"), false),
        (-5, (200, ""), true),
        (-3600, (200, ""), true),
        (0, (200, ""), false),
    ] {
        clock.set(step).unwrap();
        let counted = async || {
            let metric = scene.metric(Metric::Disbelieved, "x-slo-start");
            metric.await.unwrap()
        };
        let before = counted().await;
        assert_eq!(see(started(2000)).await.unwrap().refusal(), expected);
        assert_eq!(counted().await > before, disbelieved, "{step}");
        // Without a start the clock does not matter.
        let plain = see(scene.infer_within(2000)).await.unwrap();
        assert_eq!(plain.refusal(), (200, ""), "{step}");
    }
}
