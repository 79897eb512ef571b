//! Options of manifests beside the service: names, images, and the gateway that the service is attached to.
//! They are validated before anything is rendered.

mod check;
mod ingress;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::planner_tls::PlannerTls;

pub(super) use ingress::{Ingress, Mesh};

/// Default namespace of the planner.
pub const NAMESPACE: &str = "weir-system";
/// Default image of the planner; `.example` belongs to nobody, so it has to be replaced.
pub const IMAGE: &str = "registry.example/weir-planner:0.1.0";
/// Default image of the filter.
pub const FILTER_IMAGE: &str = "registry.example/weir-filter:0.1.0";
/// Default DNS domain of the cluster.
pub const CLUSTER_DOMAIN: &str = "cluster.local";
/// Default ports of API servers: the Service's, kubeadm's and minikube's.
pub const API_PORTS: [u16; 3] = [443, 6443, 8443];
/// Maximum number of hosts: the most that an HTTPRoute has.
pub const HOSTS_MAX: usize = 16;
/// Maximum number of paths.
pub const PATHS_MAX: usize = 16;
/// Maximum number of labels of the gateway's pods.
pub const LABELS_MAX: usize = 8;
/// Maximum number of hosts' addresses.
pub const SERVERS_MAX: usize = 256;
/// Maximum number of ports of API servers.
pub const API_PORTS_MAX: usize = 8;

/// Names, images and the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Namespace of the planner.
    pub namespace: String,
    /// Image of the planner.
    pub image: String,
    /// Image of the filter.
    pub filter_image: String,
    /// DNS domain of the cluster.
    pub cluster_domain: String,
    /// Ports of the API servers, for the planner's network policy.
    pub api_ports: Vec<u16>,
    /// Hosts of the service's requests: names or `*.suffix`; empty is every host.
    pub hosts: Vec<String>,
    /// Paths of the service's requests: exact, or prefixes that end in `*`; empty is every path.
    pub paths: Vec<String>,
    /// Addresses of the clusters' hosts, with `--envoy`. A cluster without one is resolved by its name.
    pub servers: Vec<ServerAt>,
    /// TLS of the planner; without it the planner's answers are not encrypted but by a mesh.
    pub planner_tls: Option<PlannerTls>,
    /// Gateway that the service is attached to.
    pub gateway: GatewayOptions,
}

/// Address of one of a cluster's hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAt {
    /// The cluster: a variant's, or the planner's.
    pub cluster: String,
    /// Address or DNS name.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// Gateway that a service is attached to. What is left out is as the mesh installs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GatewayOptions {
    /// Namespace of the gateway's pods.
    pub namespace: Option<String>,
    /// Labels of the gateway's pods.
    pub labels: BTreeMap<String, String>,
    /// Existing Gateway (`NAMESPACE/NAME`) for the routes, instead of a new one.
    pub parent: Option<String>,
    /// Whether Istio's routes are a delegate of an existing VirtualService.
    pub delegate: bool,
    /// Secret with the certificate; the listener then speaks HTTPS.
    pub tls_secret: Option<String>,
    /// Port of the listener.
    pub port: Option<u16>,
    /// Port at which the gateway's pods listen for it.
    pub target_port: Option<u16>,
    /// Port of the statistics of the gateway's pods.
    pub stats_port: Option<u16>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            namespace: NAMESPACE.to_owned(),
            image: IMAGE.to_owned(),
            filter_image: FILTER_IMAGE.to_owned(),
            cluster_domain: CLUSTER_DOMAIN.to_owned(),
            api_ports: API_PORTS.to_vec(),
            hosts: Vec::new(),
            paths: Vec::new(),
            servers: Vec::new(),
            planner_tls: None,
            gateway: GatewayOptions::default(),
        }
    }
}

impl Options {
    /// Returns the planner's host name within the cluster.
    pub(super) fn planner_host(&self) -> String {
        format!("{PLANNER}.{}.svc.{}", self.namespace, self.cluster_domain)
    }

    /// Returns the name that the planner's certificate must carry, unless its options name another.
    pub(super) fn planner_name(&self) -> String {
        format!("{PLANNER}.{}.svc", self.namespace)
    }

    /// Returns the name of the planner's port.
    pub(super) fn planner_port(&self) -> &'static str {
        match self.planner_tls {
            Some(_) => "https",
            None => "http",
        }
    }

    /// Returns the digest of the filter's image, if the reference has one.
    pub(super) fn filter_digest(&self) -> Option<&str> {
        Some(self.filter_image.split_once("@sha256:")?.1)
    }

    /// Returns the `match` of the filter's configuration; `None` matches every request.
    pub(super) fn matched(&self) -> Option<Value> {
        let mut matched = Map::new();
        for (key, list) in [("hosts", &self.hosts), ("paths", &self.paths)] {
            if !list.is_empty() {
                matched.insert(key.to_owned(), json!(list));
            }
        }
        (!matched.is_empty()).then_some(Value::Object(matched))
    }

    /// Returns the hosts of the routes.
    pub(super) fn route_hosts(&self) -> Vec<String> {
        if self.hosts.is_empty() {
            return vec!["*".to_owned()];
        }
        self.hosts.clone()
    }
}

/// Name of the planner's Deployment, Service, account and pods.
pub(super) const PLANNER: &str = "weir-planner";
/// Port of the planner.
pub(super) const PLANNER_PORT: u16 = 8080;
