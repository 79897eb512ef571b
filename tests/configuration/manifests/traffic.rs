//! Requests through Envoys configured from the manifests: a gateway alone, a gateway with gates in sidecars,
//! and Envoy Gateway. The filter is real; model servers and planner are emulated.

use std::net::SocketAddr;

use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_bed::built;
use weir_bed::emulator::Emulator;
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::path::server;
use weir_bed::scene::{KEY, PATIENCE, ScriptedPlanner, Seen, epoch_ms, see};
use weir_bed::wait;

use super::bed::{document, documents};
use super::envoy_gateway;
use super::istiod::{Proxy, cluster};

const SERVICE: &str = "resnet";
const VARIANTS: [&str; 3] = ["resnet18", "resnet50", "resnet152"];
const WORKERS: u32 = 2;

fn module() -> String {
    built::filter().unwrap().to_str().unwrap().to_owned()
}

fn cluster_name(variant: &str) -> String {
    format!("outbound|8000||{variant}.models.svc.cluster.local")
}

/// Starts an Envoy with this configuration instead of the shipped one.
async fn start(config: &Value) -> Envoy {
    let resources = &config["static_resources"];
    let bootstrap = Bootstrap::shipped().unwrap();
    let bootstrap = bootstrap
        .amend("/node", config["node"].clone())
        .amend(
            "/static_resources/listeners",
            resources["listeners"].clone(),
        )
        .amend("/static_resources/clusters", resources["clusters"].clone());
    Envoy::start(&bootstrap, WORKERS).await.unwrap()
}

/// Starts a server for each variant, all quick enough for the SLO.
async fn servers() -> Vec<Emulator> {
    let mut servers = Vec::new();
    for variant in VARIANTS {
        servers.push(server(variant, 5.0).await.unwrap());
    }
    servers
}

/// Starts a planner whose plan gives all variants equal shares.
async fn planner() -> ScriptedPlanner {
    let planner = ScriptedPlanner::start().await.unwrap();
    let variants: Vec<Value> = VARIANTS
        .iter()
        .map(|name| {
            json!({ "name": name, "cluster": cluster_name(name), "share": 1.0 / 3.0, "slots": 50,
                    "service_ms": 5.0, "accuracy": 70.0 })
        })
        .collect();
    let plan = json!({ "format": 1, "service": SERVICE, "revision": 7, "published_ms": epoch_ms(),
                       "max_age_ms": 60_000, "variants": variants });
    planner.respond(7, 200, plan);
    planner
}

/// Inserts the planner's key, which kustomize would copy from the Secret.
fn keyed(mut plugin: Value) -> Value {
    plugin["spec"]["pluginConfig"]["planner"]["key"] = json!(KEY);
    plugin
}

/// Builds an Istio ingress gateway with these routes and hosts.
fn gateway(
    routes: &str,
    role: Option<&str>,
    hosts: &[(&str, SocketAddr)],
    planner: SocketAddr,
) -> Proxy {
    let mut plugin = keyed(document("istio/gateway/resnet/wasmplugin.yaml"));
    let planner_cluster = plugin["spec"]["pluginConfig"]["planner"]["cluster"]
        .as_str()
        .unwrap()
        .to_owned();
    let each = hosts
        .iter()
        .map(|(name, host)| cluster(&cluster_name(name), Some(*host)));
    let clusters = each
        .chain([cluster(&planner_cluster, Some(planner))])
        .collect();
    let mut proxy = Proxy::gateway(&[&document(routes)], clusters);
    if let Some(role) = role {
        plugin["spec"]["pluginConfig"]["role"] = json!(role);
        assert!(proxy.wasm_plugin(&plugin, &module()));
    }
    // Patches of header routing find no routes here; those of limits must apply.
    assert!(proxy.envoy_filter(&document("istio/gateway/resnet/envoyfilter.yaml")) >= 2);
    proxy
}

/// Starts a gate in the sidecar of one variant's server.
async fn gate(variant: &str, host: SocketAddr, planner: SocketAddr) -> Envoy {
    let gates = documents("istio/sidecar/resnet/wasmplugins.yaml");
    let of_variant =
        |gate: &&super::bed::Document| gate.body["spec"]["pluginConfig"]["variant"] == variant;
    let gate = keyed(gates.iter().find(of_variant).unwrap().body.clone());
    let planner_cluster = gate["spec"]["pluginConfig"]["planner"]["cluster"]
        .as_str()
        .unwrap();
    let clusters = vec![
        cluster("inbound|8000||", Some(host)),
        cluster(planner_cluster, Some(planner)),
    ];
    let mut proxy = Proxy::sidecar(&gate["spec"]["selector"]["matchLabels"], 8000, clusters);
    assert!(proxy.wasm_plugin(&gate, &module()));
    proxy.envoy_filter(&document("istio/sidecar/resnet/envoyfilter.yaml"));
    start(&proxy.config).await
}

/// Sends a request with headers that clients must not set.
async fn forged(address: SocketAddr) -> Seen {
    let client = reqwest::Client::builder()
        .timeout(PATIENCE)
        .build()
        .unwrap();
    let request = client
        .post(format!("http://{address}/v2/models/model/infer"))
        .body("{}");
    let request = request
        .header("x-slo-ms", "5000")
        .header("x-slo-variant", "resnet152")
        .header("x-slo-cluster", cluster_name("resnet152"));
    see(request).await.unwrap()
}

async fn until_planned(envoy: &Envoy) {
    let planned = async || {
        envoy
            .metric(Metric::PlanRevision, SERVICE, "")
            .await
            .is_ok_and(|now| now == 7)
    };
    wait::until_async("the plan", PATIENCE, planned)
        .await
        .unwrap();
}

/// Sends thirty requests. They must be split by the plan's shares, up to one request per worker, and each
/// must reach the server named in its tag.
async fn assert_split_by_plan(address: SocketAddr, servers: &[Emulator]) {
    for _ in 0..30 {
        let seen = forged(address).await;
        assert_eq!(seen.refusal(), (200, ""));
        let variant = seen.header("x-slo-variant").to_owned();
        let server = servers
            .iter()
            .find(|server| server.model() == variant)
            .unwrap();
        let headers = server.executions().pop().unwrap().headers;
        assert_eq!(headers["x-slo-variant"], variant);
        assert!(!headers.contains_key("x-slo-cluster"), "{headers:?}");
    }
    for server in servers {
        let count = server.executions().len();
        assert!(
            count.abs_diff(10) <= WORKERS as usize,
            "{}: {count}",
            server.model()
        );
    }
}

fn hosts<'a>(addresses: &[SocketAddr]) -> Vec<(&'a str, SocketAddr)> {
    VARIANTS
        .into_iter()
        .zip(addresses.iter().copied())
        .collect()
}

fn addresses(servers: &[Emulator]) -> Vec<SocketAddr> {
    servers.iter().map(Emulator::addr).collect()
}

#[tokio::test]
async fn gateway_obeys_the_plan_and_ignores_client_headers() {
    for routes in [
        "istio/gateway/resnet/virtualservice.yaml",
        "istio/header-routing/resnet/virtualservice.yaml",
    ] {
        let (servers, planner) = (servers().await, planner().await);
        let proxy = gateway(
            routes,
            Some("both"),
            &hosts(&addresses(&servers)),
            planner.addr(),
        );
        let envoy = start(&proxy.config).await;
        until_planned(&envoy).await;
        assert_split_by_plan(envoy.listener(proxy.listener).unwrap(), &servers).await;
    }
}

#[tokio::test]
async fn gateway_with_filter_from_a_file_obeys_the_plan() {
    let (servers, planner) = (servers().await, planner().await);
    let routes = "istio/gateway/resnet/virtualservice.yaml";
    let mut proxy = gateway(routes, None, &hosts(&addresses(&servers)), planner.addr());
    let filter = documents("istio/from-file/resnet/envoyfilters.yaml").remove(0);
    assert_eq!(proxy.envoy_filter(&filter.body), 1);
    let text = proxy.config.to_string();
    let text = text
        .replace("/var/lib/weir/weir_filter.wasm", &module())
        .replace("change-me", KEY);
    let envoy = start(&serde_json::from_str(&text).unwrap()).await;
    until_planned(&envoy).await;
    assert_split_by_plan(envoy.listener(proxy.listener).unwrap(), &servers).await;
}

#[tokio::test]
async fn without_the_filter_the_fallback_route_serves() {
    let (servers, planner) = (servers().await, planner().await);
    let routes = "istio/gateway/resnet/virtualservice.yaml";
    let proxy = gateway(routes, None, &hosts(&addresses(&servers)), planner.addr());
    let envoy = start(&proxy.config).await;
    let seen = forged(envoy.listener(proxy.listener).unwrap()).await;
    assert_eq!(seen.status, 200);
    assert_eq!(seen.header("x-slo-variant"), "");
    let counts: Vec<usize> = servers
        .iter()
        .map(|server| server.executions().len())
        .collect();
    assert_eq!(counts, [1, 0, 0], "the quickest variant");
}

#[tokio::test]
async fn router_at_gateway_and_gates_in_sidecars_work_together() {
    let (servers, planner) = (servers().await, planner().await);
    let mut gates = Vec::new();
    for (variant, server) in VARIANTS.into_iter().zip(&servers) {
        gates.push(gate(variant, server.addr(), planner.addr()).await);
    }
    let inbound: Vec<SocketAddr> = gates
        .iter()
        .map(|gate| gate.listener("virtualInbound").unwrap())
        .collect();
    let routes = "istio/gateway/resnet/virtualservice.yaml";
    let proxy = gateway(routes, Some("router"), &hosts(&inbound), planner.addr());
    let router = start(&proxy.config).await;
    until_planned(&router).await;
    for gate in &gates {
        until_planned(gate).await;
    }
    assert_split_by_plan(router.listener(proxy.listener).unwrap(), &servers).await;
    for (server, gate) in servers.iter().zip(&gates) {
        let (variant, count) = (server.model(), server.executions().len() as u64);
        let served = async || {
            gate.metric(Metric::Served, SERVICE, variant)
                .await
                .is_ok_and(|now| now == count)
        };
        wait::until_async("the gate's count", PATIENCE, served)
            .await
            .unwrap();
        assert_eq!(
            router
                .metric(Metric::Served, SERVICE, variant)
                .await
                .unwrap(),
            0
        );
    }
    assert_eq!(
        router.metric(Metric::Arrivals, SERVICE, "").await.unwrap(),
        30
    );
}

#[tokio::test]
async fn envoy_gateway_obeys_the_plan_and_ignores_client_headers() {
    let (servers, planner) = (servers().await, planner().await);
    let hosts = hosts(&addresses(&servers));
    let mut config = envoy_gateway::config(&hosts, KEY, &module());
    let clusters = config["static_resources"]["clusters"]
        .as_array_mut()
        .unwrap();
    let planner_cluster = clusters
        .iter_mut()
        .find(|cluster| cluster["name"] == "weir-planner")
        .unwrap();
    *planner_cluster = cluster("weir-planner", Some(planner.addr()));
    let envoy = start(&config).await;
    until_planned(&envoy).await;
    assert_split_by_plan(envoy.listener(envoy_gateway::LISTENER).unwrap(), &servers).await;
}
