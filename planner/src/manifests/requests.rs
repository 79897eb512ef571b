//! Requests that each service takes at a proxy, read from its rendered filter configuration. Two services that
//! would take the same requests are refused, also where one of them was rendered earlier.

use serde_json::Value;
use weir_filter::request::matching::{Host, Match};
use weir_filter::request::protocol::Pattern;

use super::{File, ManifestError, refused};

/// Path of the filter's configuration in a bootstrap.
const BOOTSTRAP: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/0\
    /typed_config/config/configuration/value";
/// Correct options of services that share proxies.
const RIGHT: &str =
    "a host (--host) or path (--path) of its own for each service, such as --host NAME.example.com";

/// Requests of one service at its proxies.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceRequests {
    service: String,
    proxies: Proxies,
    matches: Match,
}

/// Proxies that services may share, and what keeps their requests apart.
#[derive(Debug, Clone, PartialEq)]
enum Proxies {
    /// Pods with a filter for each service in one chain (Istio): each filter sees every request.
    Chain(Value),
    /// A Gateway with routes for each service (Envoy Gateway): the narrower route goes first.
    Routes(Value),
    /// One filter with a list of services (standalone Envoy): the first match goes first.
    List,
}

/// Returns the files of a service's folder that say which requests are its own, for the list of that folder's services.
#[must_use]
pub fn request_files(list: &str) -> &'static [&'static str] {
    match list {
        "istio/gateway/kustomization.yaml" => &["wasmplugin.yaml"],
        "k8s/envoy-gateway/kustomization.yaml" => &["policies.yaml", "httproute.yaml"],
        _ => &[],
    }
}

impl ServiceRequests {
    /// Reads the requests of each service from the documents of one folder. Other documents are passed over.
    #[must_use]
    pub fn read(documents: &[&Value]) -> Vec<ServiceRequests> {
        let at = |document: &Value, pointer: &str| {
            let value = document.pointer(pointer);
            value.cloned().unwrap_or_default()
        };
        let is_of = |document: &Value, kind: &str| at(document, "/kind") == kind;
        let route = documents.iter().find(|it| is_of(it, "HTTPRoute"));
        let parents = route.map_or(Value::Null, |route| at(route, "/spec/parentRefs"));
        let is_gate = |config: &Value| at(config, "/role") == "gate";
        let mut found = Vec::new();
        for document in documents {
            if is_of(document, "WasmPlugin") {
                let config = at(document, "/spec/pluginConfig");
                let pods = ["/metadata/namespace", "/spec/selector"].map(|it| at(document, it));
                if !is_gate(&config) {
                    found.push(of(&config, Proxies::Chain(pods.into_iter().collect())));
                }
            } else if is_of(document, "EnvoyExtensionPolicy") {
                let config = at(document, "/spec/wasm/0/config");
                found.push(of(&config, Proxies::Routes(parents.clone())));
            } else if let Some(text) = document.pointer(BOOTSTRAP).and_then(Value::as_str) {
                let config: Value = serde_json::from_str(text).unwrap_or_default();
                let services = config.pointer("/services").and_then(Value::as_array);
                let services = services.map_or(std::slice::from_ref(&config), Vec::as_slice);
                let services = services.iter().filter(|config| !is_gate(config));
                found.extend(services.map(|config| of(config, Proxies::List)));
            }
        }
        // A configuration that somebody else wrote may be of no service.
        found.retain(|requests| !requests.service.is_empty());
        found
    }

    /// Returns those of a service in a bootstrap's list.
    pub(super) fn listed(service: &str, hosts: &[String], paths: &[String]) -> ServiceRequests {
        ServiceRequests {
            service: service.to_owned(),
            proxies: Proxies::List,
            matches: matches(hosts, paths),
        }
    }

    /// Returns the service's name.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Checks that no other service takes these requests.
    ///
    /// # Errors
    /// Fails with both services' names and the requests.
    pub fn check_beside(&self, others: &[ServiceRequests]) -> Result<(), ManifestError> {
        for other in others {
            if self.service == other.service || self.proxies != other.proxies {
                continue;
            }
            let (ours, theirs) = (&self.matches, &other.matches);
            let conflict = match self.proxies {
                Proxies::Chain(_) => overlap(ours, theirs),
                Proxies::Routes(_) | Proxies::List => ours.covers(theirs) && theirs.covers(ours),
            };
            if !conflict {
                continue;
            }
            let value = if ours == theirs {
                format!(
                    "{ours}, for service {} as for service {}",
                    self.service, other.service
                )
            } else {
                let (a, b) = (&self.service, &other.service);
                format!("{ours} for service {a}, {theirs} for service {b}")
            };
            return Err(refused("--host, --path", value, RIGHT));
        }
        Ok(())
    }
}

/// Returns the requests of each service in rendered files.
pub fn requests(files: &[File]) -> Vec<ServiceRequests> {
    let documents = files.iter().flat_map(|file| &file.documents);
    let bodies: Vec<&Value> = documents.map(|document| &document.body).collect();
    ServiceRequests::read(&bodies)
}

/// Returns the match of hosts and paths; the filter's parser has validated them.
pub(super) fn matches(hosts: &[String], paths: &[String]) -> Match {
    Match {
        hosts: hosts.iter().filter_map(|host| Host::new(host)).collect(),
        paths: paths.iter().filter_map(|path| Pattern::new(path)).collect(),
    }
}

fn of(config: &Value, proxies: Proxies) -> ServiceRequests {
    let list = |key: &str| -> Vec<String> {
        let items = config.pointer(&format!("/match/{key}"));
        let items = items.and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    ServiceRequests {
        service: config
            .pointer("/service")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        proxies,
        matches: matches(&list("hosts"), &list("paths")),
    }
}

/// Whether a request may match both. Exact for names, domains, paths and prefixes.
fn overlap(a: &Match, b: &Match) -> bool {
    let host = |host: &Host| Match {
        hosts: vec![host.clone()],
        ..Match::default()
    };
    let path = |path: &Pattern| Match {
        paths: vec![path.clone()],
        ..Match::default()
    };
    let hosts = meet(&a.hosts, &b.hosts, host);
    hosts && meet(&a.paths, &b.paths, path)
}

/// Whether one of these is the same as one of those, or contains it; an empty list contains everything.
fn meet<T>(ours: &[T], others: &[T], single: impl Fn(&T) -> Match) -> bool {
    let related = |a: &T, b: &T| {
        let (a, b) = (single(a), single(b));
        a.covers(&b) || b.covers(&a)
    };
    let met = |a: &T| others.iter().any(|b| related(a, b));
    ours.is_empty() || others.is_empty() || ours.iter().any(met)
}
