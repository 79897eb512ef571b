//! Connections that the planner opens: their purpose, their peer and its port. The network policies are made
//! of this list, so that none of them forgets one.
//!
//! A policy sees the port of the pod. An address that leads through a Service (`resize`) must therefore name
//! the same port as the pod behind it.

use std::collections::BTreeMap;

use super::options::{Options, PLANNER_PORT};
use crate::service::{ProxyPods, Service};

/// Ports of DNS: the usual one, and OpenShift's.
const DNS_PORTS: [u16; 2] = [53, 5353];
/// Port at which istiod serves sidecars.
const ISTIOD_PORT: u16 = 15012;

/// Purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    /// Names of the API server and of `resize` addresses.
    Names,
    /// Kubernetes.
    ApiServer,
    /// Polls, forwarded to the planner that leads.
    Leader,
    /// Statistics of proxies.
    Statistics,
    /// Cores and batches, to model servers.
    Reconfigure,
    /// Cores, to whatever resizes a server outside Kubernetes.
    Resize,
    /// Configuration of the planner's own sidecar.
    Sidecar,
}

/// Peer of a connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    /// Any address.
    Anyone,
    /// Other planners.
    Planners,
    /// Istio's control plane, in any namespace.
    Istiod,
    /// Pods of a namespace with all these labels.
    Pods {
        namespace: String,
        labels: BTreeMap<String, String>,
    },
}

/// Kind of connections that the planner opens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) purpose: Purpose,
    pub(super) peer: Peer,
    pub(super) port: u16,
}

fn call(purpose: Purpose, peer: Peer, port: u16) -> Call {
    Call {
        purpose,
        peer,
        port,
    }
}

/// Returns the calls of every planner, whatever it plans for.
pub(super) fn of_planner(options: &Options) -> Vec<Call> {
    let names = DNS_PORTS.map(|port| call(Purpose::Names, Peer::Anyone, port));
    let servers = options.api_ports.iter();
    let servers = servers.map(|port| call(Purpose::ApiServer, Peer::Anyone, *port));
    let leader = call(Purpose::Leader, Peer::Planners, PLANNER_PORT);
    names.into_iter().chain(servers).chain([leader]).collect()
}

/// Returns the calls for a service whose model servers are in that namespace, each once.
pub(super) fn of_service(service: &Service, models: &str) -> Vec<Call> {
    let mut calls = Vec::new();
    for variant in &service.variants {
        let workload = variant.workload.as_ref();
        if let Some(request) = workload.and_then(|it| it.reconfigure.as_ref()) {
            let pods = Peer::Pods {
                namespace: models.to_owned(),
                labels: BTreeMap::new(),
            };
            calls.push(call(Purpose::Reconfigure, pods, request.port));
        }
        let resize = variant.resize.as_ref();
        if let Some(port) = resize.and_then(url::Url::port_or_known_default) {
            calls.push(call(Purpose::Resize, Peer::Anyone, port));
        }
    }
    calls.sort();
    calls.dedup();
    calls
}

/// Returns the call to proxies; `own` is the namespace of the resource that names them.
pub(super) fn of_proxies(pods: &ProxyPods, own: &str) -> Call {
    let namespace = pods.namespace.as_deref().unwrap_or(own).to_owned();
    let labels = pods.labels.clone();
    let peer = Peer::Pods { namespace, labels };
    call(Purpose::Statistics, peer, pods.port)
}

/// Returns the call of the sidecar that the planner has in Istio's mesh.
pub(super) fn of_sidecar() -> Call {
    call(Purpose::Sidecar, Peer::Istiod, ISTIOD_PORT)
}
