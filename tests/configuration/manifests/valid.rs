//! Tests that Envoy accepts the configurations made from the manifests, and rejects the faults in an
//! EnvoyFilter that an API server would store.

use std::net::SocketAddr;

use serde_json::{Value, json};
use weir_bed::built;
use weir_bed::envoy::validate;
use weir_planner::manifests::{Options, Target, render};
use weir_planner::service::Service;
use weir_planner::spec::ServiceSpec;

use super::bed::{document, documents, root};
use super::envoy_gateway;
use super::istiod::{Proxy, accept, cluster};

/// An unused address: only the configuration is validated.
const NOBODY: &str = "127.0.0.1:9";

fn module() -> String {
    built::filter().unwrap().to_str().unwrap().to_owned()
}

/// Validates a configuration with Envoy.
pub(crate) fn accepted(config: &Value) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("envoy.json");
    std::fs::write(&file, config.to_string()).unwrap();
    validate(&file).map_err(|error| format!("{error:#}"))
}

fn nobody() -> SocketAddr {
    NOBODY.parse().unwrap()
}

fn gateway(routes: &str) -> Proxy {
    let service = document(routes);
    let plugin = document("istio/gateway/resnet/wasmplugin.yaml");
    let config = &plugin["spec"]["pluginConfig"];
    let variants = config["plan"]["variants"].as_array().unwrap();
    let mut clusters: Vec<Value> = variants
        .iter()
        .map(|variant| cluster(variant["cluster"].as_str().unwrap(), Some(nobody())))
        .collect();
    clusters.push(cluster(
        config["planner"]["cluster"].as_str().unwrap(),
        Some(nobody()),
    ));
    let mut proxy = Proxy::gateway(&[&service], clusters);
    assert!(proxy.wasm_plugin(&plugin, &module()));
    proxy
}

/// A sidecar of a variant's server, with the resources that select it.
fn sidecar(gate: &Value) -> Proxy {
    let labels = &gate["spec"]["selector"]["matchLabels"];
    let port = gate["spec"]["match"][0]["ports"][0]["number"]
        .as_u64()
        .unwrap() as u16;
    let planner = &gate["spec"]["pluginConfig"]["planner"]["cluster"];
    let clusters = vec![
        cluster(&format!("inbound|{port}||"), Some(nobody())),
        cluster(planner.as_str().unwrap(), Some(nobody())),
    ];
    Proxy::sidecar(labels, port, clusters)
}

#[test]
fn gateway_accepts_all_resources() {
    let mut proxy = gateway("istio/gateway/resnet/virtualservice.yaml");
    let changed = proxy.envoy_filter(&document("istio/gateway/resnet/envoyfilter.yaml"));
    assert_eq!(changed, 9, "each patch has its place");
    let clusters = proxy.config["static_resources"]["clusters"].clone();
    for cluster in clusters.as_array().unwrap() {
        let of_a_variant = cluster["name"].as_str().unwrap().contains("resnet");
        let policy = "/load_balancing_policy/policies/0/typed_extension_config/typed_config";
        let method = cluster.pointer(&format!("{policy}/selection_method"));
        let expected = of_a_variant.then(|| json!("FULL_SCAN"));
        assert_eq!(method, expected.as_ref(), "{cluster}");
    }
    // The buffer is off but where a request of the service is decided.
    let filters = proxy.manager()["http_filters"].clone();
    assert_eq!(filters[0]["name"], "weir-resnet.buffer");
    assert_eq!(filters[0]["disabled"], true);
    let routes = proxy.manager()["route_config"]["virtual_hosts"][0]["routes"].clone();
    for (index, by_header) in [true, false, false].into_iter().enumerate() {
        let route = &routes[index]["route"];
        assert_eq!(route.get("cluster_header").is_some(), by_header, "{route}");
        assert_eq!(route.get("cluster").is_some(), !by_header, "{route}");
        assert!(route["idle_timeout"].is_string(), "{route}");
    }
    accepted(&proxy.config).unwrap();
}

/// The listeners of other teams on the same pods stay as they are.
#[test]
fn other_ports_are_left_alone() {
    let mut proxy = gateway("istio/gateway/resnet/virtualservice.yaml");
    let mut filter = document("istio/gateway/resnet/envoyfilter.yaml");
    let text = filter
        .to_string()
        .replace("\"portNumber\":80", "\"portNumber\":8080");
    filter = serde_json::from_str(&text).unwrap();
    let before = proxy.config["static_resources"]["listeners"].clone();
    assert_eq!(proxy.envoy_filter(&filter), 6, "routes and clusters alone");
    let after = &mut proxy.config["static_resources"]["listeners"];
    let mut before = before;
    for listeners in [&mut before, after] {
        let manager = "/0/filter_chains/0/filters/0/typed_config/route_config";
        listeners.pointer_mut(manager).unwrap().take();
    }
    assert_eq!(before, proxy.config["static_resources"]["listeners"]);
}

#[test]
fn timeouts_below_a_millisecond_are_refused() {
    let mut service = document("istio/gateway/resnet/virtualservice.yaml");
    assert_eq!(accept(&service), Ok(()));
    service["spec"]["http"][1]["timeout"] = json!("0s");
    let error = accept(&service).unwrap_err();
    assert!(error.contains("spec.http[1].timeout"), "{error}");
}

#[test]
fn header_routing_is_valid_without_patches() {
    accepted(&gateway("istio/header-routing/resnet/virtualservice.yaml").config).unwrap();
}

#[test]
fn sidecar_accepts_all_resources_and_only_its_gate() {
    let gates = documents("istio/sidecar/resnet/wasmplugins.yaml");
    for gate in &gates {
        let mut proxy = sidecar(&gate.body);
        let taken = gates
            .iter()
            .filter(|it| proxy.wasm_plugin(&it.body, &module()));
        assert_eq!(taken.count(), 1, "{}", gate.name());
        let router = document("istio/gateway/resnet/wasmplugin.yaml");
        assert!(!proxy.wasm_plugin(&router, &module()));
        assert_eq!(
            proxy.envoy_filter(&document("istio/sidecar/resnet/envoyfilter.yaml")),
            4
        );
        assert_eq!(
            proxy.envoy_filter(&document("istio/gateway/resnet/envoyfilter.yaml")),
            0
        );
        accepted(&proxy.config).unwrap();
    }
}

#[test]
fn traffic_extensions_produce_the_same_filters() {
    let extensions = documents("istio/traffic-extension/resnet/trafficextensions.yaml");
    let mut proxy = gateway("istio/gateway/resnet/virtualservice.yaml");
    let plugin = proxy.manager()["http_filters"]
        .as_array_mut()
        .unwrap()
        .remove(0);
    assert!(proxy.wasm_plugin(&extensions[0].body, &module()));
    let mut extension = proxy.manager()["http_filters"][0].clone();
    let configuration = "/typed_config/config/configuration/value";
    let role = |filter: &Value| -> Value {
        serde_json::from_str(filter.pointer(configuration).unwrap().as_str().unwrap()).unwrap()
    };
    let (mut router, both) = (role(&extension), role(&plugin));
    assert_eq!(
        (&router["role"], &both["role"]),
        (&json!("router"), &json!("both"))
    );
    router["role"] = json!("both");
    assert_eq!(router, both);
    *extension.pointer_mut(configuration).unwrap() = plugin.pointer(configuration).unwrap().clone();
    assert_eq!(extension, plugin);
    for (extension, gate) in extensions[1..]
        .iter()
        .zip(documents("istio/sidecar/resnet/wasmplugins.yaml"))
    {
        let (mut one, mut other) = (sidecar(&gate.body), sidecar(&gate.body));
        assert!(one.wasm_plugin(&extension.body, &module()));
        assert!(other.wasm_plugin(&gate.body, &module()));
        assert_eq!(one.config, other.config);
    }
}

#[test]
fn filters_from_a_file_are_inserted_in_the_right_place() {
    let filters = documents("istio/from-file/resnet/envoyfilters.yaml");
    let mut proxies = vec![gateway("istio/gateway/resnet/virtualservice.yaml")];
    for gate in documents("istio/sidecar/resnet/wasmplugins.yaml") {
        proxies.push(sidecar(&gate.body));
    }
    for (index, mut proxy) in proxies.into_iter().enumerate() {
        let filters_of =
            |proxy: &mut Proxy| proxy.manager()["http_filters"].as_array().unwrap().len();
        proxy.manager()["http_filters"]
            .as_array_mut()
            .unwrap()
            .retain(|it| it["name"] == "envoy.filters.http.router");
        let inserted: Vec<usize> = filters
            .iter()
            .map(|filter| proxy.envoy_filter(&filter.body))
            .collect();
        let only: Vec<usize> = (0..filters.len())
            .map(|it| usize::from(it == index))
            .collect();
        assert_eq!(inserted, only);
        assert_eq!(filters_of(&mut proxy), 2);
        assert_eq!(
            proxy.manager()["http_filters"][1]["name"],
            "envoy.filters.http.router"
        );
        let text = proxy
            .config
            .to_string()
            .replace("/var/lib/weir/weir_filter.wasm", &module());
        accepted(&serde_json::from_str(&text).unwrap()).unwrap();
        // A field that its type does not have is rejected too.
        let wrong = text.replacen("reload_config", "reload_configs", 1);
        assert!(accepted(&serde_json::from_str(&wrong).unwrap()).is_err());
    }
}

#[test]
fn envoy_gateway_accepts_all_resources() {
    let hosts = ["resnet18", "resnet50", "resnet152"].map(|name| (name, nobody()));
    accepted(&envoy_gateway::config(&hosts, "a-key-for-tests", &module())).unwrap();
}

/// The examples for a plain Envoy are complete bootstraps.
#[test]
fn plain_envoy_bootstraps_are_valid() {
    let text = std::fs::read_to_string(root().join("planner/service.example.yaml")).unwrap();
    let service = Service::from_yaml(&text).unwrap();
    let spec = ServiceSpec::from_yaml(&text).unwrap();
    let files = render(&service, &spec, &Options::default(), Target::Envoy).unwrap();
    assert_eq!(files.len(), 5, "with and without planner, and three gates");
    for file in files {
        let text = file
            .body()
            .unwrap()
            .replace("/etc/envoy/weir_filter.wasm", &module());
        let config: Value = serde_saphyr::from_str(&text).unwrap();
        accepted(&config).unwrap_or_else(|error| panic!("{}: {error}", file.path));
    }
}

#[test]
fn invalid_envoy_filter_is_rejected() {
    let manager = "/spec/configPatches/1/patch/value/typed_config";
    let early = format!("{manager}/early_header_mutation_extensions/0/typed_config");
    let no_type =
        "type.googleapis.com/envoy.extensions.http.early_header_mutation.v3.HeaderMutations";
    for (pointer, key, value) in [
        (early.as_str(), "@type", json!(no_type)),
        (early.as_str(), "mutation", json!([])),
        (
            manager,
            "@type",
            json!("type.googleapis.com/envoy.HttpConnectionManager"),
        ),
        (manager, "stream_idle_timeouts", json!("1s")),
        (manager, "stream_idle_timeout", json!("soon")),
        (
            "/spec/configPatches/0/patch/value",
            "connection_balance",
            json!({}),
        ),
        (
            "/spec/configPatches/3/patch/value/route",
            "cluster_headers",
            json!("x"),
        ),
    ] {
        let mut filter = document("istio/gateway/resnet/envoyfilter.yaml");
        let object = filter
            .pointer_mut(pointer)
            .unwrap()
            .as_object_mut()
            .unwrap();
        object.insert(key.to_owned(), value);
        let mut proxy = gateway("istio/gateway/resnet/virtualservice.yaml");
        proxy.envoy_filter(&filter);
        assert!(
            accepted(&proxy.config).is_err(),
            "{pointer}/{key} is let through"
        );
    }
    // An error in the filter's own configuration is found too.
    let mut plugin = document("istio/gateway/resnet/wasmplugin.yaml");
    plugin["spec"]["pluginConfig"]["deadline"]["default_ms"] = json!(0);
    let mut proxy = gateway("istio/gateway/resnet/virtualservice.yaml");
    proxy.manager()["http_filters"]
        .as_array_mut()
        .unwrap()
        .remove(0);
    assert!(proxy.wasm_plugin(&plugin, &module()));
    let error = accepted(&proxy.config).unwrap_err();
    assert!(error.contains("deadline.default_ms"), "{error}");
}
