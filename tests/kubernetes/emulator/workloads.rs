//! Tests of Deployments: their pods are created, scheduled, made ready, replaced and deleted in Kubernetes'
//! order.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use weir_apiserver::{ApiServer, Happening, Key, Options};
use weir_bed::wait;

use super::bed::{DEMO, LIMIT, admin, condition, deployment, is_ready, start, stored, until_pod};

async fn deployments(server: &ApiServer) -> Api<Deployment> {
    Api::namespaced(admin(server).await, DEMO)
}

fn all(server: &ApiServer, kind: &str) -> Vec<Value> {
    server.store().list(kind, DEMO).unwrap()
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Pods that are not being deleted.
fn living(server: &ApiServer) -> Vec<Value> {
    let pods = all(server, "pods").into_iter();
    pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
        .collect()
}

async fn until_ready(server: &ApiServer, count: usize) -> Vec<Value> {
    let is = || {
        let living = living(server);
        living.len() == count && living.iter().all(is_ready) && all(server, "pods").len() == count
    };
    let waited = wait::until("ready pods", LIMIT, is).await;
    assert!(waited.is_ok(), "{count}: {:?}", living(server));
    living(server)
}

async fn scale(api: &Api<Deployment>, replicas: u32) {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    api.patch_scale("web", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn web(change: impl FnOnce(&mut Options), replicas: u32) -> (ApiServer, Api<Deployment>) {
    let server = start(change).await;
    let api = deployments(&server).await;
    api.create(&PostParams::default(), &deployment("web", replicas, 100))
        .await
        .unwrap();
    (server, api)
}

#[tokio::test]
async fn pods_become_ready_and_the_status_shows_it() {
    let (server, api) = web(|_| {}, 3).await;
    let pods = until_ready(&server, 3).await;
    let sets = all(&server, "replicasets.apps");
    assert_eq!(sets.len(), 1);
    for pod in &pods {
        assert!(name(pod).starts_with(&format!("{}-", name(&sets[0]))));
        assert_eq!(
            pod["metadata"]["ownerReferences"][0]["uid"],
            sets[0]["metadata"]["uid"]
        );
        assert_eq!(pod["spec"]["nodeName"], "node-a");
    }
    let ips: BTreeSet<_> = pods
        .iter()
        .map(|pod| pod["status"]["podIP"].as_str().unwrap())
        .collect();
    assert_eq!(ips.len(), 3);
    let reported = wait::until_async("the status", LIMIT, async || {
        let status = api.get("web").await.unwrap().status.unwrap_or_default();
        (
            status.replicas,
            status.ready_replicas,
            status.observed_generation,
        ) == (Some(3), Some(3), Some(1))
    });
    reported.await.unwrap();
}

#[tokio::test]
async fn deployment_scales_to_its_replicas() {
    let (server, api) = web(|_| {}, 2).await;
    let before: BTreeSet<String> = until_ready(&server, 2).await.iter().map(name).collect();
    scale(&api, 5).await;
    let grown: BTreeSet<String> = until_ready(&server, 5).await.iter().map(name).collect();
    assert!(grown.is_superset(&before));
    // One old pod gets a low deletion cost, another a high one; the one with the low cost is deleted first.
    let cheap = before.first().unwrap();
    let cost = json!({"controller.kubernetes.io/pod-deletion-cost": "-10"});
    server.store().amend("pods", &Key::new(DEMO, cheap), |pod| {
        pod["metadata"]["annotations"] = cost
    });
    scale(&api, 4).await;
    let shrunk: BTreeSet<String> = until_ready(&server, 4).await.iter().map(name).collect();
    assert_eq!(grown.difference(&shrunk).collect::<Vec<_>>(), [cheap]);
    // An unready pod is deleted before all ready ones.
    let unready = shrunk.last().unwrap();
    server.kubelet().set_ready(&Key::new(DEMO, unready), false);
    scale(&api, 3).await;
    let left: BTreeSet<String> = until_ready(&server, 3).await.iter().map(name).collect();
    assert_eq!(shrunk.difference(&left).collect::<Vec<_>>(), [unready]);
    scale(&api, 0).await;
    until_ready(&server, 0).await;
}

#[tokio::test]
async fn unschedulable_pod_waits_for_a_node() {
    let server = start(|_| {}).await;
    let api = deployments(&server).await;
    api.create(&PostParams::default(), &deployment("web", 3, 3_000))
        .await
        .unwrap();
    let waiting = || {
        let unscheduled =
            |pod: &&Value| condition(pod, "PodScheduled", "reason") == "Unschedulable";
        living(&server).iter().filter(unscheduled).count() == 1
    };
    wait::until("one without a node", LIMIT, waiting)
        .await
        .unwrap();
    let pods = living(&server);
    let pod = pods
        .iter()
        .find(|pod| condition(pod, "PodScheduled", "status") == "False")
        .unwrap();
    assert_eq!(
        condition(pod, "PodScheduled", "message"),
        "0/1 nodes are available: 1 Insufficient cpu."
    );
    assert_eq!(pod["status"]["phase"], "Pending");
    server.store().node("node-b", 4, 8_192).unwrap();
    let scheduled = until_pod(&server, &name(pod), "a node", is_ready).await;
    assert_eq!(scheduled["spec"]["nodeName"], "node-b");
}

#[tokio::test]
async fn changed_template_rolls_out() {
    let (server, api) = web(|_| {}, 4).await;
    until_ready(&server, 4).await;
    let mut changes = server.subscribe();
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "example/none:2"}]}}}});
    api.patch("web", &PatchParams::default(), &Patch::Strategic(image))
        .await
        .unwrap();
    let is = || {
        let pods = all(&server, "pods");
        pods.len() == 4
            && pods.iter().all(|pod| {
                is_ready(pod) && pod["spec"]["containers"][0]["image"] == "example/none:2"
            })
    };
    wait::until("the new pods", LIMIT, is).await.unwrap();
    assert_eq!(all(&server, "replicasets.apps").len(), 2);
    // At least 75 % of the replicas stay ready, and at most 125 % exist.
    let (mut ready, mut present) = (4i32, 4i32);
    while let Ok(change) = changes.try_recv() {
        match change.happening {
            Happening::Made => present += 1,
            Happening::Ready => ready += 1,
            // An unready pod would not count here; all pods were ready when their deletion began.
            Happening::Ending => {
                present -= 1;
                ready -= 1;
            }
            _ => {}
        }
        assert!(ready >= 3, "{ready} ready");
        assert!(present <= 5, "{present} pods");
    }
    assert_eq!((ready, present), (4, 4));
}

#[tokio::test]
async fn deleted_deployment_deletes_its_pods() {
    for (params, waits) in [
        (DeleteParams::background(), false),
        (DeleteParams::foreground(), true),
    ] {
        let (server, api) = web(
            |options| options.exits_after = Some(Duration::from_millis(20)),
            3,
        )
        .await;
        until_ready(&server, 3).await;
        let answer = api.delete("web", &params).await.unwrap();
        assert_eq!(answer.is_left(), waits);
        if waits {
            assert!(api.get_opt("web").await.unwrap().is_some() || all(&server, "pods").is_empty());
        }
        let deleted = || {
            ["deployments.apps", "replicasets.apps", "pods"]
                .iter()
                .all(|kind| all(&server, kind).is_empty())
        };
        wait::until("the end of all", LIMIT, deleted).await.unwrap();
    }
}

#[tokio::test]
async fn deleted_pod_ends_within_its_grace_period() {
    let server = start(|options| options.exits_after = None).await;
    let mut made = super::bed::pod("a", 100);
    made.spec.as_mut().unwrap().termination_grace_period_seconds = Some(1);
    server.store().create(&made).unwrap();
    until_pod(&server, "a", "a ready pod", is_ready).await;
    let api = super::bed::pods(&server).await;
    let going = api
        .delete("a", &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .unwrap();
    assert_eq!(going.metadata.deletion_grace_period_seconds, Some(1));
    let from = server.elapsed();
    wait::until("the end", LIMIT, || stored(&server, "a").is_null())
        .await
        .unwrap();
    assert!(server.elapsed() - from >= Duration::from_millis(900));
    // With a grace period of 0 the pod disappears at once.
    server.store().create(&made).unwrap();
    until_pod(&server, "a", "a ready pod", is_ready).await;
    assert!(
        api.delete("a", &DeleteParams::default().grace_period(0))
            .await
            .unwrap()
            .is_right()
    );
    assert!(stored(&server, "a").is_null());
}

#[tokio::test]
async fn absurd_numbers_do_no_harm() {
    let (server, api) = web(|_| {}, 1).await;
    until_ready(&server, 1).await;
    let most = i64::MAX;
    let absurd = json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": format!("{most}%"), "maxUnavailable": format!("{most}%")}},
        "template": {"spec": {"terminationGracePeriodSeconds": most}}}});
    api.patch("web", &PatchParams::default(), &Patch::Merge(absurd))
        .await
        .unwrap();
    let rolled = || {
        let pods = living(&server);
        pods.len() == 1
            && pods
                .iter()
                .all(|pod| is_ready(pod) && pod["spec"]["terminationGracePeriodSeconds"] == most)
    };
    wait::until("the new pod", LIMIT, rolled).await.unwrap();
    let pod = name(&living(&server)[0]);
    let api = super::bed::pods(&server).await;
    let going = api
        .delete(&pod, &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .unwrap();
    assert!(
        going
            .metadata
            .deletion_grace_period_seconds
            .is_some_and(|seconds| seconds < most)
    );
    until_ready(&server, 1).await;
}
