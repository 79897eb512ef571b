//! Servers with a port of their own for gRPC, or with a name of their own for the model.

use serde_json::{Value, json};

use super::*;

/// The example with more keys of its first variant.
fn with(keys: &str) -> String {
    example().replacen(
        "  - name: resnet18\n",
        &format!("  - name: resnet18\n    {keys}\n"),
        1,
    )
}

fn body(files: &[File], path: &str) -> Value {
    let file = files.iter().find(|file| file.path == path);
    file.unwrap_or_else(|| panic!("no {path}")).documents[0]
        .body
        .clone()
}

#[test]
fn plain_envoy_has_a_cluster_for_each_port() {
    let text = with("grpcCluster: resnet18-grpc");
    let files = render(&text, &Options::default(), Target::Envoy).unwrap();
    let weir = body(&files, "envoy/weir.yaml");
    let clusters = weir["static_resources"]["clusters"].as_array().unwrap();
    let [rest, grpc] = &clusters[..2] else {
        panic!("{clusters:?}")
    };
    assert_eq!(grpc["name"], "resnet18-grpc");
    for (cluster, key, port) in [
        (rest, "http_protocol_options", 8000),
        (grpc, "http2_protocol_options", 8001),
    ] {
        let options = cluster.pointer(
            "/typed_extension_protocol_options/envoy.extensions.upstreams.http.v3.HttpProtocolOptions\
             /explicit_http_config",
        );
        assert!(options.unwrap().get(key).is_some(), "{cluster}");
        let address = "/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address/port_value";
        assert_eq!(cluster.pointer(address), Some(&json!(port)));
    }
    let gate = body(&files, "envoy/gate-resnet18.yaml");
    let routes = routes(&gate);
    assert_eq!(routes[0]["match"], json!({ "prefix": "/", "grpc": {} }));
    assert_eq!(routes[0]["route"]["cluster"], "resnet18-grpc");
    assert_eq!(routes[1]["match"], json!({ "prefix": "/" }));
    assert_eq!(routes[0]["route"]["timeout"], routes[1]["route"]["timeout"]);
}

fn routes(bootstrap: &Value) -> &Vec<Value> {
    let routes = bootstrap.pointer(
        "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/route_config/virtual_hosts/0/routes",
    );
    routes.unwrap().as_array().unwrap()
}

/// Calls without a choice, such as health and metadata, go to a gRPC port: of the fallback, or of any variant.
#[test]
fn grpc_without_a_choice_has_a_route_in_every_bootstrap() {
    let files = |text: &str| render(text, &Options::default(), Target::Envoy).unwrap();
    let named = |path: &str, text: &str| {
        let body = body(&files(text), path);
        let found = routes(&body).clone();
        let index = found.iter().position(|route| route["name"] == "grpc");
        index.map(|index| (found[index].clone(), found[index + 1].clone()))
    };
    let last = |text: &str| {
        text.replacen(
            "  - name: resnet152\n",
            "  - name: resnet152\n    grpcCluster: resnet152-grpc\n",
            1,
        )
    };
    for path in ["envoy/weir.yaml", "envoy/static.yaml"] {
        for (text, cluster) in [
            (with("grpcCluster: resnet18-grpc"), "resnet18-grpc"),
            (last(&with("grpcCluster: resnet18-grpc")), "resnet18-grpc"),
            (last(&example()), "resnet152-grpc"),
        ] {
            let (grpc, next) = named(path, &text).unwrap();
            assert_eq!(
                grpc["match"],
                json!({ "prefix": "/", "grpc": {} }),
                "{path}"
            );
            assert_eq!(grpc["route"]["cluster"], cluster, "{path}");
            assert_eq!(next["name"], "fallback", "{path}");
            // A call that waits in the filter is on this route.
            for key in ["timeout", "idle_timeout"] {
                assert_eq!(grpc["route"][key], next["route"][key], "{path}");
            }
            assert_eq!(
                grpc["request_body_buffer_limit"],
                next["request_body_buffer_limit"]
            );
        }
        assert_eq!(named(path, &example()), None, "{path}");
    }
}

/// Another port of the first variant's servers.
fn second_port() -> String {
    let spec = ServiceSpec::from_yaml(&example()).unwrap();
    let cluster = service(&spec).unwrap().variants[0].cluster.clone();
    cluster.replacen("|8000|", "|8001|", 1)
}

#[test]
fn istio_refuses_a_second_port() {
    let text = with(&format!("grpcCluster: '{}'", second_port()));
    let expected = [
        "variants[0].grpcCluster: given",
        "left out",
        "a gate at one port",
        "--gateway",
        "--envoy",
    ];
    refuses(&text, &Options::default(), Target::Istio, &expected);
}

#[test]
fn envoy_gateway_has_a_rule_for_each_port() {
    let text = with(&format!("grpcCluster: '{}'", second_port()));
    let rules = |options: &Options| {
        let files = render(&text, options, Target::Gateway).unwrap();
        let route = body(&files, "k8s/envoy-gateway/resnet/httproute.yaml");
        route["spec"]["rules"].as_array().unwrap().clone()
    };
    let grpc = json!({
        "type": "RegularExpression", "name": "content-type", "value": "(?i)application/grpc([ ;+].*)?",
    });
    let of = |name: &str| json!({ "type": "Exact", "name": "x-slo-variant", "value": name });
    // The first is the quickest, which the last two rules lead to.
    let expected = [
        (json!([of("resnet18"), grpc]), 8001),
        (json!([of("resnet18")]), 8000),
        (json!([of("resnet50")]), 8000),
        (json!([of("resnet152")]), 8000),
        (json!([grpc]), 8001),
        (Value::Null, 8000),
    ];
    let found = rules(&Options::default());
    let found: Vec<(Value, u16)> = found
        .iter()
        .map(|rule| {
            let port = rule["backendRefs"][0]["port"].as_u64().unwrap();
            let headers = rule["matches"][0].get("headers").cloned();
            (headers.unwrap_or_default(), port.try_into().unwrap())
        })
        .collect();
    assert_eq!(found, expected);
    let named = Options {
        paths: vec![
            "/v2/*".to_owned(),
            "/inference.GRPCInferenceService/*".to_owned(),
        ],
        ..Options::default()
    };
    for rule in rules(&named) {
        assert_eq!(rule["matches"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn grpc_port_of_other_servers_is_refused() {
    let own = second_port();
    let wrong = [
        "resnet18-grpc".to_owned(),
        own.replacen("|8001|", "|0|", 1),
        own.replacen("||", "|other|", 1),
        own.replacen(".models.", ".others.", 1),
    ];
    for cluster in wrong {
        let text = with(&format!("grpcCluster: '{cluster}'"));
        let right = format!(
            "it must be another port of the same servers, {}",
            own.replacen("|8001|", "|PORT|", 1)
        );
        let expected = [&format!("variants[0].grpcCluster: {cluster}"), &right];
        for target in [Target::Istio, Target::Gateway] {
            refuses(
                &text,
                &Options::default(),
                target,
                &expected.map(|it| it.as_str()),
            );
        }
    }
}

/// Envoy chooses the variant's route by the path that the filter has changed.
#[test]
fn routes_of_variants_match_renamed_paths() {
    let text = with("model: own");
    let options = Options {
        paths: vec!["/v2/models/digits/*".to_owned(), "/infer".to_owned()],
        ..Options::default()
    };
    let files = render(&text, &options, Target::Istio).unwrap();
    let prefixes = |route: &Value| -> Vec<String> {
        let matches = route["match"].as_array().unwrap().iter();
        let uris = matches.map(|it| it["uri"].as_object().unwrap().values().next().cloned());
        uris.map(|it| it.unwrap().as_str().unwrap().to_owned())
            .collect()
    };
    let own = ["/v2/models/digits/", "/infer", "/v2/models/own/"];
    let others = ["/v2/models/digits/", "/infer"];
    let by_cluster = body(&files, "istio/gateway/resnet/virtualservice.yaml");
    assert_eq!(prefixes(&by_cluster["spec"]["http"][0]), own);
    let by_header = body(&files, "istio/header-routing/resnet/virtualservice.yaml");
    let routes = &by_header["spec"]["http"];
    assert_eq!(prefixes(&routes[0]), own);
    assert_eq!(prefixes(&routes[1]), others);
    let files = render(&text, &options, Target::Gateway).unwrap();
    let route = body(&files, "k8s/envoy-gateway/resnet/httproute.yaml");
    for (rule, count) in [(0, 3), (1, 2)] {
        let matches = route["spec"]["rules"][rule]["matches"].as_array().unwrap();
        assert_eq!(matches.len(), count, "{matches:?}");
    }
    let plugin = body(&files, "k8s/envoy-gateway/resnet/policies.yaml");
    let variants = &plugin["spec"]["wasm"][0]["config"]["plan"]["variants"];
    assert_eq!(variants[0]["model"], "own");
    assert_eq!(variants[1].get("model"), None);
}

#[test]
fn own_path_is_matched_after_the_choice_and_configured() {
    let wrong = ServiceSpec::from_yaml(&with("path: small")).unwrap();
    let error = service(&wrong).unwrap_err().to_string();
    assert!(
        error.contains("variants[0].path: small; it must be 1 to 256"),
        "{error}"
    );
    let spec = ServiceSpec::from_yaml(&with("path: /small")).unwrap();
    let service = service(&spec).unwrap();
    let variants = &[&service.variants[0]];
    let paths = ["/predict".to_owned()];
    assert_eq!(
        plugin::paths_after_choice(&paths, variants),
        ["/predict", "/small"]
    );
    assert!(plugin::paths_after_choice(&[], variants).is_empty());
    let files = render(&with("path: /small"), &Options::default(), Target::Gateway).unwrap();
    let plugin = body(&files, "k8s/envoy-gateway/resnet/policies.yaml");
    let variants = &plugin["spec"]["wasm"][0]["config"]["plan"]["variants"];
    assert_eq!(variants[0]["path"], "/small");
}

#[test]
fn any_pattern_of_a_name_is_renamed() {
    let spec = ServiceSpec::from_yaml(&with("model: own")).unwrap();
    let service = service(&spec).unwrap();
    for (path, after) in [
        ("/v2/models/digits/infer", Some("/v2/models/own/infer")),
        ("/v2/models/dig*", Some("/v2/models/own*")),
        ("/v1/models/digits:*", Some("/v1/models/own:*")),
        ("/v2/models/own/*", None),
        ("/v2/*", None),
        ("/infer", None),
    ] {
        let paths = [path.to_owned()];
        let found = plugin::paths_after_choice(&paths, &[&service.variants[0]]);
        let expected: Vec<&str> = std::iter::once(path).chain(after).collect();
        assert_eq!(found, expected);
    }
}

/// The example with clusters named like the variants.
fn plain_names() -> String {
    let text = example().replace("outbound|8000||", "");
    text.replace(".models.svc.cluster.local", "")
}

#[test]
fn plain_envoy_has_the_addresses_that_are_named() {
    let server = |text: &str| text.parse::<ServerAt>().unwrap();
    let servers = [
        "resnet18=10.0.0.1:8081",
        "resnet18=[::1]:8082",
        "planner=planner.example:8443",
    ];
    let options = Options {
        servers: servers.map(server).into(),
        ..Options::default()
    };
    let files = render(&plain_names(), &options, Target::Envoy).unwrap();
    let weir = body(&files, "envoy/weir.yaml");
    let clusters = weir["static_resources"]["clusters"].as_array().unwrap();
    let hosts = |name: &str| -> Vec<(String, u64)> {
        let cluster = clusters.iter().find(|cluster| cluster["name"] == name);
        let hosts = &cluster.unwrap()["load_assignment"]["endpoints"][0]["lb_endpoints"];
        let address = |host: &Value| host["endpoint"]["address"]["socket_address"].clone();
        let addresses = hosts.as_array().unwrap().iter().map(address);
        let pair = |at: Value| {
            let host = at["address"].as_str().unwrap().to_owned();
            (host, at["port_value"].as_u64().unwrap())
        };
        addresses.map(pair).collect()
    };
    let at = |host: &str, port| (host.to_owned(), port);
    assert_eq!(hosts("resnet18"), [at("10.0.0.1", 8081), at("::1", 8082)]);
    assert_eq!(hosts("resnet50"), [at("resnet50", 8000)]);
    assert_eq!(hosts("planner"), [at("planner.example", 8443)]);
}

#[test]
fn wrong_address_is_refused() {
    for wrong in [
        "resnet18",
        "resnet18=10.0.0.1",
        "=10.0.0.1:80",
        "resnet18=10.0.0.1:0",
        "resnet18=10.0.0.1:65536",
        "resnet18=[10.0.0.1]:80",
        "resnet18=::1:80",
        "resnet18=http://10.0.0.1:80",
    ] {
        let error = wrong.parse::<ServerAt>().unwrap_err().to_string();
        let right = format!("--server: {wrong}; it must be CLUSTER=HOST:PORT");
        assert!(error.starts_with(&right), "{error}");
    }
    let options = Options {
        servers: vec!["resnet19=10.0.0.1:80".parse().unwrap()],
        ..Options::default()
    };
    let error = render(&plain_names(), &options, Target::Envoy).unwrap_err();
    assert_eq!(
        error.to_string(),
        "--server: resnet19=10.0.0.1:80; it must be an address of one of resnet18, resnet50, resnet152, planner"
    );
}
