//! Polls over TLS: the bootstrap of `weir manifests --envoy --planner-tls-secret` with a real Envoy and the real planner.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use weir_api::metrics::Metric;
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::planner::free_port;
use weir_bed::process::Process;
use weir_bed::scene::PATIENCE;
use weir_bed::{built, wait};
use weir_planner::manifests::{Options, PlannerTls, Target, render, service};
use weir_planner::spec::ServiceSpec;

use super::bed::root;

/// Name in the planner's certificate: what the rendered cluster verifies.
const NAME: &str = "planner.local";
const KEY: &str = "a-key-for-polls-over-tls";

/// Writes a self-signed certificate for that name and its key as `NAME.crt`, `NAME.key`.
fn certificate(folder: &Path, file: &str, name: &str) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    std::fs::write(folder.join(format!("{file}.crt")), made.cert.pem()).unwrap();
    let key = made.signing_key.serialize_pem();
    std::fs::write(folder.join(format!("{file}.key")), key).unwrap();
}

fn spec() -> ServiceSpec {
    let text = std::fs::read_to_string(root().join("k8s/service.example.yaml")).unwrap();
    ServiceSpec::from_yaml(&text).unwrap()
}

/// Starts `weir serve` with that certificate.
fn planner(folder: &Path, file: &str) -> (Process, SocketAddr) {
    let address = free_port().unwrap();
    let text = std::fs::read_to_string(root().join("k8s/service.example.yaml")).unwrap();
    let key = folder.join("planner-key");
    std::fs::write(&key, KEY).unwrap();
    let text = text
        .replace("0.0.0.0:8080", &address.to_string())
        .replace("/etc/weir/key", key.to_str().unwrap());
    let config = folder.join("service.yaml");
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(built::planner().unwrap());
    command.arg("serve").arg(&config);
    let file = |end: &str| folder.join(format!("{file}.{end}"));
    command.arg("--tls-cert").arg(file("crt"));
    command.arg("--tls-key").arg(file("key"));
    let process = Process::spawn(&mut command, &folder.join("planner.log")).unwrap();
    (process, address)
}

/// Starts the rendered Envoy, which trusts `trusted.crt`, with the planner at that address.
async fn envoy(folder: &Path, planner: SocketAddr) -> Envoy {
    let spec = spec();
    let tls = PlannerTls {
        secret: "weir-planner-tls".to_owned(),
        ..PlannerTls::default()
    };
    let options = Options {
        planner_tls: Some(tls),
        ..Options::default()
    };
    let files = render(&service(&spec).unwrap(), &spec, &options, Target::Envoy).unwrap();
    let file = files.iter().find(|file| file.path == "envoy/weir.yaml");
    let module = built::filter().unwrap();
    let trusted = folder.join("trusted.crt");
    let text = file.unwrap().body().unwrap();
    let text = text
        .replace("/etc/envoy/weir_filter.wasm", module.to_str().unwrap())
        .replace("/etc/weir-tls/ca.crt", trusted.to_str().unwrap())
        .replace("change-me", KEY);
    let mut config: Value = serde_saphyr::from_str(&text).unwrap();
    let resources = &mut config["static_resources"];
    let local = |address: SocketAddr| {
        json!({ "socket_address": {
            "address": address.ip().to_string(), "port_value": address.port(),
        } })
    };
    resources["listeners"][0]["address"] = local("127.0.0.1:0".parse().unwrap());
    for cluster in resources["clusters"].as_array_mut().unwrap() {
        let address = match cluster["name"] == "planner" {
            true => planner,
            false => "127.0.0.1:9".parse().unwrap(),
        };
        *cluster
            .pointer_mut("/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address")
            .unwrap() = local(address);
    }
    let bootstrap = Bootstrap::shipped()
        .unwrap()
        .amend(
            "/static_resources/listeners",
            resources["listeners"].clone(),
        )
        .amend("/static_resources/clusters", resources["clusters"].clone());
    Envoy::start(&bootstrap, 1).await.unwrap()
}

async fn metric(envoy: &Envoy, metric: Metric) -> u64 {
    envoy.metric(metric, "resnet", "").await.unwrap_or_default()
}

async fn until(envoy: &Envoy, what: &str, counted: Metric) {
    let counted = async || metric(envoy, counted).await > 0;
    wait::until_async(what, PATIENCE, counted).await.unwrap();
}

fn certificates() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    certificate(folder.path(), "trusted", NAME);
    certificate(folder.path(), "untrusted", NAME);
    folder
}

#[tokio::test]
async fn rendered_envoy_adopts_plans_over_tls() {
    let folder = certificates();
    let (_planner, address) = planner(folder.path(), "trusted");
    let envoy = envoy(folder.path(), address).await;
    until(&envoy, "a plan over TLS", Metric::PlansAccepted).await;
    assert!(metric(&envoy, Metric::PlanRevision).await > 1);
}

/// Its key goes to nobody but the planner.
#[tokio::test]
async fn rendered_envoy_sends_no_key_to_untrusted_planner() {
    let folder = certificates();
    let (_planner, address) = planner(folder.path(), "untrusted");
    let envoy = envoy(folder.path(), address).await;
    until(&envoy, "a failed poll", Metric::PlanPollsFailed).await;
    let handshakes = async || {
        let failed = "envoy_cluster_ssl_fail_verify_error";
        envoy.counter(failed).await.is_ok_and(|failed| failed > 0)
    };
    wait::until_async("a refused certificate", PATIENCE, handshakes)
        .await
        .unwrap();
    assert_eq!(metric(&envoy, Metric::PlansAccepted).await, 0);
}
