//! A cluster of the test bed, made from a shipped one.
//!
//! Sets its name, hosts and protocol; every limit is the template's.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::pointer::at;

/// Suffix of the names of the shipped failover clusters.
const FAILOVER: &str = "-failover";
/// Name of the cluster, and of the route, of websockets.
pub(super) const WEBSOCKET: &str = "websocket";

/// One cluster and its hosts, each with its weight.
#[derive(Debug, Clone)]
pub(super) struct Backend {
    pub(super) cluster: String,
    pub(super) hosts: Vec<(SocketAddr, u32)>,
    pub(super) http2: bool,
    /// File with the hosts, used instead of `hosts`.
    pub(super) file: Option<PathBuf>,
}

impl Backend {
    /// Hosts of equal weight.
    pub(super) fn new(cluster: &str, hosts: &[SocketAddr], http2: bool) -> Self {
        let hosts = hosts.iter().map(|host| (*host, 1)).collect();
        Self {
            cluster: cluster.to_owned(),
            hosts,
            http2,
            file: None,
        }
    }

    /// Hosts discovered from `file`.
    pub(super) fn discovered(cluster: &str, file: &Path) -> Self {
        Self {
            file: Some(file.to_owned()),
            ..Self::new(cluster, &[], false)
        }
    }

    /// The template with this cluster's name, hosts and protocol.
    pub(super) fn cluster_from(&self, template: &Value) -> Result<Value> {
        let mut cluster = self.addressed(template)?;
        if self.http2 {
            let options = "/typed_extension_protocol_options/\
                           envoy.extensions.upstreams.http.v3.HttpProtocolOptions/explicit_http_config";
            // The window that the shipped file states beside the line it says to replace.
            *at(&mut cluster, options)? =
                json!({ "http2_protocol_options": { "initial_stream_window_size": 65536 } });
        }
        Ok(cluster)
    }

    /// The template as the failover cluster from this cluster to all others, in their order.
    pub(super) fn failover_from(&self, template: &Value, all: &[Backend]) -> Result<Value> {
        let others = all.iter().filter(|other| other.cluster != self.cluster);
        let members: Vec<_> = std::iter::once(self)
            .chain(others)
            .map(|member| &member.cluster)
            .collect();
        let mut cluster = template.clone();
        *at(&mut cluster, "/name")? = json!(format!("{}{FAILOVER}", self.cluster));
        *at(&mut cluster, "/cluster_type/typed_config/clusters")? = json!(members);
        Ok(cluster)
    }

    /// The template of the websockets' cluster, with these hosts, over HTTP/1.1.
    pub(super) fn websocket_from(&self, template: &Value) -> Result<Value> {
        let servers = Backend {
            cluster: WEBSOCKET.to_owned(),
            ..self.clone()
        };
        servers.addressed(template)
    }

    /// The template with this cluster's name and hosts.
    pub(super) fn addressed(&self, template: &Value) -> Result<Value> {
        let mut cluster = template.clone();
        let host = |(host, weight): &(SocketAddr, u32)| {
            json!({
                "endpoint": { "address": address(&host.ip().to_string(), host.port()) },
                "load_balancing_weight": weight,
                "metadata": { "filter_metadata": { "weir": { "variant": self.cluster } } },
            })
        };
        let hosts: Vec<_> = self.hosts.iter().map(host).collect();
        *at(&mut cluster, "/name")? = json!(self.cluster);
        if let Some(file) = &self.file {
            *at(&mut cluster, "/type")? = json!("EDS");
            let keys = cluster.as_object_mut().context("clusters: not mappings")?;
            keys.remove("load_assignment");
            let eds = json!({ "path_config_source": { "path": file } });
            let eds = json!({ "eds_config": eds });
            keys.insert("eds_cluster_config".to_owned(), eds);
            return Ok(cluster);
        }
        *at(&mut cluster, "/type")? = json!("STATIC");
        *at(&mut cluster, "/load_assignment")? =
            json!({ "cluster_name": self.cluster, "endpoints": [{ "lb_endpoints": hosts }] });
        Ok(cluster)
    }
}

/// An address in Envoy's format.
pub(super) fn address(host: &str, port: u16) -> Value {
    json!({ "socket_address": { "address": host, "port_value": port } })
}
