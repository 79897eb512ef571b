//! Tests of watches with kube-runtime's watcher and reflector, through every way in which a watch can end.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{self, Lookup};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use weir_apiserver::ApiServer;
use weir_bed::wait;

use super::bed::{DEMO, LIMIT, admin, config, pod, start};

async fn configs(server: &ApiServer) -> Api<ConfigMap> {
    Api::namespaced(admin(server).await, DEMO)
}

fn set(value: &str) -> Patch<serde_json::Value> {
    Patch::Merge(json!({"metadata": {"labels": {"of": value}}, "data": {"key": value}}))
}

/// Returns the next event; fails if none comes.
async fn next<S: futures_util::Stream<Item = T> + Unpin, T>(stream: &mut S) -> T {
    tokio::time::timeout(LIMIT, stream.next())
        .await
        .expect("an event")
        .expect("no end")
}

#[tokio::test]
async fn watch_reports_every_change_in_order() {
    let server = start(|_| {}).await;
    let api = configs(&server).await;
    let params = WatchParams::default().labels("of=a");
    let from = server.store().version().to_string();
    let mut events = pin!(api.watch(&params, &from).await.unwrap());
    for (name, value) in [("one", "a"), ("two", "b")] {
        api.create(&PostParams::default(), &config(name, value))
            .await
            .unwrap();
    }
    let patch = PatchParams::default();
    // Into the selection, out of it, in again, changed, deleted.
    api.patch("two", &patch, &set("a")).await.unwrap();
    api.patch("one", &patch, &set("b")).await.unwrap();
    api.patch("one", &patch, &set("a")).await.unwrap();
    api.patch(
        "one",
        &patch,
        &Patch::Merge(json!({"data": {"key": "other"}})),
    )
    .await
    .unwrap();
    api.delete("one", &DeleteParams::default()).await.unwrap();
    let mut received = Vec::new();
    let mut versions = Vec::new();
    while received.len() < 6 {
        let (what, object) = match next(&mut events).await.unwrap() {
            WatchEvent::Added(object) => ("added", object),
            WatchEvent::Modified(object) => ("modified", object),
            WatchEvent::Deleted(object) => ("deleted", object),
            other => panic!("{other:?}"),
        };
        received.push(format!("{what} {}", object.name_any()));
        versions.push(
            ResourceExt::resource_version(&object)
                .unwrap()
                .parse::<u64>()
                .unwrap(),
        );
    }
    let expected = [
        "added one",
        "added two",
        "deleted one",
        "added one",
        "modified one",
        "deleted one",
    ];
    assert_eq!(received, expected);
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
}

#[tokio::test]
async fn watch_from_a_forgotten_version_gets_410() {
    let server = start(|_| {}).await;
    let api = configs(&server).await;
    let from = server.store().version().to_string();
    api.create(&PostParams::default(), &config("one", "a"))
        .await
        .unwrap();
    server.store().forget_history();
    let mut events = pin!(api.watch(&WatchParams::default(), &from).await.unwrap());
    match next(&mut events).await.unwrap() {
        WatchEvent::Error(status) => {
            assert_eq!((status.code, status.reason.as_str()), (410, "Expired"))
        }
        other => panic!("{other:?}"),
    }
}

/// A reflector's objects: name → value.
fn held(store: &reflector::Store<ConfigMap>) -> BTreeMap<String, String> {
    let all = store.state().into_iter();
    all.map(|object| {
        (
            object.name_any(),
            object.data.clone().unwrap()["key"].clone(),
        )
    })
    .collect()
}

#[tokio::test]
async fn reflector_survives_every_end_of_its_watch() {
    let server = start(|_| {}).await;
    let api = configs(&server).await;
    for i in 0..3 {
        api.create(&PostParams::default(), &config(&format!("c{i}"), "a"))
            .await
            .unwrap();
    }
    let (store, writer) = reflector::store();
    let pages = watcher::Config::default().page_size(2);
    let stream = watcher(api.clone(), pages)
        .default_backoff()
        .reflect(writer)
        .applied_objects();
    let following = tokio::spawn(stream.for_each(|_| async {}));
    store.wait_until_ready().await.unwrap();
    assert_eq!(held(&store).len(), 3);
    for (round, value) in ["b", "c", "d"].into_iter().enumerate() {
        match round {
            // The connection ends: the watch continues from its last version.
            1 => server.faults().close_watches(),
            // The missed changes are forgotten: the reflector lists again.
            2 => {
                server.faults().close_watches();
                server.store().forget_history();
            }
            _ => {}
        }
        api.patch("c0", &PatchParams::default(), &set(value))
            .await
            .unwrap();
        let name = format!("new-{round}");
        api.create(&PostParams::default(), &config(&name, value))
            .await
            .unwrap();
        api.delete(&name, &DeleteParams::default()).await.unwrap();
        if round == 2 {
            server.store().forget_history();
        }
        let expected: BTreeMap<String, String> = [("c0", value), ("c1", "a"), ("c2", "a")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        let seen = wait::until("the reflector", LIMIT, || held(&store) == expected).await;
        assert!(seen.is_ok(), "{value}: {:?}", held(&store));
    }
    assert!(!following.is_finished());
    following.abort();
}

#[tokio::test]
async fn quiet_watch_gets_bookmarks() {
    let server = start(|options| options.bookmarks_every = Duration::from_millis(10)).await;
    let client = admin(&server).await;
    // Changes of another kind advance the version too.
    let from = server.store().version().to_string();
    server.store().namespace("other");
    let api: Api<ConfigMap> = Api::all(client);
    let mut events = pin!(api.watch(&WatchParams::default(), &from).await.unwrap());
    match next(&mut events).await.unwrap() {
        WatchEvent::Bookmark(bookmark) => {
            assert_eq!(
                bookmark.metadata.resource_version,
                server.store().version().to_string()
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn metadata_watch_works_and_streamed_lists_end_with_a_bookmark() {
    let server = start(|options| options.kubelet = false).await;
    server.store().create(&pod("a", 100)).unwrap();
    let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(admin(&server).await, DEMO);
    let streamed = watcher::Config::default().streaming_lists();
    for config in [watcher::Config::default(), streamed] {
        let mut events = pin!(watcher(api.clone(), config));
        let mut seen = Vec::new();
        loop {
            match next(&mut events).await.unwrap() {
                watcher::Event::Init => {}
                watcher::Event::InitApply(object) => seen.push(object.name().unwrap().into_owned()),
                watcher::Event::InitDone => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(seen, ["a"]);
    }
}
