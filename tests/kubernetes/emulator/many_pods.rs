//! Load test with many pods and several watchers: no event is lost, and no resize is actuated twice.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use serde_json::json;
use weir_apiserver::Resources;
use weir_bed::wait;

use super::bed::{DEMO, LIMIT, admin, deployment, start};

/// Number of pods that the emulator is designed for.
const PODS: usize = 500;

const WATCHERS: usize = 4;

/// Actual CPU limits of a reflector's pods, by name.
fn actual(store: &reflector::Store<Pod>) -> BTreeMap<String, String> {
    let read = |pod: &Pod| {
        let status = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
        Some(
            status
                .resources
                .as_ref()?
                .limits
                .as_ref()?
                .get("cpu")?
                .0
                .clone(),
        )
    };
    store
        .state()
        .iter()
        .filter_map(|pod| Some((pod.name_any(), read(pod)?)))
        .collect()
}

#[tokio::test]
async fn five_hundred_pods_are_resized_under_four_watchers() {
    let server = start(|_| {}).await;
    for i in 0..5 {
        server
            .store()
            .node(&format!("node-{i}"), 64, 65_536)
            .unwrap();
    }
    let client = admin(&server).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), DEMO);
    let mut stores = Vec::new();
    let mut following = tokio::task::JoinSet::new();
    for _ in 0..WATCHERS {
        let (store, writer) = reflector::store();
        let stream = watcher(pods.clone(), watcher::Config::default()).default_backoff();
        following.spawn(
            stream
                .reflect(writer)
                .applied_objects()
                .for_each(|_| async {}),
        );
        stores.push(store);
    }
    let from = server.elapsed();
    let web = deployment("web", PODS as u32, 100);
    Api::<Deployment>::namespaced(client, DEMO)
        .create(&PostParams::default(), &web)
        .await
        .unwrap();
    let started = || stores.iter().all(|store| actual(store).len() == PODS);
    wait::until("all pods", 4 * LIMIT, started).await.unwrap();
    let made = server.elapsed();
    let names: Vec<String> = actual(&stores[0]).into_keys().collect();
    let amounts = json!({"cpu": "200m"});
    let patch = Patch::Strategic(json!({"spec": {"containers": [{"name": "app",
        "resources": {"requests": amounts, "limits": amounts}}]}}));
    let (api, patch) = (&pods, &patch);
    let resized = futures_util::stream::iter(&names).map(|name| async move {
        api.patch_resize(name, &PatchParams::default(), patch)
            .await
            .unwrap();
    });
    resized.buffer_unordered(16).collect::<Vec<()>>().await;
    let requested = server.elapsed();
    let seen = || {
        stores.iter().all(|store| {
            let all = actual(store);
            all.len() == PODS && all.values().all(|cpu| cpu == "200m")
        })
    };
    wait::until("all resizes", 4 * LIMIT, seen).await.unwrap();
    println!(
        "{PODS} pods ready after {:?}, asked after {:?}, resized after {:?}",
        made - from,
        requested - made,
        server.elapsed() - requested
    );
    let actuations = server.log().actuations();
    assert_eq!(actuations.len(), PODS);
    let mut by_pod: BTreeMap<&str, usize> = BTreeMap::new();
    for actuation in &actuations {
        *by_pod.entry(&actuation.pod.name).or_default() += 1;
        let cores = |resources: &Resources| resources.cores();
        assert_eq!(
            (cores(&actuation.before), cores(&actuation.after)),
            (0.1, 0.2)
        );
    }
    assert!(by_pod.values().all(|times| *times == 1));
    assert_eq!(server.log().forgotten(), 0);
}
