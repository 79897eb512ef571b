//! Tests of several services in one folder, and of the options that attach a service to a gateway.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

/// A service of that name, with its model servers in that namespace.
fn named(name: &str, namespace: &str) -> String {
    example()
        .replace("service: resnet", &format!("service: {name}"))
        .replace(".models.svc", &format!(".{namespace}.svc"))
}

fn with(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::default();
    change(&mut options);
    options
}

fn document<'a>(files: &'a [File], path: &str) -> &'a Value {
    let file = files.iter().find(|file| file.path == path);
    &file.unwrap_or_else(|| panic!("no {path}")).documents[0].body
}

/// Kind, namespace and name of every object in these files.
fn objects(files: &[&File]) -> BTreeSet<String> {
    let documents = files.iter().flat_map(|file| &file.documents);
    let metadata = documents.map(|document| {
        let body = &document.body;
        let of = |key: &str| body["metadata"][key].as_str().unwrap_or_default();
        format!("{} {}/{}", body["kind"], of("namespace"), of("name"))
    });
    metadata.filter(|object| !object.ends_with('/')).collect()
}

/// Services share no file but lists and what is the same for all, and no object, whatever their namespaces.
#[test]
fn services_share_neither_files_nor_objects() {
    for (namespace, other) in [
        ("models", "vision"),
        ("models", "models"),
        ("istio-ingress", "weir-system"),
    ] {
        for target in [Target::Istio, Target::Gateway, Target::Kubernetes] {
            let options = Options::default();
            let first = render(&named("a", namespace), &options, target).unwrap();
            let second = render(&named("a-b", other), &options, target).unwrap();
            for file in &first {
                let Some(same) = second.iter().find(|it| it.path == file.path) else {
                    assert_eq!(file.kind, FileKind::Service, "{}", file.path);
                    continue;
                };
                assert_ne!(file.kind, FileKind::Service, "{}", file.path);
                if file.kind == FileKind::Shared {
                    assert_eq!(
                        file.text("c").unwrap(),
                        same.text("c").unwrap(),
                        "{}",
                        file.path
                    );
                }
            }
            let of_service = |files: &'_ [File]| -> BTreeSet<String> {
                let own = files.iter().filter(|file| file.kind == FileKind::Service);
                objects(&own.collect::<Vec<&File>>())
            };
            let (ours, theirs) = (of_service(&first), of_service(&second));
            assert!(!ours.is_empty());
            let both: Vec<&String> = ours.intersection(&theirs).collect();
            assert!(both.is_empty(), "{target:?}: {both:?}");
        }
    }
}

#[test]
fn list_keeps_the_parts_of_others_and_the_users_keys() {
    let files = render(&example(), &Options::default(), Target::Istio).unwrap();
    let list = files
        .iter()
        .find(|file| file.path == "istio/gateway/kustomization.yaml");
    let list = list.unwrap();
    let existing = "kind: Kustomization\nresources: [zebra, apple]\ncommonLabels: {a: b}\n";
    let merged = list.merged(existing).unwrap();
    assert_eq!(merged.parts(), ["apple", "resnet", "zebra"]);
    assert_eq!(
        merged.documents[0].body["commonLabels"],
        json!({ "a": "b" })
    );
    let again = list.merged(&merged.text("c").unwrap()).unwrap();
    assert_eq!(again, merged);
    assert!(list.merged("just text").is_err());
}

/// Routes, filter and EnvoyFilter of a service that has hosts and paths.
#[test]
fn hosts_and_paths_limit_routes_and_filter() {
    let options = with(|options| {
        options.hosts = vec!["a.example.com".to_owned(), "*.b.example.com".to_owned()];
        options.paths = vec!["/v2/*".to_owned(), "/infer".to_owned()];
    });
    let files = render(&example(), &options, Target::Istio).unwrap();
    let matched = json!({ "hosts": options.hosts, "paths": options.paths });
    let plugin = document(&files, "istio/gateway/resnet/wasmplugin.yaml");
    assert_eq!(plugin["spec"]["pluginConfig"]["match"], matched);
    let gates = document(&files, "istio/sidecar/resnet/wasmplugins.yaml");
    assert!(gates["spec"]["pluginConfig"].get("match").is_none());
    let gateway = document(&files, "istio/gateway/resnet/gateway.yaml");
    assert_eq!(gateway["spec"]["servers"][0]["hosts"], json!(options.hosts));
    let service = document(&files, "istio/gateway/resnet/virtualservice.yaml");
    assert_eq!(service["spec"]["hosts"], json!(options.hosts));
    let routes = service["spec"]["http"].as_array().unwrap();
    let names: Vec<&str> = routes
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    // The filter's stream is not among these paths.
    assert_eq!(
        names,
        [
            "weir-resnet.variant",
            "weir-resnet.websocket",
            "weir-resnet.fallback"
        ]
    );
    let fallback = json!([{ "uri": { "prefix": "/v2/" } }, { "uri": { "exact": "/infer" } }]);
    assert_eq!(routes[2]["match"], fallback);
    for matched in routes[0]["match"].as_array().unwrap() {
        assert!(
            matched["uri"].is_object() && matched["headers"].is_object(),
            "{matched}"
        );
    }

    let files = render(&example(), &options, Target::Gateway).unwrap();
    let route = document(&files, "k8s/envoy-gateway/resnet/httproute.yaml");
    assert_eq!(route["spec"]["hostnames"], json!(options.hosts));
    let last = &route["spec"]["rules"][3]["matches"];
    assert_eq!(
        last[0]["path"],
        json!({ "type": "RegularExpression", "value": "/v2/.*" })
    );
    assert_eq!(
        last[1]["path"],
        json!({ "type": "Exact", "value": "/infer" })
    );
    let policies = document(&files, "k8s/envoy-gateway/resnet/policies.yaml");
    assert_eq!(policies["spec"]["wasm"][0]["config"]["match"], matched);
}

#[test]
fn too_many_matches_of_a_route_are_refused() {
    let paths = |count: usize| {
        (0..count)
            .map(|at| format!("/{at}"))
            .collect::<Vec<String>>()
    };
    let text = example();
    let (head, variant) = text.split_once("  - name: resnet152").unwrap();
    let variants: String = (0..6)
        .map(|at| {
            format!(
                "  - name: resnet152{}",
                variant.replace("resnet152.", &format!("r{at}."))
            )
            .replacen("resnet152", &format!("r{at}"), 1)
        })
        .collect();
    let text = format!("{head}{variants}").replace("initial: 6", "initial: 2, min: 0");
    let options = with(|options| options.paths = paths(14));
    render(&text, &options, Target::Gateway).unwrap();
    let options = with(|options| options.paths = paths(15));
    refuses(
        &text,
        &options,
        Target::Gateway,
        &["--path: 15 of them", "at most 14", "9 rules"],
    );
}

/// Nothing is in Istio's root namespace, and the gateway's options reach every file that names it.
#[test]
fn gateway_options_reach_every_file() {
    let everything = |options: &Options| {
        let files = render(&example(), options, Target::Istio).unwrap();
        files
            .iter()
            .map(|file| file.text("c").unwrap())
            .collect::<String>()
    };
    let text = everything(&Options::default());
    assert!(!text.contains("istio-system") && !text.contains("ingressgateway"));
    let options = with(|options| {
        options.cluster_domain = "example.internal".to_owned();
        options.gateway.namespace = Some("edge".to_owned());
        options.gateway.add_label("app=edge").unwrap();
        options.gateway.tls_secret = Some("edge-cert".to_owned());
        options.gateway.target_port = Some(8443);
        options.gateway.stats_port = Some(15020);
    });
    let text = everything(&options);
    assert!(!text.contains("istio-ingress") && !text.contains("istio: ingress"));
    assert!(text.contains("outbound|8080||weir-planner.weir-system.svc.example.internal"));
    let files = render(&example(), &options, Target::Istio).unwrap();
    let server = &document(&files, "istio/gateway/resnet/gateway.yaml")["spec"]["servers"][0];
    assert_eq!(
        server["port"],
        json!({ "number": 443, "name": "https", "protocol": "HTTPS" })
    );
    assert_eq!(
        server["tls"],
        json!({ "mode": "SIMPLE", "credentialName": "edge-cert" })
    );
    let filter = document(&files, "istio/gateway/resnet/envoyfilter.yaml");
    for patch in filter["spec"]["configPatches"].as_array().unwrap() {
        // A listener's settings are for our port alone, a route's for our route.
        let (listener, route) = (
            &patch["match"]["listener"],
            &patch["match"]["routeConfiguration"],
        );
        let name = &route["vhost"]["route"]["name"];
        let ours = name
            .as_str()
            .is_some_and(|name| name.starts_with("weir-resnet."));
        let cluster = patch["applyTo"] == "CLUSTER";
        assert!(listener["portNumber"] == 8443 || ours || cluster, "{patch}");
    }
    let files = render(&example(), &options, Target::Gateway).unwrap();
    let listener = &document(&files, "k8s/envoy-gateway/gateway.yaml");
    assert_eq!(listener["kind"], "GatewayClass");
}

#[test]
fn routes_attach_to_an_existing_gateway() {
    let options = with(|options| options.gateway.delegate = true);
    let files = render(&example(), &options, Target::Istio).unwrap();
    let path = "istio/gateway/resnet/virtualservice.yaml";
    let spec = &document(&files, path)["spec"];
    assert!(spec.get("hosts").is_none() && spec.get("gateways").is_none());
    assert!(
        files
            .iter()
            .all(|file| !file.path.ends_with("/gateway/resnet/gateway.yaml"))
    );
    refuses(
        &example(),
        &options,
        Target::Gateway,
        &["--delegate", "only Istio"],
    );

    let options = with(|options| options.gateway.parent = Some("edge/main".to_owned()));
    let files = render(&example(), &options, Target::Istio).unwrap();
    assert_eq!(
        document(&files, path)["spec"]["gateways"],
        json!(["edge/main"])
    );
    assert!(
        files
            .iter()
            .all(|file| !file.path.ends_with("/gateway/resnet/gateway.yaml"))
    );
    let files = render(&example(), &options, Target::Gateway).unwrap();
    let route = document(&files, "k8s/envoy-gateway/resnet/httproute.yaml");
    assert_eq!(
        route["spec"]["parentRefs"],
        json!([{ "name": "main", "namespace": "edge" }])
    );
    assert!(
        files
            .iter()
            .all(|file| file.path != "k8s/envoy-gateway/gateway.yaml")
    );
    let resource = document(&files, "k8s/envoy-gateway/resnet/sloservice.yaml");
    let label =
        &resource["spec"]["proxies"]["pods"]["labels"]["gateway.envoyproxy.io/owning-gateway-name"];
    assert_eq!(label, "main");
}

/// Istio refuses timeouts below 1 ms; a route without `timeout` has none.
#[test]
fn no_route_has_a_timeout_of_zero() {
    let files = render(&example(), &Options::default(), Target::Istio).unwrap();
    for path in ["gateway", "header-routing"] {
        let service = document(&files, &format!("istio/{path}/resnet/virtualservice.yaml"));
        for route in service["spec"]["http"].as_array().unwrap() {
            let unlimited = route["name"] == "weir-resnet.websocket";
            assert_eq!(route.get("timeout").is_none(), unlimited, "{route}");
            assert_ne!(route["timeout"], "0s", "{route}");
        }
    }
}
