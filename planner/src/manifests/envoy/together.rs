//! Several services in one bootstrap: their order, what they may not have in common, and the routes of each.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weir_filter::config::Config;

use super::super::plugin::{Times, body_bytes, fallback, seconds};
use super::super::requests::matches;
use super::super::{ManifestError, Options, refused};
use super::extra::websocket_cluster;
use super::{Shared, at, grpc_fallback, grpc_route, missing, route};
use crate::service::Service;

/// Returns the services with narrower matches first: the filter gives a request to the first that matches.
pub(super) fn ordered<'a>(services: &[Shared<'a>]) -> Vec<Shared<'a>> {
    let mut rest: Vec<Shared> = services.to_vec();
    let mut ordered = Vec::new();
    let covers = |a: &Shared, b: &Shared| of(a.1).covers(&of(b.1)) && !of(b.1).covers(&of(a.1));
    while !rest.is_empty() {
        let narrowest = |a: &&Shared| !rest.iter().any(|b| covers(a, b));
        let next = rest.iter().find(narrowest).copied();
        // `covers` is a partial order, so one of them covers no other.
        let Some(next) = next.or_else(|| rest.first().copied()) else {
            break;
        };
        rest.retain(|it| it.0.name != next.0.name);
        ordered.push(next);
    }
    ordered
}

fn of(options: &Options) -> weir_filter::request::matching::Match {
    matches(&options.hosts, &options.paths)
}

/// Checks that names of services are unique, and those of clusters, with the planners'.
pub(super) fn check_names(
    services: &[Shared],
    planner: impl Fn(&Service) -> String,
) -> Result<(), ManifestError> {
    let mut clusters: BTreeMap<String, String> = BTreeMap::new();
    for (index, (service, _)) in services.iter().enumerate() {
        let before = services.iter().take(index);
        if before
            .into_iter()
            .any(|(other, _)| other.name == service.name)
        {
            let right = "another name than that of the file before it: services of one Envoy are told apart by it";
            return Err(refused("service", &service.name, right));
        }
        let owner = format!("of the planner of service {}", service.name);
        clusters.insert(planner(service), owner);
        let owner = format!("of the websockets of service {}", service.name);
        clusters.insert(websocket_cluster(services, service), owner);
    }
    for (service, _) in services {
        for (index, variant) in service.variants.iter().enumerate() {
            let owner = format!("of service {}", service.name);
            let grpc = variant.grpc_cluster.as_ref();
            let named = [("cluster", Some(&variant.cluster)), ("grpcCluster", grpc)];
            for (key, cluster) in named {
                let Some(cluster) = cluster else { continue };
                let other = clusters.insert(cluster.clone(), owner.clone());
                let Some(other) = other.filter(|other| *other != owner) else {
                    continue;
                };
                let path = format!("service {}: variants[{index}].{key}", service.name);
                let right = format!(
                    "another name than the cluster {other}: clusters of one Envoy are told apart by it"
                );
                return Err(refused(path, cluster, right));
            }
        }
    }
    Ok(())
}

/// Returns the filter's configuration of all services, as its own parser accepts it.
pub(super) fn list(configs: Vec<Value>) -> Result<Value, ManifestError> {
    let list = json!({ "services": configs });
    Config::parse_services(list.to_string().as_bytes())?;
    Ok(list)
}

/// Replaces the routes of websockets and of requests without a chosen variant by those of each service.
pub(super) fn set_routes(shipped: &mut Value, services: &[Shared]) -> Result<(), ManifestError> {
    let mut templates = Vec::new();
    for name in ["websocket", "fallback"] {
        templates.push((name, route(shipped, name)?.clone()));
    }
    let mut routes = vec![route(shipped, "variant")?.clone()];
    for (service, options) in services {
        let last = &fallback(service)?.cluster;
        let websocket = websocket_cluster(services, service);
        let times = Times::of(service);
        for (name, template) in &templates {
            let mut route = template.clone();
            *at(&mut route, "/name")? = json!(format!("{}.{name}", service.name));
            let cluster = if *name == "fallback" {
                last
            } else {
                &websocket
            };
            *at(&mut route, "/route/cluster")? = json!(cluster);
            if *name == "fallback" {
                *at(&mut route, "/request_body_buffer_limit")? = json!(2 * body_bytes(service));
                *at(&mut route, "/route/timeout")? = json!(seconds(times.max()));
                *at(&mut route, "/route/idle_timeout")? = json!(seconds(times.hold));
            }
            narrow(at(&mut route, "/match")?, options)?;
            if let ("fallback", Some(cluster)) = (*name, grpc_fallback(service)?) {
                routes.push(grpc_route(
                    &route,
                    &format!("{}.grpc", service.name),
                    cluster,
                )?);
            }
            routes.push(route);
        }
    }
    *at(shipped, super::ROUTES)? = Value::Array(routes);
    Ok(())
}

/// Limits a route's match to a service's hosts and paths, as the filter compares them.
fn narrow(matched: &mut Value, options: &Options) -> Result<(), ManifestError> {
    let matched = matched.as_object_mut().ok_or_else(|| missing("match"))?;
    if !options.hosts.is_empty() {
        let regex = format!(r"(?i)({})\.?(:[0-9]*)?", any(&options.hosts, host));
        let header =
            json!({ "name": ":authority", "string_match": { "safe_regex": { "regex": regex } } });
        let headers = matched.entry("headers").or_insert_with(|| json!([]));
        if let Some(headers) = headers.as_array_mut() {
            headers.push(header);
        }
    }
    if !options.paths.is_empty() {
        matched.remove("prefix");
        let regex = any(&options.paths, path);
        matched.insert("safe_regex".to_owned(), json!({ "regex": regex }));
    }
    Ok(())
}

fn any(items: &[String], regex: impl Fn(&str) -> String) -> String {
    let each: Vec<String> = items.iter().map(|item| regex(item)).collect();
    each.join("|")
}

fn host(host: &str) -> String {
    match host.strip_prefix('*') {
        Some(domain) => format!(".+{}", regex::escape(domain)),
        None => regex::escape(host),
    }
}

fn path(path: &str) -> String {
    match path.strip_suffix('*') {
        Some(prefix) => format!("{}.*", regex::escape(prefix)),
        None => regex::escape(path),
    }
}
