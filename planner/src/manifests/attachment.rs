//! Parts of a mesh's folder that concern the planner: the service as a custom resource, the right to list
//! the proxies' pods, and the network policy between planner and proxies.
//!
//! The mesh knows where its proxies are, so these are not among the planner's own files. `proxies.pods` of
//! the service file comes before the mesh's.

use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde_json::{Value, json};

use super::backend::{backends, namespace};
use super::calls::{self, Call};
use super::options::{Ingress, Options, PLANNER, PLANNER_PORT};
use super::typed::typed;
use super::{Document, File, ManifestError, network};
use crate::service::{ProxyPods, Service};
use crate::spec::ServiceSpec;
use crate::spec::resource::SloService;

const WHY: &str = "The service. The planner finds the proxies by their pods; each variant's Deployment is taken to have the name of \
    its Service where the service file names none. No overlay contains it: apply it once the definition (k8s/crd) and the planner \
    are there. In mode advisory nothing is resized: look at `kubectl -n NAMESPACE get slo -o wide`, then make it active.";
const FINDS_WHY: &str = "Where the proxies' pods are: their addresses, for their statistics.";
const NETWORK_WHY: &str = "Polls from the proxies to the planner, and from the planner to their statistics. It adds to what \
    k8s/base/networkpolicy.yaml lets through.";

/// A service, with the pods whose proxies carry its filter.
pub(super) struct Attachment<'a> {
    service: &'a Service,
    spec: &'a ServiceSpec,
    options: &'a Options,
    models: &'a str,
    proxies: ProxyPods,
}

impl<'a> Attachment<'a> {
    pub(super) fn new(
        service: &'a Service,
        spec: &'a ServiceSpec,
        options: &'a Options,
        ingress: &Ingress,
    ) -> Result<Attachment<'a>, ManifestError> {
        let given = service.proxy_pods.clone();
        Ok(Attachment {
            service,
            spec,
            options,
            models: namespace(&backends(service)?),
            proxies: given.unwrap_or_else(|| ingress.pods()),
        })
    }

    /// Returns the file of the resource in a folder.
    pub(super) fn resource_file(&self, folder: &str) -> Result<File, ManifestError> {
        let document = Document::new(WHY, self.resource()?);
        Ok(File::new(
            format!("{folder}/sloservice.yaml"),
            vec![document],
        ))
    }

    /// Returns the Role and RoleBinding for finding the proxies.
    pub(super) fn rights(&self) -> Result<Vec<Document>, ManifestError> {
        let name = format!("weir-planner-finds.{}", self.service.name);
        let api = "rbac.authorization.k8s.io";
        let role = json!({
            "apiVersion": format!("{api}/v1"), "kind": "Role",
            "metadata": self.metadata(&name, self.place()),
            "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"] }],
        });
        let bound = json!({
            "apiVersion": format!("{api}/v1"), "kind": "RoleBinding",
            "metadata": self.metadata(&name, self.place()),
            "roleRef": { "apiGroup": api, "kind": "Role", "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": PLANNER, "namespace": self.options.namespace }],
        });
        Ok(vec![
            Document::new(FINDS_WHY, typed::<Role>(role)?),
            Document::new("", typed::<RoleBinding>(bound)?),
        ])
    }

    /// Returns the policy of the planner's pods for the proxies, and for `others` that the mesh requires.
    pub(super) fn network(&self, others: Vec<Call>) -> Result<Vec<Document>, ManifestError> {
        let proxies = network::pods(self.place(), &json!(self.proxies.labels));
        let mut calls = vec![calls::of_proxies(&self.proxies, self.models)];
        calls.extend(others);
        let name = format!("weir-planner-proxies.{}", self.service.name);
        let body = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": self.metadata(&name, &self.options.namespace),
            "spec": {
                "podSelector": { "matchLabels": { "app.kubernetes.io/name": PLANNER } },
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{ "from": [proxies], "ports": [network::tcp(PLANNER_PORT)] }],
                "egress": network::egress(&calls),
            },
        });
        Ok(vec![Document::new(
            NETWORK_WHY,
            typed::<NetworkPolicy>(body)?,
        )])
    }

    /// Returns the namespace of the proxies' pods.
    fn place(&self) -> &str {
        self.proxies.namespace.as_deref().unwrap_or(self.models)
    }

    fn metadata(&self, name: &str, namespace: &str) -> Value {
        json!({ "name": name, "namespace": namespace, "labels": {
            "app.kubernetes.io/part-of": "weir", "weir.dev/service": self.service.name,
        } })
    }

    fn resource(&self) -> Result<Value, ManifestError> {
        let form = |error: String| ManifestError::Form {
            what: "the resource".to_owned(),
            error,
        };
        let spec = serde_json::to_value(self.spec).map_err(|error| form(error.to_string()))?;
        let body = json!({
            "apiVersion": "weir.dev/v1alpha1", "kind": "SloService",
            "metadata": { "name": self.service.name, "namespace": self.models },
            "spec": self.of_resource(spec)?,
        });
        // The written resource must parse.
        let read = serde_json::from_value::<SloService>(body.clone());
        let read = read.map_err(|error| form(error.to_string()))?;
        Service::from_resource(&self.service.name, read.spec)
            .map_err(|error| form(error.to_string()))?;
        Ok(body)
    }

    /// Converts a file's spec to a resource's: without the process's keys, with pods and workloads.
    fn of_resource(&self, mut spec: Value) -> Result<Value, ManifestError> {
        if let Some(spec) = spec.as_object_mut() {
            for key in ["service", "listen", "keyEnv", "keyFile"] {
                spec.remove(key);
            }
        }
        let proxies = spec.get_mut("proxies").and_then(Value::as_object_mut);
        if let Some(proxies) = proxies {
            // Addresses and names are those of a file; its interval and timeout hold here as well.
            proxies.remove("stats");
            proxies.remove("dns");
            let mut pods = json!({
                "labels": self.proxies.labels, "port": self.proxies.port, "path": self.proxies.path,
            });
            if let (Some(namespace), Some(pods)) = (&self.proxies.namespace, pods.as_object_mut()) {
                pods.insert("namespace".to_owned(), json!(namespace));
            }
            proxies.insert("pods".to_owned(), pods);
        }
        let variants = spec.get_mut("variants").and_then(Value::as_array_mut);
        for (variant, backend) in variants.into_iter().flatten().zip(backends(self.service)?) {
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
        Ok(spec)
    }
}
