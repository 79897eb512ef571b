//! Clusters beside those of variants and planners: of websockets, and those that move on to other variants.

use serde_json::{Value, json};

use super::super::plugin::{fallback, websockets_max};
use super::super::{ManifestError, Options, ServerAt};
use super::{PORT, Port, Shared, at, missing, ports, with_address};
use crate::service::Service;

/// The shipped cluster of websockets, and its route.
const WEBSOCKET: &str = "websocket";
/// Suffix of the shipped clusters that move on to other variants.
const FAILOVER: &str = "-failover";

/// Returns the clusters of websockets, one for each service, and those that move on to other variants.
pub(super) fn clusters(
    shipped: &Value,
    services: &[Shared],
    options: &Options,
) -> Result<Vec<Value>, ManifestError> {
    let all = shipped.pointer("/static_resources/clusters");
    let all = all
        .and_then(Value::as_array)
        .ok_or_else(|| missing("clusters"))?;
    let find = |named: &dyn Fn(&str) -> bool| {
        let name = |cluster: &Value| cluster.get("name").and_then(Value::as_str).map(named);
        all.iter()
            .find(|cluster| name(cluster) == Some(true))
            .cloned()
    };
    let websocket = find(&|name| name == WEBSOCKET).ok_or_else(|| missing(WEBSOCKET))?;
    let moves_on = find(&|name| name.ends_with(FAILOVER)).ok_or_else(|| missing(FAILOVER))?;
    let mut made = Vec::new();
    for (service, _) in services {
        let name = websocket_cluster(services, service);
        let last = &fallback(service)?.cluster;
        // The servers are those of the fallback, wherever they are.
        let named = options
            .servers
            .iter()
            .filter(|server| server.cluster == *last);
        let servers: Vec<ServerAt> = named
            .map(|server| ServerAt {
                cluster: name.clone(),
                ..server.clone()
            })
            .collect();
        let mut cluster = with_address(websocket.clone(), &name, (last, PORT), &servers)?;
        let max = websockets_max(service)?;
        let thresholds = at(&mut cluster, "/circuit_breakers/thresholds")?.as_array_mut();
        for threshold in thresholds.ok_or_else(|| missing("thresholds"))? {
            *at(threshold, "/max_connections")? = json!(2 * max);
            *at(threshold, "/max_pending_requests")? = json!(max);
            *at(threshold, "/max_requests")? = json!(max);
        }
        made.push(cluster);
        let Some(suffix) = service.filter.failover() else {
            continue;
        };
        let ports: Vec<Port> = service.variants.iter().flat_map(ports).collect();
        for port in &ports {
            let others = ports
                .iter()
                .filter(|other| other.cluster != port.cluster && other.grpc == port.grpc);
            let members: Vec<&str> = std::iter::once(port)
                .chain(others)
                .map(|it| it.cluster)
                .collect();
            let mut cluster = moves_on.clone();
            *at(&mut cluster, "/name")? = json!(format!("{}{suffix}", port.cluster));
            *at(&mut cluster, "/cluster_type/typed_config/clusters")? = json!(members);
            made.push(cluster);
        }
    }
    Ok(made)
}

/// Name of the cluster of a service's websockets.
pub(super) fn websocket_cluster(services: &[Shared], service: &Service) -> String {
    match services.len() {
        1 => WEBSOCKET.to_owned(),
        _ => format!("{WEBSOCKET}-{}", service.name),
    }
}
