//! Servers with a port of their own for gRPC behind the bootstrap of `weir manifests --envoy`, with a real Envoy: every call
//! of tritonclient reaches that port.

use std::net::SocketAddr;

use serde_json::{Value, json};
use weir_bed::built;
use weir_bed::clients::{TritonOptions, triton};
use weir_bed::emulator::{Emulator, LatencyModel, ServerConfig};
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_planner::manifests::{Options, Target, render, service};
use weir_planner::spec::ServiceSpec;

use super::bed::root;

const VARIANTS: [&str; 3] = ["resnet18", "resnet50", "resnet152"];

/// The example, with a gRPC port for each variant.
fn spec() -> ServiceSpec {
    let text = std::fs::read_to_string(root().join("k8s/service.example.yaml")).unwrap();
    let text = VARIANTS.iter().fold(text, |text, name| {
        let cluster = format!("outbound|8000||{name}.models.svc.cluster.local");
        let variant = format!("  - name: {name}\n");
        let ports = format!("{variant}    grpcCluster: {name}-grpc\n");
        text.replace(&cluster, name).replacen(&variant, &ports, 1)
    });
    ServiceSpec::from_yaml(&text).unwrap()
}

/// Starts the rendered Envoy without a planner, before these servers.
async fn envoy(rest: SocketAddr, grpc: SocketAddr) -> Envoy {
    let spec = spec();
    let options = Options::default();
    let files = render(&service(&spec).unwrap(), &spec, &options, Target::Envoy).unwrap();
    let file = files.iter().find(|file| file.path == "envoy/static.yaml");
    let module = built::filter().unwrap();
    let text = file.unwrap().body().unwrap();
    let text = text.replace("/etc/envoy/weir_filter.wasm", module.to_str().unwrap());
    let mut config: Value = serde_saphyr::from_str(&text).unwrap();
    let resources = &mut config["static_resources"];
    let local = |address: SocketAddr| {
        json!({ "socket_address": {
            "address": address.ip().to_string(), "port_value": address.port(),
        } })
    };
    resources["listeners"][0]["address"] = local("127.0.0.1:0".parse().unwrap());
    for cluster in resources["clusters"].as_array_mut().unwrap() {
        let is_grpc = cluster["name"].as_str().unwrap().ends_with("-grpc");
        let address = if is_grpc { grpc } else { rest };
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

#[tokio::test]
async fn health_metadata_and_inference_over_grpc_reach_the_grpc_port() {
    let server =
        |model: &str| Emulator::start(ServerConfig::new(model, LatencyModel::constant(1.0)));
    // The REST port knows another model, so an answer says which port it is of.
    let (rest, grpc) = (
        server("rest").await.unwrap(),
        server("model").await.unwrap(),
    );
    let envoy = envoy(rest.addr(), grpc.addr()).await;
    let options = TritonOptions {
        headers: [("x-slo-ms".to_owned(), "5000".to_owned())].into(),
        timeout_s: None,
        bytes: 100,
        requests: 1,
    };
    let address = envoy.listener("weir").unwrap();
    let results = triton("grpc", address, "model", &options).await.unwrap();
    assert_eq!((&*results.status, &*results.message), ("", ""));
    assert!(results.live && results.ready, "{results:?}");
    assert_eq!(results.platform, "emulated");
    assert_eq!(results.model, "model");
    assert_eq!((grpc.executions().len(), rest.executions().len()), (1, 0));
}
