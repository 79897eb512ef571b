//! The custom resource `SloService` (weir.dev/v1alpha1): its spec has the service file's type. Data only:
//! [`crate::service`] validates it, and the operator acts on it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResourceExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::raw::{RawDuration, from_yaml};
use super::renamed::renamed;
pub use super::{ServiceSpec, SloService};
use crate::service::ConfigError;

/// Status of a service, written by the leading planner.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SloServiceStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions: Accepted, ProfileReady, Planned, Actuated, Degraded, Ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Reason for the current plan, in one sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Forecast of the demand with headroom, in requests/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demand_rps: Option<f64>,
    /// Actual cores of all variants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
    /// Part of the budget that the service shares with others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_budget: Option<SharedBudgetStatus>,
    /// Current plan of each stage, as published to the proxies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["stage"]))]
    pub plans: Vec<StagePlan>,
    /// Time at which the plans were last renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned_at: Option<Time>,
}

/// State of a service in its shared budget.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedBudgetStatus {
    /// Name of the shared budget.
    pub name: String,
    /// Part of this service, in cores; unknown until its pods have been observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<f64>,
    /// Fewest cores that carry the demand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub need: Option<f64>,
    /// Cores that the policy takes with the whole budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred: Option<f64>,
}

/// Plan of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StagePlan {
    /// Name of the stage, which its filters carry as `service`.
    pub stage: String,
    /// Revision of the plan.
    pub revision: u64,
    /// Downstream time: time that the stages after this one need.
    pub downstream_time: RawDuration,
    /// Variants, in the order of the spec.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub variants: Vec<PlannedVariant>,
}

/// Plan of one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedVariant {
    /// Name of the variant.
    pub name: String,
    /// Share of the traffic, 0 to 1.
    pub share: f64,
    /// Number of requests executed at the same time.
    pub slots: u32,
    /// Number of requests that one batch holds.
    pub batch: u32,
    /// High percentile of the time from dispatch to response.
    pub service_time: RawDuration,
    /// Replicas that serve.
    pub replicas: u32,
    /// Actual cores of all replicas together.
    pub cores: f64,
}

/// Types of a resource's conditions; a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionType {
    /// The spec is valid and in use.
    Accepted,
    /// Latency and capacity of every variant are known.
    ProfileReady,
    /// A plan is published.
    Planned,
    /// The target cores are the actual ones.
    Actuated,
    /// Something works less well than it should.
    Degraded,
    /// A plan is in force, and what it needs is there or under way.
    Ready,
}

impl ConditionType {
    /// All condition types.
    pub const ALL: [ConditionType; 6] = [
        ConditionType::Accepted,
        ConditionType::ProfileReady,
        ConditionType::Planned,
        ConditionType::Actuated,
        ConditionType::Degraded,
        ConditionType::Ready,
    ];

    /// Returns the value of the field `type`.
    pub const fn label(self) -> &'static str {
        match self {
            ConditionType::Accepted => "Accepted",
            ConditionType::ProfileReady => "ProfileReady",
            ConditionType::Planned => "Planned",
            ConditionType::Actuated => "Actuated",
            ConditionType::Degraded => "Degraded",
            ConditionType::Ready => "Ready",
        }
    }
}

impl SloService {
    /// Parses a manifest of the resource without validating the values of its spec.
    ///
    /// # Errors
    /// Fails on an unknown, missing or malformed key.
    pub fn from_yaml(text: &str) -> Result<SloService, ConfigError> {
        from_yaml(text, "resource").map_err(renamed)
    }
}

/// Returns the custom resource definition, as a manifest.
pub fn definition() -> serde_json::Value {
    let mut definition = serde_json::to_value(SloService::crd()).unwrap_or_default();
    remove_rust_formats(&mut definition);
    definition
}

/// Removes Rust's integer formats (`uint32`), of which an API server warns; the schema's minimum says the
/// same.
fn remove_rust_formats(schema: &mut serde_json::Value) {
    let format = schema.get("format").and_then(serde_json::Value::as_str);
    if format.is_some_and(|format| format.starts_with("uint"))
        && let Some(schema) = schema.as_object_mut()
    {
        schema.remove("format");
    }
    match schema {
        serde_json::Value::Object(parts) => parts.values_mut().for_each(remove_rust_formats),
        serde_json::Value::Array(parts) => parts.iter_mut().for_each(remove_rust_formats),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn property<'a>(schema: &'a serde_json::Value, path: &str) -> &'a serde_json::Value {
        path.split('.').fold(schema, |schema, key| match key {
            "[]" => &schema["items"],
            key => &schema["properties"][key],
        })
    }

    #[test]
    fn schema_has_only_formats_known_to_api_servers() {
        let text = definition().to_string();
        let formats = text.split("\"format\":\"").skip(1);
        for format in formats.map(|rest| rest.split('"').next().unwrap()) {
            let known = ["int32", "int64", "float", "double", "date-time"];
            assert!(known.contains(&format), "{format}");
        }
        let slo = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/slo";
        let slo = &definition().pointer(slo).cloned().unwrap();
        assert!(slo["pattern"].is_string(), "{slo}");
        let rule = slo["x-kubernetes-validations"][0]["message"].as_str();
        assert_eq!(rule, Some("must be 1ms to 1h"), "{slo}");
    }

    #[test]
    fn definition_is_structural_and_documented() {
        let crd = definition();
        let version = &crd["spec"]["versions"][0];
        assert_eq!(version["name"], "v1alpha1");
        assert_eq!(version["subresources"], serde_json::json!({ "status": {} }));
        let schema = &version["schema"]["openAPIV3Schema"];
        let spec = property(schema, "spec");
        for (path, kind) in [
            ("slo", "string"),
            ("demand.window", "string"),
            ("proxies.interval", "string"),
            ("variants.[].cores.min", "number"),
            ("stages.[].variants.[].workload.name", "string"),
            ("proxies.pods.labels", "object"),
            ("mode", "string"),
        ] {
            let property = property(spec, path);
            assert_eq!(property["type"], kind, "{path}: {property}");
            let described = property["description"].as_str();
            assert!(described.is_some_and(|text| text.len() > 5), "{path}");
        }
        let parallelism = property(spec, "variants.[].latency.parallelism");
        assert_eq!(parallelism["x-kubernetes-int-or-string"], true);
        // Keys of the service file alone are absent from the resource; nothing is defined twice.
        for key in ["service", "listen", "keyEnv", "keyFile"] {
            assert_eq!(*property(spec, key), serde_json::Value::Null, "{key}");
        }
        let status = property(schema, "status");
        for (schema, path, key) in [
            (spec, "variants", "name"),
            (spec, "stages", "name"),
            (spec, "stages.[].variants", "name"),
            (spec, "classes", "name"),
            (status, "conditions", "type"),
            (status, "plans", "stage"),
            (status, "plans.[].variants", "name"),
        ] {
            let list = property(schema, path);
            let keys = (
                &list["x-kubernetes-list-type"],
                &list["x-kubernetes-list-map-keys"],
            );
            let expected = (serde_json::json!("map"), serde_json::json!([key]));
            assert_eq!(keys, (&expected.0, &expected.1), "{path}");
            let required = list["items"]["required"].as_array().unwrap();
            assert!(required.contains(&key.into()), "{path}");
        }
        let text = crd.to_string();
        assert!(
            !text.contains("additionalProperties\":false"),
            "not structural"
        );
        assert!(!text.contains("$ref"), "not structural");
        // Settings of a policy are refused with another one; three rules more are about other keys.
        let rules = spec["x-kubernetes-validations"].as_array().unwrap();
        let policies = property(spec, "policy")["enum"].as_array().unwrap();
        let names = policies.iter().filter_map(serde_json::Value::as_str);
        let with_settings: Vec<&str> = names
            .filter(|name| property(spec, name).is_object())
            .collect();
        for name in &with_settings {
            let rule = format!("!has(self.{name}) || self.policy == '{name}'");
            assert!(rules.iter().any(|one| one["rule"] == rule), "{rule}");
        }
        assert_eq!(rules.len(), with_settings.len() + 4);
    }

    #[test]
    fn resource_yields_same_service_as_file() {
        let text = crate::spec::tests::small();
        let file = crate::service::Service::from_yaml(&text).unwrap();
        let mut spec: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        for key in ["service", "listen", "keyEnv"] {
            spec.as_object_mut().unwrap().remove(key).unwrap();
        }
        let manifest = serde_json::json!({
            "apiVersion": "weir.dev/v1alpha1", "kind": "SloService",
            "metadata": { "name": "demo" }, "spec": spec,
        });
        let resource: SloService = serde_json::from_value(manifest).unwrap();
        let service =
            crate::service::Service::from_resource("demo", resource.spec.clone()).unwrap();
        assert_eq!(service, file);
        // Serializing and parsing again changes nothing.
        let again = serde_json::to_value(&resource.spec).unwrap();
        let again: ServiceSpec = serde_json::from_value(again).unwrap();
        let again = crate::service::Service::from_resource("demo", again).unwrap();
        assert_eq!(again, file);
        let mut of_host = resource.spec.clone();
        for variant in of_host.variants.iter_mut().flatten() {
            (variant.resize, variant.systemd) = (None, Some("a.service".to_owned()));
        }
        let refused = crate::service::Service::from_resource("demo", of_host).unwrap_err();
        let expected = "variants[0].systemd: a.service; it must be left out";
        assert!(refused.to_string().starts_with(expected), "{refused}");
        let mut named = resource.spec;
        named.listen = Some("127.0.0.1:1".to_owned());
        let refused = crate::service::Service::from_resource("demo", named).unwrap_err();
        assert!(
            refused.to_string().contains("listen: 127.0.0.1:1"),
            "{refused}"
        );
    }
}
