//! One pod, resized in place and restored as `weir profile --via` does, with the planner's rights to pods.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use weir_planner::backends::kubernetes::pod_server::{ApiPod, PodServer};

use super::clusters::on_each_cluster;
use super::fixture::Fixture;
use super::observe::identity;
use super::sandbox::{LIMIT, cpu_m};

/// CPU of the only pod's container, in thousandths of a core: limit of its spec, actual limit.
async fn cpu(fixture: &Fixture<'_>) -> (i64, i64) {
    let pod = serde_json::to_value(&fixture.pods("one").await[0]).unwrap();
    let of = |path: &str| cpu_m(pod.pointer(path).unwrap().as_str().unwrap());
    (
        of("/spec/containers/0/resources/limits/cpu"),
        of("/status/containerStatuses/0/resources/limits/cpu"),
    )
}

#[tokio::test]
async fn measured_pod_is_resized_and_restored() {
    on_each_cluster(scenario).await;
}

async fn scenario(fixture: &Fixture<'_>) {
    if !fixture.has_capacity() {
        return;
    }
    fixture.deploy_cores("one", 1, 1).await;
    let pod = fixture.pods("one").await.remove(0);
    let (name, first) = (pod.name_any(), identity(&pod));
    let port = || ApiPod::new(&fixture.client(), &fixture.sandbox.namespace, &name);
    let server = PodServer::open(port(), None, LIMIT).await.unwrap();
    server.set(2.0).await.unwrap();
    assert_eq!(cpu(fixture).await, (2_000, 2_000));
    server.set(0.5).await.unwrap();
    assert_eq!(cpu(fixture).await, (500, 500));

    // The emulated kubelet of a cluster without nodes has capacity for everything.
    if fixture.parts.nodes > 0 {
        let too_many = fixture.parts.largest_m as f64 / 1e3 + 1.0;
        let error = server.set(too_many).await.unwrap_err().to_string();
        assert!(error.contains("its node can never hold it"), "{error}");
        assert_eq!(cpu(fixture).await.1, 500);
    }
    server.restore().await.unwrap();
    assert_eq!(cpu(fixture).await, (1_000, 1_000));
    assert_eq!(identity(&fixture.pods("one").await[0]), first);

    // Another writer's size is neither measured nor overwritten.
    let amounts = json!({"cpu": "750m"});
    let resources = json!({"requests": amounts, "limits": amounts});
    let other = json!({"spec": {"containers": [{"name": "server", "resources": resources}]}});
    let api = fixture.api::<k8s_openapi::api::core::v1::Pod>();
    let patch = Patch::Strategic(&other);
    let params = PatchParams::default();
    api.patch_resize(&name, &params, &patch).await.unwrap();
    for refused in [server.set(2.0).await, server.restore().await] {
        let error = refused.unwrap_err().to_string();
        assert!(
            error.contains("something else resized it to 0.75 cores"),
            "{error}"
        );
    }
    assert_eq!(cpu(fixture).await.0, 750);

    // A pod that does not exist, and a container that the pod does not have.
    let none = ApiPod::new(&fixture.client(), &fixture.sandbox.namespace, "none");
    for (port, container, expected) in [
        (none, None, "it is gone"),
        (
            port(),
            Some("other"),
            "it has no container other, only server",
        ),
    ] {
        let opened = PodServer::open(port, container, Duration::ZERO).await;
        assert_eq!(opened.unwrap_err().to_string(), expected);
    }
}
