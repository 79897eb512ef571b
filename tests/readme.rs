//! The README's lines for an existing Envoy, as they stand there: Envoy takes them and a request goes
//! through; with the filter removed, as after a failure, by the fallback route.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use serde_json::{Value, json};
use weir_tests::emulator::{Emulator, Law, ServerConfig};
use weir_tests::envoy::{Bootstrap, Envoy};
use weir_tests::scene::see;

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";

/// The first YAML block of the README.
fn lines() -> Value {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let (_, from) = readme.split_once("```yaml\n").expect("a YAML block");
    let (block, _) = from.split_once("```").unwrap();
    let module = weir_tests::built::filter().unwrap();
    let block = block.replace("/etc/envoy/weir_filter.wasm", module.to_str().unwrap());
    serde_saphyr::from_str(&block).unwrap()
}

#[tokio::test]
async fn the_readmes_lines_work_in_an_envoy() {
    let lines = lines();
    let mut servers = Vec::new();
    let mut bootstrap = Bootstrap::shipped().unwrap();
    for name in ["small", "large"] {
        let mut config = ServerConfig::new(name, Law::constant(1.0));
        config.aliases.push("model".to_owned());
        let server = Emulator::start(config).await.unwrap();
        bootstrap = bootstrap.backend(name, server.addr());
        servers.push(server);
    }
    let routes = format!("{MANAGER}/route_config/virtual_hosts/0/routes");
    let bootstrap = bootstrap.amend(&routes, lines["routes"].clone());
    let filters = format!("{MANAGER}/http_filters");
    let with_filter = bootstrap
        .clone()
        .amend(&filters, lines["http_filters"].clone());
    let only_router = json!([lines["http_filters"][1]]);
    for (bootstrap, tagged) in [
        (with_filter, true),
        (bootstrap.amend(&filters, only_router), false),
    ] {
        let envoy = Envoy::start(&bootstrap, 1).await.unwrap();
        let url = format!(
            "http://{}/v2/models/model/infer",
            envoy.listener("weir").unwrap()
        );
        let seen = see(reqwest::Client::new().post(url).body("{}"))
            .await
            .unwrap();
        assert_eq!(seen.status, 200, "{}", envoy.log());
        assert_eq!(!seen.header("x-slo-variant").is_empty(), tagged);
    }
}
