//! Gateway of a service, with the defaults of the mesh that runs it.

use std::collections::BTreeMap;

use super::{GatewayOptions, Options};
use crate::service::ProxyPods;

/// Path and query of the filter's statistics in any proxy.
const STATS_PATH: &str = "/stats/prometheus?filter=weir_";
/// Name of the Gateway that is rendered for Envoy Gateway.
const OWN_GATEWAY: &str = "weir";

/// System that configures the proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Mesh {
    Istio,
    EnvoyGateway,
}

/// Gateway of a service: its pods, its listener, and the Gateway resource for the routes.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Ingress {
    /// Namespace of the pods.
    pub(in super::super) namespace: String,
    /// Labels of the pods.
    pub(in super::super) labels: BTreeMap<String, String>,
    /// Port of the listener.
    pub(in super::super) port: u16,
    /// Port at which the pods listen for it.
    pub(in super::super) target_port: u16,
    /// Port of the pods' statistics.
    pub(in super::super) stats_port: u16,
    /// Secret with the certificate.
    pub(in super::super) tls_secret: Option<String>,
    /// Namespace and name of an existing Gateway resource.
    pub(in super::super) parent: Option<(String, String)>,
    /// Whether the routes are a delegate of an existing VirtualService.
    pub(in super::super) delegate: bool,
}

impl Ingress {
    /// Returns the gateway's pods as the planner finds them.
    pub(in super::super) fn pods(&self) -> ProxyPods {
        ProxyPods {
            labels: self.labels.clone(),
            namespace: Some(self.namespace.clone()),
            port: self.stats_port,
            path: STATS_PATH.to_owned(),
        }
    }
}

impl Options {
    /// Returns the gateway that is meant with that mesh.
    pub(in super::super) fn ingress(&self, mesh: Mesh) -> Ingress {
        let given = &self.gateway;
        let parent = given.parent.as_deref().and_then(|it| it.split_once('/'));
        let parent = parent.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
        let (namespace, stats_port) = match mesh {
            // As Istio's Helm chart is installed by its documentation; the label is the release's name
            // without `istio-`.
            Mesh::Istio => ("istio-ingress", 15090),
            Mesh::EnvoyGateway => ("envoy-gateway-system", 19001),
        };
        let port = given.port.unwrap_or(match given.tls_secret {
            Some(_) => 443,
            None => 80,
        });
        Ingress {
            namespace: given
                .namespace
                .clone()
                .unwrap_or_else(|| namespace.to_owned()),
            labels: self.labels(given, mesh, parent.as_ref()),
            port,
            target_port: given.target_port.unwrap_or(port),
            stats_port: given.stats_port.unwrap_or(stats_port),
            tls_secret: given.tls_secret.clone(),
            parent,
            delegate: given.delegate,
        }
    }

    /// Returns namespace and name of the Gateway resource of Envoy Gateway.
    pub(in super::super) fn envoy_gateway(&self, ingress: &Ingress) -> (String, String) {
        let own = || (self.namespace.clone(), OWN_GATEWAY.to_owned());
        ingress.parent.clone().unwrap_or_else(own)
    }

    fn labels(
        &self,
        given: &GatewayOptions,
        mesh: Mesh,
        parent: Option<&(String, String)>,
    ) -> BTreeMap<String, String> {
        if !given.labels.is_empty() {
            return given.labels.clone();
        }
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        match mesh {
            Mesh::Istio => BTreeMap::from([label("istio", "ingress")]),
            Mesh::EnvoyGateway => {
                let own = (self.namespace.clone(), OWN_GATEWAY.to_owned());
                let (namespace, name) = parent.unwrap_or(&own);
                let of = "gateway.envoyproxy.io/owning-gateway";
                BTreeMap::from([
                    label(&format!("{of}-name"), name),
                    label(&format!("{of}-namespace"), namespace),
                ])
            }
        }
    }
}
