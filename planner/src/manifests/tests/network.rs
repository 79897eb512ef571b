//! Tests that the network policies let through every address that the planner's own clients use.

use std::net::IpAddr;

use serde_json::{Value, json};
use weir_api::Cores;

use super::*;
use crate::backends::kubernetes::reconfigure;
use crate::observe::pods::target;

/// A service with all features: reconfigured pods, a `resize` address, and proxies of its own.
fn service_with_all_features() -> (Service, ServiceSpec) {
    let text = example()
        .replace(
            "readiness: 5s",
            "readiness: 5s\n    workload: {name: resnet18, reconfigure: {port: 8002, path: /threads, body: '{cores}'}}",
        )
        .replace("readiness: 8s", "readiness: 8s\n    resize: http://agent.models:7070/resize")
        .replace("readiness: 15s", "readiness: 15s\n    resize: http://agent.models/resize")
        .replace(
            "  stats:\n    - http://127.0.0.1:15090/stats/prometheus?filter=weir_",
            "  pods: {labels: {app: edge}, namespace: edge, port: 9901}",
        );
    let spec = ServiceSpec::from_yaml(&text).unwrap();
    (service(&spec).unwrap(), spec)
}

fn files(target: Target) -> Vec<File> {
    let (service, spec) = service_with_all_features();
    super::super::render(&service, &spec, &Options::default(), target).unwrap()
}

/// Rules of all policies that select the planner (`egress`) or model servers (`ingress`).
fn rules(files: &[File], namespace: &str, key: &str) -> Vec<Value> {
    let documents = files.iter().flat_map(|file| &file.documents);
    let policies = documents.filter(|it| it.body["kind"] == "NetworkPolicy");
    let of = policies.filter(|it| it.body["metadata"]["namespace"] == namespace);
    let lists = of.filter_map(|it| it.body["spec"][key].as_array());
    lists.flatten().cloned().collect()
}

/// Whether a rule admits a TCP connection to that port, and the peer of that namespace (`None`: any address).
fn admits(rule: &Value, peers: &str, namespace: Option<&str>, port: u16) -> bool {
    let ports = rule["ports"].as_array().unwrap();
    let open = ports.contains(&json!({ "port": port, "protocol": "TCP" }));
    let Some(peers) = rule[peers].as_array() else {
        return open;
    };
    let Some(namespace) = namespace else {
        return false;
    };
    let of = |peer: &Value| match peer.get("namespaceSelector") {
        Some(selector) => {
            let name = &selector["matchLabels"]["kubernetes.io/metadata.name"];
            name.is_null() || *name == *namespace
        }
        None => namespace == NAMESPACE,
    };
    open && peers.iter().any(of)
}

fn port_of(url: &str) -> u16 {
    url::Url::parse(url)
        .unwrap()
        .port_or_known_default()
        .unwrap()
}

#[test]
fn every_address_that_the_planner_calls_is_let_through() {
    let (service, _) = service_with_all_features();
    let pod: IpAddr = "10.0.0.7".parse().unwrap();
    let mut called: Vec<(&str, Option<&str>, u16)> = vec![
        ("API server", None, 443),
        ("API server behind its Service", None, 6443),
        ("minikube's", None, 8443),
        ("names", None, 53),
        ("OpenShift's names", None, 5353),
        ("istiod", Some("istio-system"), 15012),
    ];
    for variant in &service.variants {
        let workload = variant.workload.as_ref();
        if let Some(request) = workload.and_then(|it| it.reconfigure.as_ref()) {
            let url = reconfigure::url(request, pod, Cores::whole(2), 1);
            called.push(("reconfigure", Some("models"), port_of(&url)));
        }
        if let Some(url) = &variant.resize {
            called.push(("resize", None, url.port_or_known_default().unwrap()));
        }
    }
    let proxy = json!({ "metadata": { "name": "edge-1" }, "status": { "phase": "Running", "podIP": "10.0.0.8" } });
    let proxy = serde_json::from_value(proxy).unwrap();
    let scraped = target(&proxy, service.proxy_pods.as_ref().unwrap()).unwrap();
    called.push(("statistics", Some("edge"), port_of(scraped.url.as_str())));

    let mut all = files(Target::Kubernetes);
    let deployment = all.iter().flat_map(|it| &it.documents);
    let mut deployment = deployment.filter(|it| it.body["kind"] == "Deployment");
    let container = &deployment.next().unwrap().body["spec"]["template"]["spec"]["containers"][0];
    let listens = container["args"][2].as_str().unwrap();
    let leader = port_of(&format!("http://{listens}"));
    called.push(("leader", Some(NAMESPACE), leader));
    assert_eq!(called.len(), 11, "{called:?}");

    all.extend(files(Target::Istio));
    let egress = rules(&all, NAMESPACE, "egress");
    for (what, namespace, port) in &called {
        let open = egress
            .iter()
            .any(|rule| admits(rule, "to", *namespace, *port));
        assert!(open, "{what}: {port} is not let out");
    }
    assert!(
        !egress
            .iter()
            .any(|rule| admits(rule, "to", Some("edge"), 9902))
    );
    let admitted = rules(&all, NAMESPACE, "ingress");
    for from in ["edge", "models", NAMESPACE] {
        let open = admitted
            .iter()
            .any(|rule| admits(rule, "from", Some(from), 8080));
        assert!(open, "polls from {from}");
    }

    // What leads to the model servers' namespace also passes their own policy.
    let ingress = rules(&all, "models", "ingress");
    let into = called
        .iter()
        .filter(|(what, _, _)| ["reconfigure", "resize"].contains(what));
    for (what, _, port) in into {
        let open = ingress
            .iter()
            .any(|rule| admits(rule, "from", Some(NAMESPACE), *port));
        assert!(open, "{what}: {port} is not let in");
    }
    assert!(
        ingress
            .iter()
            .any(|rule| admits(rule, "from", Some(NAMESPACE), 15090))
    );
    assert!(
        !ingress
            .iter()
            .any(|rule| admits(rule, "from", Some("other"), 8000))
    );
}

/// The pods of the service file come before the mesh's, in all that depends on them.
#[test]
fn given_proxy_pods_are_kept() {
    for (target, folder) in [
        (Target::Istio, "istio/gateway"),
        (Target::Gateway, "k8s/envoy-gateway"),
    ] {
        let files = files(target);
        let file = |name: &str| {
            let path = format!("{folder}/resnet/{name}.yaml");
            files.iter().find(|file| file.path == path).unwrap()
        };
        let pods = &file("sloservice").documents[0].body["spec"]["proxies"]["pods"];
        assert_eq!(pods["labels"], json!({ "app": "edge" }), "{target:?}");
        assert_eq!(
            (&pods["namespace"], &pods["port"]),
            (&json!("edge"), &json!(9901))
        );
        for document in &file("rights").documents {
            assert_eq!(document.body["metadata"]["namespace"], "edge");
        }
    }
}

#[test]
fn proxies_of_each_mesh_are_found_by_its_labels() {
    let text = example();
    for (target, path, expected) in [
        (
            Target::Istio,
            "istio/gateway/resnet/sloservice.yaml",
            json!({ "labels": { "istio": "ingress" }, "namespace": "istio-ingress", "port": 15090,
                    "path": "/stats/prometheus?filter=weir_" }),
        ),
        (
            Target::Gateway,
            "k8s/envoy-gateway/resnet/sloservice.yaml",
            json!({ "labels": { "gateway.envoyproxy.io/owning-gateway-name": "weir",
                                "gateway.envoyproxy.io/owning-gateway-namespace": "weir-system" },
                    "namespace": "envoy-gateway-system", "port": 19001,
                    "path": "/stats/prometheus?filter=weir_" }),
        ),
    ] {
        let files = render(&text, &Options::default(), target).unwrap();
        let file = files.iter().find(|file| file.path == path).unwrap();
        let proxies = &file.documents[0].body["spec"]["proxies"];
        assert_eq!(proxies["pods"], expected);
        assert!(proxies.get("stats").is_none());
    }
}
