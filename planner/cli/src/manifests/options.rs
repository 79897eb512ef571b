//! Options of `weir manifests` on names, images and the gateway, and their form in a command line.

use anyhow::Context;
use weir_planner::manifests::{
    API_PORTS, CLUSTER_DOMAIN, FILTER_IMAGE, GatewayOptions, IMAGE, NAMESPACE, Options,
};

/// Names, images and the gateway.
#[derive(Debug, clap::Args)]
pub(super) struct Given {
    /// The planner's namespace.
    #[arg(long, value_name = "NS", default_value = NAMESPACE)]
    namespace: String,
    /// The planner's image.
    #[arg(long, value_name = "REF", default_value = IMAGE)]
    image: String,
    /// The filter's image, preferably by digest.
    #[arg(long, value_name = "REF", default_value = FILTER_IMAGE)]
    filter_image: String,
    /// The cluster's DNS domain.
    #[arg(long, value_name = "DOMAIN", default_value = CLUSTER_DOMAIN)]
    cluster_domain: String,
    /// Port of the API servers, for the planner's network policy; may be repeated.
    #[arg(long, value_name = "PORT", default_values_t = API_PORTS)]
    api_port: Vec<u16>,
    /// Host of the service's requests, or *.suffix; may be repeated. Default: all of the gateway's.
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,
    /// Path of the service's requests, or a prefix with * at its end; may be repeated. Default: all.
    #[arg(long, value_name = "PATH")]
    path: Vec<String>,
    /// Namespace of the gateway's pods [default: istio-ingress or envoy-gateway-system].
    #[arg(long, value_name = "NS")]
    gateway_namespace: Option<String>,
    /// Label of the gateway's pods; may be repeated [default: istio=ingress, or those of Envoy Gateway].
    #[arg(long, value_name = "KEY=VALUE")]
    gateway_label: Vec<String>,
    /// Gateway that there is already: the routes are attached to it.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    parent: Option<String>,
    /// Istio: make the routes a delegate, for a VirtualService that there is already.
    #[arg(long)]
    delegate: bool,
    /// Secret with the gateway's certificate: it then speaks HTTPS.
    #[arg(long, value_name = "NAME")]
    tls_secret: Option<String>,
    /// The gateway's port [default: 80, or 443 with --tls-secret].
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Istio: port at which the gateway's pods listen for it [default: the same].
    #[arg(long, value_name = "PORT")]
    target_port: Option<u16>,
    /// Port of the gateway's statistics [default: 15090 or 19001].
    #[arg(long, value_name = "PORT")]
    stats_port: Option<u16>,
}

impl Given {
    pub(super) fn options(&self) -> anyhow::Result<Options> {
        let mut gateway = GatewayOptions {
            namespace: self.gateway_namespace.clone(),
            parent: self.parent.clone(),
            delegate: self.delegate,
            tls_secret: self.tls_secret.clone(),
            port: self.port,
            target_port: self.target_port,
            stats_port: self.stats_port,
            ..GatewayOptions::default()
        };
        for label in &self.gateway_label {
            gateway.add_label(label).context("command line")?;
        }
        Ok(Options {
            namespace: self.namespace.clone(),
            image: self.image.clone(),
            filter_image: self.filter_image.clone(),
            cluster_domain: self.cluster_domain.clone(),
            api_ports: self.api_port.clone(),
            hosts: self.host.clone(),
            paths: self.path.clone(),
            gateway,
        })
    }

    /// Options that files of all services depend on, as written in a command line.
    pub(super) fn of_all(&self) -> String {
        let mut line = String::new();
        for (name, value, default) in [
            ("namespace", &self.namespace, NAMESPACE),
            ("image", &self.image, IMAGE),
            ("cluster-domain", &self.cluster_domain, CLUSTER_DOMAIN),
        ] {
            if value != default {
                line += &format!(" --{name} {value}");
            }
        }
        if self.api_port != API_PORTS {
            for port in &self.api_port {
                line += &format!(" --api-port {port}");
            }
        }
        let ports = [("tls-secret", &self.tls_secret), ("port", &text(self.port))];
        line + &optional(ports)
    }

    /// Options that a service's own files depend on besides.
    pub(super) fn of_service(&self) -> String {
        let mut line = String::new();
        if self.filter_image != FILTER_IMAGE {
            line += &format!(" --filter-image {}", self.filter_image);
        }
        for (name, values) in [
            ("host", &self.host),
            ("path", &self.path),
            ("gateway-label", &self.gateway_label),
        ] {
            for value in values {
                // A shell would take a star for files.
                let quote = if value.contains('*') { "'" } else { "" };
                line += &format!(" --{name} {quote}{value}{quote}");
            }
        }
        line += &optional([
            ("gateway-namespace", &self.gateway_namespace),
            ("parent", &self.parent),
        ]);
        if self.delegate {
            line += " --delegate";
        }
        line + &optional([
            ("target-port", &text(self.target_port)),
            ("stats-port", &text(self.stats_port)),
        ])
    }
}

fn text(port: Option<u16>) -> Option<String> {
    port.map(|port| port.to_string())
}

fn optional(options: [(&str, &Option<String>); 2]) -> String {
    let given = options.into_iter();
    let given = given.filter_map(|(name, value)| Some(format!(" --{name} {}", value.as_ref()?)));
    given.collect()
}
