//! A namespace of one test: created first, and removed last even if the test fails.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::clusters::Cluster;
use super::definition::Definition;
use super::deletion;

/// Longest wait for any condition; images may have to be pulled.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// Longest wait for the deletion of a namespace.
const DELETED_MAX: Duration = Duration::from_secs(120);
/// Interval between two polls of the cluster.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Namespace of one test, and its cluster.
pub(crate) struct Sandbox {
    pub(crate) cluster: Cluster,
    /// Client with all rights.
    pub(crate) client: kube::Client,
    pub(crate) namespace: String,
    /// Former state of the resource definition, once it has been checked.
    definition: Mutex<Option<Definition>>,
}

impl Sandbox {
    pub(crate) async fn new(cluster: Cluster) -> Sandbox {
        let client = kube::Client::try_from(cluster.config.clone()).unwrap();
        let labels = [("app.kubernetes.io/part-of", "weir-tests")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let namespace = Namespace {
            metadata: ObjectMeta {
                generate_name: Some("weir-test-".to_owned()),
                labels: Some(labels.into()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let api = Api::all(client.clone());
        let made = api.create(&PostParams::default(), &namespace).await;
        let made =
            made.unwrap_or_else(|error| panic!("{}: no namespace: {error}", cluster.label()));
        let namespace = made.metadata.name.unwrap();
        eprintln!("{}, namespace {namespace}", cluster.label());
        Sandbox {
            cluster,
            client,
            namespace,
            definition: Mutex::default(),
        }
    }

    /// Installs the resource definition if needed.
    pub(crate) async fn define(&self) {
        let (found, warned) = Definition::ensure(&self.cluster).await;
        *self.definition.lock().await = Some(found);
        assert_eq!(warned, Vec::<String>::new(), "of k8s/crd/crd.yaml");
    }

    /// Removes the namespace and everything created outside it.
    pub(crate) async fn clear(&self) {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let params = DeleteParams::background();
        api.delete(&self.namespace, &params).await.unwrap();
        let deleted = async || api.get_opt(&self.namespace).await.unwrap().is_none();
        if !until_within(deletion::NOTICED, &deleted).await {
            deletion::finalize_unless_controlled(&self.client, &self.namespace).await;
        }
        assert!(
            until_within(DELETED_MAX, &deleted).await,
            "namespace {} is still there",
            self.namespace
        );
        if let Some(definition) = self.definition.lock().await.take() {
            definition.restore(&self.client).await;
        }
    }
}

/// Polls a condition; returns whether it held within `limit`.
pub(crate) async fn until_within(limit: Duration, mut holds: impl AsyncFnMut() -> bool) -> bool {
    let began = Instant::now();
    while !holds().await {
        if began.elapsed() >= limit {
            return false;
        }
        sleep(POLL_INTERVAL).await;
    }
    true
}

/// Parses a CPU quantity, as API servers write it, into thousandths of a core.
pub(crate) fn cpu_m(written: &str) -> i64 {
    match written.strip_suffix('m') {
        Some(millis) => millis.parse().unwrap(),
        None => (written.parse::<f64>().unwrap() * 1e3) as i64,
    }
}
