//! The planner on Kubernetes: its definition (`k8s/crd`), itself (`k8s/base`), its monitoring
//! (`k8s/monitoring`), and overlays that combine it with a mesh's files.
//!
//! None of these depends on a service. What does is `k8s/services`, with the rights to read in its namespace,
//! and `k8s/acts`, with the rights to write. The planner is not in a request's path: two small replicas, with
//! the rights listed in `rbac` and no others.

mod access;
mod dashboard;
mod monitoring;
mod overlays;
mod parts;
mod rules;
mod workload;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::backend::{backends, namespace};
use super::typed::typed;
use super::{Document, File, ManifestError, Options};
use crate::service::{Fallback, Service};

/// Data shared by the files.
struct Frame<'a> {
    options: &'a Options,
}

/// Files of the base, in the order of its kustomization.
const BASE: [&str; 8] = [
    "namespace",
    "serviceaccount",
    "rbac",
    "key",
    "deployment",
    "service",
    "networkpolicy",
    "poddisruptionbudget",
];

const LIST: &str =
    "The planner, without anything that a proxy or a service needs: see ../overlays.";
const CRD_LIST: &str =
    "The definition, apart from the planner: deleting it deletes every SloService.";
const CRD_WHY: &str = "The custom resource SloService: its spec is the service file's type, less what belongs to the planner's process.";

pub(super) fn files(service: &Service, options: &Options) -> Result<Vec<File>, ManifestError> {
    let backends = backends(service)?;
    let frame = Frame { options };
    let mut files = Vec::new();
    for name in BASE {
        let documents = match name {
            "namespace" => workload::namespace(&frame)?,
            "serviceaccount" => access::account(&frame)?,
            "rbac" => access::rbac(&frame)?,
            "key" => workload::key(&frame)?,
            "deployment" => workload::deployment(&frame)?,
            "service" => workload::service(&frame)?,
            "networkpolicy" => access::network(&frame)?,
            _ => workload::budget(&frame)?,
        };
        files.push(File::shared(format!("k8s/base/{name}.yaml"), documents));
    }
    let resources = BASE.map(|name| format!("{name}.yaml"));
    let list = json!({ "resources": resources });
    files.push(kustomization("k8s/base", LIST, "Kustomization", list));
    let definition = typed::<CustomResourceDefinition>(crate::spec::resource::definition())?;
    files.push(File::shared(
        "k8s/crd/crd.yaml",
        vec![Document::new(CRD_WHY, definition)],
    ));
    let list = json!({ "resources": ["crd.yaml"] });
    files.push(kustomization("k8s/crd", CRD_LIST, "Kustomization", list));
    let replaces = service.fallback == Fallback::Replace;
    let part = parts::Part {
        service,
        models: namespace(&backends),
        replaces,
    };
    files.extend(parts::files(&frame, &part)?);
    files.extend(monitoring::files(&frame)?);
    files.extend(overlays::overlays(&frame)?);
    Ok(files)
}

impl Frame<'_> {
    /// Returns a document of the planner's namespace, or of none if that is empty.
    fn object(&self, api: &str, kind: &str, name: &str, rest: Value) -> Value {
        self.object_in(&self.options.namespace, api, kind, name, rest)
    }

    fn object_in(&self, namespace: &str, api: &str, kind: &str, name: &str, rest: Value) -> Value {
        let mut object = json!({
            "apiVersion": api, "kind": kind, "metadata": { "name": name, "labels": labels() },
        });
        let metadata = object
            .pointer_mut("/metadata")
            .and_then(Value::as_object_mut);
        if let Some(metadata) = metadata.filter(|_| !namespace.is_empty()) {
            metadata.insert("namespace".to_owned(), json!(namespace));
        }
        if let (Some(object), Value::Object(rest)) = (object.as_object_mut(), rest) {
            object.extend(rest);
        }
        object
    }
}

/// Returns the labels that select the planner's pods.
fn selector() -> Value {
    json!({ "app.kubernetes.io/name": super::options::PLANNER })
}

fn labels() -> Value {
    json!({ "app.kubernetes.io/name": super::options::PLANNER, "app.kubernetes.io/part-of": "weir" })
}

fn kustomization(folder: &str, why: &str, kind: &str, rest: Value) -> File {
    let version = if kind == "Component" {
        "v1alpha1"
    } else {
        "v1beta1"
    };
    let mut body =
        json!({ "apiVersion": format!("kustomize.config.k8s.io/{version}"), "kind": kind });
    if let (Some(body), Value::Object(rest)) = (body.as_object_mut(), rest) {
        body.extend(rest);
    }
    File::shared(
        format!("{folder}/kustomization.yaml"),
        vec![Document::new(why, body)],
    )
}
