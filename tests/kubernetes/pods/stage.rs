//! Shared fixture: a deployment and its pods as backends.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json, to_value};
use weir_api::Cores;
use weir_planner::backends::kubernetes::actuate::KubeBackends;
use weir_planner::backends::kubernetes::namespace::Namespace;
use weir_planner::backends::{Actuate, ActuateError, Reason};
use weir_planner::capacity::{Actual, Allocation, Resize, Target};
use weir_planner::service::{Workload, WorkloadKind};

use weir_apiserver::{ApiServer, Key, Options, Request, Verb};
use weir_bed::wait;

use super::bed::{DEMO, LIMIT, admin, start};

/// Timeout of changes that must take effect.
pub(crate) const AMPLE: Duration = Duration::from_secs(20);
/// Timeout of changes that must not take effect.
pub(crate) const SHORT: Duration = Duration::from_millis(600);

/// A node of 8 cores and a deployment `web`.
pub(crate) struct Stage {
    pub(crate) server: ApiServer,
    pub(crate) backends: KubeBackends,
}

impl Stage {
    /// Starts `replicas` pods with `cores` each, ready and observed.
    pub(crate) async fn new(replicas: u32, cores: u32, timeout: Duration) -> Stage {
        let made = super::bed::deployment("web", replicas, cores * 1000);
        Stage::of(|_| {}, made, timeout, |_| {}).await
    }

    pub(crate) async fn of(
        options: impl FnOnce(&mut Options),
        made: Deployment,
        timeout: Duration,
        before: impl FnOnce(&ApiServer),
    ) -> Stage {
        let server = start(options).await;
        let replicas = made.spec.as_ref().unwrap().replicas.unwrap();
        server.store().create(&made).unwrap();
        before(&server);
        let backends = backends(&server, &["web"], timeout).await;
        let stage = Stage { server, backends };
        stage
            .until("ready pods", |actual| {
                actual.ready.replicas() == replicas as u32
            })
            .await;
        stage
    }

    /// Starts a StatefulSet instead of a Deployment.
    pub(crate) async fn stateful(replicas: u32, cores: u32, timeout: Duration) -> Stage {
        let server = start(|_| {}).await;
        let mut made = to_value(super::bed::deployment("web", replicas, cores * 1000)).unwrap();
        made["kind"] = json!("StatefulSet");
        made["spec"]["serviceName"] = json!("web");
        server.store().create(&made).unwrap();
        let client = admin(&server).await;
        let backends = backends_of(&client, WorkloadKind::StatefulSet, &["web"], timeout);
        let stage = Stage { server, backends };
        stage
            .until("ready pods", |now| now.ready.replicas() == replicas)
            .await;
        stage
    }

    pub(crate) async fn actual(&self) -> Result<Actual, ActuateError> {
        self.backends.actual().await.remove(0).unwrap()
    }

    pub(crate) async fn until(&self, what: &str, is: impl Fn(&Actual) -> bool) -> Actual {
        let found = async || self.actual().await.is_ok_and(|actual| is(&actual));
        let waited = wait::until_async(what, LIMIT, found).await;
        assert!(waited.is_ok(), "{what}: {:?}", self.actual().await);
        self.actual().await.unwrap()
    }

    pub(crate) async fn resize(&self, target: Target) -> Result<Actual, ActuateError> {
        let ready = self.actual().await.unwrap().ready;
        let change = Resize {
            variant: 0,
            target,
            ready,
            limited: false,
        };
        self.backends.resize(&[change]).await.remove(0)
    }

    /// Repeats the resize as successive cycles do; the rate limit delays further patches of a pod.
    pub(crate) async fn resize_until_done(&self, target: Target) -> Actual {
        let mut last = None;
        let done = async || {
            last = Some(self.resize(target).await);
            last.as_ref().is_some_and(Result::is_ok)
        };
        let waited = wait::until_async("the change", LIMIT, done).await;
        assert!(waited.is_ok(), "{target:?}: {last:?}");
        last.unwrap().unwrap()
    }

    /// Statuses of the answers to patches of this resource.
    pub(crate) fn answers(&self, resource: &str) -> Vec<u16> {
        let all = patches(&self.server, resource).into_iter();
        all.map(|patch| patch.status).collect()
    }

    /// Names of the pods.
    pub(crate) fn pods(&self) -> Vec<Key> {
        let pods = self.server.kubelet().pods().into_iter();
        pods.map(|pod| pod.key).collect()
    }
}

pub(crate) async fn backends(
    server: &ApiServer,
    names: &[&str],
    timeout: Duration,
) -> KubeBackends {
    let kind = WorkloadKind::Deployment;
    backends_of(&admin(server).await, kind, names, timeout)
}

pub(crate) fn backends_of(
    client: &kube::Client,
    kind: WorkloadKind,
    names: &[&str],
    timeout: Duration,
) -> KubeBackends {
    let workload = |name: &&str| Workload {
        kind,
        name: (*name).to_owned(),
        container: Some("app".to_owned()),
        reconfigure: None,
    };
    let workloads = names.iter().map(workload).collect();
    KubeBackends::new(
        Namespace::follow(client, DEMO, Arc::default(), &Arc::default()),
        workloads,
        Arc::default(),
        Arc::new(|| true),
        &reqwest::Client::new(),
        timeout,
    )
}

pub(crate) fn patches(server: &ApiServer, resource: &str) -> Vec<Request> {
    let all = server.log().requests().into_iter();
    all.filter(|request| request.verb == Verb::Patch && request.resource == resource)
        .collect()
}

pub(crate) fn cores(replicas: u32, each: u32) -> Allocation {
    Allocation::new(replicas, Cores::whole(each))
}

pub(crate) fn target(replicas: u32, each: u32) -> Target {
    Target::of(cores(replicas, each))
}

/// Resources in a resize patch.
pub(crate) fn requested_resources(patch: &Request) -> &Value {
    &patch.body["spec"]["containers"][0]["resources"]
}

/// Whether an error has this reason, and its message contains this text.
pub(super) fn reports(error: &ActuateError, reason: Reason, text: &str) -> bool {
    error.reason() == reason && error.to_string().contains(text)
}
