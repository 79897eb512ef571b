//! Runs the real [`Transition`] over many cycles, between two deployments, while answers are lost, refused or
//! late.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use weir_api::Cores;
use weir_apiserver::{ApiServer, Fault, Happening, Rule, Verb};
use weir_bed::wait;
use weir_planner::backends::Actuate;
use weir_planner::backends::kubernetes::actuate::KubeBackends;
use weir_planner::capacity::{Actual, ResourceLimits, Target};
use weir_planner::rollout::STEPS_MAX;
use weir_planner::rollout::{Step, Transition};

use super::bed::{LIMIT, deployment, start};
use super::stage::{backends, cores, patches, requested_resources, target};

const BUDGET: Cores = Cores::whole(7);
const NAMES: [&str; 2] = ["fast", "good"];

async fn observed(backends: &KubeBackends) -> Option<Vec<Actual>> {
    let all = backends.actual().await.into_iter();
    all.map(|one| one?.ok()).collect()
}

/// Runs one cycle; a published plan counts only on actual cores.
async fn cycle(backends: &KubeBackends, targets: &[Target]) {
    let Some(actual) = observed(backends).await else {
        return;
    };
    let mut transition = Transition::new(&actual, targets, BUDGET, &ResourceLimits::default());
    for _ in 0..STEPS_MAX {
        match transition.next() {
            Step::Resize(changes) => {
                let answers = backends.resize(&changes).await;
                for (change, answer) in changes.into_iter().zip(answers) {
                    match answer {
                        Ok(actual) => transition.confirmed(change, actual),
                        Err(error) => transition.failed(change, error.may_have_applied()),
                    }
                }
            }
            Step::Publish(plan) => transition.published(plan),
            Step::Done => return,
        }
    }
    panic!("no end: {transition:?}");
}

/// Maximum over time of all pods' cores together.
async fn watch(server: &ApiServer) -> tokio::task::JoinHandle<f64> {
    let mut changes = server.subscribe();
    tokio::spawn(async move {
        let (mut pods, mut most) = (BTreeMap::new(), 0.0f64);
        while let Ok(change) = changes.recv().await {
            match change.happening {
                Happening::Deleted => pods.remove(&change.pod.uid),
                _ => pods.insert(change.pod.uid.clone(), change.pod.cores()),
            };
            most = most.max(pods.values().sum());
        }
        most
    })
}

#[tokio::test]
async fn faults_neither_break_the_budget_nor_repeat_a_patch() {
    let server = start(|options| options.seed = 7).await;
    let most = watch(&server).await;
    for name in NAMES {
        server.store().create(&deployment(name, 1, 1_000)).unwrap();
    }
    // A cycle always sees a slightly outdated state.
    let lag = Fault::LagWatch(Duration::from_millis(200));
    server.faults().add(Rule::always(lag));
    let backends = backends(&server, &NAMES, Duration::from_millis(700)).await;
    let ready = async || {
        let actual = observed(&backends).await.unwrap_or_default();
        actual.iter().filter(|one| one.ready == cores(1, 1)).count() == 2
    };
    wait::until_async("ready pods", LIMIT, ready).await.unwrap();
    for (fault, probability) in [
        (Fault::LoseAnswer, 0.1),
        (Fault::HangUp, 0.1),
        (Fault::Error(503), 0.1),
        (Fault::TooMany(1), 0.05),
        (Fault::Slow(Duration::from_millis(300)), 0.2),
    ] {
        let rule = Rule::always(fault).verbs(&[Verb::Patch]);
        server.faults().add(rule.probability(probability));
    }
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for _ in 0..14 {
        let fast = target(rng.random_range(1..3), rng.random_range(1..3));
        let left = BUDGET.saturating_sub(fast.cores(cores(0, 0))).millis() / 1000;
        let replicas = rng.random_range(1..3u32).min(left);
        let good = target(replicas, rng.random_range(1..3u32).min(left / replicas));
        cycle(&backends, &[fast, good]).await;
    }
    assert!(server.faults().met() > 0);
    server.faults().clear();
    // Without faults the target is reached.
    let targets = [target(2, 2), target(1, 3)];
    let done = async || {
        cycle(&backends, &targets).await;
        let actual = observed(&backends).await.unwrap_or_default();
        actual == [cores(2, 2), cores(1, 3)].map(Actual::certain)
    };
    let waited = wait::until_async("the target", LIMIT, done).await;
    assert!(waited.is_ok(), "{:?}", backends.actual().await);
    let mut last = BTreeMap::new();
    for patch in patches(&server, "pods/resize") {
        if patch.status == 200 {
            let before = last.insert(patch.key.clone(), requested_resources(&patch).clone());
            assert_ne!(
                before.as_ref(),
                Some(requested_resources(&patch)),
                "{}",
                patch.key
            );
        }
    }
    assert!(last.len() > 2, "{last:?}");
    drop(server);
    let most = most.await.unwrap();
    assert!(most <= BUDGET.as_f64() + 1e-9, "{most} cores");
}
