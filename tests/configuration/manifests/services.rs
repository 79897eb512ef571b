//! Two services of two namespaces on one gateway: their manifests do not get in each other's way, and each
//! request goes by its own service's plan. A host that is neither's passes untouched.

use std::net::SocketAddr;

use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_bed::built;
use weir_bed::emulator::Emulator;
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::path::server;
use weir_bed::scene::{PATIENCE, Seen, see};
use weir_bed::wait;
use weir_planner::manifests::{File, Options, Target, render, service};
use weir_planner::spec::ServiceSpec;

use super::bed::root;
use super::istiod::{Proxy, cluster};

const WORKERS: u32 = 1;
/// Name, namespace and host of each service.
const SERVICES: [(&str, &str, &str); 2] = [
    ("resnet", "models", "a.example.com"),
    ("detect", "vision", "b.example.com"),
];
const VARIANTS: [&str; 3] = ["resnet18", "resnet50", "resnet152"];

/// Renders a service's files for Istio.
fn files((name, namespace, host): (&str, &str, &str)) -> Vec<File> {
    let text = std::fs::read_to_string(root().join("k8s/service.example.yaml")).unwrap();
    let text = text
        .replace("service: resnet", &format!("service: {name}"))
        .replace(".models.svc", &format!(".{namespace}.svc"));
    let spec = ServiceSpec::from_yaml(&text).unwrap();
    let options = Options {
        hosts: vec![host.to_owned()],
        ..Options::default()
    };
    render(&service(&spec).unwrap(), &spec, &options, Target::Istio).unwrap()
}

fn document(files: &[File], service: &str, file: &str) -> Value {
    let path = format!("istio/gateway/{service}/{file}.yaml");
    let file = files.iter().find(|file| file.path == path);
    file.unwrap_or_else(|| panic!("no {path}")).documents[0]
        .body
        .clone()
}

fn cluster_name(variant: &str, namespace: &str) -> String {
    format!("outbound|8000||{variant}.{namespace}.svc.cluster.local")
}

/// Builds the gateway of both services; `hosts` holds the servers of each, in order, and those of another team.
fn gateway(hosts: &[[SocketAddr; 3]; 2], other: SocketAddr) -> Proxy {
    let rendered = SERVICES.map(files);
    let of = |index: usize, file: &str| document(&rendered[index], SERVICES[index].0, file);
    let foreign = json!({ "spec": { "hosts": ["other.example.com"], "http": [{
        "name": "other",
        "route": [{ "destination": { "host": "other.team.svc.cluster.local", "port": { "number": 80 } } }],
    }] } });
    let mut clusters = vec![cluster(
        "outbound|80||other.team.svc.cluster.local",
        Some(other),
    )];
    for ((_, namespace, _), hosts) in SERVICES.iter().zip(hosts) {
        for (variant, host) in VARIANTS.iter().zip(hosts) {
            clusters.push(cluster(&cluster_name(variant, namespace), Some(*host)));
        }
    }
    let first = of(0, "wasmplugin");
    let planner = &first["spec"]["pluginConfig"]["planner"]["cluster"];
    clusters.push(cluster(planner.as_str().unwrap(), None));
    let routes = [of(0, "virtualservice"), of(1, "virtualservice"), foreign];
    let mut proxy = Proxy::gateway(&routes.iter().collect::<Vec<&Value>>(), clusters);
    let module = built::filter().unwrap().to_str().unwrap().to_owned();
    for index in 0..SERVICES.len() {
        assert!(proxy.wasm_plugin(&of(index, "wasmplugin"), &module));
    }
    for index in 0..SERVICES.len() {
        // Each finds its own routes and clusters alone.
        assert_eq!(proxy.envoy_filter(&of(index, "envoyfilter")), 9);
    }
    proxy
}

async fn start(proxy: &Proxy) -> Envoy {
    let resources = &proxy.config["static_resources"];
    let bootstrap = Bootstrap::shipped()
        .unwrap()
        .amend("/node", proxy.config["node"].clone())
        .amend(
            "/static_resources/listeners",
            resources["listeners"].clone(),
        )
        .amend("/static_resources/clusters", resources["clusters"].clone());
    Envoy::start(&bootstrap, WORKERS).await.unwrap()
}

async fn send(address: SocketAddr, host: &str) -> Seen {
    let client = reqwest::Client::builder()
        .timeout(PATIENCE)
        .build()
        .unwrap();
    let request = client
        .post(format!("http://{address}/v2/models/model/infer"))
        .header("host", host)
        .header("x-slo-ms", "5000")
        .body("{}");
    see(request).await.unwrap()
}

fn executions(servers: &[Emulator]) -> usize {
    servers.iter().map(|server| server.executions().len()).sum()
}

#[tokio::test]
async fn each_request_goes_by_its_own_services_plan() {
    let mut servers: Vec<Vec<Emulator>> = Vec::new();
    for _ in SERVICES {
        let mut own = Vec::new();
        for variant in VARIANTS {
            own.push(server(variant, 5.0).await.unwrap());
        }
        servers.push(own);
    }
    let other = server("other", 5.0).await.unwrap();
    let addresses = [0, 1].map(|at: usize| [0, 1, 2].map(|it: usize| servers[at][it].addr()));
    let proxy = gateway(&addresses, other.addr());
    let envoy = start(&proxy).await;
    let listener = envoy.listener(proxy.listener).unwrap();
    let mut counts = [0, 0];
    for (index, count) in [(0, 6), (1, 9)] {
        for _ in 0..count {
            let seen = send(listener, SERVICES[index].2).await;
            assert_eq!(seen.refusal(), (200, ""));
            assert!(VARIANTS.contains(&seen.header("x-slo-variant")));
        }
        counts[index] += count;
        for (at, (servers, (name, _, _))) in servers.iter().zip(SERVICES).enumerate() {
            assert_eq!(executions(servers), counts[at], "{name}");
            let count = counts[at];
            let arrived = async || {
                let arrivals = envoy.metric(Metric::Arrivals, name, "").await;
                arrivals.map_or(count == 0, |now| now == count as u64)
            };
            wait::until_async("the arrivals", PATIENCE, arrived)
                .await
                .unwrap();
        }
    }
    let seen = send(listener, "other.example.com").await;
    assert_eq!((seen.status, seen.header("x-slo-variant")), (200, ""));
    let headers = other.executions().pop().unwrap().headers;
    for added in ["x-slo-variant", "x-slo-cluster", "x-slo-deadline"] {
        assert!(!headers.contains_key(added), "{headers:?}");
    }
    assert_eq!([executions(&servers[0]), executions(&servers[1])], counts);
}

/// Names of routes and of the buffer filters are a service's own.
#[test]
fn two_services_patch_their_own_routes_alone() {
    let nobody: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let mut proxy = gateway(&[[nobody; 3]; 2], nobody);
    let hosts = proxy.manager()["route_config"]["virtual_hosts"].clone();
    for (host, (name, _, _)) in hosts.as_array().unwrap().iter().zip(SERVICES) {
        let routes = host["routes"].as_array().unwrap();
        assert_eq!(routes.len(), 3);
        for route in routes {
            let own = format!("weir-{name}.");
            assert!(route["name"].as_str().unwrap().starts_with(&own), "{route}");
            let filters = route["typed_per_filter_config"].as_object();
            for filter in filters.into_iter().flatten() {
                assert_eq!(*filter.0, format!("{own}buffer"));
            }
        }
    }
    let other = &hosts[2]["routes"][0];
    assert!(other["route"].get("idle_timeout").is_none(), "{other}");
    assert!(other.get("typed_per_filter_config").is_none(), "{other}");
    // Nothing of the connection manager depends on a service, so that the later one changes nothing.
    let manager = proxy.manager();
    for key in ["request_timeout", "stream_idle_timeout"] {
        let unset = manager.get(key).is_none_or(|value| value == "0s");
        assert!(unset, "{key}");
    }
}
