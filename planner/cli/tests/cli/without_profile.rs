//! A service whose variants have no profile: what the commands do with its file.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const SHORTEST: &str = "\
service: digits
listen: 127.0.0.1:8080
keyEnv: WEIR_KEY
slo: 400ms
proxies: {stats: ['http://127.0.0.1:9901/stats/prometheus?filter=weir_']}
variants:
- {name: small, cluster: small}
- {name: large, cluster: large}
";

const SCENARIO: &str = "\
name: digits
service: service.yaml
length_s: 5
load: {generator: poisson, rps: 5}
contenders: [{plane: weir, control: planner}]
";

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .output()
        .unwrap()
}

#[test]
fn shortest_service_file_is_checked_and_has_manifests() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("service.yaml"), SHORTEST).unwrap();
    let servers = [
        "small=127.0.0.1:8081",
        "large=127.0.0.1:8082",
        "planner=127.0.0.1:8080",
    ];
    let servers = servers.iter().flat_map(|server| ["--server", server]);
    let manifests = ["manifests", "--envoy", "service.yaml", "--out", "."];
    let manifests: Vec<&str> = manifests.into_iter().chain(servers).collect();
    for arguments in [&["check", "service.yaml"][..], &manifests] {
        let output = run(folder.path(), arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
    }
    let bootstrap = fs::read_to_string(folder.path().join("envoy/weir.yaml")).unwrap();
    assert!(bootstrap.contains("service_ms"), "{bootstrap}");
}

#[test]
fn replay_names_the_variant_and_the_command() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("service.yaml"), SHORTEST).unwrap();
    fs::write(folder.path().join("scenario.yaml"), SCENARIO).unwrap();
    let output = run(folder.path(), &["replay", "scenario.yaml"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(0));
    for part in [
        "servers.small.latency: missing",
        "variant small has no profile",
        "weir profile FILE small=URL",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
}
