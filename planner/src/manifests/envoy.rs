//! Standalone Envoy: the shipped bootstraps with a service's variants in them. `envoy/weir.yaml` and
//! `envoy/gate.yaml` define and explain every setting. Only the clusters, the filter's configuration and
//! the times derived from the SLO come from the service.
//!
//! Several services share one bootstrap: [`together`] has what is only of several.
//!
//! A variant's servers are resolved by DNS under the cluster's name unless the options name their addresses: the
//! service file has none.

mod extra;
mod together;

use serde_json::{Value, json};
use weir_filter::config::Role;

use super::plugin::{BUFFER_BYTES, PlannerAt, Times, body_bytes, fallback, plugin, seconds};
use super::requests::ServiceRequests;
use super::{Document, File, ManifestError, Options, ServerAt, planner_tls, refused};
use crate::service::{Service, Variant};

const SHIPPED: &str = include_str!("../../../envoy/weir.yaml");
const GATE: &str = include_str!("../../../envoy/gate.yaml");
/// The shipped cluster that belongs to no variant.
const PLANNER: &str = "planner";
/// Usual port of model servers; the service file does not contain it.
const PORT: u16 = 8000;
/// Usual gRPC port of model servers.
const GRPC_PORT: u16 = 8001;
/// Protocol of a cluster.
const HTTP: &str = "/typed_extension_protocol_options/envoy.extensions.upstreams.http.v3.HttpProtocolOptions\
    /explicit_http_config";
/// Load balancing of a cluster.
const LEAST_REQUEST: &str = "/load_balancing_policy/policies/0/typed_extension_config/typed_config";
const LISTENER: &str = "/static_resources/listeners/0";
const MANAGER: &str = "/filter_chains/0/filters/0/typed_config";
const ROUTES: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/route_config\
    /virtual_hosts/0/routes";

/// A service of a bootstrap, with its own options.
type Shared<'a> = (&'a Service, &'a Options);

/// Returns the bootstraps of one service, or of several that share an Envoy.
pub(super) fn files(services: &[Shared]) -> Result<Vec<File>, ManifestError> {
    let is_alone = services.len() == 1;
    let planner_at = |service: &Service| match is_alone {
        true => PLANNER.to_owned(),
        // A process of `weir serve` plans for one service.
        false => format!("{PLANNER}-{}", service.name),
    };
    together::check_names(services, planner_at)?;
    let services = together::ordered(services);
    let mut before = Vec::new();
    for (service, options) in &services {
        let requests = ServiceRequests::listed(&service.name, &options.hosts, &options.paths);
        requests.check_beside(&before)?;
        before.push(requests);
    }
    let planners: Vec<PlannerAt> = services
        .iter()
        .map(|(service, _)| planner_at(service))
        .map(|cluster| PlannerAt {
            authority: format!("{cluster}.local"),
            cluster,
        })
        .collect();
    check_servers(&services, &planners)?;
    // Without the planner, its cluster would only cause failing lookups.
    let with = bootstrap(&services, &planners)?;
    let without = bootstrap(&services, &[])?;
    let why = if is_alone { "" } else { TOGETHER };
    let mut files = vec![
        File::new(
            "envoy/weir.yaml",
            vec![Document::new(format!("{WEIR}{why}"), with)],
        ),
        File::new("envoy/static.yaml", vec![Document::new(STATIC, without)]),
    ];
    for ((service, options), planner) in services.iter().zip(&planners) {
        for variant in &service.variants {
            // No name has a dot, so that no other service's gate is called the same.
            let name = match is_alone {
                true => variant.name.clone(),
                false => format!("{}.{}", service.name, variant.name),
            };
            let body = gate(service, options, (variant, &name), planner)?;
            files.push(File::new(
                format!("envoy/gate-{name}.yaml"),
                vec![Document::new(GATED, body)],
            ));
        }
    }
    Ok(files)
}

const WEIR: &str = "A complete bootstrap: deadlines, choice and slots in one Envoy, plans from the planner. Change \
    the clusters' addresses, the key and, where several proxies serve one service, node.id. Every setting is \
    explained in envoy/weir.yaml of the repository.";
const TOGETHER: &str = "\nSeveral services share this Envoy: the first whose `match` a request meets is its service. Each has \
    routes, clusters and a planner of its own. A request that no service matches finds no route: add yours at the end.";
const STATIC: &str =
    "The same without a planner: the plan in the filter's configuration holds for ever.";
const GATED: &str = "A gate beside one model server, behind routers (role `router` instead of `both`). Every setting \
    is explained in envoy/gate.yaml of the repository.";

/// Returns the bootstrap of these services with their planners, or without any.
fn bootstrap(services: &[Shared], planners: &[PlannerAt]) -> Result<Value, ManifestError> {
    let mut shipped = read("envoy/weir.yaml", SHIPPED)?;
    let mut configs = Vec::new();
    for (index, (service, options)) in services.iter().enumerate() {
        let planner = planners.get(index);
        configs.push(plugin(
            service,
            Role::Both,
            None,
            planner,
            options.matched(),
        )?);
    }
    let times: Vec<Times> = services.iter().map(|it| Times::of(it.0)).collect();
    let answer = times.iter().map(|it| it.answer).max().unwrap_or_default();
    let variants = services.iter().flat_map(|(service, _)| &service.variants);
    let clusters = variants.flat_map(ports).collect();
    let config = match (services, configs.as_slice()) {
        ([(service, _)], [config]) => {
            let times = Times::of(service);
            let last = route(&mut shipped, "fallback")?;
            *at(last, "/route/cluster")? = json!(fallback(service)?.cluster);
            *at(last, "/request_body_buffer_limit")? = json!(2 * body_bytes(service));
            for (key, time) in [("timeout", times.max()), ("idle_timeout", times.hold)] {
                *at(last, &format!("/route/{key}"))? = json!(seconds(time));
            }
            if let Some(cluster) = grpc_fallback(service)? {
                let grpc = grpc_route(last, "grpc", cluster)?;
                insert_before(&mut shipped, "fallback", grpc)?;
            }
            config.clone()
        }
        _ => {
            together::set_routes(&mut shipped, services)?;
            together::list(configs)?
        }
    };
    let Some((_, common)) = services.first() else {
        return Err(missing("service"));
    };
    let more = extra::clusters(&shipped, services, common)?;
    adapt(&mut shipped, &times, &config, clusters, (planners, common))?;
    if let Some(all) = at(&mut shipped, "/static_resources/clusters")?.as_array_mut() {
        all.extend(more);
    }
    for key in ["timeout", "idle_timeout"] {
        *at(route(&mut shipped, "variant")?, &format!("/route/{key}"))? = json!(seconds(answer));
    }
    Ok(shipped)
}

/// Returns the bootstrap of a gate of that name, which is its file's and its node's.
fn gate(
    service: &Service,
    options: &Options,
    (variant, name): (&Variant, &str),
    planner: &PlannerAt,
) -> Result<Value, ManifestError> {
    let mut shipped = read("envoy/gate.yaml", GATE)?;
    let config = plugin(service, Role::Gate, Some(variant), Some(planner), None)?;
    let times = Times::of(service);
    let planners = std::slice::from_ref(planner);
    adapt(
        &mut shipped,
        &[times],
        &config,
        ports(variant).collect(),
        (planners, options),
    )?;
    let node = json!(format!("weir-gate-{name}-1"));
    *at(&mut shipped, "/node/id")? = node;
    let route = route(&mut shipped, "server")?;
    *at(route, "/route/cluster")? = json!(variant.cluster);
    *at(route, "/route/timeout")? = json!(seconds(times.answer));
    *at(route, "/route/idle_timeout")? = json!(seconds(times.hold));
    if let Some(cluster) = &variant.grpc_cluster {
        let grpc = grpc_route(route, "grpc", cluster)?;
        insert_before(&mut shipped, "server", grpc)?;
    }
    Ok(shipped)
}

/// Returns the gRPC port for calls that the filter passes on without a choice, such as health and metadata: that of the
/// fallback's servers, or of the first variant that has one.
fn grpc_fallback(service: &Service) -> Result<Option<&str>, ManifestError> {
    let grpc = |variant: &'_ Variant| variant.grpc_cluster.is_some();
    let last = fallback(service)?;
    let found = match grpc(last) {
        true => Some(last),
        false => service.variants.iter().find(|variant| grpc(variant)),
    };
    Ok(found.and_then(|variant| variant.grpc_cluster.as_deref()))
}

/// Returns the route of gRPC to a port of its own, made of that for the REST port.
fn grpc_route(rest: &Value, name: &str, cluster: &str) -> Result<Value, ManifestError> {
    let mut grpc = rest.clone();
    *at(&mut grpc, "/name")? = json!(name);
    let matched = at(&mut grpc, "/match")?.as_object_mut();
    let matched = matched.ok_or_else(|| missing("match"))?;
    matched.insert("grpc".to_owned(), json!({}));
    *at(&mut grpc, "/route/cluster")? = json!(cluster);
    Ok(grpc)
}

fn insert_before(shipped: &mut Value, name: &str, one: Value) -> Result<(), ManifestError> {
    let routes = at(shipped, ROUTES)?.as_array_mut();
    let routes = routes.ok_or_else(|| missing("routes"))?;
    let named = |route: &Value| route.get("name") == Some(&json!(name));
    let index = routes.iter().position(named).ok_or_else(|| missing(name))?;
    routes.insert(index, one);
    Ok(())
}

/// A cluster of a variant's servers.
#[derive(Clone, Copy)]
struct Port<'a> {
    cluster: &'a str,
    /// Whether it is the gRPC port beside another one.
    grpc: bool,
    /// Whether its servers make batches.
    batches: bool,
}

fn ports(variant: &Variant) -> impl Iterator<Item = Port<'_>> {
    let batches = variant.profile.batch > 1;
    let port = |cluster, grpc| Port {
        cluster,
        grpc,
        batches,
    };
    let grpc = variant.grpc_cluster.as_deref();
    let grpc = grpc.map(|cluster| port(cluster, true));
    std::iter::once(port(&variant.cluster, false)).chain(grpc)
}

/// Inserts the filter's configuration, the clusters and the times that both files share.
fn adapt(
    shipped: &mut Value,
    times: &[Times],
    config: &Value,
    clusters: Vec<Port<'_>>,
    (planners, options): (&[PlannerAt], &Options),
) -> Result<(), ManifestError> {
    let text = serde_json::to_string_pretty(config).map_err(|error| ManifestError::Form {
        what: "the filter's configuration".to_owned(),
        error: error.to_string(),
    })?;
    let plugin = format!("{LISTENER}{MANAGER}/http_filters/0/typed_config/config");
    *at(shipped, &format!("{plugin}/configuration/value"))? = json!(text + "\n");
    for (key, time) in [
        (
            "stream_idle_timeout",
            times.iter().map(|it| it.answer).max(),
        ),
        // Zero is none, which one of several services may need.
        (
            "request_timeout",
            times
                .iter()
                .map(|it| it.request)
                .max_by_key(|it| (it.is_zero(), *it)),
        ),
    ] {
        let time = json!(seconds(time.unwrap_or_default()));
        *at(shipped, &format!("{LISTENER}{MANAGER}/{key}"))? = time;
    }
    let template = at(shipped, "/static_resources/clusters/0")?.clone();
    let mut made = Vec::new();
    for Port {
        cluster,
        grpc,
        batches,
    } in clusters
    {
        let port = if grpc { GRPC_PORT } else { PORT };
        let own = (cluster, port);
        let mut made_of = with_address(template.clone(), cluster, own, &options.servers)?;
        if grpc {
            *at(&mut made_of, HTTP)? =
                json!({ "http2_protocol_options": { "initial_stream_window_size": BUFFER_BYTES } });
        }
        let policy = made_of.pointer_mut(LEAST_REQUEST);
        if let Some(policy) = policy.and_then(Value::as_object_mut).filter(|_| batches) {
            // Spread over all replicas, batches would fill less.
            policy.remove("selection_method");
        }
        made.push(made_of);
    }
    let shipped_clusters = at(shipped, "/static_resources/clusters")?.as_array();
    let named = |cluster: &&Value| cluster.get("name") == Some(&json!(PLANNER));
    let template = shipped_clusters.and_then(|clusters| clusters.iter().find(named));
    let template = template.cloned().ok_or_else(|| missing(PLANNER))?;
    for planner in planners {
        let mut cluster = with_address(
            template.clone(),
            &planner.cluster,
            (&planner.authority, super::options::PLANNER_PORT),
            &options.servers,
        )?;
        let tls = options.planner_tls.as_ref();
        if let (Some(tls), Some(cluster)) = (tls, cluster.as_object_mut()) {
            let socket = planner_tls::transport_socket(tls.name_or(&planner.authority));
            cluster.insert("transport_socket".to_owned(), socket);
        }
        made.push(cluster);
    }
    *at(shipped, "/static_resources/clusters")? = Value::Array(made);
    Ok(())
}

/// Names a cluster and sets its hosts: those that the options name, else its own name.
fn with_address(
    mut cluster: Value,
    name: &str,
    own: (&str, u16),
    servers: &[ServerAt],
) -> Result<Value, ManifestError> {
    let named = servers.iter().filter(|server| server.cluster == name);
    let mut hosts: Vec<(&str, u16)> = named.map(|it| (it.host.as_str(), it.port)).collect();
    if hosts.is_empty() {
        hosts.push(own);
    }
    let host = |(host, port): &(&str, u16)| json!({ "endpoint": { "address": { "socket_address": { "address": host, "port_value": port } } } });
    let hosts: Vec<Value> = hosts.iter().map(host).collect();
    *at(&mut cluster, "/name")? = json!(name);
    *at(&mut cluster, "/load_assignment")? =
        json!({ "cluster_name": name, "endpoints": [{ "lb_endpoints": hosts }] });
    Ok(cluster)
}

/// Refuses an address of a cluster that no service has.
fn check_servers(services: &[Shared], planners: &[PlannerAt]) -> Result<(), ManifestError> {
    let Some((_, options)) = services.first() else {
        return Ok(());
    };
    let variants = services.iter().flat_map(|(service, _)| &service.variants);
    let clusters = variants.flat_map(ports).map(|port| port.cluster);
    let planners = planners.iter().map(|planner| planner.cluster.as_str());
    let all: Vec<&str> = clusters.chain(planners).collect();
    let known = |server: &&ServerAt| all.contains(&server.cluster.as_str());
    match options.servers.iter().find(|server| !known(server)) {
        None => Ok(()),
        Some(server) => Err(refused(
            "--server",
            format!("{}={}:{}", server.cluster, server.host, server.port),
            format!("an address of one of {}", all.join(", ")),
        )),
    }
}

fn route<'a>(shipped: &'a mut Value, name: &str) -> Result<&'a mut Value, ManifestError> {
    let routes = at(shipped, ROUTES)?.as_array_mut();
    let named = |route: &&mut Value| route.get("name") == Some(&json!(name));
    let found = routes.and_then(|routes| routes.iter_mut().find(named));
    found.ok_or_else(|| missing(name))
}

fn at<'a>(value: &'a mut Value, pointer: &str) -> Result<&'a mut Value, ManifestError> {
    value.pointer_mut(pointer).ok_or_else(|| missing(pointer))
}

fn missing(what: &str) -> ManifestError {
    refused("the shipped bootstrap", format!("no {what}"), "whole")
}

fn read(name: &str, text: &str) -> Result<Value, ManifestError> {
    serde_saphyr::from_str(text).map_err(|error| ManifestError::Form {
        what: name.to_owned(),
        error: error.to_string(),
    })
}
