//! Tests of in-place resizes: their actuation by a kubelet, and the pod's status.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use weir_apiserver::{ApiServer, Happening, Key, Resizing, Version};

use super::bed::{DEMO, condition, is_ready, pod, pods, refusal, start, stored, until_pod};

fn cpu(cpu_m: u32) -> Patch<Value> {
    let amounts = json!({"cpu": format!("{cpu_m}m")});
    Patch::Strategic(json!({"spec": {"containers": [{"name": "app",
        "resources": {"requests": amounts, "limits": amounts}}]}}))
}

/// Actual CPU of the pod's only container.
fn actual(pod: &Value) -> &str {
    pod["status"]["containerStatuses"][0]["resources"]["limits"]["cpu"]
        .as_str()
        .unwrap_or_default()
}

async fn with_pod(server: &ApiServer, name: &str, cpu_m: u32) {
    server.store().create(&pod(name, cpu_m)).unwrap();
    until_pod(server, name, "a ready pod", is_ready).await;
}

#[tokio::test]
async fn resize_takes_effect_and_is_reported() {
    let server = start(|_| {}).await;
    with_pod(&server, "a", 500).await;
    let mut changes = server.subscribe();
    let api = pods(&server).await;
    let patched = api
        .patch_resize("a", &PatchParams::default(), &cpu(800))
        .await
        .unwrap();
    let generation = patched.metadata.generation.unwrap();
    let done = until_pod(&server, "a", "the resize", |pod| actual(pod) == "800m").await;
    assert_eq!(done["status"]["observedGeneration"], json!(generation));
    assert_eq!(
        done["status"]["containerStatuses"][0]["allocatedResources"]["cpu"],
        "800m"
    );
    assert_eq!(done["status"]["containerStatuses"][0]["restartCount"], 0);
    let change = loop {
        let change = changes.recv().await.unwrap();
        if change.happening == Happening::Resized {
            break change;
        }
    };
    assert!((change.pod.cores() - 0.8).abs() < 1e-9);
    let actuations = server.log().actuations();
    assert_eq!(actuations.len(), 1);
    assert_eq!(
        (actuations[0].before.cores(), actuations[0].after.cores()),
        (0.5, 0.8)
    );
    assert_eq!(actuations[0].generation, generation);
    let events = server.store().list::<Value>("events", DEMO).unwrap();
    let reasons: std::collections::BTreeSet<_> = events
        .iter()
        .map(|event| event["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["ResizeCompleted", "ResizeStarted"].into());
}

#[tokio::test]
async fn slow_resize_is_shown_and_followed_by_the_latest_spec() {
    let server = start(|_| {}).await;
    with_pod(&server, "a", 500).await;
    server.kubelet().resizes(Resizing::Actuated {
        after: Duration::from_millis(300),
    });
    let api = pods(&server).await;
    api.patch_resize("a", &PatchParams::default(), &cpu(800))
        .await
        .unwrap();
    let shown = until_pod(&server, "a", "progress", |pod| {
        condition(pod, "PodResizeInProgress", "status") == "True"
    })
    .await;
    assert_eq!(actual(&shown), "500m");
    // A change in between: the first resize is completed, then the second.
    api.patch_resize("a", &PatchParams::default(), &cpu(600))
        .await
        .unwrap();
    let done = until_pod(&server, "a", "the second resize", |pod| {
        actual(pod) == "600m"
    })
    .await;
    assert_eq!(condition(&done, "PodResizeInProgress", "status"), "");
    let after: Vec<f64> = server
        .log()
        .actuations()
        .iter()
        .map(|done| done.after.cores())
        .collect();
    assert_eq!(after, [0.8, 0.6]);
}

#[tokio::test]
async fn deferred_resize_waits_until_another_pod_shrinks() {
    let server = start(|_| {}).await;
    with_pod(&server, "a", 5_000).await;
    with_pod(&server, "b", 2_000).await;
    let api = pods(&server).await;
    api.patch_resize("b", &PatchParams::default(), &cpu(4_000))
        .await
        .unwrap();
    let waiting = until_pod(&server, "b", "Deferred", |pod| {
        condition(pod, "PodResizePending", "reason") == "Deferred"
    })
    .await;
    assert_eq!(actual(&waiting), "2");
    assert_eq!(
        condition(&waiting, "PodResizePending", "message"),
        "Node didn't have enough resource: cpu, requested: 4000, used: 5000, capacity: 8000"
    );
    api.patch_resize("a", &PatchParams::default(), &cpu(4_000))
        .await
        .unwrap();
    let done = until_pod(&server, "b", "the resize", |pod| actual(pod) == "4").await;
    assert_eq!(condition(&done, "PodResizePending", "status"), "");
}

#[tokio::test]
async fn resize_beyond_the_node_is_refused_or_infeasible_by_version() {
    for version in [Version::V1_35, Version::V1_36] {
        let server = start(|options| options.version = version).await;
        with_pod(&server, "a", 500).await;
        let api = pods(&server).await;
        let answer = api
            .patch_resize("a", &PatchParams::default(), &cpu(9_000))
            .await;
        if version == Version::V1_36 {
            let refused = refusal(answer);
            assert_eq!(
                (
                    refused.code,
                    refused.details.unwrap().causes[0].reason.as_str()
                ),
                (403, "NodeCapacity")
            );
            continue;
        }
        let patched = answer.unwrap();
        let reported = until_pod(&server, "a", "Infeasible", |pod| {
            condition(pod, "PodResizePending", "reason") == "Infeasible"
        })
        .await;
        assert_eq!(
            reported["status"]["observedGeneration"],
            json!(patched.metadata.generation)
        );
        assert_eq!(actual(&reported), "500m");
        // An infeasible resize is never retried, but the next one is tried.
        api.patch_resize("a", &PatchParams::default(), &cpu(600))
            .await
            .unwrap();
        let done = until_pod(&server, "a", "the resize", |pod| actual(pod) == "600m").await;
        assert_eq!(condition(&done, "PodResizePending", "reason"), "");
    }
}

#[tokio::test]
async fn kubelets_defer_fail_and_refuse_as_configured() {
    let server = start(|_| {}).await;
    for name in ["a", "b", "c"] {
        with_pod(&server, name, 500).await;
    }
    let key = |name| Key::new(DEMO, name);
    let kubelet = server.kubelet();
    kubelet.resizes_of(&key("a"), Some(Resizing::Deferred));
    kubelet.resizes_of(
        &key("b"),
        Some(Resizing::Failed {
            after: Duration::from_millis(10),
        }),
    );
    kubelet.resizes_of(
        &key("c"),
        Some(Resizing::Refused("not on this node".to_owned())),
    );
    let api = pods(&server).await;
    let params = PatchParams::default();
    api.patch_resize("a", &params, &cpu(600)).await.unwrap();
    api.patch_resize("b", &params, &cpu(600)).await.unwrap();
    let refused = refusal(api.patch_resize("c", &params, &cpu(600)).await);
    assert_eq!(
        (
            refused.code,
            refused.details.unwrap().causes[0].reason.as_str()
        ),
        (403, "UnsupportedPlatform")
    );
    let failed = until_pod(&server, "b", "Error", |pod| {
        condition(pod, "PodResizeInProgress", "reason") == "Error"
    })
    .await;
    assert_eq!(actual(&failed), "500m");
    until_pod(&server, "a", "Deferred", |pod| {
        condition(pod, "PodResizePending", "reason") == "Deferred"
    })
    .await;
    kubelet.resizes_of(&key("a"), None);
    until_pod(&server, "a", "the resize", |pod| actual(pod) == "600m").await;
    assert_eq!(server.log().actuations().len(), 1);
}

#[tokio::test]
async fn memory_resize_restarts_container_with_that_policy() {
    let server = start(|_| {}).await;
    let mut made = serde_json::to_value(pod("a", 500)).unwrap();
    made["spec"]["containers"][0]["resizePolicy"] =
        json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
    server.store().create(&made).unwrap();
    until_pod(&server, "a", "a ready pod", is_ready).await;
    server.kubelet().ready_after(Duration::from_millis(50));
    let mut changes = server.subscribe();
    let amounts = json!({"memory": "128Mi"});
    let patch = json!({"spec": {"containers": [{"name": "app", "resources": {"requests": amounts, "limits": amounts}}]}});
    let api = pods(&server).await;
    api.patch_resize("a", &PatchParams::default(), &Patch::Strategic(patch))
        .await
        .unwrap();
    let mut seen = Vec::new();
    while seen.last() != Some(&Happening::Ready) {
        seen.push(changes.recv().await.unwrap().happening);
    }
    let expected = [
        // Changed first in the spec, then by the kubelet.
        Happening::TargetChanged,
        Happening::TargetChanged,
        Happening::Resized,
        Happening::Restarted,
        Happening::NotReady,
        Happening::Ready,
    ];
    assert_eq!(seen, expected);
    assert_eq!(
        stored(&server, "a")["status"]["containerStatuses"][0]["restartCount"],
        1
    );
    assert!(server.log().actuations()[0].restarted);
}
