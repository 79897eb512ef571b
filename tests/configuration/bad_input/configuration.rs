//! Invalid filter configurations, at Envoy's start and while it runs.

use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_bed::envoy::{Bootstrap, Discovery, Envoy, validate};
use weir_bed::path::server;
use weir_bed::scene::{
    KEY, PATIENCE, SERVICE, Scene, ScriptedPlanner, keep_to_slots, planned, see,
};
use weir_bed::wait;

use super::tables::{invalid_configurations, invalid_texts};
use super::{DEFAULT_MS, ONE, SLACK_MS};

/// Returns a valid configuration with `value` put at the JSON pointer `at`.
fn plugin_with(at: &str, value: Value) -> Value {
    let mut plugin = json!({
        "service": SERVICE,
        "deadline": { "default_ms": DEFAULT_MS },
        "planner": { "cluster": "planner", "key": KEY },
        "classes": [
            { "name": "low", "share": 0.4 },
            { "name": "gold", "share": 0.6, "claim": { "header": "x-team", "values": ["a"] } },
        ],
        "default_class": "low",
        "plan": { "variants": planned(&[ONE]) },
    });
    if at.is_empty() {
        return plugin;
    }
    let (parent, key) = at.rsplit_once('/').unwrap();
    if let Some(place) = plugin.pointer_mut(at) {
        *place = value;
        return plugin;
    }
    let known = plugin.pointer(parent).is_some();
    if !known {
        let (_, name) = parent.rsplit_once('/').unwrap();
        plugin[name] = json!({});
    }
    plugin.pointer_mut(parent).unwrap()[key] = value;
    plugin
}

/// An Envoy whose configuration can be changed while it runs.
struct ReconfigurableEnvoy {
    envoy: Envoy,
    bootstrap: Bootstrap,
    client: reqwest::Client,
    refused: u64,
}

impl ReconfigurableEnvoy {
    async fn start(
        discovery: Discovery,
        server: std::net::SocketAddr,
        planner: std::net::SocketAddr,
    ) -> ReconfigurableEnvoy {
        let bootstrap = Bootstrap::shipped()
            .unwrap()
            .backend(ONE.name, server)
            .planner(planner)
            .discovered(discovery);
        let good = bootstrap.clone().plugin(&plugin_with("", Value::Null));
        ReconfigurableEnvoy {
            envoy: Envoy::start(&good, 2).await.unwrap(),
            bootstrap,
            client: reqwest::Client::new(),
            refused: 0,
        }
    }

    async fn count(&self, outcome: &str) -> u64 {
        let stats = self.envoy.stats(outcome).await.unwrap();
        let value = |line: &str| line.rsplit_once(' ')?.1.parse::<u64>().ok();
        let ours = |line: &&str| line.contains("lds_") || line.contains("extension_config");
        stats
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter(ours)
            .filter_map(value)
            .sum()
    }

    /// Applies a configuration that Envoy must refuse with that reason in its log.
    async fn refuses(&mut self, configuration: String, why: &str) {
        let heard = self.envoy.log().len();
        let update = self.bootstrap.clone().plugin_text(configuration.clone());
        self.envoy.update(&update).unwrap();
        self.refused += 1;
        let refused = async || self.count("update_rejected").await == self.refused;
        wait::until_async(&format!("{configuration} to be refused"), PATIENCE, refused)
            .await
            .unwrap();
        let log = self.envoy.log().split_off(heard);
        assert!(
            log.contains("weir: plugin configuration: "),
            "{configuration}: {log}"
        );
        assert!(log.contains(why), "{configuration}: not '{why}' but {log}");
    }

    /// Returns the default budget in force, as the upstream header shows it.
    async fn left(&self, server: &weir_bed::emulator::Emulator) -> u64 {
        let address = self.envoy.listener("weir").unwrap();
        let url = format!("http://{address}/v2/models/model/infer");
        let seen = see(self.client.post(url).body("{}")).await.unwrap();
        assert_eq!(seen.refusal(), (200, ""));
        let headers = server.executions().pop().unwrap().headers;
        headers["x-slo-remaining-ms"].parse().unwrap()
    }
}

#[tokio::test]
async fn invalid_configuration_is_refused_by_name_and_old_one_stays() {
    let backend = server("small", 1.0).await.unwrap();
    let planner = ScriptedPlanner::start().await.unwrap();
    let mut envoy =
        ReconfigurableEnvoy::start(Discovery::Listeners, backend.addr(), planner.addr()).await;
    let honest = DEFAULT_MS - SLACK_MS..=DEFAULT_MS;
    assert!(honest.contains(&envoy.left(&backend).await));
    for (at, value, why) in invalid_configurations() {
        envoy.refuses(plugin_with(at, value).to_string(), why).await;
    }
    for (text, why) in invalid_texts() {
        envoy.refuses(text, why).await;
    }
    assert!(honest.contains(&envoy.left(&backend).await));
    let arrivals = envoy.envoy.metric(Metric::Arrivals, SERVICE, "");
    assert!(arrivals.await.unwrap() >= 1);
}

/// Istio's way of configuration: the filter alone is updated, by its name (ECDS).
#[tokio::test]
async fn running_filter_keeps_its_configuration_when_update_is_invalid() {
    let backend = server("small", 1.0).await.unwrap();
    let planner = ScriptedPlanner::start().await.unwrap();
    let mut envoy =
        ReconfigurableEnvoy::start(Discovery::Filter, backend.addr(), planner.addr()).await;
    let honest = DEFAULT_MS - SLACK_MS..=DEFAULT_MS;
    assert!(honest.contains(&envoy.left(&backend).await));
    let wrong = plugin_with("/deadline/default_ms", json!(0)).to_string();
    envoy.refuses(wrong, "deadline.default_ms: 0 must be").await;
    assert!(honest.contains(&envoy.left(&backend).await));

    // A valid configuration after the invalid one takes effect without a restart.
    let taken = envoy.count("update_success").await;
    let longer = plugin_with("/deadline/default_ms", json!(50_000));
    let update = envoy.bootstrap.clone().plugin(&longer);
    envoy.envoy.update(&update).unwrap();
    let over = async || envoy.count("update_success").await > taken;
    wait::until_async("the right one", PATIENCE, over)
        .await
        .unwrap();
    let updated = async || envoy.left(&backend).await > 40_000;
    wait::until_async("every worker to go by it", PATIENCE, updated)
        .await
        .unwrap();
    envoy
        .refuses("{}".to_owned(), "missing field `service`")
        .await;
    assert!(envoy.left(&backend).await > 40_000);
}

/// Earlier requests keep the old configuration until they end, and no slot is used twice.
#[tokio::test]
async fn held_requests_survive_a_configuration_update() {
    let backend = server("small", 20.0).await.unwrap();
    let planner = ScriptedPlanner::start().await.unwrap();
    let envoy = ReconfigurableEnvoy::start(Discovery::Filter, backend.addr(), planner.addr()).await;
    let update = async |default_ms: u64| {
        let taken = envoy.count("update_success").await;
        let mut single = plugin_with("/plan/variants/0/slots", json!(1));
        keep_to_slots(&mut single);
        single["deadline"]["default_ms"] = json!(default_ms);
        let update = envoy.bootstrap.clone().plugin(&single);
        envoy.envoy.update(&update).unwrap();
        let over = async || envoy.count("update_success").await > taken;
        wait::until_async("the update", PATIENCE, over)
            .await
            .unwrap();
        let updated = async || envoy.left(&backend).await > default_ms - 5000;
        wait::until_async("the workers", PATIENCE, updated)
            .await
            .unwrap();
    };
    update(30_000).await;
    backend.slow_by(150.0).unwrap();
    let address = envoy.envoy.listener("weir").unwrap();
    let url = format!("http://{address}/v2/models/model/infer");
    let send = |id: &str| {
        let request = envoy.client.post(&url).body("{}");
        Scene::spawn(
            request
                .header("x-request-id", id)
                .header("x-slo-ms", 30_000),
        )
    };
    let before = backend.executions().len();
    let running = send("running");
    wait::until("the execution", PATIENCE, || backend.load().1 == 1)
        .await
        .unwrap();
    backend.slow_by(1.0).unwrap();
    let held = [send("held"), send("held too")];
    let waits = async || {
        envoy
            .envoy
            .metric(Metric::HeldRequests, SERVICE, "")
            .await
            .unwrap()
            == 2
    };
    wait::until_async("two to be held", PATIENCE, waits)
        .await
        .unwrap();
    update(50_000).await;
    for answer in held.into_iter().chain([running]) {
        assert_eq!(answer.await.unwrap().unwrap().refusal(), (200, ""));
    }
    let runs = backend.executions().split_off(before);
    for pair in runs.windows(2) {
        assert!(pair[1].started_ms >= pair[0].ended_ms, "one slot: {runs:?}");
    }
}

#[tokio::test]
async fn envoy_neither_starts_nor_validates_with_invalid_configuration() {
    let wrong = plugin_with("/queue/max_requests", json!(0));
    let bootstrap = Bootstrap::shipped().unwrap().plugin(&wrong);
    let why = "queue.max_requests: 0 must be 1 to 100000";
    let error = Envoy::start(&bootstrap, 1).await.expect_err("it started");
    assert!(format!("{error:#}").contains(why), "{error:#}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("envoy.json");
    std::fs::write(&file, bootstrap.config().unwrap().to_string()).unwrap();
    let error = validate(&file).expect_err("it is valid");
    assert!(format!("{error:#}").contains(why), "{error:#}");
}
