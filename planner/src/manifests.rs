//! A service and a few [`Options`] → the manifests that attach it to a mesh, as values: what belongs into which
//! file. Pure; it reads, writes and asks nothing, and the files in `istio/`, `k8s/` and `envoy/` are its output.
//!
//! Each target has files of its own: [`envoy`] a bootstrap, [`istio`] what istiod turns into one, [`gateway`]
//! what Envoy Gateway does, [`kubernetes`] the planner itself. What all of them say of a service is in
//! [`plugin`]; where its variants are, in [`backend`]. Whatever Kubernetes has a type for passes through it.

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

/// What the manifests are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Envoy by itself.
    Envoy,
    /// Istio, by a gateway and by sidecars.
    Istio,
    /// Envoy Gateway.
    Gateway,
    /// The planner on Kubernetes.
    Kubernetes,
}

/// One file of manifests.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    /// Where it belongs, from the top of the repository.
    pub path: String,
    /// What is in it.
    pub documents: Vec<Document>,
}

/// One document of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// What it does, and why so: the comment above it.
    pub why: String,
    /// What it says.
    pub body: serde_json::Value,
}

/// Why there are no manifests.
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

/// The files of a target, of a service and of what it was read from.
///
/// # Errors
/// The service cannot be attached that way, or an option is none.
pub fn render(
    service: &Service,
    spec: &ServiceSpec,
    options: &Options,
    target: Target,
) -> Result<Vec<File>, ManifestError> {
    options.check()?;
    if let [_, _, ..] = service.stages.as_slice() {
        let right = "a service with `variants`: write one file for each stage, with its rest_ms";
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
