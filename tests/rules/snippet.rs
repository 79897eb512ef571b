//! The lines of `docs/how-to/envoy.md` for an existing Envoy, exactly as they stand there, in a connection manager
//! that has nothing else. A request goes through. With the filter removed, as after a failure, it goes by the
//! fallback route, whatever cluster its client asks for.

use serde_json::{Value, json};
use weir_bed::emulator::{Emulator, LatencyModel, ServerConfig};
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::scene::{Seen, see};
use weir_filter::config::Config;
use weir_filter::time::Span;

use crate::tree::root;

const MANAGER: &str = "envoy.filters.network.http_connection_manager";
const MANAGER_TYPE: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
/// Clusters of that Envoy. The last is not Weir's, such as another team's service.
const CLUSTERS: [&str; 3] = ["small", "large", "other"];

/// The page's tested YAML block; only the module's path is this machine's.
fn snippet() -> Value {
    let page = std::fs::read_to_string(root().join("docs/how-to/envoy.md")).unwrap();
    let (_, from) = page.split_once("```yaml,tested\n").expect("a YAML block");
    let (block, _) = from.split_once("```").unwrap();
    let module = weir_bed::built::filter().unwrap();
    let block = block.replace("/etc/envoy/weir_filter.wasm", module.to_str().unwrap());
    serde_saphyr::from_str(&block).unwrap()
}

/// A listener whose connection manager has only what the snippet says, and nothing of the shipped file.
fn listener(snippet: &Value) -> Value {
    let mut manager = snippet.clone();
    let keys = manager.as_object_mut().unwrap();
    let routes = keys.remove("routes").expect("routes");
    keys.insert("@type".to_owned(), json!(MANAGER_TYPE));
    keys.insert("stat_prefix".to_owned(), json!("ingress"));
    let host = json!({ "name": "all", "domains": ["*"], "routes": routes });
    keys.insert(
        "route_config".to_owned(),
        json!({ "virtual_hosts": [host] }),
    );
    json!({
        "name": "weir",
        "address": { "socket_address": { "address": "127.0.0.1", "port_value": 0 } },
        "filter_chains": [{ "filters": [{ "name": MANAGER, "typed_config": manager }] }],
    })
}

/// The snippet with its router alone, as if the filter were missing.
fn without_filter(snippet: &Value) -> Value {
    let mut snippet = snippet.clone();
    let filters = snippet["http_filters"].as_array_mut().unwrap();
    filters.retain(|filter| filter["name"] == "envoy.filters.http.router");
    assert_eq!(filters.len(), 1);
    snippet
}

/// An Envoy with the snippet, and a server behind each of its clusters.
struct Existing {
    envoy: Envoy,
    servers: Vec<Emulator>,
}

impl Existing {
    async fn start(snippet: &Value) -> Existing {
        let mut servers = Vec::new();
        let mut bootstrap = Bootstrap::shipped().unwrap();
        for name in CLUSTERS {
            let mut config = ServerConfig::new(name, LatencyModel::constant(1.0));
            config.aliases.push("model".to_owned());
            let server = Emulator::start(config).await.unwrap();
            bootstrap = bootstrap.backend(name, server.addr());
            servers.push(server);
        }
        let bootstrap = bootstrap.amend("/static_resources/listeners/0", listener(snippet));
        let envoy = Envoy::start(&bootstrap, 1).await.unwrap();
        Existing { envoy, servers }
    }

    async fn infer(&self, cluster: Option<&str>) -> Seen {
        let address = self.envoy.listener("weir").unwrap();
        let url = format!("http://{address}/v2/models/model/infer");
        let mut request = reqwest::Client::new().post(url).body("{}");
        if let Some(cluster) = cluster {
            request = request.header("x-slo-cluster", cluster);
        }
        see(request).await.unwrap()
    }

    /// Requests executed behind each of [`CLUSTERS`].
    fn executed(&self) -> [usize; 3] {
        let counts: Vec<usize> = self
            .servers
            .iter()
            .map(|it| it.executions().len())
            .collect();
        counts.try_into().unwrap()
    }
}

#[tokio::test]
async fn snippet_serves_requests_with_and_without_the_filter() {
    let snippet = snippet();
    for (snippet, tagged) in [(without_filter(&snippet), false), (snippet, true)] {
        let existing = Existing::start(&snippet).await;
        let seen = existing.infer(None).await;
        assert_eq!(seen.status, 200, "{}", existing.envoy.log());
        assert_eq!(!seen.header("x-slo-variant").is_empty(), tagged);
    }
}

#[tokio::test]
async fn without_the_filter_a_client_reaches_no_cluster_of_its_choice() {
    let existing = Existing::start(&without_filter(&snippet())).await;
    for cluster in ["other", "large", "nowhere"] {
        let seen = existing.infer(Some(cluster)).await;
        assert_eq!(seen.status, 200, "{cluster}");
    }
    assert_eq!(existing.executed(), [3, 0, 0], "all by the fallback route");
    for server in &existing.servers {
        for execution in server.executions() {
            assert!(!execution.headers.contains_key("x-slo-cluster"));
        }
    }
}

#[tokio::test]
async fn with_the_filter_a_client_reaches_no_cluster_of_its_choice() {
    let existing = Existing::start(&snippet()).await;
    for _ in 0..6 {
        let seen = existing.infer(Some("other")).await;
        assert_eq!(seen.status, 200, "{}", existing.envoy.log());
    }
    let [small, large, other] = existing.executed();
    assert_eq!((small + large, other), (6, 0));
    assert!(small.abs_diff(large) <= 1, "by quota: {small}, {large}");
}

#[test]
fn page_about_several_services_has_a_valid_configuration() {
    let page = std::fs::read_to_string(root().join("docs/how-to/several-services.md")).unwrap();
    let (_, from) = page.split_once("```json\n").expect("a JSON block");
    let (block, _) = from.split_once("```").unwrap();
    let configs = Config::parse_services(block.as_bytes()).unwrap();
    let names: Vec<_> = configs.iter().map(|config| &config.service).collect();
    assert_eq!(names, ["vision", "speech"]);
}

/// A timeout that ends a hold, or a request that never comes, must not end one that can still be served.
#[test]
fn timeouts_exceed_the_largest_budget() {
    let snippet = snippet();
    let plugin = &snippet["http_filters"][0]["typed_config"]["config"]["configuration"]["value"];
    let config = Config::parse(plugin.as_str().unwrap().as_bytes()).unwrap();
    let max = config.deadline.max;
    let seconds = |value: &Value| {
        let text = value
            .as_str()
            .unwrap_or_else(|| panic!("no timeout: {value}"));
        Span::from_secs(text.strip_suffix('s').unwrap().parse().unwrap())
    };
    assert!(seconds(&snippet["request_timeout"]) > max, "{max:?}");
    for route in snippet["routes"].as_array().unwrap() {
        assert!(seconds(&route["route"]["idle_timeout"]) > max, "{route}");
    }
}
