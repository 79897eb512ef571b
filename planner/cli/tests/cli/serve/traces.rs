//! Traces of the cycles of a real planner, at a collector that decodes OTLP, that never answers, or that is absent.

mod collector;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::process::Command;

use super::bed::*;
use collector::{Collector, failed, text, values};

/// Beginning of the name of the thread that sends spans, as the kernel keeps it.
const THREAD: &str = "OpenTelemetry";

/// Sends what is recorded at once, so that no test waits for the usual delay.
fn exporting(command: &mut Command, endpoint: SocketAddr) -> &mut Command {
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{endpoint}"))
        .env("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret-1")
        .env("OTEL_BSP_SCHEDULE_DELAY", "20")
}

/// Whether the process has a thread that sends spans.
fn exports(process: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("comm")).ok()
    };
    tasks.filter_map(name).any(|name| name.starts_with(THREAD))
}

async fn cycles(planner: &str) -> u64 {
    status(planner).await["counters"]["cycles"]
        .as_u64()
        .unwrap()
}

#[tokio::test]
async fn collector_gets_the_spans_of_each_cycle() {
    let (collector, endpoint) = Collector::start().await;
    let (mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let (child, planner) = folder
        .start_with(|command| exporting(command, endpoint))
        .await;
    mesh.load(90.0);
    let resized = |outcome: &str| {
        let traces = collector.traces();
        let spans = traces.iter().flat_map(|trace| trace.all("resize"));
        let mut spans =
            spans.filter(|span| text(&values(&span.attributes), "weir.outcome") == outcome);
        spans.next().cloned()
    };
    let confirmed = until("a confirmed resize", async || resized("confirmed")).await;
    assert!(!failed(&confirmed));
    assert!(["a", "b"].contains(&text(&values(&confirmed.attributes), "weir.variant")));
    *mesh.refusing.lock().unwrap() = true;
    mesh.load(5.0);
    let refused = until("a refused resize", async || resized("refused")).await;
    let why = &refused.status.as_ref().unwrap().message;
    assert!(failed(&refused) && why.contains("status 409"), "{why}");
    assert_eq!(
        text(&values(&refused.attributes), "weir.blocker"),
        "Refused"
    );
    *mesh.proxy_down.lock().unwrap() = true;
    let lost = until("a failed scrape", async || {
        let traces = collector.traces();
        let mut scrapes = traces.iter().flat_map(|trace| trace.all("scrape"));
        scrapes.find(|span| failed(span)).cloned()
    });
    assert_eq!(values(&lost.await.attributes)["weir.proxies_failed"], 1);

    // The spans say what the status says of the same cycles.
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{planner}/v1/services/demo?cycles=1024");
    let shown = client.get(url).bearer_auth(KEY).send().await.unwrap();
    let shown: Value = shown.json().await.unwrap();
    let reports = shown["cycles"].as_array().unwrap();
    let traces = collector.traces();
    let mut compared = 0;
    for trace in &traces {
        trace.check();
        let root = trace.root();
        let at_ms = root.start_time_unix_nano / 1_000_000;
        let Some(report) = reports.iter().find(|report| report["at_ms"] == at_ms) else {
            continue;
        };
        compared += 1;
        let attributes = values(&root.attributes);
        for (attribute, field) in [
            ("weir.outcome", "outcome"),
            ("weir.reason", "why"),
            ("weir.kept", "kept"),
            ("weir.scrapes_failed", "scrapes_failed"),
            ("weir.resizes_confirmed", "resizes_confirmed"),
            ("weir.resizes_failed", "resizes_failed"),
            ("weir.revision", "revision"),
        ] {
            let known = attributes.get(attribute).unwrap_or(&Value::Null);
            assert_eq!(*known, report[field], "{attribute}");
        }
        let demand = attributes.get("weir.demand_rps").and_then(Value::as_f64);
        let shown = report["demand_rps"].as_f64();
        assert_eq!(demand.is_some(), shown.is_some());
        // Reading JSON may change the last digit.
        let (demand, shown) = (demand.unwrap_or(0.0), shown.unwrap_or(0.0));
        assert!((demand - shown).abs() <= 1e-9, "{demand} {shown}");
        assert_eq!(attributes["weir.service"], "demo");
        assert_eq!(attributes["weir.mode"], "active");
        let resizes = report["resizes_confirmed"].as_u64().unwrap()
            + report["resizes_failed"].as_u64().unwrap();
        assert_eq!(trace.all("resize").count() as u64, resizes);
    }
    assert!(compared > 3, "{compared} of {}", traces.len());
    assert!(exports(child.id().unwrap()));
    for resource in collector.resources.lock().unwrap().iter() {
        assert_eq!(resource["service.name"], "weir-planner");
        assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));
    }
    let log = end(child, "-TERM").await;
    assert!(log.contains(&format!(
        "traces of the cycles go to http://{endpoint}/v1/traces"
    )));
    assert!(!log.contains("secret-1"), "{log}");
}

#[tokio::test]
async fn end_sends_the_remaining_spans() {
    let (collector, endpoint) = Collector::start().await;
    let (_mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let (child, planner) = folder
        .start_with(|command| {
            let command = exporting(command, endpoint);
            command
                .env("OTEL_BSP_SCHEDULE_DELAY", "3600000")
                .env("OTEL_SERVICE_NAME", "planner-a")
        })
        .await;
    let ran = until("cycles", async || {
        Some(cycles(&planner).await).filter(|ran| *ran >= 3)
    })
    .await;
    end(child, "-TERM").await;
    assert!(collector.traces().len() as u64 >= ran);
    let resources = collector.resources.lock().unwrap();
    assert!(
        resources
            .iter()
            .all(|one| one["service.name"] == "planner-a")
    );
}

#[tokio::test]
async fn sampler_of_the_environment_is_followed() {
    let (collector, endpoint) = Collector::start().await;
    let (_mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let (child, planner) = folder
        .start_with(|command| exporting(command, endpoint).env("OTEL_TRACES_SAMPLER", "always_off"))
        .await;
    until("cycles", async || {
        (cycles(&planner).await >= 5).then_some(())
    })
    .await;
    end(child, "-TERM").await;
    assert!(collector.traces().is_empty());
}

#[tokio::test]
async fn cycles_go_on_while_the_collector_never_answers() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = silent.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((connection, _)) = silent.accept().await {
            held.push(connection);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let (mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let (child, planner) = folder
        .start_with(|command| exporting(command, endpoint))
        .await;
    until("a connection", async || {
        (connections.load(Ordering::Relaxed) > 0).then_some(())
    })
    .await;
    let before = cycles(&planner).await;
    mesh.load(104.0);
    until("cores and cycles", async || {
        let goes_on = cycles(&planner).await >= before + 10;
        (goes_on && mesh.cores()[0] >= 5.0).then_some(())
    })
    .await;
    // It ends in time; see `end`.
    let log = end(child, "-TERM").await;
    assert!(log.contains("the last traces were not sent"), "{log}");
}

#[tokio::test]
async fn absent_collector_is_logged_once() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = free.local_addr().unwrap();
    drop(free);
    let (_mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let (mut child, planner) = folder
        .start_with(|command| exporting(command, endpoint))
        .await;
    let mut log = String::new();
    let failure = format!("traces to http://{endpoint}/v1/traces: ");
    until_logged(&mut child, &mut log, &failure, 1).await;
    let before = cycles(&planner).await;
    until("cycles", async || {
        (cycles(&planner).await >= before + 10).then_some(())
    })
    .await;
    log += &end(child, "-TERM").await;
    assert_eq!(log.matches(&failure).count(), 1, "{log}");
}

#[tokio::test]
async fn nothing_is_exported_without_an_endpoint() {
    let (_mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let (child, planner) = folder
        .start_with(|command| command.env("OTEL_SERVICE_NAME", "planner-a"))
        .await;
    until("cycles", async || {
        (cycles(&planner).await >= 3).then_some(())
    })
    .await;
    assert!(!exports(child.id().unwrap()));
    let log = end(child, "-TERM").await;
    assert!(!log.contains("traces"), "{log}");
}

#[tokio::test]
async fn wrong_endpoint_is_refused_at_start() {
    let folder = Folder::with(&service_file(SocketAddr::from(([127, 0, 0, 1], 1))));
    let error = folder
        .refused(|command| command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4318"))
        .await;
    assert!(
        error.starts_with(
            "error: OTEL_EXPORTER_OTLP_ENDPOINT: '127.0.0.1:4318' is no URL; it must be a URL such as \
             http://127.0.0.1:4318"
        ),
        "{error}"
    );
}
