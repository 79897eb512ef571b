//! Workers that meet on a board: one queue and one set of slots for all, whatever becomes of the board.
//!
//! What the board says is read from a module built with the feature `trap`, which shows it on demand.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use weir_api::metrics::Metric;
use weir_bed::emulator::Execution;
use weir_bed::scene::{
    KEY, PATIENCE, SERVICE, Scene, ScriptedPlanner, Seen, Variant, planned, send_none_ahead,
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

/// Envoy with the module that shows the board.
async fn scene(variant: Variant, workers: u32) -> Scene {
    let module = built::trapping_filter().unwrap();
    Scene::start(&[variant], workers, |bootstrap, _| bootstrap.wasm(module))
        .await
        .unwrap()
}

async fn nothing_is_taken(scene: &Scene) {
    let nothing = async || {
        let board = scene.board().await.unwrap();
        taken_by_the_living(&board, SLOW.name) == 0
    };
    wait::until_async("every slot to be free", PATIENCE, nothing)
        .await
        .unwrap();
}

/// The most that were executed at once.
fn most_at_once(executions: &[Execution]) -> usize {
    let under_way = |at: &Execution| {
        let running = |other: &&Execution| {
            other.started_ms <= at.started_ms && at.started_ms + 1.0 < other.ended_ms
        };
        executions.iter().filter(running).count()
    };
    executions.iter().map(under_way).max().unwrap_or(0)
}

/// Two requests that take long enough for a crowd to gather behind them, on a busy machine too; whoever
/// comes after takes the usual time.
async fn both_slots_taken(scene: &Scene) -> [Answer; 2] {
    const LONG: f64 = 4.0;
    scene.backends[0].slow_by(LONG).unwrap();
    let first = [
        Scene::spawn(scene.infer_within(9000)),
        Scene::spawn(scene.infer_within(9000)),
    ];
    scene.until(Metric::InFlight, "small", 2).await.unwrap();
    scene.backends[0].slow_by(1.0).unwrap();
    first
}

/// Requests that are all held before the first of them goes, with budgets in an order that is neither
/// rising nor falling.
async fn crowd(scene: &Scene, count: u64) -> Vec<Answer> {
    let budgets = (0..count).map(|i| 5000 + (i * 17 % count) * 50);
    let mut held = Vec::new();
    for budget in budgets {
        held.push(Scene::spawn(scene.infer_within(budget)));
    }
    scene.until(Metric::Held, "", count).await.unwrap();
    held
}

async fn all_served(answers: Vec<Answer>) {
    for answer in answers {
        let seen = answer.await.unwrap().unwrap();
        assert_eq!(seen.status, 200, "{:?}", seen.refusal());
    }
}

/// Executions that began well after one with a later deadline. Two that are let go together may reach
/// the server in either order.
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

/// Two at a time, as there are slots, and by deadline, although four workers hold them.
#[tokio::test]
async fn the_workers_of_a_proxy_hold_one_queue() {
    let scene = scene(SLOW, WORKERS).await;
    let first = both_slots_taken(&scene).await;
    scene.backends[0].slow_by(0.1).unwrap();
    let held = crowd(&scene, 40).await;
    let board = scene.board().await.unwrap();
    let column = board.column(VariantKey::of(SLOW.name)).unwrap();
    let holding = (0..board.rows.len()).filter(|entry| board.usage(*entry, column).head.is_some());
    assert!(holding.count() > 1, "one worker held them all");
    all_served(first.into_iter().chain(held).collect()).await;
    let executions = scene.backends[0].executions();
    assert!(most_at_once(&executions) <= 2);
    assert_eq!(executions.len(), 42);
    let out_of_order = out_of_order(&executions[2..]);
    assert!(out_of_order <= 2, "{out_of_order} of 40: {executions:?}");
    nothing_is_taken(&scene).await;
}

/// Somebody else writes where the board is: those held and in flight are served, no slot is given
/// twice, and it is counted.
#[tokio::test]
async fn a_spoilt_board_is_begun_anew() {
    let scene = scene(SLOW, WORKERS).await;
    let first = both_slots_taken(&scene).await;
    let held = crowd(&scene, 10).await;
    // Answered like any other: it waits for a slot.
    let spoiler = Scene::spawn(scene.infer_within(9000).header("x-weir-trap", "spoil"));
    let later = Scene::spawn(scene.infer_within(9000));
    all_served(
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
    assert!(scene.board().await.unwrap().resets > 0);
    assert_eq!(scene.metric(Metric::BoardResets, "").await.unwrap(), 1);
    nothing_is_taken(&scene).await;
}

fn twin(service: &str) -> Value {
    let mut plugin = json!({ "service": service, "plan": { "variants": planned(&[SLOW]) } });
    send_none_ahead(&mut plugin);
    plugin
}

/// One VM serves both: each has its own slots.
#[tokio::test]
async fn two_services_under_one_vm_id_do_not_share_slots() {
    let executions = twins("another").await;
    assert_eq!(most_at_once(&executions), 4, "two slots each");
}

/// The same service twice: its slots are shared, each listener's root being a member for itself.
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
    all_served(answers).await;
    let executions = scene.backends[0].executions();
    assert_eq!(executions.len(), 12);
    executions
}

/// A process starts with an empty board, however many workers the one before had.
#[tokio::test]
async fn another_number_of_workers_after_a_restart_finds_an_empty_board() {
    for workers in [WORKERS, 1] {
        let scene = scene(SLOW, workers).await;
        all_served(
            (0..8)
                .map(|_| Scene::spawn(scene.infer_within(9000)))
                .collect(),
        )
        .await;
        let board = scene.board().await.unwrap();
        // The main thread's VM has an entry too.
        assert!(board.rows.len() <= workers as usize + 1, "{:?}", board.rows);
        assert_eq!(board.resets, 0);
        assert!(most_at_once(&scene.backends[0].executions()) <= 2);
    }
}

/// Plans come and go, workers stay: neither entries nor columns grow with them.
#[tokio::test]
async fn the_board_does_not_grow_with_the_plans() {
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
        all_served(
            (0..4)
                .map(|_| Scene::spawn(scene.infer_within(5000)))
                .collect(),
        )
        .await;
    }
    let board = scene.board().await.unwrap();
    assert!(
        board.rows.len() <= 3 && board.columns.len() == 1,
        "{board:?}"
    );
    let incarnations: BTreeSet<u64> = board.rows.iter().map(|entry| entry.incarnation).collect();
    assert_eq!(incarnations.len(), board.rows.len());
}
