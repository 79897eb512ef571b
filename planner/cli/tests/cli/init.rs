//! `weir init` as a separate process, against emulated servers; and the commands that it prints.

mod servers;

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use weir_bed::emulator::{Emulator, LatencyModel, ServerConfig};

async fn server(model: &str, service_ms: f64) -> Emulator {
    let config = ServerConfig::new(model, LatencyModel::constant(service_ms));
    Emulator::start(config).await.unwrap()
}

fn model(server: &Emulator) -> String {
    format!("{}/v2/models/{}", server.url(), server.model())
}

async fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).current_dir(folder);
    command.env_remove("RUST_LOG").kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(240), command.output());
    output.await.unwrap().unwrap()
}

fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// From running servers to the first table of on-time shares, with the commands as they are printed.
#[tokio::test(flavor = "multi_thread")]
async fn printed_commands_lead_to_a_table_of_on_time_shares() {
    let servers = [server("small", 10.0).await, server("large", 30.0).await];
    let folder = tempfile::tempdir().unwrap();
    let variants = servers
        .each_ref()
        .map(|server| format!("{}={}", server.model(), model(server)));
    let [small, large] = variants.each_ref().map(String::as_str);
    // The emulated server speaks both on one port.
    let grpc = format!("large={}", servers[1].addr());
    let arguments = ["init", small, large, "--slo", "300ms", "--grpc", &grpc];
    let printed = text(&run(folder.path(), &arguments).await);

    let written = fs::read_to_string(folder.path().join("service.yaml")).unwrap();
    let written: Value = serde_saphyr::from_str(&written).unwrap();
    assert_eq!(written["variants"][1]["model"], "large");
    assert_eq!(written["variants"][0].get("grpcCluster"), None);
    assert_eq!(written["variants"][1]["grpcCluster"], "large-grpc");
    let at = format!(" --server large-grpc={} ", servers[1].addr());
    assert!(printed.contains(&at), "{printed}");
    let other = run(
        folder.path(),
        &["init", small, "--grpc", &grpc, "--out", "other"],
    )
    .await;
    let error = String::from_utf8(other.stderr).unwrap();
    assert!(
        error.contains("--grpc large: it must be one of the variants"),
        "{error}"
    );
    assert_eq!(written["slo"], "300ms");
    let again = run(folder.path(), &arguments).await;
    assert_eq!(again.status.code(), Some(1));
    let error = String::from_utf8(again.stderr).unwrap();
    assert!(error.contains("service.yaml is there already"), "{error}");

    let commands: Vec<&str> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("weir "))
        .collect();
    let [profile, replay, manifests] = commands[..] else {
        panic!("{printed}")
    };
    let mut arguments: Vec<&str> = profile.split_whitespace().collect();
    // Wide intervals are enough here.
    arguments.extend(["--precision", "20", "--point-time", "3"]);
    text(&run(folder.path(), &arguments).await);
    let arguments: Vec<&str> = replay.split_whitespace().collect();
    let table = text(&run(folder.path(), &arguments).await);
    assert!(table.contains("weir+planner"), "{table}");

    let arguments: Vec<&str> = manifests.split_whitespace().collect();
    text(&run(folder.path(), &arguments).await);
    let bootstrap = fs::read_to_string(folder.path().join("envoy/weir.yaml")).unwrap();
    for server in &servers {
        let port = format!("port_value: {}", server.addr().port());
        assert!(bootstrap.contains(&port), "{port}: {bootstrap}");
    }
}

#[tokio::test]
async fn wrong_servers_and_arguments_are_refused() {
    let server = server("small", 1.0).await;
    let folder = tempfile::tempdir().unwrap();
    let at = model(&server);
    let unknown = format!("small={}/v2/models/none", server.url());
    let elsewhere = format!("small={}/elsewhere", server.url());
    let (right, named) = (format!("small={at}"), format!("Big Name={at}"));
    for (arguments, code, expected) in [
        (vec!["small"], 2, "it must be NAME=URL"),
        (vec!["small=ftp://127.0.0.1"], 2, "it must be http or https"),
        (
            vec!["small=http://127.0.0.1:9"],
            1,
            "small=http://127.0.0.1:9/: ",
        ),
        (vec![&unknown], 1, "404"),
        (
            vec![&elsewhere],
            1,
            "path /elsewhere; it must be /v2/models/NAME",
        ),
        (vec![&right, &right], 1, "small: named twice"),
        (vec![&named], 1, "Big Name"),
        (vec![&right, "--slo", "soon"], 1, "slo: soon"),
        (
            vec![&right, "--request", "none.json"],
            1,
            "--request none.json",
        ),
        (
            vec![&right, "--labels", "none.jsonl"],
            1,
            "--labels none.jsonl",
        ),
    ] {
        let arguments = [vec!["init"], arguments].concat();
        let output = run(folder.path(), &arguments).await;
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    let many: Vec<String> = (0..65).map(|one| format!("v{one}={at}")).collect();
    let arguments: Vec<&str> = std::iter::once("init")
        .chain(many.iter().map(String::as_str))
        .collect();
    let output = run(folder.path(), &arguments).await;
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("65 variants; it must be at most 64"),
        "{error}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
