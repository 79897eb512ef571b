//! Standalone Envoy: the shipped bootstraps with a service's variants in them. `envoy/weir.yaml` and
//! `envoy/gate.yaml` define and explain every setting. Only the clusters, the filter's configuration and
//! the times derived from the SLO come from the service.
//!
//! A variant's servers are resolved by DNS under the cluster's name: the service file has no addresses.

use serde_json::{Value, json};
use weir_filter::config::Role;

use super::plugin::{PlannerAt, Times, fallback, plugin, seconds};
use super::{Document, File, ManifestError, Options, refused};
use crate::service::{Service, Variant};

const SHIPPED: &str = include_str!("../../../envoy/weir.yaml");
const GATE: &str = include_str!("../../../envoy/gate.yaml");
/// The shipped cluster that belongs to no variant.
const PLANNER: &str = "planner";
/// Usual port of model servers; the service file does not contain it.
const PORT: u16 = 8000;
const LISTENER: &str = "/static_resources/listeners/0";
const MANAGER: &str = "/filter_chains/0/filters/0/typed_config";

pub(super) fn files(service: &Service, options: &Options) -> Result<Vec<File>, ManifestError> {
    let planner = PlannerAt {
        cluster: PLANNER.to_owned(),
        authority: "planner.local".to_owned(),
    };
    // Without the planner, its cluster would only cause failing lookups.
    let with = bootstrap(service, options, Some(&planner))?;
    let without = bootstrap(service, options, None)?;
    let mut files = vec![
        File::new("envoy/weir.yaml", vec![Document::new(WEIR, with)]),
        File::new("envoy/static.yaml", vec![Document::new(STATIC, without)]),
    ];
    for variant in &service.variants {
        let path = format!("envoy/gate-{}.yaml", variant.name);
        let body = gate(service, variant, &planner)?;
        files.push(File::new(path, vec![Document::new(GATED, body)]));
    }
    Ok(files)
}

const WEIR: &str = "A complete bootstrap: deadlines, choice and slots in one Envoy, plans from the planner. Change \
    the clusters' addresses, the key and, where several proxies serve one service, node.id. Every setting is \
    explained in envoy/weir.yaml of the repository.";
const STATIC: &str =
    "The same without a planner: the plan in the filter's configuration holds for ever.";
const GATED: &str = "A gate beside one model server, behind routers (role `router` instead of `both`). Every setting \
    is explained in envoy/gate.yaml of the repository.";

fn bootstrap(
    service: &Service,
    options: &Options,
    planner: Option<&PlannerAt>,
) -> Result<Value, ManifestError> {
    let mut shipped = read("envoy/weir.yaml", SHIPPED)?;
    let config = plugin(service, Role::Both, None, planner, options.matched())?;
    let clusters = service.variants.iter().map(|v| v.cluster.as_str());
    adapt(&mut shipped, service, &config, clusters.collect(), planner)?;
    let last = json!(fallback(service)?.cluster);
    for name in ["websocket", "fallback"] {
        *at(route(&mut shipped, name)?, "/route/cluster")? = last.clone();
    }
    let times = Times::of(service);
    for (name, key, time) in [
        ("variant", "timeout", times.answer),
        ("variant", "idle_timeout", times.answer),
        ("fallback", "timeout", times.max()),
        ("fallback", "idle_timeout", times.hold),
    ] {
        *at(route(&mut shipped, name)?, &format!("/route/{key}"))? = json!(seconds(time));
    }
    Ok(shipped)
}

fn gate(service: &Service, variant: &Variant, planner: &PlannerAt) -> Result<Value, ManifestError> {
    let mut shipped = read("envoy/gate.yaml", GATE)?;
    let config = plugin(service, Role::Gate, Some(variant), Some(planner), None)?;
    adapt(
        &mut shipped,
        service,
        &config,
        vec![&variant.cluster],
        Some(planner),
    )?;
    let node = json!(format!("weir-gate-{}-1", variant.name));
    *at(&mut shipped, "/node/id")? = node;
    let times = Times::of(service);
    let route = route(&mut shipped, "server")?;
    *at(route, "/route/cluster")? = json!(variant.cluster);
    *at(route, "/route/timeout")? = json!(seconds(times.answer));
    *at(route, "/route/idle_timeout")? = json!(seconds(times.hold));
    Ok(shipped)
}

/// Inserts the filter's configuration, the clusters and the times that both files share.
fn adapt(
    shipped: &mut Value,
    service: &Service,
    config: &Value,
    clusters: Vec<&str>,
    planner: Option<&PlannerAt>,
) -> Result<(), ManifestError> {
    let text = serde_json::to_string_pretty(config).map_err(|error| ManifestError::Form {
        what: "the filter's configuration".to_owned(),
        error: error.to_string(),
    })?;
    let plugin = format!("{LISTENER}{MANAGER}/http_filters/0/typed_config/config");
    *at(shipped, &format!("{plugin}/configuration/value"))? = json!(text + "\n");
    let times = Times::of(service);
    for (key, time) in [
        ("stream_idle_timeout", times.answer),
        ("request_timeout", times.request),
    ] {
        *at(shipped, &format!("{LISTENER}{MANAGER}/{key}"))? = json!(seconds(time));
    }
    let template = at(shipped, "/static_resources/clusters/0")?.clone();
    let mut made = Vec::new();
    for name in clusters {
        made.push(with_address(template.clone(), name, name, PORT)?);
    }
    if let Some(planner) = planner {
        let shipped = at(shipped, "/static_resources/clusters")?.as_array();
        let named = |cluster: &&Value| cluster.get("name") == Some(&json!(PLANNER));
        let template = shipped.and_then(|clusters| clusters.iter().find(named));
        let template = template.cloned().ok_or_else(|| missing(PLANNER))?;
        let address = format!("{}.local", planner.cluster);
        made.push(with_address(
            template,
            &planner.cluster,
            &address,
            super::options::PLANNER_PORT,
        )?);
    }
    *at(shipped, "/static_resources/clusters")? = Value::Array(made);
    Ok(())
}

fn with_address(
    mut cluster: Value,
    name: &str,
    host: &str,
    port: u16,
) -> Result<Value, ManifestError> {
    *at(&mut cluster, "/name")? = json!(name);
    *at(&mut cluster, "/load_assignment")? = json!({ "cluster_name": name, "endpoints": [{ "lb_endpoints": [
        { "endpoint": { "address": { "socket_address": { "address": host, "port_value": port } } } }
    ] }] });
    Ok(cluster)
}

fn route<'a>(shipped: &'a mut Value, name: &str) -> Result<&'a mut Value, ManifestError> {
    let routes = format!("{LISTENER}{MANAGER}/route_config/virtual_hosts/0/routes");
    let routes = at(shipped, &routes)?.as_array_mut();
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
