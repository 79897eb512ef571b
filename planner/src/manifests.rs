//! Manifests that attach a service to a mesh, as values grouped by file, from a service and a few
//! [`Options`]. Pure: it reads, writes and requests nothing. The files in `istio/`, `k8s/` and `envoy/` are
//! its output.
//!
//! Each target has its own files: [`envoy`] a bootstrap, [`istio`] the resources that istiod reads,
//! [`gateway`] those that Envoy Gateway reads, [`kubernetes`] the planner itself. [`plugin`] has the parts
//! that all targets share, [`backend`] the addresses of the variants, [`calls`] the planner's connections,
//! [`planner_tls`] their TLS, [`requests`] the check that no two services take the same requests.
//! Objects of Kubernetes' own kinds are checked against its types.
//!
//! Several services share one folder: each has files of its own ([`FileKind`]), and names of its own for
//! every object.

mod attachment;
mod backend;
mod calls;
mod envoy;
mod gateway;
mod istio;
mod kubernetes;
mod list;
mod network;
mod options;
mod planner_tls;
mod plugin;
mod requests;
mod text;
mod typed;

use crate::service::rule::refusal;
use crate::service::{ConfigError, Service};
use crate::spec::{ServiceFile, ServiceSpec};

pub use options::{
    API_PORTS, API_PORTS_MAX, CLUSTER_DOMAIN, FILTER_IMAGE, GatewayOptions, HOSTS_MAX, IMAGE,
    LABELS_MAX, NAMESPACE, Options, PATHS_MAX, SERVERS_MAX, ServerAt,
};
pub use planner_tls::PlannerTls;
pub use plugin::KEY;
pub use requests::{ServiceRequests, request_files, requests};
pub use text::COMMAND;

/// Platform that the manifests are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Standalone Envoy.
    Envoy,
    /// Istio, with a gateway and with sidecars.
    Istio,
    /// Envoy Gateway.
    Gateway,
    /// The planner on Kubernetes.
    Kubernetes,
}

/// Owner of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// One service: rendered anew, it replaces its own.
    Service,
    /// All services: the same whatever the service.
    Shared,
    /// All services: a kustomization with a part for each ([`File::merged`]).
    List,
}

/// One file of manifests.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    /// Path, relative to the top of the repository.
    pub path: String,
    /// Owner.
    pub kind: FileKind,
    /// Documents of the file.
    pub documents: Vec<Document>,
}

/// One document of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Purpose and reason: the comment above the document.
    pub why: String,
    /// Content of the document.
    pub body: serde_json::Value,
}

/// Reason why no manifests can be rendered.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum ManifestError {
    #[error("{path}: {value}; it must be {right}")]
    Value {
        path: String,
        value: String,
        right: String,
    },
    #[error("the filter would refuse its configuration: {0}")]
    Plugin(#[from] weir_filter::config::ConfigError),
    #[error("{what}: {error}")]
    Form { what: String, error: String },
}

/// Checks the service of a file. Unlike `weir serve`, manifests take `proxies.pods` too.
///
/// # Errors
/// The first thing that is wrong, with the key's path, the value and what is allowed.
pub fn service(spec: &ServiceSpec) -> Result<Service, ConfigError> {
    let mut spec = spec.clone();
    if spec.proxies.pods.is_none() {
        return Ok(ServiceFile::try_from(spec)?.service);
    }
    let missing = || refusal("service", "missing", "given in a service file");
    let name = spec.service.take().ok_or_else(missing)?;
    (spec.listen, spec.key_env, spec.key_file) = (None, None, None);
    Service::from_resource(&name, spec)
}

/// Renders the files of a target for a service and the spec it was read from.
///
/// # Errors
/// Fails if the service cannot be attached to that target, or if an option is invalid.
pub fn render(
    service: &Service,
    spec: &ServiceSpec,
    options: &Options,
    target: Target,
) -> Result<Vec<File>, ManifestError> {
    check(service, options)?;
    match target {
        Target::Envoy => envoy::files(&[(service, options)]),
        Target::Istio => istio::files(service, spec, options),
        Target::Gateway => gateway::files(service, spec, options),
        Target::Kubernetes => kubernetes::files(service, options),
    }
}

/// Renders the bootstraps of an Envoy that all these services share, each with its own options. The narrower
/// match goes first.
///
/// # Errors
/// Fails if a service cannot be attached, if an option is invalid, or if two services have a name, a cluster or
/// all requests in common.
pub fn render_together(services: &[(&Service, &Options)]) -> Result<Vec<File>, ManifestError> {
    for (service, options) in services {
        check(service, options)?;
    }
    envoy::files(services)
}

fn check(service: &Service, options: &Options) -> Result<(), ManifestError> {
    options.check()?;
    if let [_, _, ..] = service.stages.as_slice() {
        let right =
            "a service with `variants`: write one file for each stage, with its downstream_ms";
        return Err(refused("stages", service.stages.len(), right));
    }
    Ok(())
}

fn refused(
    path: impl Into<String>,
    value: impl ToString,
    right: impl Into<String>,
) -> ManifestError {
    ManifestError::Value {
        path: path.into(),
        value: value.to_string(),
        right: right.into(),
    }
}

impl File {
    fn new(path: impl Into<String>, documents: Vec<Document>) -> File {
        File {
            path: path.into(),
            kind: FileKind::Service,
            documents,
        }
    }

    fn shared(path: impl Into<String>, documents: Vec<Document>) -> File {
        File {
            kind: FileKind::Shared,
            ..File::new(path, documents)
        }
    }
}

impl Document {
    fn new(why: impl Into<String>, body: serde_json::Value) -> Document {
        Document {
            why: why.into(),
            body,
        }
    }
}

#[cfg(test)]
mod tests;
