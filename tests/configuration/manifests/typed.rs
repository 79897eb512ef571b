//! Schema tests: every document, read into the type of its kind and written again, is unchanged. Misspelt
//! keys and values of a wrong type are found.

use k8s_openapi::api::{apps, core, networking, policy, rbac};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kcr_extensions_istio_io::v1alpha1::wasmplugins::WasmPlugin;
use kcr_gateway_networking_k8s_io::v1 as gateway;
use kcr_networking_istio_io::{v1 as istio, v1alpha3};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::bed::{Document, RULES, all, below, documents, within};
use super::shapes;

/// Checks a document against its kind; the error says how it differs.
pub(crate) fn check(found: &Document) -> Result<(), String> {
    let api = found.body["apiVersion"].as_str().unwrap_or_default();
    let body = &found.body;
    match (api, found.kind()) {
        ("v1", "Namespace") => same::<core::v1::Namespace>(body),
        ("v1", "Secret") => same::<core::v1::Secret>(body),
        ("v1", "Service") => same::<core::v1::Service>(body),
        ("v1", "ServiceAccount") => same::<core::v1::ServiceAccount>(body),
        ("apps/v1", "Deployment") => same::<apps::v1::Deployment>(body),
        ("policy/v1", "PodDisruptionBudget") => same::<policy::v1::PodDisruptionBudget>(body),
        ("networking.k8s.io/v1", "NetworkPolicy") => same::<networking::v1::NetworkPolicy>(body),
        ("rbac.authorization.k8s.io/v1", kind) => match kind {
            "Role" => same::<rbac::v1::Role>(body),
            "RoleBinding" => same::<rbac::v1::RoleBinding>(body),
            "ClusterRole" => same::<rbac::v1::ClusterRole>(body),
            "ClusterRoleBinding" => same::<rbac::v1::ClusterRoleBinding>(body),
            _ => Err("no such kind".to_owned()),
        },
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => {
            same::<CustomResourceDefinition>(body)
        }
        ("weir.dev/v1alpha1", "SloService") => {
            // The serialized resource also contains the defaults, so only deserialization is checked.
            serde_json::from_value::<weir_planner::spec::resource::SloService>(body.clone())
                .map(drop)
                .map_err(|error| error.to_string())
        }
        ("extensions.istio.io/v1alpha1", "WasmPlugin") => same::<WasmPlugin>(body),
        ("extensions.istio.io/v1alpha1", "TrafficExtension") => extension(body),
        ("networking.istio.io/v1alpha3", "EnvoyFilter") => {
            same::<v1alpha3::envoyfilters::EnvoyFilter>(body)
        }
        ("networking.istio.io/v1", "Gateway") => same::<istio::gateways::Gateway>(body),
        ("networking.istio.io/v1", "VirtualService") => {
            same::<istio::virtualservices::VirtualService>(body)
        }
        ("networking.istio.io/v1", "DestinationRule") => {
            same::<istio::destinationrules::DestinationRule>(body)
        }
        ("gateway.networking.k8s.io/v1", "GatewayClass") => {
            same::<gateway::gatewayclasses::GatewayClass>(body)
        }
        ("gateway.networking.k8s.io/v1", "Gateway") => same::<gateway::gateways::Gateway>(body),
        ("gateway.networking.k8s.io/v1", "HTTPRoute") => {
            same::<gateway::httproutes::HttpRoute>(body)
        }
        (api, kind) => shapes::check(api, kind, body),
    }
}

fn same<T: DeserializeOwned + Serialize>(body: &Value) -> Result<(), String> {
    let read: T = serde_json::from_value(body.clone()).map_err(|error| error.to_string())?;
    let again = serde_json::to_value(read).map_err(|error| error.to_string())?;
    if again == *body {
        return Ok(());
    }
    Err(format!("{body}\nis read as\n{again}"))
}

/// No crate has a type for TrafficExtension yet. Its fields are WasmPlugin's, with the module's below `wasm`.
fn extension(body: &Value) -> Result<(), String> {
    const OUTSIDE: [&str; 5] = ["selector", "targetRefs", "phase", "priority", "match"];
    let mut plugin = body.clone();
    plugin["kind"] = json!("WasmPlugin");
    let spec = plugin["spec"].as_object_mut().ok_or("no spec")?;
    let Some(Value::Object(wasm)) = spec.remove("wasm") else {
        return Err("no wasm".to_owned());
    };
    if let Some(unknown) = spec.keys().find(|key| !OUTSIDE.contains(&key.as_str())) {
        return Err(format!("unknown: {unknown}"));
    }
    if let Some(misplaced) = wasm.keys().find(|key| OUTSIDE.contains(&key.as_str())) {
        return Err(format!("below wasm: {misplaced}"));
    }
    spec.extend(wasm);
    same::<WasmPlugin>(&plugin)
}

#[test]
fn every_document_matches_its_schema() {
    for found in all() {
        // Patches; and a file for Prometheus itself, whose expressions `tests/rules` reads.
        if found.file.starts_with("istio/pods/") || found.file == RULES {
            continue;
        }
        let result = check(&found);
        assert_eq!(
            result,
            Ok(()),
            "{}: {} {}",
            found.file,
            found.kind(),
            found.name()
        );
    }
}

#[test]
fn pod_patches_are_partial_deployments() {
    let patches = below("istio/pods");
    assert_eq!(patches.len(), 4, "the gateway and three variants");
    for patch in patches {
        let read: apps::v1::Deployment = serde_json::from_value(patch.body.clone()).unwrap();
        let again = serde_json::to_value(read).unwrap();
        assert!(within(&patch.body, &again), "{}", patch.file);
    }
}

/// Guards against a check that accepts everything.
#[test]
fn misspelt_key_is_found() {
    let table = [
        (
            "k8s/base/deployment.yaml",
            "/spec/template/spec/containers/0",
            "imagePullPolicies",
            json!("Always"),
        ),
        (
            "k8s/base/networkpolicy.yaml",
            "/spec",
            "policyType",
            json!(["Ingress"]),
        ),
        (
            "istio/gateway/resnet/wasmplugin.yaml",
            "/spec",
            "failurePolicy",
            json!("FAIL_OPEN"),
        ),
        (
            "istio/gateway/resnet/wasmplugin.yaml",
            "/spec",
            "failStrategy",
            json!("FAIL_CLOSED"),
        ),
        (
            "istio/gateway/resnet/envoyfilter.yaml",
            "/spec/configPatches/0",
            "applyto",
            json!("LISTENER"),
        ),
        (
            "istio/gateway/resnet/envoyfilter.yaml",
            "/spec/configPatches/0",
            "applyTo",
            json!("LISTENERS"),
        ),
        (
            "istio/gateway/resnet/virtualservice.yaml",
            "/spec/http/0",
            "time_out",
            json!("1s"),
        ),
        (
            "istio/gateway/resnet/destinationrules.yaml",
            "/spec/trafficPolicy/connectionPool/http",
            "maxPending",
            json!(1),
        ),
        (
            "istio/traffic-extension/resnet/trafficextensions.yaml",
            "/spec",
            "pluginConfig",
            json!({}),
        ),
        (
            "istio/traffic-extension/resnet/trafficextensions.yaml",
            "/spec/wasm",
            "selector",
            json!({}),
        ),
        (
            "k8s/envoy-gateway/resnet/httproute.yaml",
            "/spec/rules/0",
            "timeout",
            json!("1s"),
        ),
        (
            "k8s/envoy-gateway/resnet/policies.yaml",
            "/spec/wasm/0",
            "rootId",
            json!("weir"),
        ),
        (
            "k8s/overlays/gateway/kustomization.yaml",
            "",
            "resource",
            json!([]),
        ),
        (
            "k8s/monitoring/podmonitor.yaml",
            "/spec",
            "podMetricsEndpoint",
            json!([]),
        ),
    ];
    for (file, pointer, key, value) in table {
        let mut found = documents(file).remove(0);
        assert_eq!(check(&found), Ok(()), "{file}");
        let object = found.body.pointer_mut(pointer).unwrap();
        object
            .as_object_mut()
            .unwrap()
            .insert(key.to_owned(), value);
        assert!(
            check(&found).is_err(),
            "{file}: {pointer}/{key} is let through"
        );
    }
}
