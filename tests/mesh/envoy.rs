//! The shipped Envoy configuration: valid as it is, with the limits that holding requests requires, and safe
//! without the filter.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use axum::Router;
use axum::http::HeaderMap;
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use weir_bed::envoy::{Bootstrap, Careful, Envoy, validate};
use weir_planner::observe::buckets::LATENCY_EDGES_MS;
use weir_planner::observe::slack::EDGES_MS;

/// Path of the module in the shipped file.
const SHIPPED_MODULE: &str = "/etc/envoy/weir_filter.wasm";
const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";

#[test]
fn shipped_file_is_valid() -> Result<()> {
    let text = std::fs::read_to_string(Bootstrap::path())?;
    assert!(text.contains(SHIPPED_MODULE));
    // Only the module's path is changed, as users do.
    let adapted = Bootstrap::shipped()?.config()?;
    let module = find(&adapted, "filename").context("no module")?;
    let module = module.as_str().context("not a path")?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("weir.yaml");
    std::fs::write(&file, text.replace(SHIPPED_MODULE, module))?;
    validate(&file)
}

#[test]
fn invalid_file_is_refused_with_envoys_reason() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("weir.yaml");
    std::fs::write(&file, "static_resources: { listeners: nonsense }")?;
    let error = validate(&file).expect_err("no listener is called nonsense");
    assert!(format!("{error:#}").contains("listeners"), "{error:#}");
    Ok(())
}

/// The replay uses the planner's histogram buckets: both must be equal.
#[test]
fn both_files_have_the_planners_histogram_buckets() -> Result<()> {
    for bootstrap in [Bootstrap::shipped()?, Bootstrap::gate()?] {
        let settings = &bootstrap.value()["stats_config"]["histogram_bucket_settings"];
        for (setting, known) in [&EDGES_MS[..], &LATENCY_EDGES_MS].into_iter().enumerate() {
            let edges = settings[setting]["buckets"]
                .as_array()
                .context("no edges")?;
            let known: Vec<Value> = known.iter().copied().map(Value::from).collect();
            assert_eq!(*edges, known);
        }
    }
    Ok(())
}

#[test]
fn shipped_file_sets_limits_for_held_requests() -> Result<()> {
    let bootstrap = Bootstrap::shipped()?;
    let file = bootstrap.value();
    let manager = file.pointer(MANAGER).context("no connection manager")?;

    // A hold longer than the idle timeout would end without the filter's reason.
    let idle = seconds(&manager["stream_idle_timeout"])?;
    let plugin = find(file, "configuration").and_then(|any| any["value"].as_str());
    let plugin: Value = serde_json::from_str(plugin.context("no plugin configuration")?)?;
    let max = plugin["deadline"]["max_ms"].as_f64().context("no max_ms")?;
    assert!(
        idle * 1000.0 > max,
        "idle {idle} s, greatest budget {max} ms"
    );
    assert!(idle < 60.0, "{idle} s");
    assert!(seconds(&manager["request_timeout"])? * 1000.0 > max);

    assert_eq!(
        manager["http2_protocol_options"]["initial_stream_window_size"],
        65_536
    );
    assert_eq!(
        manager["http2_protocol_options"]["initial_connection_window_size"],
        1_048_576
    );
    let listener = &file["static_resources"]["listeners"][0];
    assert_eq!(listener["per_connection_buffer_limit_bytes"], 65_536);

    let clusters = file["static_resources"]["clusters"]
        .as_array()
        .context("no clusters")?;
    // Planner and websockets are limited by what they are.
    for cluster in clusters
        .iter()
        .filter(|cluster| cluster["name"] != "planner" && cluster["name"] != "websocket")
    {
        let name = &cluster["name"];
        assert_eq!(
            cluster["per_connection_buffer_limit_bytes"], 65_536,
            "{name}"
        );
        let thresholds = cluster["circuit_breakers"]["thresholds"].as_array();
        let thresholds = thresholds.with_context(|| format!("{name}: no circuit breakers"))?;
        let priorities: Vec<_> = thresholds.iter().map(|each| &each["priority"]).collect();
        assert_eq!(priorities, ["DEFAULT", "HIGH"], "{name}");
        for threshold in thresholds {
            for limit in ["max_connections", "max_pending_requests", "max_requests"] {
                // Everything that 16 workers may hold, released at once.
                assert!(
                    threshold[limit].as_u64() >= Some(16 * 4096),
                    "{name}: {limit}"
                );
            }
            // Requests are sent again only where a refused connection falls over to another variant.
            let moves_on = cluster.get("cluster_type").is_some();
            assert_eq!(threshold["max_retries"] != 0, moves_on, "{name}");
        }
    }
    Ok(())
}

#[test]
fn routes_obey_the_filter_and_have_a_fallback() -> Result<()> {
    let bootstrap = Bootstrap::shipped()?;
    let manager = bootstrap
        .value()
        .pointer(MANAGER)
        .context("no connection manager")?;
    let routes = &manager["route_config"]["virtual_hosts"][0]["routes"];
    let [variant, websocket, fallback] = routes.as_array().context("no routes")?.as_slice() else {
        anyhow::bail!("not three routes: {routes}");
    };
    assert_eq!(variant["route"]["cluster_header"], "x-slo-cluster");
    assert_eq!(variant["match"]["headers"][0]["name"], "x-slo-cluster");
    let removed = &variant["request_headers_to_remove"];
    assert_eq!(removed, &json!(["x-slo-cluster"]));
    assert_eq!(websocket["match"]["headers"][0]["name"], "upgrade");
    assert_eq!(websocket["route"]["cluster"], "websocket");
    assert_eq!(fallback["match"], json!({ "prefix": "/" }));
    // Only requests that no server has seen are retried; any other retry is an execution outside the slots.
    assert_eq!(
        variant["route"]["retry_policy"]["retry_on"],
        "connect-failure"
    );
    for route in [websocket, fallback] {
        assert!(find(route, "retry_policy").is_none(), "{route}");
    }
    Ok(())
}

#[tokio::test]
async fn requests_without_filter_take_the_fallback_route() -> Result<()> {
    let fast = server("fast", Duration::ZERO).await?;
    let slow = server("slow", Duration::ZERO).await?;
    let bootstrap = Bootstrap::shipped()?.without_filter().backend("fast", fast);
    let bootstrap = bootstrap.backend("slow", slow).fallback("fast");
    let envoy = Envoy::start(&bootstrap, 1).await?;
    let url = format!("http://{}/v2/models/m/infer", envoy.listener("weir")?);

    let answer = Client::new().get(&url).send().await?;
    assert_eq!(body_of(answer).await?["server"], "fast");

    // The header that selects the cluster is stripped on both sides of the proxy.
    let answer = Client::new()
        .get(&url)
        .header("x-slo-cluster", "slow")
        .send()
        .await?;
    let body = body_of(answer).await?;
    assert_eq!(body["server"], "fast");
    assert_eq!(body["headers"].get("x-slo-cluster"), None);
    assert_eq!(envoy.counter("envoy_cluster_upstream_rq_total").await?, 2);
    Ok(())
}

#[tokio::test]
async fn client_cannot_set_router_timeout_or_retries() -> Result<()> {
    let server = server("only", Duration::from_millis(100)).await?;
    let bootstrap = Bootstrap::shipped()?
        .without_filter()
        .backend("only", server);
    let envoy = Envoy::start(&bootstrap, 1).await?;
    let url = format!("http://{}/", envoy.listener("weir")?);
    let request = Client::new()
        .get(&url)
        .header("x-envoy-upstream-rq-timeout-ms", "1");
    let request = request
        .header("x-envoy-retry-on", "5xx")
        .header("x-envoy-max-retries", "3");
    assert_eq!(request.send().await?.status(), StatusCode::OK);
    assert_eq!(envoy.counter("envoy_cluster_upstream_rq_retry").await?, 0);
    Ok(())
}

#[tokio::test]
async fn plain_listener_spreads_evenly() -> Result<()> {
    let mut variants = Vec::new();
    for name in ["a", "b", "c"] {
        variants.push((name, vec![server(name, Duration::ZERO).await?]));
    }
    let bootstrap = Bootstrap::shipped()?.without_filter().plain(&variants);
    let envoy = Envoy::start(&bootstrap, 2).await?;
    let url = format!("http://{}/", envoy.listener("plain")?);
    let mut counts = std::collections::BTreeMap::<String, u32>::new();
    let client = Client::new();
    for _ in 0..300 {
        let answer = body_of(client.get(&url).send().await?).await?;
        *counts.entry(answer["server"].to_string()).or_default() += 1;
    }
    assert_eq!(counts.len(), 3);
    // A random choice: 100 each, with a tolerance of five standard deviations.
    assert!(
        counts.values().all(|count| (59..=141).contains(count)),
        "{counts:?}"
    );
    Ok(())
}

#[tokio::test]
async fn careful_listener_weighs_by_capacity_and_times_out_at_the_slo() -> Result<()> {
    let (large, small) = (
        server("large", Duration::ZERO).await?,
        server("small", Duration::ZERO).await?,
    );
    let hangs = server("hangs", Duration::from_secs(60)).await?;
    let careful = |hosts: Vec<(SocketAddr, u32)>| Careful {
        hosts,
        timeout: Duration::from_millis(300),
        max_requests: 100,
        max_pending_requests: 100,
    };
    let shipped = || Ok::<_, anyhow::Error>(Bootstrap::shipped()?.without_filter());
    let client = Client::new();

    let envoy = Envoy::start(
        &shipped()?.careful("careful", careful(vec![(large, 3), (small, 1)])),
        1,
    )
    .await?;
    let url = format!("http://{}/", envoy.listener("careful")?);
    let mut to_large = 0;
    for _ in 0..200 {
        to_large += u32::from(body_of(client.get(&url).send().await?).await?["server"] == "large");
    }
    // With one request at a time the choice is by weight alone: 150 of 200.
    assert!((140..=160).contains(&to_large), "{to_large}");

    let envoy = Envoy::start(&shipped()?.careful("careful", careful(vec![(hangs, 1)])), 1).await?;
    let begun = Instant::now();
    let answer = client
        .get(format!("http://{}/", envoy.listener("careful")?))
        .send()
        .await?;
    assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
    // Envoy's timers count from the last wakeup of its event loop, some ms earlier.
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_millis(270), "{waited:?}");
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    Ok(())
}

#[tokio::test]
async fn failed_envoy_start_reports_the_reason() -> Result<()> {
    let bootstrap = Bootstrap::shipped()?.without_filter();
    let broken = bootstrap.amend("/static_resources/nonsense", json!(1));
    let error = Envoy::start(&broken, 1)
        .await
        .expect_err("nonsense is no field");
    assert!(format!("{error:#}").contains("nonsense"), "{error:#}");
    Ok(())
}

#[tokio::test]
async fn dropped_envoy_is_stopped() -> Result<()> {
    let envoy = Envoy::start(&Bootstrap::shipped()?.without_filter(), 1).await?;
    let process = format!("/proc/{}", envoy.pid());
    assert!(std::path::Path::new(&process).exists());
    assert!(envoy.log().contains("all clusters initialized"));
    drop(envoy);
    assert!(!std::path::Path::new(&process).exists());
    Ok(())
}

/// Starts a server that answers after `delay` with its name and the headers that reached it.
async fn server(name: &'static str, delay: Duration) -> Result<SocketAddr> {
    let answer = move |headers: HeaderMap| async move {
        tokio::time::sleep(delay).await;
        let headers = headers.iter().map(|(name, value)| {
            (
                name.to_string(),
                json!(String::from_utf8_lossy(value.as_bytes())),
            )
        });
        let headers: serde_json::Map<_, _> = headers.collect();
        json!({ "server": name, "headers": headers }).to_string()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    Ok(address)
}

async fn body_of(answer: Response) -> Result<Value> {
    Ok(serde_json::from_str(
        &answer.error_for_status()?.text().await?,
    )?)
}

/// Finds the first value of that name at any depth.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields
            .get(name)
            .or_else(|| fields.values().find_map(|value| find(value, name))),
        Value::Array(values) => values.iter().find_map(|value| find(value, name)),
        _ => None,
    }
}

/// Parses a protobuf duration.
fn seconds(value: &Value) -> Result<f64> {
    let text = value
        .as_str()
        .with_context(|| format!("{value} is no duration"))?;
    Ok(text.trim_end_matches('s').parse()?)
}
