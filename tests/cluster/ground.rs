//! A namespace of a story's own, and that nothing of it is left: made first, removed last, whatever happened.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::definition::Definition;
use super::end;
use super::place::Place;

/// Longest wait for anything: images may have to be fetched.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// Longest wait for a namespace's end.
const GONE_MAX: Duration = Duration::from_secs(120);
/// How often a cluster is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Where a story takes place.
pub(crate) struct Ground {
    pub(crate) place: Place,
    /// Of one who may do everything.
    pub(crate) client: kube::Client,
    pub(crate) namespace: String,
    /// The resource's definition, once it is seen to.
    definition: Mutex<Option<Definition>>,
}

impl Ground {
    pub(crate) async fn new(place: Place) -> Ground {
        let client = kube::Client::try_from(place.config.clone()).unwrap();
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
        let made = made.unwrap_or_else(|error| panic!("{}: no namespace: {error}", place.label()));
        let namespace = made.metadata.name.unwrap();
        eprintln!("{}, namespace {namespace}", place.label());
        Ground {
            place,
            client,
            namespace,
            definition: Mutex::default(),
        }
    }

    /// Makes sure of the resource's definition.
    pub(crate) async fn define(&self) {
        let (found, warned) = Definition::ensure(&self.place).await;
        *self.definition.lock().await = Some(found);
        assert_eq!(warned, Vec::<String>::new(), "of k8s/base/crd.yaml");
    }

    /// Removes the namespace, and what was put beside it.
    pub(crate) async fn clear(&self) {
        let api: Api<Namespace> = Api::all(self.client.clone());
        end::let_go(&self.client, &self.namespace).await;
        let params = DeleteParams::background();
        api.delete(&self.namespace, &params).await.unwrap();
        let gone = async || api.get_opt(&self.namespace).await.unwrap().is_none();
        if !until_within(end::NOTICED, &gone).await {
            end::play_unless_seen_to(&self.client, &self.namespace).await;
        }
        assert!(
            until_within(GONE_MAX, &gone).await,
            "namespace {} is still there",
            self.namespace
        );
        if let Some(definition) = self.definition.lock().await.take() {
            definition.restore(&self.client).await;
        }
    }
}

/// Whether a condition holds within that time.
pub(crate) async fn until_within(limit: Duration, mut holds: impl AsyncFnMut() -> bool) -> bool {
    let began = Instant::now();
    while !holds().await {
        if began.elapsed() >= limit {
            return false;
        }
        sleep(LOOK_EVERY).await;
    }
    true
}

/// Thousandths of a core that a quantity of CPU is, as API servers write it.
pub(crate) fn cpu_m(written: &str) -> i64 {
    match written.strip_suffix('m') {
        Some(millis) => millis.parse().unwrap(),
        None => (written.parse::<f64>().unwrap() * 1e3) as i64,
    }
}
