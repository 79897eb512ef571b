//! Failed requests: conflicts, refusals, rate limits and missing answers.

use serde_json::json;
use std::time::Duration;
use weir_api::Cores;
use weir_apiserver::{Fault, Rule};
use weir_planner::backends::kubernetes::actuate::KubeBackends;
use weir_planner::backends::{Actuate, ActuateError, BackendError, Reason};
use weir_planner::capacity::{Actual, Resize};
use weir_planner::service::WorkloadKind;

use super::bed::deployment;
use super::stage::{AMPLE, SHORT, Stage, backends, backends_of, cores, reports, target};

#[tokio::test]
async fn conflict_is_retried_once_with_the_newest_state() {
    let lag = Fault::LagWatch(Duration::from_millis(400));
    let slow = |server: &weir_apiserver::ApiServer| {
        server.faults().add(Rule::always(lag).resource("pods"));
    };
    let stage = Stage::of(|_| {}, deployment("web", 1, 1_000), AMPLE, slow).await;
    stage.server.store().amend("pods", &stage.pods()[0], |pod| {
        pod["metadata"]["labels"]["other"] = json!("writer");
    });
    let grown = stage.resize(target(1, 2)).await;
    assert_eq!(grown, Ok(Actual::certain(cores(1, 2))));
    assert_eq!(stage.answers("pods/resize"), [409, 200]);
}

#[tokio::test]
async fn invalid_resize_is_reported_and_not_retried() {
    let stage = Stage::new(1, 1, AMPLE).await;
    // A second container without actual resources in the pod's status.
    stage.server.store().amend("pods", &stage.pods()[0], |pod| {
        let log = json!({"name": "log", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}});
        pod["status"]["containerStatuses"].as_array_mut().unwrap().push(log);
    });
    for _ in 0..2 {
        let error = stage.resize(target(1, 2)).await.unwrap_err();
        let invalid = reports(
            &error,
            Reason::Refused,
            ": the API server finds it invalid: ",
        );
        assert!(invalid, "{error}");
        let why = error.to_string();
        assert!(
            why.contains("Pod running on node without support for resize"),
            "{why}"
        );
        assert!(!error.may_have_applied());
    }
    let answers = stage.answers("pods/resize");
    assert_eq!(
        answers.iter().filter(|status| **status == 422).count(),
        1,
        "{answers:?}"
    );
}

#[tokio::test]
async fn too_many_requests_waits_for_retry_after() {
    let stage = Stage::new(1, 1, AMPLE).await;
    let rule = Rule::always(Fault::TooMany(1)).resource("pods/resize");
    stage.server.faults().add(rule.times(1));
    let grown = stage.resize(target(1, 2)).await;
    assert_eq!(grown, Ok(Actual::certain(cores(1, 2))));
    assert_eq!(stage.answers("pods/resize"), [429, 200]);
    let stage = Stage::new(1, 1, SHORT).await;
    let rule = Rule::always(Fault::TooMany(5)).resource("pods/resize");
    stage.server.faults().add(rule);
    let error = stage.resize(target(1, 2)).await.unwrap_err();
    assert!(
        reports(&error, Reason::Waiting, ": the API server is overloaded, "),
        "{error}"
    );
    assert!(!error.may_have_applied());
}

#[tokio::test]
async fn lost_answer_is_pending_until_the_change_is_observed() {
    let stage = Stage::new(1, 1, AMPLE).await;
    let rule = |fault| Rule::always(fault).resource("pods/resize").times(1);
    stage.server.faults().add(rule(Fault::LoseAnswer));
    let grown = stage.resize(target(1, 2)).await;
    assert_eq!(grown, Ok(Actual::certain(cores(1, 2))));
    assert_eq!(stage.answers("pods/resize"), [200]);
    // No change is observed, but the write may still take effect.
    let stage = Stage::new(1, 1, SHORT).await;
    stage.server.faults().add(rule(Fault::HangUp));
    let error = stage.resize(target(1, 2)).await.unwrap_err();
    assert!(
        reports(&error, Reason::Unknown, ": the API server did not answer: "),
        "{error}"
    );
    assert!(error.may_have_applied());
    let grown = stage.resize_until_done(target(1, 2)).await;
    assert_eq!(grown, Actual::certain(cores(1, 2)));
}

/// A pending write that no watch has reported yet is counted by the next cycle all the same.
#[tokio::test]
async fn pending_write_counts_until_the_watch_reports_it() {
    let lag = Fault::LagWatch(Duration::from_secs(2));
    let slow = |server: &weir_apiserver::ApiServer| server.faults().add(Rule::always(lag));
    let stage = Stage::of(|_| {}, deployment("web", 1, 1_000), SHORT, slow).await;
    let lose = |resource: &str| {
        let rule = Rule::always(Fault::LoseAnswer).resource(resource);
        stage.server.faults().add(rule.times(1));
    };
    lose("pods/resize");
    let error = stage.resize(target(1, 2)).await.unwrap_err();
    assert!(error.may_have_applied(), "{error}");
    let actual = stage.actual().await.unwrap();
    assert_eq!(
        (actual.ready, actual.reserved),
        (cores(1, 1), Cores::whole(2))
    );
    stage
        .until("two cores", |now| *now == Actual::certain(cores(1, 2)))
        .await;
    lose("deployments/scale");
    let error = stage.resize(target(3, 2)).await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("Deployment web is not scaled: "),
        "{error}"
    );
    assert!(error.may_have_applied(), "{error}");
    let actual = stage.actual().await.unwrap();
    assert_eq!(
        (actual.ready, actual.reserved),
        (cores(1, 2), Cores::whole(4))
    );
    stage
        .until("three pods", |now| now.ready == cores(3, 1))
        .await;
    assert_eq!(stage.answers("deployments/scale"), [200]);
}

#[tokio::test]
async fn forbidden_request_names_the_missing_right() {
    let stage = Stage::new(1, 1, SHORT).await;
    let subject = "system:serviceaccount:demo:weir";
    let blind = stage.server.client_without_retries(subject).await.unwrap();
    let blind = backends_of(&blind, WorkloadKind::Deployment, &["web"], SHORT);
    let observed = async |backends: &KubeBackends| backends.actual().await.remove(0).unwrap();
    let forbidden = async || match observed(&blind).await {
        Err(ActuateError::NotObserved(why)) => why.contains("forbidden"),
        _ => false,
    };
    let waited = weir_bed::wait::until_async("the reason", super::bed::LIMIT, forbidden).await;
    assert!(waited.is_ok(), "{:?}", observed(&blind).await);
    let read = ["get", "list", "watch"];
    let store = stage.server.store();
    let autoscalers = ["horizontalpodautoscalers", "verticalpodautoscalers"];
    let rules = json!([
        {"apiGroups": ["", "apps"], "resources": ["pods", "deployments"], "verbs": read},
        {"apiGroups": ["autoscaling", "autoscaling.k8s.io"], "resources": autoscalers, "verbs": read},
    ]);
    let name = json!({"name": "reader", "namespace": super::bed::DEMO});
    store
        .create(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": name, "rules": rules}))
        .unwrap();
    store
        .create(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": name,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "weir", "namespace": super::bed::DEMO}]}))
        .unwrap();
    let sees = async || observed(&blind).await == Ok(Actual::certain(cores(1, 1)));
    weir_bed::wait::until_async("its pods", super::bed::LIMIT, sees)
        .await
        .unwrap();
    let change = |target| Resize {
        variant: 0,
        target,
        ready: cores(1, 1),
        limited: false,
    };
    // Until the autoscalers are listed as well, nothing is sent.
    let answer = async || {
        let answer = blind.resize(&[change(target(1, 2))]).await.remove(0);
        answer.unwrap_err()
    };
    let sent = async || !answer().await.to_string().contains("cannot be listed");
    weir_bed::wait::until_async("the autoscalers", super::bed::LIMIT, sent)
        .await
        .unwrap();
    let error = answer().await;
    let message = error.to_string();
    assert!(
        message.contains("not allowed to patch pods/resize: "),
        "{message}"
    );
    assert!(!error.may_have_applied());
    let error = blind.resize(&[change(target(2, 1))]).await.remove(0);
    let message = error.unwrap_err().to_string();
    assert!(
        message.starts_with("Deployment web is not scaled: not allowed to patch scale: "),
        "{message}"
    );
}

#[tokio::test]
async fn missing_server_or_workload_is_reported() {
    let stage = Stage::new(1, 1, SHORT).await;
    let other = backends(&stage.server, &["web", "nobody"], SHORT).await;
    let listed = async || {
        let error = other.actual().await.remove(1).unwrap().unwrap_err();
        let none = BackendError {
            reason: Reason::NoWorkload,
            message: "there is no Deployment nobody".to_owned(),
            indeterminate: false,
        };
        error == ActuateError::Backend(none)
    };
    weir_bed::wait::until_async("a list", super::bed::LIMIT, listed)
        .await
        .unwrap();
    // Without a server, the last observed state holds.
    let Stage { server, backends } = stage;
    drop(server);
    let last = backends.actual().await.remove(0).unwrap().unwrap();
    assert_eq!(last, Actual::certain(cores(1, 1)));
    let change = Resize {
        variant: 0,
        target: target(1, 2),
        ready: last.ready,
        limited: false,
    };
    let error = backends.resize(&[change]).await.remove(0).unwrap_err();
    assert!(
        reports(&error, Reason::Unknown, ": the API server did not answer: "),
        "{error}"
    );
    // A write to a closed port cannot have taken effect.
    let most = if error.may_have_applied() { 2 } else { 1 };
    let last = backends.actual().await.remove(0).unwrap().unwrap();
    assert_eq!(
        (last.ready, last.reserved),
        (cores(1, 1), Cores::whole(most))
    );
}
