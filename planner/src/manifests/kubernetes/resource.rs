//! The service as a custom resource, and the right to list the proxies' pods.

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde_json::{Value, json};

use super::super::backend::backends;
use super::super::istio::{INGRESS_LABEL, INGRESS_NAMESPACE};
use super::super::options::PLANNER;
use super::super::typed::typed;
use super::{Document, File, Frame, ManifestError};
use crate::service::Service;
use crate::spec::ServiceSpec;
use crate::spec::resource::SloService;

const WHY: &str = "The service. The planner finds the proxies by their pods; each variant's Deployment is taken to have the name of \
    its Service where the service file names none. Apply it once the definition is there (k8s/base/crd.yaml), and the planner. In mode \
    advisory nothing is resized: look at `kubectl -n NAMESPACE get slo -o wide`, then make it active.";
const FINDS_WHY: &str = "Where the gateway's pods are: their addresses, for their statistics.";
const FINDS: &str = "weir-planner-finds";

pub(super) fn file(
    service: &Service,
    spec: &ServiceSpec,
    frame: &Frame,
) -> Result<File, ManifestError> {
    let metadata = |name: &str| json!({ "name": name, "namespace": INGRESS_NAMESPACE });
    let api = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{api}/v1"), "kind": "Role", "metadata": metadata(FINDS),
        "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"] }],
    });
    let bound = json!({
        "apiVersion": format!("{api}/v1"), "kind": "RoleBinding", "metadata": metadata(FINDS),
        "roleRef": { "apiGroup": api, "kind": "Role", "name": FINDS },
        "subjects": [{ "kind": "ServiceAccount", "name": PLANNER, "namespace": frame.options.namespace }],
    });
    let documents = vec![
        Document::new(FINDS_WHY, typed::<Role>(role)?),
        Document::new("", typed::<RoleBinding>(bound)?),
        Document::new(WHY, resource(service, spec, frame)?),
    ];
    Ok(File::new("k8s/sloservice.yaml", documents))
}

fn resource(service: &Service, spec: &ServiceSpec, frame: &Frame) -> Result<Value, ManifestError> {
    let mut spec = serde_json::to_value(spec).map_err(|error| ManifestError::Form {
        what: "the service".to_owned(),
        error: error.to_string(),
    })?;
    let (name, value) = INGRESS_LABEL;
    let pods = json!({ "labels": { name: value }, "namespace": INGRESS_NAMESPACE });
    if let Some(spec) = spec.as_object_mut() {
        for key in ["service", "listen", "keyEnv", "keyFile"] {
            spec.remove(key);
        }
        spec.insert("proxies".to_owned(), json!({ "pods": pods }));
    }
    let variants = spec.get_mut("variants").and_then(Value::as_array_mut);
    for (variant, backend) in variants.into_iter().flatten().zip(backends(service)?) {
        let unnamed = variant.get("workload").is_none() && variant.get("resize").is_none();
        let mut variant = variant.as_object_mut();
        if let Some(variant) = &mut variant {
            // A profile file beside the service file: its content is part of the variant by now.
            variant.remove("profile");
        }
        if let Some(variant) = variant.filter(|_| unnamed && backend.subset.is_none()) {
            variant.insert("workload".to_owned(), json!({ "name": backend.name }));
        }
    }
    let body = json!({
        "apiVersion": "weir.dev/v1alpha1", "kind": "SloService",
        "metadata": { "name": service.name, "namespace": frame.models },
        "spec": spec,
    });
    // The written resource must parse.
    let read = serde_json::from_value::<SloService>(body.clone());
    let form = |error: String| ManifestError::Form {
        what: "the resource".to_owned(),
        error,
    };
    let read = read.map_err(|error| form(error.to_string()))?;
    Service::from_resource(&service.name, read.spec).map_err(|error| form(error.to_string()))?;
    Ok(body)
}
