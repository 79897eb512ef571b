//! Tests that names, labels and paths used in one document exist in another.

use serde_json::{Value, json};
use weir_planner::key::PLACEHOLDER;

use super::bed::{Document, RULES, all, below, document, of, one, root, within};

const PLANNER: &str = "weir-planner";

/// Labels of the planner's pods.
fn pod_labels(all: &[Document]) -> Value {
    let deployment = one(all, "Deployment", PLANNER);
    deployment.body["spec"]["template"]["metadata"]["labels"].clone()
}

#[test]
fn selectors_match_the_planners_pods() {
    let all = all();
    let labels = pod_labels(&all);
    let mut selectors = Vec::new();
    for (kind, pointer) in [
        ("Deployment", "/spec/selector/matchLabels"),
        ("Service", "/spec/selector"),
        ("PodDisruptionBudget", "/spec/selector/matchLabels"),
        ("PodMonitor", "/spec/selector/matchLabels"),
    ] {
        let found = one(&all, kind, PLANNER);
        selectors.push((kind, found.body.pointer(pointer).unwrap().clone()));
    }
    for policy in of(&below("k8s"), "NetworkPolicy") {
        selectors.push((
            "NetworkPolicy",
            policy.body["spec"]["podSelector"]["matchLabels"].clone(),
        ));
    }
    for (kind, selector) in selectors {
        assert!(!selector.as_object().unwrap().is_empty(), "{kind}");
        assert!(
            within(&selector, &labels),
            "{kind}: {selector} is not in {labels}"
        );
    }
}

#[test]
fn planner_ports_account_and_key_exist() {
    let all = all();
    let deployment = one(&all, "Deployment", PLANNER);
    let pod = &deployment.body["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let named: Vec<&Value> = container["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| &port["name"])
        .collect();
    let service = one(&all, "Service", PLANNER);
    let port = &service.body["spec"]["ports"][0];
    assert!(named.contains(&&port["targetPort"]));
    let monitor = one(&all, "PodMonitor", PLANNER);
    assert!(named.contains(&&monitor.body["spec"]["podMetricsEndpoints"][0]["port"]));
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        assert!(
            named.contains(&&container[probe]["httpGet"]["port"]),
            "{probe}"
        );
    }
    let account = one(&all, "ServiceAccount", PLANNER);
    assert_eq!(pod["serviceAccountName"], account.name());
    for found in [deployment, service, account] {
        assert_eq!(
            found.namespace(),
            one(&all, "Namespace", "weir-system").name()
        );
    }

    let secret = one(&all, "Secret", "weir-key");
    let volume = &pod["volumes"][0];
    assert_eq!(volume["secret"]["secretName"], secret.name());
    assert_eq!(volume["name"], container["volumeMounts"][0]["name"]);
    let item = &volume["secret"]["items"][0];
    let keys = secret.body["stringData"][item["key"].as_str().unwrap()]
        .as_str()
        .unwrap();
    // The planner refuses what nobody has changed.
    assert_eq!(keys, format!("{PLACEHOLDER} poll\n{PLACEHOLDER} read\n"));
    let folder = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    let file = format!("{folder}/{}", item["path"].as_str().unwrap());
    let arguments = container["args"].as_array().unwrap();
    let at = arguments
        .iter()
        .position(|argument| argument == "--key-file")
        .unwrap();
    assert_eq!(arguments[at + 1], file);
    let listens = format!("0.0.0.0:{}", container["ports"][0]["containerPort"]);
    assert!(arguments.contains(&Value::String(listens)));
}

/// Each folder with a kustomization lists exactly the files that exist, except the SloServices: the definition
/// and the planner come first.
#[test]
fn kustomizations_list_exactly_the_existing_files() {
    let mut seen = 0;
    for found in all()
        .iter()
        .filter(|it| it.file.ends_with("/kustomization.yaml"))
    {
        seen += 1;
        let (folder, _) = found.file.rsplit_once('/').unwrap();
        let lists = [&found.body["resources"], &found.body["components"]];
        let listed = lists.into_iter().filter_map(Value::as_array).flatten();
        let listed: Vec<&str> = listed.map(|it| it.as_str().unwrap()).collect();
        let generators = found.body["configMapGenerator"].as_array();
        let files = generators.into_iter().flatten().map(|it| &it["files"]);
        for file in files.filter_map(Value::as_array).flatten() {
            let path = root().join(folder).join(file.as_str().unwrap());
            assert!(path.is_file(), "{}: {file}", found.file);
        }
        let patches = !found.body["patches"].is_null();
        assert!(!listed.is_empty() || patches, "{}", found.file);
        for resource in &listed {
            let path = root().join(folder).join(resource);
            let exists = if resource.ends_with(".yaml") {
                path.is_file()
            } else {
                path.join("kustomization.yaml").is_file()
            };
            assert!(exists, "{}: {resource}", found.file);
        }
        for other in below(folder) {
            let name = other.file.strip_prefix(&format!("{folder}/")).unwrap();
            let part = name.split_once('/').map_or(name, |(part, _)| part);
            let known = listed.contains(&part)
                || ["kustomization.yaml", "sloservice.yaml"].contains(&name)
                || other.file == RULES;
            assert!(known, "{} does not list {name}", found.file);
        }
    }
    assert_eq!(seen, 17);
}

#[test]
fn overlay_patches_match_base_resources() {
    let all = all();
    for overlay in ["gateway", "sidecar", "advisory", "envoy-gateway"] {
        let list = document(&format!("k8s/overlays/{overlay}/kustomization.yaml"));
        for patch in list["patches"].as_array().into_iter().flatten() {
            let text: Value = serde_saphyr::from_str(patch["patch"].as_str().unwrap()).unwrap();
            if let Some(target) = patch.get("target") {
                // By label, so that the plugins of all services are found, and no gate's.
                let (key, value) = target["labelSelector"]
                    .as_str()
                    .unwrap()
                    .split_once('=')
                    .unwrap();
                let plugins = of(&all, target["kind"].as_str().unwrap());
                for found in &plugins {
                    let chosen = found.body["metadata"]["labels"][key] == value;
                    let role = &found.body["spec"]["pluginConfig"]["role"];
                    assert_eq!(chosen, role == "both", "{}", found.name());
                    for operation in text.as_array().unwrap() {
                        assert_eq!(operation["op"], "replace");
                        let path = operation["path"].as_str().unwrap();
                        assert!(found.body.pointer(path).is_some(), "{overlay}: {path}");
                    }
                }
            } else {
                let (kind, name) = (&text["kind"], &text["metadata"]["name"]);
                let found = one(&all, kind.as_str().unwrap(), name.as_str().unwrap());
                assert_eq!(
                    text["metadata"]["namespace"].as_str().unwrap_or_default(),
                    found.namespace()
                );
            }
        }
        for replacement in list["replacements"].as_array().into_iter().flatten() {
            let source = &replacement["source"];
            let secret = one(
                &all,
                source["kind"].as_str().unwrap(),
                source["name"].as_str().unwrap(),
            );
            assert_eq!(secret.namespace(), source["namespace"]);
            let path = pointer(source["fieldPath"].as_str().unwrap());
            assert!(secret.body.pointer(&path).is_some(), "{path}");
            for target in replacement["targets"].as_array().unwrap() {
                let path = pointer(target["fieldPaths"][0].as_str().unwrap());
                for found in of(&all, target["select"]["kind"].as_str().unwrap()) {
                    assert!(
                        found.body.pointer(&path).is_some(),
                        "{}: {path}",
                        found.file
                    );
                }
            }
        }
    }
}

/// Converts kustomize's `a.b.c` to a JSON pointer.
fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

/// The planner's cluster in each filter configuration has istiod's name for the planner's Service.
#[test]
fn filters_poll_the_planner_service() {
    let all = all();
    let service = one(&all, "Service", PLANNER);
    let host = format!(
        "{}.{}.svc.cluster.local",
        service.name(),
        service.namespace()
    );
    let cluster = format!(
        "outbound|{}||{host}",
        service.body["spec"]["ports"][0]["port"]
    );
    let mut seen = 0;
    for (kind, pointer) in [
        ("WasmPlugin", "/spec/pluginConfig/planner"),
        ("TrafficExtension", "/spec/wasm/pluginConfig/planner"),
    ] {
        for found in of(&all, kind) {
            let planner = found.body.pointer(pointer).unwrap();
            assert_eq!(planner["cluster"], cluster, "{}", found.file);
            assert_eq!(planner["authority"], host, "{}", found.file);
            seen += 1;
        }
    }
    assert_eq!(seen, 8);
}

/// Subset of a host that may have half of the slots.
fn limited_subset(all: &[Document], host: &Value) -> Value {
    let rules = of(all, "DestinationRule");
    let rule = rules.iter().find(|it| it.body["spec"]["host"] == *host);
    let subset = &rule.unwrap().body["spec"]["subsets"][0];
    let pool = &subset["trafficPolicy"]["connectionPool"];
    let plugin = one(all, "WasmPlugin", "weir-resnet");
    let slots = &plugin.body["spec"]["pluginConfig"]["plan"]["variants"][0]["slots"];
    let half = slots.as_u64().map(|slots| slots / 2);
    assert_eq!(pool["http"]["http2MaxRequests"].as_u64(), half);
    subset["name"].clone()
}

#[test]
fn routes_lead_to_the_plans_clusters() {
    let all = all();
    let plugin = one(&all, "WasmPlugin", "weir-resnet");
    let variants = plugin.body["spec"]["pluginConfig"]["plan"]["variants"]
        .as_array()
        .unwrap();
    let clusters: Vec<&str> = variants
        .iter()
        .map(|it| it["cluster"].as_str().unwrap())
        .collect();
    let hosts: Vec<&Value> = of(&all, "DestinationRule")
        .iter()
        .map(|it| &it.body["spec"]["host"])
        .collect();
    let (gateways, services) = (of(&all, "Gateway"), of(&all, "VirtualService"));
    for service in &services {
        let gateway = service.body["spec"]["gateways"][0].as_str().unwrap();
        let named = |it: &&Document| format!("{}/{}", it.namespace(), it.name());
        assert!(gateways.iter().any(|it| named(it) == gateway), "{gateway}");
        for route in service.body["spec"]["http"].as_array().unwrap() {
            let destination = &route["route"][0]["destination"];
            let mut destination = destination.clone();
            if route["name"] == "weir-resnet.websocket" {
                assert_eq!(
                    destination["subset"],
                    limited_subset(&all, &destination["host"])
                );
                destination["subset"] = json!("");
            }
            let cluster = super::istiod::cluster_of(&destination);
            assert!(clusters.contains(&cluster.as_str()), "{cluster}");
            assert!(hosts.contains(&&destination["host"]));
            assert_eq!(
                route["retries"]["attempts"], 0,
                "a retry is an execution that no slot counts"
            );
        }
    }
    // The routes that the EnvoyFilter patches exist.
    let routes = document("istio/gateway/resnet/virtualservice.yaml")["spec"]["http"].clone();
    let filter = document("istio/gateway/resnet/envoyfilter.yaml");
    let mut changed = 0;
    for patch in filter["spec"]["configPatches"].as_array().unwrap() {
        if patch["applyTo"] == "HTTP_ROUTE" {
            let name = &patch["match"]["routeConfiguration"]["vhost"]["route"]["name"];
            assert!(
                routes
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|route| route["name"] == *name),
                "{name}"
            );
            changed += 1;
        }
    }
    assert_eq!(changed, 3);
}

#[test]
fn gates_select_the_patched_pods() {
    let all = all();
    let gates: Vec<_> = of(&all, "WasmPlugin")
        .into_iter()
        .filter(|it| it.namespace() == "models")
        .collect();
    assert_eq!(gates.len(), 3);
    for gate in gates {
        let config = &gate.body["spec"]["pluginConfig"];
        let variant = config["variant"].as_str().unwrap();
        let patch = document(&format!("istio/pods/resnet/server-{variant}.yaml"));
        let labels = &patch["spec"]["template"]["metadata"]["labels"];
        assert!(
            within(&gate.body["spec"]["selector"]["matchLabels"], labels),
            "{variant}"
        );
        for (kind, pointer) in [
            ("EnvoyFilter", "/spec/workloadSelector/labels"),
            ("NetworkPolicy", "/spec/podSelector/matchLabels"),
        ] {
            let ours =
                |it: &&Document| it.namespace() == "models" && it.name() == "weir-resnet.gates";
            let mut found = of(&all, kind).into_iter().filter(ours);
            assert!(
                within(found.next().unwrap().body.pointer(pointer).unwrap(), labels),
                "{kind}"
            );
        }
        let port = gate.body["spec"]["match"][0]["ports"][0]["number"].to_string();
        assert!(
            config["plan"]["variants"][0]["cluster"]
                .as_str()
                .unwrap()
                .contains(&format!("|{port}|"))
        );
    }
}

#[test]
fn envoy_gateway_policies_target_its_gateway_and_route() {
    let all = below("k8s/envoy-gateway");
    for (policy, name) in [
        ("EnvoyExtensionPolicy", "weir-resnet"),
        ("BackendTrafficPolicy", "weir-resnet"),
        ("ClientTrafficPolicy", "weir"),
    ] {
        let policy = one(&all, policy, name);
        let target = &policy.body["spec"]["targetRefs"][0];
        let found = one(
            &all,
            target["kind"].as_str().unwrap(),
            target["name"].as_str().unwrap(),
        );
        assert_eq!(found.namespace(), policy.namespace());
    }
    let gateway = one(&all, "Gateway", "weir");
    let route = one(&all, "HTTPRoute", "weir-resnet");
    let parent = &route.body["spec"]["parentRefs"][0];
    assert_eq!(parent["name"], gateway.name());
    assert_eq!(parent["namespace"], gateway.namespace());
    // The route is in the namespace of the models.
    assert_ne!(route.namespace(), gateway.namespace());
    let from = &gateway.body["spec"]["listeners"][0]["allowedRoutes"]["namespaces"]["from"];
    assert_eq!(from, "All");
    let parameters = &gateway.body["spec"]["infrastructure"]["parametersRef"];
    one(&all, "EnvoyProxy", parameters["name"].as_str().unwrap());
    one(
        &all,
        "GatewayClass",
        gateway.body["spec"]["gatewayClassName"].as_str().unwrap(),
    );
    let resource = one(&all, "SloService", "resnet");
    let labels = &resource.body["spec"]["proxies"]["pods"]["labels"];
    let of = |key: &str| &labels[format!("gateway.envoyproxy.io/owning-gateway-{key}")];
    assert_eq!(of("name"), gateway.name());
    assert_eq!(of("namespace"), gateway.namespace());
}

/// The planner finds the pods in the namespace where it has the right to.
#[test]
fn planner_has_the_right_to_find_the_proxies() {
    for folder in ["istio/gateway", "k8s/envoy-gateway"] {
        let all = below(folder);
        let resource = one(&all, "SloService", "resnet");
        let pods = &resource.body["spec"]["proxies"]["pods"];
        let binding = one(&all, "RoleBinding", "weir-planner-finds.resnet");
        let role = binding.body["roleRef"]["name"].as_str().unwrap();
        let role = one(&all, "Role", role);
        for found in [binding, role] {
            assert_eq!(pods["namespace"], found.namespace(), "{folder}");
        }
    }
}
