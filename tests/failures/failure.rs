//! Failures of configuration, clusters, servers, the planner's address, a plan's age and the wall clock.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_bed::envoy::{Bootstrap, Clock, Envoy, Launch};
use weir_bed::scene::{self, KEY, PATIENCE, Scene, ScriptedPlanner, Variant, epoch_ms, see};
use weir_bed::wait;

use crate::{BAD, GOOD};

/// Maximum age of the short-lived plans here.
const STALE_AFTER_MS: u64 = 1500;

/// Maximum number of requests that an unreachable variant fails: it is ejected at the first.
const COST_MAX: u64 = 2;

/// An unreachable variant fails hardly any request, each with 503, its reason and a count; the other variant
/// serves all others.
async fn assert_unreachable_is_ejected(adapt: impl FnOnce(Bootstrap) -> Bootstrap, crash: bool) {
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
    assert_eq!(
        scene.metric(Metric::Failures, "bad").await.unwrap(),
        refused
    );
    scene.until(Metric::Failing, "bad", 1).await.unwrap();
    assert_eq!(
        scene.metric(Metric::Refused, "no-backend").await.unwrap(),
        refused
    );
    // Any other value means that slots were lost.
    scene.until(Metric::SlotsInUse, "bad", 0).await.unwrap();
    assert_eq!(scene.backends[0].executions().len(), served);
}

#[tokio::test]
async fn a_cluster_that_does_not_exist() {
    assert_unreachable_is_ejected(|bootstrap| bootstrap.without_backend("bad"), false).await;
}

#[tokio::test]
async fn a_cluster_without_hosts() {
    assert_unreachable_is_ejected(
        |bootstrap| bootstrap.without_backend("bad").backends("bad", &[]),
        false,
    )
    .await;
}

#[tokio::test]
async fn a_server_that_refuses_connections() {
    assert_unreachable_is_ejected(|bootstrap| bootstrap, true).await;
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
    scene.until(Metric::HeldRequests, "", 1).await.unwrap();
    scene.backends[0].slow_by(0.001).unwrap();
    scene.backends[0].hang_up();
    assert_eq!(
        running.await.unwrap().unwrap().refusal(),
        (503, "no-backend")
    );
    assert_eq!(held.await.unwrap().unwrap().status, 200);
}

/// An answer past the deadline is cut off, with the reason.
#[tokio::test]
async fn answer_past_the_deadline_is_cut_off() {
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

/// Configures the shipped route to retry and hedge, as a user's route may.
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

/// A retry is another execution outside the slots: it is refused unless the configuration allows it.
#[tokio::test]
async fn retries_of_a_route_are_refused_unless_allowed() {
    for (allowed, status, retried) in [(None, 500, 0), (Some(2), 200, 2)] {
        let one = Variant { share: 1.0, ..GOOD };
        let scene = Scene::start(&[one], 1, |bootstrap, plugin| {
            if let Some(allowed) = allowed {
                plugin["max_retries"] = json!(allowed);
            }
            with_retries(bootstrap)
        })
        .await
        .unwrap();
        scene.backends[0].fail_next(2);
        let seen = see(scene.infer()).await.unwrap();
        assert_eq!(seen.status, status, "{allowed:?}");
        scene.until(Metric::Retries, "good", retried).await.unwrap();
    }
}

/// A hedge is a second execution beside the first.
#[tokio::test]
async fn hedges_of_a_route_are_refused_unless_allowed() {
    for (allowed, executions) in [(0, 1), (1, 2)] {
        let one = Variant { share: 1.0, ..GOOD };
        let scene = Scene::start(&[one], 1, |bootstrap, plugin| {
            plugin["max_retries"] = json!(allowed);
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
async fn unreachable_planner_leaves_the_static_plan_in_force() {
    let scene = Scene::start(&[Variant { share: 1.0, ..GOOD }], 1, |bootstrap, plugin| {
        plugin["planner"] = json!({ "cluster": "nowhere", "key": "k" });
        bootstrap
    })
    .await
    .unwrap();
    let failed = async || scene.metric(Metric::PlanPollsFailed, "").await.unwrap() >= 2;
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

/// Without a plan, requests use Envoy's own routes unchanged, or are refused if so configured.
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

/// An invalid configuration keeps Envoy from starting, and the log names the field and the error.
#[tokio::test]
async fn invalid_plugin_configuration_is_refused_at_start() {
    let plan = json!({ "variants": [{ "name": "a", "cluster": "a", "share": 1, "slots": 1 }] });
    let table: [(Value, &str); 4] = [
        (
            json!({ "service": "story", "plan": plan, "colour": 1 }),
            "unknown field `colour`, expected one of",
        ),
        (
            json!({ "service": "story" }),
            "planner: (left out) must be given",
        ),
        (
            json!({ "service": "story", "plan": plan, "queue": { "max_requests": 0 } }),
            "queue.max_requests: 0 must be 1 to 100000",
        ),
        (json!("not even a table"), "invalid type: string"),
    ];
    for (plugin, message) in table {
        let bootstrap = Bootstrap::shipped().unwrap().plugin(&plugin);
        let error = Envoy::start(&bootstrap, 1).await.expect_err(message);
        let report = format!("{error:#}");
        assert!(report.contains(message), "'{message}' is not in:\n{report}");
    }
}

/// A plan past its maximum age is kept or refused, as configured.
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
        planner.respond(10, 200, plan);
        scene.until(Metric::PlansAccepted, "", 2).await.unwrap();
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
        // A newer plan is still accepted.
        planner.publish(20, &only);
        let again = async || see(scene.infer()).await.unwrap().refusal() == (200, "");
        wait::until_async("the new plan", PATIENCE, again)
            .await
            .unwrap();
    }
}

/// Envoy's wall clock jumps forward beyond the accepted age of a start, by less, and backwards. Held requests
/// keep their order; new requests with an accepted start are judged by the new clock.
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
    scene.until(Metric::SlotsInUse, "good", 1).await.unwrap();
    scene.backends[0].slow_by(1.0).unwrap();
    let begun = Instant::now();
    let expiring = Scene::spawn(started(2000));
    let waiting: Vec<_> = (0..3).map(|_| Scene::spawn(started(9000))).collect();
    scene.until(Metric::HeldRequests, "", 4).await.unwrap();
    for step in STEPS_S {
        clock.set(step).unwrap();
        // Held requests are unaffected by many ticks and another arrival.
        let probe = see(scene.infer_within(50)).await.unwrap();
        assert_eq!(probe.status, 504, "{step}");
        scene.until(Metric::HeldRequests, "", 4).await.unwrap();
    }
    clock.set(3600).unwrap();
    assert_eq!(expiring.await.unwrap().unwrap().status, 504);
    let waited = begun.elapsed().as_millis();
    assert!((1900..2500).contains(&waited), "expired after {waited} ms");
    for served in waiting.into_iter().chain([running]) {
        assert_eq!(served.await.unwrap().unwrap().refusal(), (200, ""));
    }
    for (step, expected, invalid_headers) in [
        (3600, (200, ""), true),
        (5, (504, "expired"), false),
        (-5, (200, ""), true),
        (-3600, (200, ""), true),
        (0, (200, ""), false),
    ] {
        clock.set(step).unwrap();
        let counted = async || {
            let metric = scene.metric(Metric::InvalidHeaders, "x-slo-start");
            metric.await.unwrap()
        };
        let before = counted().await;
        assert_eq!(see(started(2000)).await.unwrap().refusal(), expected);
        assert_eq!(counted().await > before, invalid_headers, "{step}");
        // Requests without a start do not depend on the clock.
        let plain = see(scene.infer_within(2000)).await.unwrap();
        assert_eq!(plain.refusal(), (200, ""), "{step}");
    }
}
