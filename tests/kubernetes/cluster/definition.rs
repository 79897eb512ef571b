//! The custom resource definition. It belongs to the whole cluster, so it is left as it was found.
//!
//! If the cluster has none, `k8s/crd/crd.yaml` is applied and removed afterwards. A different definition is
//! updated only if no resource of that kind exists.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::ApiResource;
use serde_json::Value;
use weir_planner::spec::resource::SloService;

use super::clusters::Cluster;
use super::fixture::manifest;
use super::request_log::RequestLog;
use super::sandbox::{LIMIT, until_within};

const NAME: &str = "sloservices.weir.dev";
/// Field manager of the tests' objects.
pub(crate) const MANAGER: &str = "weir-tests";

/// State of the definition before the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Definition {
    Absent,
    Present,
}

impl Definition {
    /// Installs the definition if needed; returns its former state and the API server's warnings.
    pub(crate) async fn ensure(cluster: &Cluster) -> (Definition, Vec<String>) {
        let (client, log) = RequestLog::client(cluster.config.clone());
        let found = Definition::applied(&client).await;
        (found, log.warnings())
    }

    async fn applied(client: &kube::Client) -> Definition {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let shipped = manifest("k8s/crd/crd.yaml").remove(0);
        let Some(found) = api.get_opt(NAME).await.unwrap() else {
            apply(&api, &shipped).await;
            return Definition::Absent;
        };
        let dry = PatchParams::apply(MANAGER).force().dry_run();
        let target = api.patch(NAME, &dry, &Patch::Apply(&shipped)).await;
        if target.unwrap().spec == found.spec {
            eprintln!("definition: as shipped, and left");
            return Definition::Present;
        }
        let living = services(client).await;
        assert_eq!(
            living, 0,
            "the cluster's definition of SloService is another one, and {living} resources live by it: \
             see to k8s/crd/crd.yaml first, or take another cluster"
        );
        eprintln!("definition: another one, without resources; brought up to date, and left so");
        apply(&api, &shipped).await;
        Definition::Present
    }

    /// Restores the former state.
    pub(crate) async fn restore(self, client: &kube::Client) {
        if self == Definition::Present {
            return;
        }
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let living = services(client).await;
        if living > 0 {
            eprintln!("definition: {living} resources live by it by now, left");
            return;
        }
        api.delete(NAME, &DeleteParams::default()).await.unwrap();
        let deleted = async || api.get_opt(NAME).await.unwrap().is_none();
        assert!(until_within(LIMIT, deleted).await, "{NAME} is still there");
    }
}

async fn apply(api: &Api<CustomResourceDefinition>, shipped: &Value) {
    let params = PatchParams::apply(MANAGER).force();
    let applied = api.patch(NAME, &params, &Patch::Apply(shipped)).await;
    applied.unwrap_or_else(|error| panic!("k8s/crd/crd.yaml is not taken: {error}"));
    let served = async || {
        let read = api.get(NAME).await.unwrap().status.unwrap_or_default();
        let mut conditions = read.conditions.into_iter().flatten();
        conditions.any(|one| one.type_ == "Established" && one.status == "True")
    };
    assert!(until_within(LIMIT, served).await, "{NAME} is not served");
}

/// Number of `SloService` resources in the whole cluster.
async fn services(client: &kube::Client) -> usize {
    let kind = ApiResource::erase::<SloService>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let all = api.list(&ListParams::default()).await;
    all.unwrap().items.len()
}
