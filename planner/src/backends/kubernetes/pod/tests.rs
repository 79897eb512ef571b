//! Reading of pods.

use serde_json::{Value, json};

use super::*;

fn read(pod: Value) -> Result<PodState, NotResizable> {
    PodState::of(&serde_json::from_value(pod).unwrap(), "app")
}

/// Pod that runs with one core, as its spec says.
fn pod() -> Value {
    let cpu = json!({"cpu": "1", "memory": "64Mi"});
    let resources = json!({"requests": cpu, "limits": cpu});
    json!({
        "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "generation": 3},
        "spec": {"nodeName": "n", "containers": [
            {"name": "log", "resources": {}}, {"name": "app", "resources": resources}]},
        "status": {"phase": "Running", "qosClass": "Guaranteed", "observedGeneration": 3,
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "state": {"running": {}}, "allocatedResources": cpu, "resources": resources}]},
    })
}

/// The same pod with this many millicores in its spec.
fn asking(millis: u32) -> Value {
    let mut pod = pod();
    let cpu = json!({"cpu": format!("{millis}m"), "memory": "64Mi"});
    pod["spec"]["containers"][1]["resources"] = json!({"requests": cpu, "limits": cpu});
    pod
}

fn with_condition(mut pod: Value, name: &str, reason: &str, of: i64) -> Value {
    let condition = json!({"type": name, "status": "True", "reason": reason, "message": "so", "observedGeneration": of});
    pod["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(condition);
    pod
}

#[test]
fn stable_pod_is_read_in_full() {
    let state = read(pod()).unwrap();
    let one = Cpu {
        request: Cores::whole(1),
        limit: Some(Cores::whole(1)),
    };
    assert_eq!(
        state,
        PodState {
            name: "a".to_owned(),
            uid: "u".to_owned(),
            version: "7".to_owned(),
            container: "app".to_owned(),
            node: Some("n".to_owned()),
            ready: true,
            served: true,
            ending: false,
            ended: false,
            class: Class::Guaranteed,
            generation: 3,
            observed: Some(3),
            restarts: 0,
            desired: one,
            allocated: Some(Cores::whole(1)),
            actual: ActuatedCpu::Has(one),
            resizing: Resizing::Settled,
            address: None,
            configured_cores: None,
            pending: None,
            retired: false,
        }
    );
}

/// Checks the state of a pod's resize.
fn check(pod: Value, expected: Resizing) {
    assert_eq!(read(pod.clone()).unwrap().resizing, expected, "{pod}");
}

#[test]
fn resize_state_is_read_from_conditions_and_status() {
    let why = || "so".to_owned();
    let (pending, progress) = ("PodResizePending", "PodResizeInProgress");
    check(asking(2000), Resizing::InProgress);
    // The same amount in another notation is equal.
    check(asking(1000), Resizing::Settled);
    let unseen = |mut pod: Value| {
        pod["metadata"]["generation"] = json!(4);
        pod
    };
    check(unseen(pod()), Resizing::InProgress);
    check(
        with_condition(asking(2000), pending, "Deferred", 3),
        Resizing::Deferred { why: why() },
    );
    check(
        with_condition(asking(2000), pending, "Infeasible", 3),
        Resizing::Infeasible { why: why() },
    );
    check(
        with_condition(asking(2000), progress, "", 3),
        Resizing::InProgress,
    );
    check(with_condition(pod(), progress, "", 3), Resizing::InProgress);
    check(
        with_condition(asking(2000), progress, "Error", 3),
        Resizing::Failed { why: why() },
    );
    // A condition about an earlier spec does not count.
    check(
        with_condition(asking(2000), pending, "Infeasible", 2),
        Resizing::InProgress,
    );
    check(
        with_condition(pod(), progress, "Error", 2),
        Resizing::Settled,
    );
    check(
        unseen(with_condition(asking(2000), pending, "Infeasible", 3)),
        Resizing::InProgress,
    );
    // A condition that is no longer true.
    let mut over = with_condition(pod(), pending, "Deferred", 3);
    over["status"]["conditions"][1]["status"] = json!("False");
    check(over, Resizing::Settled);
    // Before 1.34 the observed generation is not reported.
    let mut older = asking(2000);
    older["status"]
        .as_object_mut()
        .unwrap()
        .remove("observedGeneration");
    check(older, Resizing::InProgress);
    let mut limit_only = asking(1000);
    limit_only["spec"]["containers"][1]["resources"]["limits"]["cpu"] = json!("2");
    check(limit_only, Resizing::InProgress);
}

#[test]
fn restart_start_and_unsupporting_node_are_distinguished() {
    let status = "/status/containerStatuses/0";
    let mut restarted = pod();
    *restarted.pointer_mut(&format!("{status}/state")).unwrap() =
        json!({"waiting": {"reason": "CrashLoopBackOff"}});
    *restarted
        .pointer_mut(&format!("{status}/restartCount"))
        .unwrap() = json!(2);
    // Before its first restart is counted.
    let mut ended = pod();
    *ended.pointer_mut(&format!("{status}/state")).unwrap() =
        json!({"terminated": {"exitCode": 1}});
    let mut starting = pod();
    *starting.pointer_mut(&format!("{status}/state")).unwrap() =
        json!({"waiting": {"reason": "ContainerCreating"}});
    let mut untold = pod();
    untold
        .pointer_mut(status)
        .unwrap()
        .as_object_mut()
        .unwrap()
        .remove("resources");
    let mut unscheduled = pod();
    unscheduled["status"] = json!({"phase": "Pending", "qosClass": "Guaranteed"});
    for (pod, actual, restarts) in [
        (restarted, ActuatedCpu::Restarting, 2),
        (ended, ActuatedCpu::Restarting, 0),
        (starting, ActuatedCpu::Starting, 0),
        (untold, ActuatedCpu::Untold, 0),
        (unscheduled, ActuatedCpu::Starting, 0),
    ] {
        let state = read(pod).unwrap();
        assert_eq!((state.actual, state.restarts), (actual, restarts));
        assert_eq!(
            (state.cores(), state.reserved()),
            (Cores::whole(1), Cores::whole(1))
        );
    }
}

#[test]
fn pod_reserves_maximum_of_desired_allocated_and_actual() {
    let mut growing = asking(3000);
    let state = read(growing.clone()).unwrap();
    assert_eq!(
        (state.cores(), state.reserved()),
        (Cores::whole(1), Cores::whole(3))
    );
    growing["spec"]["containers"][1]["resources"]["requests"]["cpu"] = json!("500m");
    growing["status"]["containerStatuses"][0]["allocatedResources"]["cpu"] = json!("2");
    let shrinking = read(growing.clone()).unwrap();
    assert_eq!(shrinking.reserved(), Cores::whole(2));
    // Cores about to be taken away do not count.
    assert_eq!(shrinking.cores(), Cores::from_millis(500));
    // Nor do cores of a pending write, up or down.
    for (pending, cores, reserved) in [(100, 100, 2000), (4000, 500, 4000)] {
        let with_pending = PodState {
            pending: Some(PendingRequests::one(Cores::from_millis(pending))),
            ..shrinking.clone()
        };
        let got = (
            with_pending.cores().millis(),
            with_pending.reserved().millis(),
        );
        assert_eq!(got, (cores, reserved));
    }
    growing["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let ending = read(growing.clone()).unwrap();
    assert_eq!(
        (ending.reserved(), ending.stays()),
        (Cores::whole(2), false)
    );
    growing["status"]["phase"] = json!("Succeeded");
    assert_eq!(read(growing).unwrap().reserved(), Cores::ZERO);
}

#[test]
fn served_pod_is_distinguished_from_starting_pod() {
    let unready = |since: &str, restarts: u32| {
        let mut pod = pod();
        pod["status"]["conditions"] =
            json!([{"type": "Ready", "status": "False", "lastTransitionTime": since}]);
        let own = &mut pod["status"]["containerStatuses"][0];
        own["state"] = json!({"running": {"startedAt": "2026-01-01T00:00:05Z"}});
        own["restartCount"] = json!(restarts);
        let state = read(pod).unwrap();
        assert!(!state.ready);
        state.served
    };
    assert!(!unready("2026-01-01T00:00:01Z", 0), "since it was made");
    assert!(!unready("2026-01-01T00:00:05Z", 0), "in the same second");
    assert!(unready("2026-01-01T00:00:06Z", 0));
    assert!(unready("2026-01-01T00:00:01Z", 1));
    let mut unscheduled = pod();
    unscheduled["status"] = json!({"phase": "Pending", "qosClass": "Guaranteed"});
    assert!(!read(unscheduled).unwrap().served);
}

#[test]
fn unresizable_pod_has_a_reason() {
    let check = |change: fn(&mut Value), expected: &str| {
        let mut pod = pod();
        change(&mut pod);
        let message = read(pod).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    };
    check(
        |pod| pod["spec"]["containers"][1]["name"] = json!("main"),
        "no container app, only log, main",
    );
    check(
        |pod| {
            pod["spec"]["containers"][1]["resources"] = json!({});
            pod["status"]["qosClass"] = json!("BestEffort");
        },
        "BestEffort",
    );
    check(
        |pod| pod["spec"]["containers"][1]["resources"] = json!({"requests": {"memory": "1Gi"}}),
        "container app has no CPU request",
    );
    check(
        |pod| pod["metadata"]["annotations"] = json!({MIRROR: "x"}),
        "static pod",
    );
}
