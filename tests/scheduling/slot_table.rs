//! Workers that coordinate through the slot table: one queue and one set of slots for all, even if the table
//! is corrupted.
//!
//! The table is read through a module built with the feature `trap`, which shows it on demand.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use weir_api::metrics::Metric;
use weir_bed::emulator::Execution;
use weir_bed::scene::{
    KEY, PATIENCE, SERVICE, Scene, ScriptedPlanner, Seen, Variant, keep_to_slots, planned,
    taken_by_the_living,
};
use weir_bed::{built, wait};
use weir_filter::variant::VariantKey;

type Answer = JoinHandle<anyhow::Result<Seen>>;

const SLOW: Variant = Variant {
    name: "small",
    share: 1.0,
    slots: 2,
    service_ms: 300.0,
};
const WORKERS: u32 = 4;

/// Starts Envoy with the module that shows the table.
async fn scene(variant: Variant, workers: u32) -> Scene {
    let module = built::trapping_filter().unwrap();
    Scene::start(&[variant], workers, |bootstrap, _| bootstrap.wasm(module))
        .await
        .unwrap()
}

async fn until_no_slot_taken(scene: &Scene) {
    let nothing = async || {
        let slot_table = scene.slot_table().await.unwrap();
        taken_by_the_living(&slot_table, SLOW.name) == 0
    };
    wait::until_async("every slot to be free", PATIENCE, nothing)
        .await
        .unwrap();
}

/// Maximum number of concurrent executions.
fn most_at_once(executions: &[Execution]) -> usize {
    let under_way = |at: &Execution| {
        let running = |other: &&Execution| {
            other.started_ms <= at.started_ms && at.started_ms + 1.0 < other.ended_ms
        };
        executions.iter().filter(running).count()
    };
    executions.iter().map(under_way).max().unwrap_or(0)
}

/// Sends two requests that last long enough for others to queue behind them, even on a busy machine; later
/// requests take the usual time.
async fn both_slots_taken(scene: &Scene) -> [Answer; 2] {
    const LONG: f64 = 4.0;
    scene.backends[0].slow_by(LONG).unwrap();
    let first = [
        Scene::spawn(scene.infer_within(9000)),
        Scene::spawn(scene.infer_within(9000)),
    ];
    scene.until(Metric::SlotsInUse, "small", 2).await.unwrap();
    scene.backends[0].slow_by(1.0).unwrap();
    first
}

/// Sends requests that are all held before the first one is released, with budgets that neither rise nor
/// fall.
async fn crowd(scene: &Scene, count: u64) -> Vec<Answer> {
    let budgets = (0..count).map(|i| 5000 + (i * 17 % count) * 50);
    let mut held = Vec::new();
    for budget in budgets {
        held.push(Scene::spawn(scene.infer_within(budget)));
    }
    scene.until(Metric::HeldRequests, "", count).await.unwrap();
    held
}

async fn assert_all_served(answers: Vec<Answer>) {
    for answer in answers {
        let seen = answer.await.unwrap().unwrap();
        assert_eq!(seen.status, 200, "{:?}", seen.refusal());
    }
}

/// Number of executions that began well after one with a later deadline. Two requests released together may
/// reach the server in either order.
fn out_of_order(executions: &[Execution]) -> usize {
    const TOGETHER_MS: f64 = 15.0;
    let deadline =
        |execution: &Execution| -> u64 { execution.headers["x-slo-deadline"].parse().unwrap() };
    let overtaken = |at: &&Execution| {
        let mut others = executions.iter();
        others.any(|other| {
            other.started_ms + TOGETHER_MS < at.started_ms && deadline(other) > deadline(at) + 1
        })
    };
    executions.iter().filter(overtaken).count()
}

/// Two at a time, like the slots, and by deadline, although four workers hold the requests.
#[tokio::test]
async fn workers_of_a_proxy_share_one_queue() {
    let scene = scene(SLOW, WORKERS).await;
    let first = both_slots_taken(&scene).await;
    scene.backends[0].slow_by(0.1).unwrap();
    let held = crowd(&scene, 40).await;
    let slot_table = scene.slot_table().await.unwrap();
    let column = slot_table.column(VariantKey::of(SLOW.name)).unwrap();
    let holding =
        (0..slot_table.rows.len()).filter(|entry| slot_table.usage(*entry, column).head.is_some());
    assert!(holding.count() > 1, "one worker held them all");
    assert_all_served(first.into_iter().chain(held).collect()).await;
    let executions = scene.backends[0].executions();
    assert!(most_at_once(&executions) <= 2);
    assert_eq!(executions.len(), 42);
    let out_of_order = out_of_order(&executions[2..]);
    assert!(out_of_order <= 2, "{out_of_order} of 40: {executions:?}");
    until_no_slot_taken(&scene).await;
}

/// After foreign data is written over the table, requests held and in flight are served, no slot is used
/// twice, and the reset is counted.
#[tokio::test]
async fn corrupted_slot_table_is_replaced() {
    let scene = scene(SLOW, WORKERS).await;
    let first = both_slots_taken(&scene).await;
    let held = crowd(&scene, 10).await;
    // The corrupting request is answered like any other: it waits for a slot.
    let spoiler = Scene::spawn(scene.infer_within(9000).header("x-weir-trap", "spoil"));
    let later = Scene::spawn(scene.infer_within(9000));
    assert_all_served(
        first
            .into_iter()
            .chain(held)
            .chain([spoiler, later])
            .collect(),
    )
    .await;
    let executions = scene.backends[0].executions();
    assert_eq!(executions.len(), 14);
    assert!(most_at_once(&executions) <= 2, "{executions:?}");
    assert!(scene.slot_table().await.unwrap().resets > 0);
    assert_eq!(scene.metric(Metric::SlotTableResets, "").await.unwrap(), 1);
    until_no_slot_taken(&scene).await;
}

fn twin(service: &str) -> Value {
    let mut plugin = json!({ "service": service, "plan": { "variants": planned(&[SLOW]) } });
    keep_to_slots(&mut plugin);
    plugin
}

/// One VM serves both services: each has its own slots.
#[tokio::test]
async fn two_services_under_one_vm_id_do_not_share_slots() {
    let executions = twins("another").await;
    assert_eq!(most_at_once(&executions), 4, "two slots each");
}

/// The same service twice: its slots are shared, and each listener's root context is a worker of its own.
#[tokio::test]
async fn two_listeners_of_one_service_share_its_slots() {
    let executions = twins(SERVICE).await;
    assert_eq!(most_at_once(&executions), 2, "two slots in all");
}

async fn twins(service: &str) -> Vec<Execution> {
    let adapt =
        |bootstrap: weir_bed::envoy::Bootstrap, _: &mut Value| bootstrap.beside(&twin(service));
    let scene = Scene::start(&[SLOW], 2, adapt).await.unwrap();
    let mut answers = Vec::new();
    for _ in 0..6 {
        answers.push(Scene::spawn(scene.infer_within(9000)));
        let beside = scene.infer_by("beside").unwrap();
        answers.push(Scene::spawn(beside.header("x-slo-ms", "9000")));
    }
    assert_all_served(answers).await;
    let executions = scene.backends[0].executions();
    assert_eq!(executions.len(), 12);
    executions
}

/// A new process starts with an empty table, however many workers the previous one had.
#[tokio::test]
async fn restart_with_fewer_or_more_workers_finds_an_empty_slot_table() {
    for workers in [WORKERS, 1] {
        let scene = scene(SLOW, workers).await;
        assert_all_served(
            (0..8)
                .map(|_| Scene::spawn(scene.infer_within(9000)))
                .collect(),
        )
        .await;
        let slot_table = scene.slot_table().await.unwrap();
        // The main thread's VM has a row too.
        assert!(
            slot_table.rows.len() <= workers as usize + 1,
            "{:?}",
            slot_table.rows
        );
        assert_eq!(slot_table.resets, 0);
        assert!(most_at_once(&scene.backends[0].executions()) <= 2);
    }
}

/// Plans change while workers stay: neither rows nor columns of the table grow.
#[tokio::test]
async fn slot_table_does_not_grow_with_the_plans() {
    let planner = ScriptedPlanner::start().await.unwrap();
    let module = built::trapping_filter().unwrap();
    let fast = Variant {
        service_ms: 5.0,
        ..SLOW
    };
    let scene = Scene::start(&[fast], 2, |bootstrap, plugin| {
        plugin["planner"] = json!({ "cluster": "planner", "key": KEY });
        bootstrap.planner(planner.addr()).wasm(module)
    })
    .await
    .unwrap();
    for revision in 10..30 {
        planner.publish(revision, &[fast]);
        scene
            .until(Metric::PlanRevision, "", revision)
            .await
            .unwrap();
        assert_all_served(
            (0..4)
                .map(|_| Scene::spawn(scene.infer_within(5000)))
                .collect(),
        )
        .await;
    }
    let slot_table = scene.slot_table().await.unwrap();
    assert!(
        slot_table.rows.len() <= 3 && slot_table.columns.len() == 1,
        "{slot_table:?}"
    );
    let incarnations: BTreeSet<u64> = slot_table
        .rows
        .iter()
        .map(|entry| entry.incarnation)
        .collect();
    assert_eq!(incarnations.len(), slot_table.rows.len());
}
