//! Validation of options: each refusal names the option, the value and what would be right.

use std::net::Ipv6Addr;
use std::str::FromStr;

use weir_api::plan::is_name;

use super::super::{ManifestError, PlannerTls, refused};
use super::{
    API_PORTS_MAX, GatewayOptions, HOSTS_MAX, LABELS_MAX, Options, PATHS_MAX, SERVERS_MAX, ServerAt,
};

/// Maximum length of an image reference: a registry's limit for a name, and a digest.
const IMAGE_MAX: usize = 255 + 72;
/// Maximum length of a host name.
const HOST_MAX: usize = 253;
/// Maximum length of a path.
const PATH_MAX: usize = 256;
/// Maximum length of a label's name, and of its value.
const LABEL_MAX: usize = 63;
/// Valid names.
const NAME: &str = "1 to 63 of a-z, 0-9 and single dashes inside";

impl Options {
    pub(in super::super) fn check(&self) -> Result<(), ManifestError> {
        let name = |path: &str, value: &str| {
            if is_name(value) {
                return Ok(());
            }
            Err(refused(path, value, NAME))
        };
        name("--namespace", &self.namespace)?;
        image("--image", &self.image)?;
        image("--filter-image", &self.filter_image)?;
        if !is_domain(&self.cluster_domain) {
            let right = "a domain, such as cluster.local";
            return Err(refused("--cluster-domain", &self.cluster_domain, right));
        }
        count("--api-port", self.api_ports.len(), 1, API_PORTS_MAX)?;
        for number in &self.api_ports {
            port("--api-port", *number)?;
        }
        count("--server", self.servers.len(), 0, SERVERS_MAX)?;
        count("--host", self.hosts.len(), 0, HOSTS_MAX)?;
        for host in &self.hosts {
            if !is_domain(host.strip_prefix("*.").unwrap_or(host)) {
                let right =
                    "a lower-case name or *.suffix, without a port, such as models.example.com";
                return Err(refused("--host", host, right));
            }
        }
        count("--path", self.paths.len(), 0, PATHS_MAX)?;
        for path in &self.paths {
            if !is_path(path) {
                let right =
                    "a path that begins with / and may end in *, such as /v2/models/resnet/*";
                return Err(refused("--path", path, right));
            }
        }
        if let Some(tls) = &self.planner_tls {
            tls.check()?;
        }
        let gateway = &self.gateway;
        if let Some(namespace) = &gateway.namespace {
            name("--gateway-namespace", namespace)?;
        }
        gateway.check()
    }
}

impl FromStr for ServerAt {
    type Err = ManifestError;

    /// Reads `CLUSTER=HOST:PORT`; an IPv6 address is in brackets.
    fn from_str(text: &str) -> Result<ServerAt, ManifestError> {
        let refusal = || refused("--server", text, SERVER);
        let (cluster, at) = text.split_once('=').ok_or_else(refusal)?;
        let (host, port) = at.rsplit_once(':').ok_or_else(refusal)?;
        let port: u16 = port.parse().map_err(|_| refusal())?;
        let inside = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let is_right = match inside {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => is_domain(host),
        };
        if cluster.is_empty() || port == 0 || !is_right {
            return Err(refusal());
        }
        Ok(ServerAt {
            cluster: cluster.to_owned(),
            host: inside.unwrap_or(host).to_owned(),
            port,
        })
    }
}

impl PlannerTls {
    fn check(&self) -> Result<(), ManifestError> {
        let (secret, name) = ("the name of a Secret", "a DNS name in the certificate");
        for (path, value, right) in [
            ("--planner-tls-secret", Some(&self.secret), secret),
            ("--planner-ca-secret", self.ca_secret.as_ref(), secret),
            ("--planner-tls-name", self.name.as_ref(), name),
        ] {
            if let Some(value) = value.filter(|value| !is_domain(value)) {
                return Err(refused(path, value, right));
            }
        }
        Ok(())
    }
}

impl GatewayOptions {
    fn check(&self) -> Result<(), ManifestError> {
        count("--gateway-label", self.labels.len(), 0, LABELS_MAX)?;
        for (key, value) in &self.labels {
            if !is_label(key, value) {
                let label = format!("{key}={value}");
                return Err(refused("--gateway-label", label, LABEL));
            }
        }
        if let Some(parent) = &self.parent {
            let parts = parent.split_once('/');
            if !parts.is_some_and(|(namespace, name)| is_name(namespace) && is_domain(name)) {
                let right = "NAMESPACE/NAME of a Gateway";
                return Err(refused("--parent", parent, right));
            }
            if self.delegate {
                let right =
                    "left out with --delegate: the VirtualService that delegates names the Gateway";
                return Err(refused("--parent", parent, right));
            }
        }
        if let Some(secret) = &self.tls_secret
            && !is_domain(secret)
        {
            return Err(refused("--tls-secret", secret, "the name of a Secret"));
        }
        for (path, number) in [
            ("--port", self.port),
            ("--target-port", self.target_port),
            ("--stats-port", self.stats_port),
        ] {
            port(path, number.unwrap_or(1))?;
        }
        Ok(())
    }

    /// Adds a label of the gateway's pods, written `KEY=VALUE`.
    ///
    /// # Errors
    /// Fails if it is not a label, or if its key is given already.
    pub fn add_label(&mut self, text: &str) -> Result<(), ManifestError> {
        let Some((key, value)) = text.split_once('=') else {
            return Err(refused("--gateway-label", text, LABEL));
        };
        if self.labels.contains_key(key) {
            return Err(refused("--gateway-label", text, "one value for each key"));
        }
        self.labels.insert(key.to_owned(), value.to_owned());
        Ok(())
    }
}

const SERVER: &str = "CLUSTER=HOST:PORT, such as small=127.0.0.1:8081 or small=[::1]:8081";
const LABEL: &str = "KEY=VALUE, a label of Kubernetes, such as istio=ingress";

fn count(path: &str, count: usize, min: usize, max: usize) -> Result<(), ManifestError> {
    if (min..=max).contains(&count) {
        return Ok(());
    }
    Err(refused(
        path,
        format!("{count} of them"),
        format!("{min} to {max}"),
    ))
}

fn port(path: &str, port: u16) -> Result<(), ManifestError> {
    if port > 0 {
        return Ok(());
    }
    Err(refused(path, port, "1 to 65535"))
}

fn is_domain(text: &str) -> bool {
    text.len() <= HOST_MAX && text.split('.').all(is_name_of_domain)
}

/// Whether it is one label of a domain. Unlike in Weir's own names, dashes may follow one another.
fn is_name_of_domain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=LABEL_MAX).contains(&text.len())
        && text.chars().all(plain)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_path(text: &str) -> bool {
    let exact = text.strip_suffix('*').unwrap_or(text);
    let plain = |c: char| c.is_ascii_graphic() && !"*?#".contains(c);
    exact.starts_with('/') && text.len() <= PATH_MAX && exact.chars().all(plain)
}

fn is_label(key: &str, value: &str) -> bool {
    let part = |text: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let end = |c: char| c.is_ascii_alphanumeric();
        text.len() <= LABEL_MAX
            && text.chars().all(plain)
            && text.starts_with(end)
            && text.ends_with(end)
    };
    let (prefix, name) = key.split_once('/').unwrap_or(("prefix", key));
    is_domain(prefix) && part(name) && (value.is_empty() || part(value))
}

/// Validates an image reference: no scheme, and a well-formed digest if there is one.
fn image(path: &str, reference: &str) -> Result<(), ManifestError> {
    let right =
        "an image without a scheme, such as registry.example/weir:1.0 or …@sha256:<64 hex digits>";
    let plain = |c: char| c.is_ascii_alphanumeric() || "./_-:@".contains(c);
    let whole = |digest: &str| {
        digest.len() == 64 && digest.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
    };
    let digest = reference.split_once('@').map(|(_, digest)| digest);
    let fits = !reference.is_empty()
        && reference.len() <= IMAGE_MAX
        && !reference.contains("://")
        && reference.chars().all(plain)
        && digest.is_none_or(|digest| digest.strip_prefix("sha256:").is_some_and(whole));
    if fits {
        return Ok(());
    }
    Err(refused(path, reference, right))
}
