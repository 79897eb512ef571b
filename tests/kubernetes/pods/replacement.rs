//! Replacement of pods that cannot grow on their nodes.

use serde_json::json;
use weir_api::Cores;
use weir_apiserver::{Fault, Options, Rule, Verb, Version};
use weir_bed::wait;
use weir_planner::backends::{Actuate, Reason};
use weir_planner::capacity::Actual;

use super::bed::{DEMO, LIMIT, deployment};
use super::stage::{AMPLE, Stage, cores, target};

const FREE: Cores = Cores::whole(1);
/// Name of a large node. It sorts before the small node's, so the scheduler prefers it.
const LARGE: &str = "a-large";

/// Starts two pods of one core on a node of 8, then adds a larger node.
async fn stage() -> Stage {
    let stage = Stage::of(|_| {}, deployment("web", 2, 1_000), AMPLE, |_| {}).await;
    stage.server.store().node(LARGE, 64, 65_536).unwrap();
    stage
}

impl Stage {
    fn evictions(&self) -> Vec<u16> {
        let all = self.server.log().requests().into_iter();
        let evictions =
            all.filter(|one| one.verb == Verb::Create && one.resource == "pods/eviction");
        evictions.map(|one| one.status).collect()
    }

    /// Waits until a resize is infeasible on the small node.
    async fn until_infeasible(&self) {
        let error = self.resize(target(2, 10)).await.unwrap_err();
        assert!(error.to_string().contains("can never hold it"), "{error}");
    }
}

#[tokio::test]
async fn pod_that_cannot_grow_is_replaced_on_a_larger_node() {
    let stage = stage().await;
    let before = stage.pods();
    stage.until_infeasible().await;
    let actual = stage.backends.retire(0, FREE).unwrap().unwrap();
    // Plans count only on the other pod; the budget counts all pods.
    assert_eq!(actual.ready, cores(1, 1));
    assert_eq!(actual.reserved, Cores::whole(3));
    assert_eq!(stage.evictions(), Vec::<u16>::new());
    let actual = stage.backends.replace(0).await.unwrap();
    assert_eq!(actual.ready, cores(1, 1));
    assert_eq!(stage.evictions(), [201]);
    let two = |actual: &Actual| actual.ready.replicas() == 2;
    stage.until("another pod", two).await;
    let after = stage.pods();
    let stayed = after.iter().filter(|pod| before.contains(pod)).count();
    assert_eq!((after.len(), stayed), (2, 1), "{before:?} {after:?}");
    // The new pod has its target cores, and the other one is not replaced at once.
    stage.resize(target(2, 10)).await.unwrap_err();
    let newcomer = after.iter().find(|pod| !before.contains(pod)).unwrap();
    let pods = stage.server.kubelet().pods();
    let newcomer = pods.iter().find(|pod| pod.key == *newcomer).unwrap();
    assert_eq!(newcomer.cores(), 10.0);
    let kept = stage.backends.retire(0, FREE).unwrap().unwrap_err();
    let backs_off = "replacing another pod did not help; it is replaced in ";
    assert!(kept.to_string().starts_with(backs_off), "{kept}");
}

#[tokio::test]
async fn pod_kept_by_a_disruption_budget_stays_and_counts() {
    let stage = stage().await;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "calm", "namespace": DEMO},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 2},
    });
    stage.server.store().create(&budget).unwrap();
    stage.until_infeasible().await;
    let protected = || {
        let kept = stage.backends.retire(0, FREE);
        let message = "it is not replaced: PodDisruptionBudget calm lets none of its pods go now";
        matches!(kept, Some(Err(kept)) if kept.to_string() == message)
    };
    wait::until("the budget", LIMIT, protected).await.unwrap();
    assert_eq!(stage.evictions(), Vec::<u16>::new());
    assert_eq!(stage.actual().await.unwrap().ready, cores(2, 1));
}

#[tokio::test]
async fn pod_with_a_conflicting_writer_is_not_replaced() {
    let stage = stage().await;
    stage.until_infeasible().await;
    let hpa_target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let scaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "old", "namespace": DEMO},
        "spec": {"scaleTargetRef": hpa_target, "maxReplicas": 3},
    });
    stage.server.store().create(&scaler).unwrap();
    let reported = async || {
        let error = stage.resize(target(2, 10)).await.unwrap_err();
        error.reason() == Reason::ConflictingWriter
    };
    wait::until_async("the autoscaler", LIMIT, reported)
        .await
        .unwrap();
    assert_eq!(stage.backends.retire(0, FREE), None);
    assert_eq!(stage.actual().await.unwrap().ready, cores(2, 1));
}

#[tokio::test]
async fn refused_eviction_leaves_the_pod_unchanged() {
    for (fault, uncertain) in [(Fault::Error(403), false), (Fault::LoseAnswer, true)] {
        let stage = stage().await;
        stage.until_infeasible().await;
        assert_eq!(
            stage.backends.retire(0, FREE).unwrap().unwrap().ready,
            cores(1, 1)
        );
        let rule = Rule::always(fault).resource("pods/eviction").times(1);
        stage.server.faults().add(rule);
        let error = stage.backends.replace(0).await.unwrap_err();
        assert_eq!(error.may_have_applied(), uncertain, "{error}");
        if uncertain {
            // The eviction may have taken effect, and can be repeated without harm.
            let again = stage.backends.retire(0, FREE);
            if let Some(Ok(_)) = again {
                stage.backends.replace(0).await.unwrap();
            }
            let two = |actual: &Actual| actual.ready.replicas() == 2;
            stage.until("another pod", two).await;
            assert_eq!(stage.pods().len(), 2);
            continue;
        }
        let message = "is to be replaced, and stays: not allowed to create pods/eviction: ";
        assert_eq!(error.reason(), Reason::Forbidden, "{error}");
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(stage.actual().await.unwrap().ready, cores(2, 1));
    }
}

#[tokio::test]
async fn timed_out_replacement_releases_pod() {
    let old = |options: &mut Options| options.version = Version::V1_35;
    let stage = Stage::of(old, deployment("web", 2, 1_000), AMPLE, |_| {}).await;
    stage.server.store().node(LARGE, 64, 65_536).unwrap();
    stage.until_infeasible().await;
    assert_eq!(stage.actual().await.unwrap().reserved, Cores::whole(20));
    assert!(stage.backends.retire(0, Cores::ZERO).unwrap().is_ok());
    let actual = stage.backends.replace(0).await.unwrap();
    assert!(actual.reserved <= Cores::whole(12), "{actual:?}");
    assert_eq!(stage.evictions(), [201]);
}
