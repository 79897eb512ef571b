//! Feasibility of deadlines: checked on arrival, while a request is held, and with each new plan. Predictions
//! follow measurements; quotas hold as long as deadlines allow; overload does not spread.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_bed::emulator::{LatencyModel, ServerConfig};
use weir_bed::scene::{self, KEY, PATIENCE, Scene, ScriptedPlanner, Seen, Variant, see};
use weir_bed::wait;

const ONE: Variant = Variant {
    name: "only",
    share: 1.0,
    slots: 100,
    service_ms: 20.0,
};

/// A server with a constant service time, whatever the number of concurrent requests.
fn server(name: &str, service_ms: f64) -> ServerConfig {
    let mut server = ServerConfig::new(name, LatencyModel::constant(service_ms));
    server.cores = 1000.0;
    server
}

/// An accurate variant with one slot and the whole share, and a fast one for requests that cannot wait.
fn slow_and_fast(slow_ms: f64) -> Value {
    json!([
        { "name": "slow", "cluster": "slow", "share": 1.0, "slots": 1, "service_ms": slow_ms, "accuracy": 80.0 },
        { "name": "fast", "cluster": "fast", "share": 0.0, "slots": 20, "service_ms": 20.0, "accuracy": 60.0 },
    ])
}

type Answer = tokio::task::JoinHandle<(Seen, Duration)>;

/// Sends a request in a task of its own and measures its time.
fn timed(request: reqwest::RequestBuilder) -> Answer {
    tokio::spawn(async move {
        let sent = Instant::now();
        let seen = see(request).await.unwrap();
        (seen, sent.elapsed())
    })
}

/// Sends the first server a request that runs for `factor` times its service time.
async fn occupy(scene: &Scene, factor: f64) -> Answer {
    let backend = &scene.backends[0];
    backend.slow_by(factor).unwrap();
    let running = timed(scene.infer_within(9000));
    wait::until("the first execution", PATIENCE, || backend.load().1 == 1)
        .await
        .unwrap();
    backend.slow_by(1.0).unwrap();
    running
}

/// [`Scene::until`], which must succeed.
async fn until(scene: &Scene, metric: Metric, label: &str, value: u64) {
    scene.until(metric, label, value).await.unwrap();
}

/// Waits for metrics, which workers report every 50 ms.
async fn until_all(scene: &Scene, value: u64, metrics: &[(Metric, &str)]) {
    for (metric, label) in metrics {
        until(scene, *metric, label, value).await;
    }
}

#[tokio::test]
async fn overdue_held_request_is_answered_by_the_fast_variant() {
    let servers = vec![server("slow", 600.0), server("fast", 20.0)];
    let scene = Scene::start_with(servers, &slow_and_fast(600.0), 1, |bootstrap, _| bootstrap)
        .await
        .unwrap();
    let running = occupy(&scene, 7.0).await;
    let moves = timed(scene.infer_within(2000));
    let stays = timed(scene.infer_within(2000).header("x-slo-min-accuracy", "75"));
    until(&scene, Metric::WaitingRequests, "slow", 2).await;

    let (seen, after) = moves.await.unwrap();
    assert_eq!(seen.refusal(), (200, ""), "after {after:?}");
    assert_eq!(seen.header("x-slo-variant"), "fast");
    assert!(seen.header("x-slo-remaining-ms").parse::<u64>().unwrap() > 0);
    // Not earlier than necessary: until 600 ms before the deadline the slow variant might have become free.
    assert!(after >= Duration::from_millis(1390), "after {after:?}");

    // This request demands more accuracy than the fast variant has. It is refused while its client can still
    // go elsewhere, not at its deadline.
    let (seen, after) = stays.await.unwrap();
    assert_eq!(seen.refusal(), (504, "infeasible"));
    assert!(after >= Duration::from_millis(1390), "after {after:?}");
    assert!(after < Duration::from_millis(1900), "after {after:?}");

    assert_eq!(running.await.unwrap().0.status, 200);
    until(&scene, Metric::SlotsInUse, "slow", 0).await;
    let moved = [
        (Metric::DowngradedFrom, "slow"),
        (Metric::DowngradedTo, "fast"),
        (Metric::OnTime, "fast"),
        (Metric::Refused, "infeasible"),
        (Metric::Dispatched, "slow"),
    ];
    until_all(&scene, 1, &moved).await;
    assert_eq!(scene.backends[0].executions().len(), 1);
}

/// An infeasible request is refused on arrival, without waiting in the queue.
#[tokio::test]
async fn infeasible_request_is_refused_on_arrival() {
    let only = Variant {
        slots: 1,
        service_ms: 500.0,
        ..ONE
    };
    let scene = Scene::start(&[only], 1, |bootstrap, _| bootstrap)
        .await
        .unwrap();
    let running = occupy(&scene, 16.0).await;
    // Behind nine others it would end after 10 × 500 ms.
    let answers: Vec<_> = (0..15).map(|_| timed(scene.infer_within(4900))).collect();
    until(&scene, Metric::Arrivals, "", 16).await;
    until(&scene, Metric::WaitingRequests, "only", 9).await;
    until(&scene, Metric::Refused, "infeasible", 6).await;
    // A request more urgent than all others waits only for the slot.
    let urgent = timed(scene.infer_within(2500));
    until(&scene, Metric::WaitingRequests, "only", 10).await;
    let (mut at_once, mut held) = (0, 0);
    for answer in answers {
        let (seen, after) = answer.await.unwrap();
        assert_eq!(seen.refusal(), (504, "infeasible"), "after {after:?}");
        if after < Duration::from_millis(2000) {
            at_once += 1;
        } else {
            held += 1;
            assert!(after >= Duration::from_millis(4390), "after {after:?}");
        }
    }
    assert_eq!((at_once, held), (6, 9));
    assert_eq!(urgent.await.unwrap().0.refusal(), (504, "infeasible"));
    assert_eq!(running.await.unwrap().0.status, 200);
}

#[tokio::test]
async fn plan_that_makes_held_requests_infeasible_moves_or_refuses_them() {
    let planner = ScriptedPlanner::start().await.unwrap();
    let addr = planner.addr();
    let servers = vec![server("slow", 600.0), server("fast", 20.0)];
    let mut without = slow_and_fast(600.0);
    without[1]["slots"] = json!(0);
    let scene = Scene::start_with(servers, &without, 1, |bootstrap, plugin| {
        plugin["planner"] = json!({ "cluster": "planner", "authority": "planner", "key": KEY });
        bootstrap.planner(addr)
    })
    .await
    .unwrap();
    let running = occupy(&scene, 9.0).await;
    let moves = timed(scene.infer_within(8000));
    let accurate = |budget: u64| {
        let request = scene.infer_within(budget);
        timed(request.header("x-slo-min-accuracy", "75"))
    };
    let (patient, hasty) = (accurate(20_000), accurate(8000));
    until(&scene, Metric::WaitingRequests, "slow", 3).await;

    // The slow variant takes longer than planned, and the fast one now exists.
    let mut plan = scene::plan(10, &[]);
    plan["variants"] = slow_and_fast(8500.0);
    planner.respond(10, 200, plan);
    let (seen, after) = moves.await.unwrap();
    assert_eq!(seen.refusal(), (200, ""));
    assert_eq!(seen.header("x-slo-variant"), "fast");
    assert!(after < Duration::from_millis(5000), "after {after:?}");
    let (seen, after) = hasty.await.unwrap();
    assert_eq!(seen.refusal(), (504, "infeasible"));
    assert!(after < Duration::from_millis(5000), "after {after:?}");
    until(&scene, Metric::WaitingRequests, "slow", 1).await;
    patient.abort();
    running.abort();
    let moved = [
        (Metric::DowngradedFrom, "slow"),
        (Metric::DowngradedTo, "fast"),
    ];
    until_all(&scene, 1, &moved).await;
}

#[tokio::test]
async fn measured_service_time_corrects_the_planned_one() {
    let scene = Scene::start_with(
        vec![server("only", 200.0)],
        &scene::planned(&[ONE]),
        1,
        |bootstrap, _| bootstrap,
    )
    .await
    .unwrap();
    until(&scene, Metric::PredictedServiceMs, "only", 20).await;
    // Feasible by the plan: it is forwarded, and ends too late.
    let seen = see(scene.infer_within(100)).await.unwrap();
    assert_eq!(seen.refusal(), (504, "expired"));
    for _ in 0..3 {
        let answers: Vec<_> = (0..8).map(|_| timed(scene.infer_within(5000))).collect();
        for answer in answers {
            assert_eq!(answer.await.unwrap().0.status, 200);
        }
    }
    scene
        .until_metric(
            Metric::PredictedServiceMs,
            "only",
            "a true prediction",
            |ms| ms >= 190,
        )
        .await
        .unwrap();
    // Only what was answered lately refuses a request before an idle server.
    for _ in 0..4 {
        assert_eq!(see(scene.infer_within(5000)).await.unwrap().status, 200);
    }
    let executed = scene.backends[0].executions().len();
    let seen = see(scene.infer_within(100)).await.unwrap();
    assert_eq!(seen.refusal(), (504, "infeasible"));
    assert_eq!(scene.backends[0].executions().len(), executed);
    assert_eq!(see(scene.infer_within(5000)).await.unwrap().status, 200);
}

/// The VM of Envoy's main thread serves no requests and has no measurements. The metric must not alternate
/// between its planned value and the corrected one.
#[tokio::test]
async fn corrected_prediction_is_reported_as_one_value() {
    let servers = vec![server("only", 200.0)];
    let scene = Scene::start_with(servers, &scene::planned(&[ONE]), 2, |bootstrap, _| {
        bootstrap
    })
    .await
    .unwrap();
    // On a worker without enough measurements the planned value would apply.
    let load = async || {
        let answers: Vec<_> = (0..60).map(|_| timed(scene.infer_within(5000))).collect();
        for answer in answers {
            assert_eq!(answer.await.unwrap().0.status, 200);
        }
    };
    load().await;
    let metric = || scene.metric(Metric::PredictedServiceMs, "only");
    scene
        .until_metric(
            Metric::PredictedServiceMs,
            "only",
            "a true prediction",
            |ms| ms >= 190,
        )
        .await
        .unwrap();
    for _ in 0..5 {
        load().await;
        for _ in 0..8 {
            let shown = metric().await.unwrap();
            assert!(shown >= 190, "{shown} ms is the plan's");
        }
    }
}

/// A server that fails fast is not a fast server.
#[tokio::test]
async fn errors_do_not_shorten_the_prediction() {
    let scene = Scene::start(
        &[Variant {
            service_ms: 200.0,
            ..ONE
        }],
        1,
        |bootstrap, _| bootstrap,
    )
    .await
    .unwrap();
    scene.backends[0].fail_next(60);
    for _ in 0..60 {
        assert_eq!(see(scene.infer_within(5000)).await.unwrap().status, 500);
    }
    until(&scene, Metric::Served, "only", 60).await;
    let seen = see(scene.infer_within(45)).await.unwrap();
    assert_eq!(seen.refusal(), (504, "infeasible"));
    until_all(&scene, 200, &[(Metric::PredictedServiceMs, "only")]).await;
    until_all(&scene, 0, &[(Metric::OnTime, "only")]).await;
}

#[tokio::test]
async fn shares_are_within_two_points_of_quotas_without_pressure() {
    const REQUESTS: usize = 2000;
    let variant = |name, share| Variant { name, share, ..ONE };
    let variants = [variant("a", 0.5), variant("b", 0.3), variant("c", 0.2)];
    let scene = Scene::start(&variants, 2, |bootstrap, _| bootstrap)
        .await
        .unwrap();
    let budgets = (0..REQUESTS as u64).map(|i| 5000 + i * 37 % 4000);
    let requests = budgets.map(|budget| see(scene.infer_within(budget)));
    let mut answers = futures_util::stream::iter(requests).buffer_unordered(32);
    while let Some(seen) = answers.next().await {
        assert_eq!(seen.unwrap().refusal(), (200, ""));
    }
    for (variant, backend) in variants.iter().zip(&scene.backends) {
        let (name, quota) = (variant.name, variant.share);
        let got = backend.executions().len();
        let share = got as f64 / REQUESTS as f64;
        assert!((share - quota).abs() <= 0.02, "{name}: {share} not {quota}");
        until(&scene, Metric::Requests, name, got as u64).await;
        let downgraded = [(Metric::DowngradedFrom, name), (Metric::DowngradedTo, name)];
        until_all(&scene, 0, &downgraded).await;
        scene
            .until_metric(Metric::ShareDeviation, name, "a small deviation", |off| {
                off <= 20
            })
            .await
            .unwrap();
    }
}

/// Three times the capacity of the slots: as many requests as the slots can serve are answered in time,
/// almost none are late, and the others are refused before their deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overload_does_not_spread() {
    // 32 slots of 400 ms serve 80 requests/s; 240 are offered. The executions are so long that a busy machine
    // adds little to them.
    const SLOTS: u32 = 32;
    const SERVICE_MS: u64 = 400;
    const REQUESTS: u64 = 1200;
    const EVERY: Duration = Duration::from_micros(4167);
    let only = Variant {
        slots: SLOTS,
        service_ms: SERVICE_MS as f64,
        ..ONE
    };
    let scene = Scene::start(&[only], 2, |bootstrap, _| bootstrap)
        .await
        .unwrap();
    let mut interval = tokio::time::interval(EVERY);
    let mut answers = Vec::new();
    for i in 0..REQUESTS {
        interval.tick().await;
        let budget = 800 + i * 61 % 1600;
        answers.push((budget, timed(scene.infer_within(budget))));
    }
    let (mut on_time, mut late, mut prompt, mut tardy) = (0, 0, 0, 0);
    for (budget, answer) in answers {
        let (seen, after) = answer.await.unwrap();
        let in_time = after <= Duration::from_millis(budget);
        match (seen.refusal(), in_time) {
            ((200, ""), true) => on_time += 1,
            ((200, "") | (504, "expired"), _) => late += 1,
            ((504, "infeasible"), true) => prompt += 1,
            ((504, "infeasible"), false) => tardy += 1,
            other => panic!("{other:?} {seen:?}"),
        }
    }
    let executions = scene.backends[0].executions();
    let last = executions.iter().map(|execution| execution.ended_ms);
    let busy_ms = last.fold(0.0, f64::max) - executions[0].started_ms;
    let capacity = u64::from(SLOTS) * busy_ms as u64 / SERVICE_MS;
    let summary = format!(
        "{on_time} on time of {capacity} possible, {late} late; refused {prompt} in time, {tardy} too late"
    );
    println!("{summary}");
    assert!(on_time * 10 >= capacity * 9, "{summary}");
    assert!(late * 20 <= capacity, "{summary}");
    assert!(tardy * 50 <= prompt, "{summary}");
    let log = scene.envoy.log();
    assert!(
        !log.contains("panicked at"),
        "a worker's VM trapped:\n{log}"
    );
}

/// Refusals that become due while others arrive: each request gets its own answer and reason, and no verdict
/// is applied to another request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_of_a_burst_gets_its_own_answer() {
    let only = Variant {
        slots: 4,
        service_ms: 10.0,
        ..ONE
    };
    let scene = Scene::start(&[only], 1, |bootstrap, _| bootstrap)
        .await
        .unwrap();
    for round in 0..12 {
        let budgets = (0..150_u64).map(|i| 15 + (i * 29 + round) % 150);
        let answers: Vec<_> = budgets.map(|b| timed(scene.infer_within(b))).collect();
        for answer in answers {
            let (seen, _) = answer.await.unwrap();
            let refusal = seen.refusal();
            let expected = matches!(refusal, (200, "") | (504, "infeasible" | "expired"));
            assert!(expected, "{refusal:?} {seen:?}");
        }
    }
    assert!(!scene.envoy.log().contains("panicked at"));
}
