//! Manifests that attach a service to a mesh, as values grouped by file, from a service and a few
//! [`Options`]. Pure: it reads, writes and requests nothing. The files in `istio/`, `k8s/` and `envoy/` are
//! its output.
//!
//! Each target has its own files: [`envoy`] a bootstrap, [`istio`] the resources that istiod reads,
//! [`gateway`] those that Envoy Gateway reads, [`kubernetes`] the planner itself. [`plugin`] has the parts
//! that all targets share, [`backend`] the addresses of the variants. Objects of Kubernetes' own kinds are
//! checked against its types.

mod backend;
mod envoy;
mod gateway;
mod istio;
mod kubernetes;
mod options;
mod plugin;
mod text;
mod typed;

use crate::service::Service;
use crate::spec::ServiceSpec;

pub use options::{FILTER_IMAGE, IMAGE, NAMESPACE, Options};
pub use plugin::KEY;
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

/// One file of manifests.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    /// Path, relative to the top of the repository.
    pub path: String,
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
    options.check()?;
    if let [_, _, ..] = service.stages.as_slice() {
        let right =
            "a service with `variants`: write one file for each stage, with its downstream_ms";
        return Err(refused("stages", service.stages.len(), right));
    }
    match target {
        Target::Envoy => envoy::files(service, options),
        Target::Istio => istio::files(service, options),
        Target::Gateway => gateway::files(service, options),
        Target::Kubernetes => kubernetes::files(service, spec, options),
    }
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
            documents,
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
