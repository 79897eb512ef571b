//! Several services in one bootstrap of a plain Envoy: it is valid, and each request reaches its own service, by the
//! filter's choice and without the filter.

use std::net::SocketAddr;

use axum::Router;
use serde_json::{Value, json};
use weir_bed::built;
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::scene::{PATIENCE, see};
use weir_planner::manifests::{
    File, Options, PlannerTls, Target, render, render_together, service,
};
use weir_planner::spec::ServiceSpec;

use super::bed::root;
use super::valid::accepted;

const VARIANTS: [&str; 3] = ["resnet18", "resnet50", "resnet152"];
/// Name, hosts and paths of each service. The first takes what the narrower ones leave, and is given first.
const SERVICES: [(&str, &[&str], &[&str]); 3] = [
    ("wide", &["*.example.com"], &[]),
    (
        "exact",
        &["a.example.com", "b.example.com"],
        &["/v2/*", "/infer"],
    ),
    ("any", &[], &["/only/*"]),
];
/// Host, path and the index of the service that they belong to.
const REQUESTS: [(&str, &str, Option<usize>); 10] = [
    ("a.example.com", "/v2/models/m/infer", Some(1)),
    ("B.Example.Com:8080", "/infer?x=1", Some(1)),
    ("a.example.com.", "/infer", Some(1)),
    ("a.example.com", "/inferior", Some(0)),
    ("a.example.com", "/v1", Some(0)),
    ("c.d.example.com", "/v2/models/m/infer", Some(0)),
    ("other.org", "/only/this", Some(2)),
    ("example.com", "/v2/models/m/infer", None),
    ("axexample.com", "/infer", None),
    ("other.org", "/only", None),
];

fn options((_, hosts, paths): (&str, &[&str], &[&str])) -> Options {
    Options {
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        ..Options::default()
    }
}

/// Returns a service file whose clusters have the service's name in theirs.
fn spec(name: &str) -> ServiceSpec {
    let text = std::fs::read_to_string(root().join("k8s/service.example.yaml")).unwrap();
    let text = VARIANTS.iter().fold(text, |text, variant| {
        let cluster = format!("outbound|8000||{variant}.models.svc.cluster.local");
        text.replace(&cluster, &format!("{name}-{variant}"))
    });
    let text = text.replace("service: resnet", &format!("service: {name}"));
    ServiceSpec::from_yaml(&text).unwrap()
}

fn rendered(change: impl Fn(&mut Options)) -> Vec<File> {
    let each = SERVICES.map(|it| {
        let mut options = options(it);
        change(&mut options);
        (service(&spec(it.0)).unwrap(), options)
    });
    let each: Vec<_> = each
        .iter()
        .map(|(service, options)| (service, options))
        .collect();
    render_together(&each).unwrap()
}

fn body(files: &[File], path: &str) -> Value {
    let file = files.iter().find(|file| file.path == path);
    file.unwrap_or_else(|| panic!("no {path}")).documents[0]
        .body
        .clone()
}

/// Returns the text with the tests' module and certificates.
fn local(file: &File, ca: &str) -> Value {
    let module = built::filter().unwrap();
    let text = file.body().unwrap();
    let text = text.replace("/etc/envoy/weir_filter.wasm", module.to_str().unwrap());
    serde_saphyr::from_str(&text.replace("/etc/weir-tls/ca.crt", ca)).unwrap()
}

/// Whether Envoy validates the file: it takes seconds, and gates are all alike.
fn is_validated(file: &File) -> bool {
    !file.path.contains("/gate-") || file.path.ends_with("/gate-exact.resnet18.yaml")
}

#[test]
fn bootstraps_of_several_services_are_valid() {
    let files = rendered(|_| {});
    let mut paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths.len(), 2 + SERVICES.len() * VARIANTS.len());
    assert!(
        paths.contains(&"envoy/gate-exact.resnet18.yaml"),
        "{paths:?}"
    );
    for file in files.iter().filter(|file| is_validated(file)) {
        accepted(&local(file, "")).unwrap_or_else(|error| panic!("{}: {error}", file.path));
    }
    let clusters = body(&files, "envoy/weir.yaml")["static_resources"]["clusters"].clone();
    let names = clusters
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap());
    let planners: Vec<&str> = names.filter(|name| name.starts_with("planner")).collect();
    assert_eq!(planners, ["planner-exact", "planner-wide", "planner-any"]);
}

/// Envoy takes the transport socket of the planner's cluster, in its own bootstraps and in Envoy Gateway's.
#[test]
fn clusters_of_a_planner_with_tls_are_valid() {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.crt");
    let made = rcgen::generate_simple_self_signed(["planner.local".to_owned()]).unwrap();
    std::fs::write(&ca, made.cert.pem()).unwrap();
    let ca = ca.to_str().unwrap();
    let tls = |options: &mut Options| {
        options.planner_tls = Some(PlannerTls {
            secret: "weir-planner-tls".to_owned(),
            ..PlannerTls::default()
        });
    };
    let socket = |cluster: &Value| cluster["transport_socket"]["typed_config"].clone();
    let files = rendered(tls);
    for file in &files {
        let config = local(file, ca);
        let clusters = config["static_resources"]["clusters"].as_array().unwrap();
        for cluster in clusters {
            let name = cluster["name"].as_str().unwrap();
            let sni = match name.starts_with("planner") {
                true => json!(format!("{name}.local")),
                false => Value::Null,
            };
            assert_eq!(socket(cluster)["sni"], sni, "{}: {name}", file.path);
        }
        if is_validated(file) {
            accepted(&config).unwrap_or_else(|error| panic!("{}: {error}", file.path));
        }
    }

    let text = std::fs::read_to_string(root().join("k8s/service.example.yaml")).unwrap();
    let spec = ServiceSpec::from_yaml(&text).unwrap();
    let mut options = Options::default();
    tls(&mut options);
    let files = render(&service(&spec).unwrap(), &spec, &options, Target::Gateway).unwrap();
    let shared = files
        .iter()
        .find(|file| file.path == "k8s/envoy-gateway/gateway.yaml");
    let proxy = &shared.unwrap().documents[2].body["spec"];
    let cluster = proxy["bootstrap"]["jsonPatches"][0]["value"].to_string();
    let cluster: Value =
        serde_json::from_str(&cluster.replace("/etc/weir-tls/ca.crt", ca)).unwrap();
    assert_eq!(socket(&cluster)["sni"], "weir-planner.weir-system.svc");
    accepted(&json!({ "static_resources": { "clusters": [cluster] } })).unwrap();
    // The file that Envoy reads is the one that is mounted.
    let deployment = &proxy["provider"]["kubernetes"]["envoyDeployment"];
    let mount = &deployment["container"]["volumeMounts"][0];
    let volume = &deployment["pod"]["volumes"][0];
    assert_eq!(
        (&mount["mountPath"], &mount["name"]),
        (&json!("/etc/weir-tls"), &volume["name"])
    );
    assert_eq!(
        volume["secret"]["items"],
        json!([{ "key": "ca.crt", "path": "ca.crt" }])
    );
}

/// Starts an Envoy of the rendered bootstrap without planners, with or without the filter.
async fn start(servers: &[SocketAddr; 3], with_filter: bool) -> Envoy {
    let files = rendered(|_| {});
    let file = files.iter().find(|file| file.path == "envoy/static.yaml");
    let mut config = local(file.unwrap(), "");
    let listener = &mut config["static_resources"]["listeners"][0];
    listener["address"]["socket_address"] = json!({ "address": "127.0.0.1", "port_value": 0 });
    let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
    if !with_filter {
        manager["http_filters"].as_array_mut().unwrap().remove(0);
    }
    let clusters = config["static_resources"]["clusters"]
        .as_array_mut()
        .unwrap();
    for ((name, _, _), server) in SERVICES.iter().zip(servers) {
        for variant in VARIANTS {
            let name = format!("{name}-{variant}");
            let cluster = clusters.iter_mut().find(|it| it["name"] == *name).unwrap();
            *cluster
                .pointer_mut("/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address")
                .unwrap() = json!({ "socket_address": {
                    "address": server.ip().to_string(), "port_value": server.port(),
                } });
        }
    }
    let resources = &config["static_resources"];
    let bootstrap = Bootstrap::shipped()
        .unwrap()
        .amend(
            "/static_resources/listeners",
            resources["listeners"].clone(),
        )
        .amend("/static_resources/clusters", resources["clusters"].clone());
    Envoy::start(&bootstrap, 1).await.unwrap()
}

/// Starts a server that answers every request, and names the service in a header.
async fn server(service: &'static str) -> SocketAddr {
    let routes = Router::new().fallback(async move || [("x-service", service)]);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}

#[tokio::test]
async fn each_request_reaches_its_own_service() {
    let mut servers = Vec::new();
    for (name, _, _) in SERVICES {
        servers.push(server(name).await);
    }
    let servers = servers.try_into().unwrap();
    for with_filter in [true, false] {
        let envoy = start(&servers, with_filter).await;
        let address = envoy.listener("weir").unwrap();
        let client = reqwest::Client::builder()
            .timeout(PATIENCE)
            .build()
            .unwrap();
        for (host, path, service) in REQUESTS {
            let request = client.post(format!("http://{address}{path}")).body("{}");
            let request = request.header("host", host).header("x-slo-ms", "5000");
            let seen = see(request).await.unwrap();
            let about = format!("{host}{path}, filter: {with_filter}");
            let (status, service) = match service {
                Some(index) => (200, SERVICES[index].0),
                None => (404, ""),
            };
            assert_eq!(
                (seen.status, seen.header("x-service")),
                (status, service),
                "{about}"
            );
            let chosen = VARIANTS.contains(&seen.header("x-slo-variant"));
            assert_eq!(chosen, with_filter && status == 200, "{about}");
        }
    }
}
