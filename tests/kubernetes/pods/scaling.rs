//! Horizontal scaling: more and fewer pods.

use std::time::Duration;

use serde_json::json;
use weir_api::Cores;
use weir_apiserver::ApiServer;
use weir_bed::wait;
use weir_planner::backends::{ActuateError, BackendError, Reason};
use weir_planner::capacity::{Actual, Target};

use super::bed::{DEMO, LIMIT, deployment};
use super::stage::{AMPLE, Stage, cores, patches, reports, target};

#[tokio::test]
async fn new_pods_count_once_they_are_ready() {
    let stage = Stage::new(2, 1, AMPLE).await;
    stage
        .server
        .kubelet()
        .ready_after(Duration::from_millis(500));
    let grown = stage.resize(target(4, 1)).await.unwrap();
    assert_eq!((grown.ready, grown.starting), (cores(2, 1), cores(2, 1)));
    assert_eq!(grown.reserved, Cores::whole(4));
    stage
        .until("all", |now| *now == Actual::certain(cores(4, 1)))
        .await;
    // Repeating the target changes nothing; then the number of pods falls.
    assert_eq!(
        stage.resize(target(4, 1)).await,
        Ok(Actual::certain(cores(4, 1)))
    );
    let fewer = stage.resize(target(1, 1)).await.unwrap();
    assert_eq!((fewer.ready, fewer.starting), (cores(1, 1), cores(0, 0)));
    stage
        .until("one", |now| *now == Actual::certain(cores(1, 1)))
        .await;
    let requested: Vec<u64> = patches(&stage.server, "deployments/scale")
        .iter()
        .map(|patch| patch.body["spec"]["replicas"].as_u64().unwrap())
        .collect();
    assert_eq!(requested, [4, 1]);
    assert!(patches(&stage.server, "pods/resize").is_empty());
}

#[tokio::test]
async fn ending_pod_holds_its_cores_until_deleted() {
    let mut made = deployment("web", 2, 3_000);
    let template = &mut made.spec.as_mut().unwrap().template;
    template
        .spec
        .as_mut()
        .unwrap()
        .termination_grace_period_seconds = Some(2);
    let slow = |options: &mut weir_apiserver::Options| options.exits_after = None;
    let stage = Stage::of(slow, made, AMPLE, |_| {}).await;
    let fewer = stage.resize(target(1, 3)).await.unwrap();
    assert_eq!(fewer.ready, cores(1, 3));
    assert_eq!(fewer.reserved, Cores::whole(6));
    // Four cores are the target, but seven exceed it while the ending pod still exists.
    let error = stage.resize(target(1, 4)).await.unwrap_err();
    assert!(
        reports(
            &error,
            Reason::Waiting,
            "it would be too many cores before other pods have gone or have less"
        ),
        "{error}"
    );
    assert!(!error.may_have_applied());
    assert!(stage.answers("pods/resize").is_empty());
    let grown = stage
        .until("its end", |now| now.reserved == Cores::whole(3))
        .await;
    assert_eq!(grown, Actual::certain(cores(1, 3)));
    let grown = stage.resize(target(1, 4)).await;
    assert_eq!(grown, Ok(Actual::certain(cores(1, 4))));
}

#[tokio::test]
async fn template_with_too_many_cores_limits_scale_up() {
    let stage = Stage::new(1, 2, AMPLE).await;
    let new_target = Target {
        replicas: 3,
        each: Cores::whole(2),
        start: Cores::whole(1),
    };
    let error = stage.resize(new_target).await.unwrap_err();
    let expected = BackendError {
        reason: Reason::Waiting,
        message: "1 more replicas, each with the 2 cores that its template asks for, would be too many cores now"
            .to_owned(),
        indeterminate: true,
    };
    assert_eq!(error, ActuateError::Backend(expected));
    stage
        .until("a second", |now| now.ready.replicas() == 2)
        .await;
}

#[tokio::test]
async fn disruption_budget_limits_scale_down() {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "enough", "namespace": DEMO},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}},
    });
    let protect = |server: &ApiServer| {
        server.store().create(&budget).unwrap();
    };
    let stage = Stage::of(|_| {}, deployment("web", 4, 1_000), AMPLE, protect).await;
    let protected = |indeterminate| {
        ActuateError::Backend(BackendError {
            reason: Reason::Protected,
            message: "Deployment web keeps replicas that are to go: PodDisruptionBudget enough does not let so many go \
                      now; they go as it allows"
                .to_owned(),
            indeterminate,
        })
    };
    // One of the three surplus pods ends, once all four are known to be ready.
    let one_goes = async || stage.resize(target(1, 1)).await == Err(protected(true));
    wait::until_async("one to go", LIMIT, one_goes)
        .await
        .unwrap();
    stage
        .until("three", |now| *now == Actual::certain(cores(3, 1)))
        .await;
    assert_eq!(stage.resize(target(1, 1)).await, Err(protected(false)));
    assert!(protected(true).may_have_applied() && !protected(false).may_have_applied());
    let requested: Vec<u64> = patches(&stage.server, "deployments/scale")
        .iter()
        .map(|patch| patch.body["spec"]["replicas"].as_u64().unwrap())
        .collect();
    assert_eq!(requested, [3]);
    assert_eq!(stage.pods().len(), 3);
}
