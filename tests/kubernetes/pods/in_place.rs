//! In-place resizes: up, down, deferred, infeasible or failed.

use std::time::Duration;

use serde_json::json;
use weir_api::Cores;
use weir_apiserver::{Key, Resizing, Version};
use weir_bed::wait;
use weir_planner::backends::{ActuateError, BackendError, Reason};
use weir_planner::capacity::{Actual, Target};

use super::bed::{DEMO, LIMIT, deployment, pod};
use super::stage::{AMPLE, SHORT, Stage, cores, patches, reports, requested_resources, target};

#[tokio::test]
async fn pods_are_resized_without_a_restart() {
    let stage = Stage::new(3, 1, AMPLE).await;
    let before = stage.pods();
    let grown = stage.resize(target(3, 2)).await;
    assert_eq!(grown, Ok(Actual::certain(cores(3, 2))));
    assert_eq!(stage.server.log().actuations().len(), 3);
    for patch in patches(&stage.server, "pods/resize") {
        let two = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "2"}});
        assert_eq!(requested_resources(&patch), &two);
        assert_eq!(patch.content_type, "application/strategic-merge-patch+json");
    }
    let shrunk = stage.resize_until_done(target(3, 1)).await;
    assert_eq!(shrunk, Actual::certain(cores(3, 1)));
    assert_eq!(stage.answers("pods/resize"), [200; 6]);
    assert_eq!(stage.pods(), before);
    // No patch is sent for the actual state.
    assert_eq!(stage.resize(target(3, 1)).await, Ok(shrunk));
    assert_eq!(stage.answers("pods/resize"), [200; 6]);
}

#[tokio::test]
async fn resize_that_does_not_fit_is_deferred_until_it_fits() {
    let made = deployment("web", 2, 3_000);
    let other = |server: &weir_apiserver::ApiServer| {
        let mut other = pod("other", 1_000);
        other.metadata.labels = None;
        server.store().create(&other).unwrap();
    };
    let stage = Stage::of(|_| {}, made, AMPLE, other).await;
    let full = || {
        let pods = stage.server.kubelet().pods();
        pods.iter().map(|pod| pod.cores()).sum::<f64>() > 6.9
    };
    wait::until("a full node", LIMIT, full).await.unwrap();
    let error = stage.resize(target(2, 4)).await.unwrap_err();
    assert!(
        reports(
            &error,
            Reason::Deferred,
            "its node has no capacity now, and its kubelet tries again by itself: "
        ),
        "{error}"
    );
    assert!(error.may_have_applied());
    let actual = stage.actual().await.unwrap();
    assert_eq!(actual.ready, cores(2, 3));
    assert_eq!(actual.reserved, Cores::whole(8), "as much as was asked for");
    stage
        .server
        .store()
        .remove("pods", &Key::new(DEMO, "other"));
    stage
        .until("room", |actual| actual.ready == cores(2, 4))
        .await;
    assert_eq!(stage.answers("pods/resize"), [200; 2]);
}

#[tokio::test]
async fn infeasible_resize_is_requested_once() {
    for version in [Version::V1_35, Version::V1_36] {
        let made = deployment("web", 1, 1_000);
        let stage = Stage::of(|options| options.version = version, made, AMPLE, |_| {}).await;
        for _ in 0..2 {
            let error = stage.resize(target(1, 9)).await.unwrap_err();
            let infeasible = reports(&error, Reason::Infeasible, "its node can never hold it: ");
            assert!(infeasible, "{error}");
            let actual = stage.actual().await.unwrap();
            assert_eq!(actual.ready, cores(1, 1));
            if version == Version::V1_36 {
                assert!(!error.may_have_applied());
                assert_eq!(actual.reserved, Cores::whole(1));
                assert_eq!(stage.answers("pods/resize"), [403]);
            } else {
                assert!(error.may_have_applied());
                assert_eq!(actual.reserved, Cores::whole(9));
                assert_eq!(stage.answers("pods/resize"), [200]);
            }
        }
        let less = stage.resize_until_done(target(1, 2)).await;
        assert_eq!(less, Actual::certain(cores(1, 2)));
        assert_eq!(stage.answers("pods/resize").len(), 2);
    }
}

#[tokio::test]
async fn failed_or_late_resize_counts_with_both_amounts() {
    let stage = Stage::new(1, 1, SHORT).await;
    stage.server.kubelet().resizes(Resizing::Failed {
        after: Duration::from_millis(1),
    });
    let error = stage.resize(target(1, 2)).await.unwrap_err();
    assert!(
        reports(&error, Reason::Refused, "its kubelet failed: "),
        "{error}"
    );
    assert!(error.may_have_applied());
    let late = Stage::new(1, 1, SHORT).await;
    late.server.kubelet().resizes(Resizing::Actuated {
        after: Duration::from_secs(600),
    });
    let error = late.resize(target(1, 2)).await.unwrap_err();
    assert!(
        reports(&error, Reason::Waiting, "not actuated within "),
        "{error}"
    );
    for stage in [stage, late] {
        let actual = stage.actual().await.unwrap();
        assert_eq!(
            (actual.ready, actual.reserved),
            (cores(1, 1), Cores::whole(2))
        );
    }
}

#[tokio::test]
async fn restarted_container_counts_once_ready() {
    let mut made = serde_json::to_value(deployment("web", 1, 1_000)).unwrap();
    made["spec"]["template"]["spec"]["containers"][0]["resizePolicy"] =
        json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
    let made = serde_json::from_value(made).unwrap();
    let stage = Stage::of(|_| {}, made, AMPLE, |_| {}).await;
    stage
        .server
        .kubelet()
        .ready_after(Duration::from_millis(300));
    let restarted = stage.resize(target(1, 2)).await.unwrap();
    assert_eq!(restarted.starting, cores(1, 2));
    assert_eq!(restarted.ready, cores(0, 0));
    stage
        .until("the restart", |now| *now == Actual::certain(cores(1, 2)))
        .await;
    assert!(stage.server.log().actuations()[0].restarted);
}

#[tokio::test]
async fn unready_pod_keeps_its_cores() {
    let stage = Stage::new(2, 2, AMPLE).await;
    let pods = stage.pods();
    stage.server.store().amend("pods", &pods[0], |pod| {
        let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
        let ready = conditions.iter_mut().find(|one| one["type"] == "Ready");
        let ready = ready.unwrap();
        ready["status"] = json!("False");
        ready["lastTransitionTime"] = json!("2999-01-01T00:00:00Z");
    });
    stage
        .until("one that serves", |now| now.ready == cores(1, 2))
        .await;
    let new_target = Target {
        start: Cores::whole(1),
        ..target(2, 3)
    };
    // The unready pod keeps more cores than a new pod would get, so none are left for the other.
    let error = stage.resize(new_target).await.unwrap_err();
    let waits = BackendError {
        reason: Reason::Waiting,
        message: format!(
            "pod {}: it would be too many cores before other pods have gone or have less",
            pods[1].name
        ),
        indeterminate: false,
    };
    assert_eq!(error, ActuateError::Backend(waits));
    assert!(!error.may_have_applied());
    assert!(stage.answers("pods/resize").is_empty());
    let grown = stage.resize(target(2, 3)).await.unwrap();
    assert_eq!((grown.ready, grown.starting), (cores(1, 3), cores(1, 2)));
    stage.server.kubelet().set_ready(&pods[0], true);
    stage.until("both", |now| now.ready == cores(2, 2)).await;
    let grown = stage.resize_until_done(target(2, 3)).await;
    assert_eq!(grown, Actual::certain(cores(2, 3)));
}

#[tokio::test]
async fn unreadable_pod_during_a_resize_is_reported() {
    let stage = Stage::new(1, 1, Duration::from_secs(4)).await;
    stage.server.kubelet().resizes(Resizing::Actuated {
        after: Duration::from_secs(600),
    });
    let come = async {
        let patched = || stage.answers("pods/resize").len() == 1;
        wait::until("the patch", LIMIT, patched).await.unwrap();
        let mut strange = pod("strange", 1_000);
        strange.spec.as_mut().unwrap().containers[0].name = "main".to_owned();
        stage.server.store().create(&strange).unwrap();
    };
    let (answer, ()) = tokio::join!(stage.resize(target(1, 2)), come);
    let error = answer.unwrap_err();
    assert!(error.may_have_applied(), "{error}");
    let message = "pod strange: it has no container app, only main";
    assert!(error.to_string().starts_with(message), "{error}");
    // Before the first request, nothing is uncertain.
    let error = stage.actual().await.unwrap_err();
    assert_eq!(error.to_string(), message);
    assert!(!error.may_have_applied());
}

#[tokio::test]
async fn pod_deleted_during_a_resize_is_not_waited_for() {
    let stage = Stage::new(2, 1, Duration::from_secs(3600)).await;
    let pods = stage.pods();
    stage.server.kubelet().resizes_of(
        &pods[0],
        Some(Resizing::Actuated {
            after: Duration::from_secs(7200),
        }),
    );
    stage
        .server
        .kubelet()
        .ready_after(Duration::from_secs(3600));
    let deletion = async {
        let patched = || stage.answers("pods/resize").len() == 2;
        wait::until("the patches", LIMIT, patched).await.unwrap();
        stage.server.store().remove("pods", &pods[0]);
    };
    let (answer, ()) = tokio::join!(stage.resize(target(2, 2)), deletion);
    let actual = answer.unwrap();
    assert_eq!(actual.ready, cores(1, 2));
    // Its successor has the template's resources.
    assert_eq!(actual.starting, cores(1, 1));
    assert_eq!(actual.reserved, Cores::whole(3));
}
