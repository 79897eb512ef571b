//! Options of `weir manifests` on names, images and the gateway, and their form in a command line.

use anyhow::Context;
use weir_planner::manifests::{
    API_PORTS, CLUSTER_DOMAIN, FILTER_IMAGE, GatewayOptions, IMAGE, NAMESPACE, Options, PlannerTls,
    ServerAt,
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
    /// Host of the service's requests, or *.suffix; may be repeated. With several FILEs SERVICE=HOST is of that
    /// service alone. Default: all of the gateway's.
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,
    /// Path of the service's requests, or a prefix with * at its end; may be repeated. With several FILEs
    /// SERVICE=PATH is of that service alone. Default: all.
    #[arg(long, value_name = "PATH")]
    path: Vec<String>,
    /// With --envoy: address of a server of a cluster, or of the planner (cluster `planner`); may be repeated
    /// [default: the cluster's name, resolved by DNS].
    #[arg(long, value_name = "CLUSTER=HOST:PORT", requires = "envoy")]
    server: Vec<ServerAt>,
    /// Secret with the planner's certificate: tls.crt, tls.key and ca.crt. Polls then use TLS.
    #[arg(long, value_name = "NAME")]
    planner_tls_secret: Option<String>,
    /// Secret with ca.crt in the proxies' namespaces [default: as --planner-tls-secret].
    #[arg(long, value_name = "NAME", requires = "planner_tls_secret")]
    planner_ca_secret: Option<String>,
    /// Name in the planner's certificate [default: weir-planner.NS.svc, or with --envoy the planner's address].
    #[arg(long, value_name = "NAME", requires = "planner_tls_secret")]
    planner_tls_name: Option<String>,
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
    /// Returns the options of each of these services.
    pub(super) fn options(&self, services: &[&str]) -> anyhow::Result<Vec<Options>> {
        let common = self.common()?;
        let (hosts, paths) = (
            of_each("--host", &self.host, services)?,
            of_each("--path", &self.path, services)?,
        );
        let each = hosts.into_iter().zip(paths);
        Ok(each
            .map(|(hosts, paths)| Options {
                hosts,
                paths,
                ..common.clone()
            })
            .collect())
    }

    fn common(&self) -> anyhow::Result<Options> {
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
            servers: self.server.clone(),
            planner_tls: self.planner_tls_secret.clone().map(|secret| PlannerTls {
                secret,
                ca_secret: self.planner_ca_secret.clone(),
                name: self.planner_tls_name.clone(),
            }),
            gateway,
            ..Options::default()
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
        for ServerAt {
            cluster,
            host,
            port,
        } in &self.server
        {
            let host = match host.contains(':') {
                true => format!("[{host}]"),
                false => host.clone(),
            };
            line += &format!(" --server {cluster}={host}:{port}");
        }
        line += &optional([
            ("planner-tls-secret", &self.planner_tls_secret),
            ("planner-ca-secret", &self.planner_ca_secret),
            ("planner-tls-name", &self.planner_tls_name),
        ]);
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

/// Returns the values of each service: those that name it, and those that name none.
fn of_each(option: &str, values: &[String], services: &[&str]) -> anyhow::Result<Vec<Vec<String>>> {
    let mut each = vec![Vec::new(); services.len()];
    for value in values {
        // A path begins with a slash and may have `=` in it; a name has no slash.
        let named = value
            .split_once('=')
            .filter(|(name, _)| !name.contains('/'));
        let (name, value) = named.map_or((None, value.as_str()), |(name, rest)| (Some(name), rest));
        if let Some(name) = name.filter(|name| !services.contains(name)) {
            anyhow::bail!(
                "{option}: {name}={value}; it must begin with a service of the files, which are {}",
                services.join(", "),
            );
        }
        for (service, own) in services.iter().zip(&mut each) {
            if name.is_none_or(|name| name == *service) {
                own.push(value.to_owned());
            }
        }
    }
    Ok(each)
}

fn text(port: Option<u16>) -> Option<String> {
    port.map(|port| port.to_string())
}

fn optional<const N: usize>(options: [(&str, &Option<String>); N]) -> String {
    let given = options.into_iter();
    let given = given.filter_map(|(name, value)| Some(format!(" --{name} {}", value.as_ref()?)));
    given.collect()
}
