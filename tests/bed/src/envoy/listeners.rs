//! The shipped listener, and the two that Weir is compared with.
//!
//! Defines `plain` and `careful`: the shipped listener without the filter, with every limit and
//! timeout kept and with other routes. Never tunes either to look worse.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::backend::Backend;
use super::pointer::at;

/// A careful configuration without Weir: one cluster over all variants, least-request, weights
/// proportional to capacity, a timeout equal to the latency objective, and circuit breakers.
#[derive(Debug, Clone)]
pub struct Careful {
    /// Each variant's server and its capacity; only the proportions count. The caller scales them
    /// to 1 to 128, a range within which Envoy balances finely enough.
    pub hosts: Vec<(SocketAddr, u32)>,
    /// The latency objective.
    pub timeout: Duration,
    /// Maximum requests sent to the servers at once; beyond it Envoy answers 503.
    pub max_requests: u32,
    /// Maximum requests waiting for a connection; beyond it Envoy answers 503.
    pub max_pending_requests: u32,
}

impl Careful {
    pub(super) fn cluster_from(&self, name: &str, template: &Value) -> Result<Value> {
        let backend = Backend {
            cluster: name.to_owned(),
            hosts: self.hosts.clone(),
            http2: false,
            file: None,
        };
        let mut cluster = backend.cluster_from(template)?;
        let thresholds = at(&mut cluster, "/circuit_breakers/thresholds")?.as_array_mut();
        for threshold in thresholds.context("circuit_breakers.thresholds: not a list")? {
            *at(threshold, "/max_requests")? = json!(self.max_requests);
            *at(threshold, "/max_pending_requests")? = json!(self.max_pending_requests);
        }
        Ok(cluster)
    }
}

/// The listener `plain`: variants by weight.
pub(super) fn plain(filterless: &Value, backends: &[(Backend, u32)]) -> Result<Value> {
    let weight =
        |(backend, weight): &(Backend, u32)| json!({ "name": backend.cluster, "weight": weight });
    let clusters: Vec<_> = backends.iter().map(weight).collect();
    renamed(filterless, "plain", |route| {
        *at(route, "/route")? = json!({ "weighted_clusters": { "clusters": clusters } });
        Ok(())
    })
}

/// A careful listener of that name, which is its only cluster's too.
pub(super) fn careful(filterless: &Value, name: &str, careful: &Careful) -> Result<Value> {
    // Envoy reads nine decimals at most.
    let timeout = format!("{:.3}s", careful.timeout.as_secs_f64());
    renamed(filterless, name, |route| {
        *at(route, "/route")? = json!({ "cluster": name, "timeout": timeout });
        Ok(())
    })
}

/// The listener `beside`: a copy whose plugin has this configuration.
pub(super) fn beside(mut listener: Value, configuration: &str) -> Result<Value> {
    *at(&mut listener, "/name")? = json!("beside");
    *at(plugin(&mut listener)?, "/configuration/value")? = json!(configuration);
    let manager = manager(&mut listener)?;
    *at(manager, "/stat_prefix")? = json!("beside");
    *at(manager, "/route_config/name")? = json!("beside");
    Ok(listener)
}

/// A copy of the listener without the filter.
pub(super) fn without_filter(listener: &Value) -> Result<Value> {
    let mut listener = listener.clone();
    filters(&mut listener)?.retain(|filter| !is_wasm(filter));
    Ok(listener)
}

/// The listener's HTTP connection manager.
pub(super) fn manager(listener: &mut Value) -> Result<&mut Value> {
    at(listener, "/filter_chains/0/filters/0/typed_config")
}

/// The wasm filter in the list of HTTP filters.
pub(super) fn filter(listener: &mut Value) -> Result<&mut Value> {
    let filter = filters(listener)?.iter_mut().find(|filter| is_wasm(filter));
    filter.context("http_filters: no envoy.filters.http.wasm")
}

/// The filter's plugin: its configuration and its VM.
pub(super) fn plugin(listener: &mut Value) -> Result<&mut Value> {
    at(filter(listener)?, "/typed_config/config")
}

/// The route named `name`.
pub(super) fn route<'a>(listener: &'a mut Value, name: &str) -> Result<&'a mut Value> {
    let named = |route: &&mut Value| route.get("name").and_then(Value::as_str) == Some(name);
    let route = routes(listener)?.iter_mut().find(named);
    route.with_context(|| format!("routes: none is named {name}"))
}

/// The listener renamed, with the fallback route as its only one, modified by `change`.
fn renamed(
    listener: &Value,
    name: &str,
    change: impl FnOnce(&mut Value) -> Result<()>,
) -> Result<Value> {
    let mut listener = listener.clone();
    *at(&mut listener, "/name")? = json!(name);
    let mut only = route(&mut listener, "fallback")?.clone();
    change(&mut only)?;
    *routes(&mut listener)? = vec![only];
    let manager = manager(&mut listener)?;
    *at(manager, "/stat_prefix")? = json!(name);
    *at(manager, "/route_config/name")? = json!(name);
    Ok(listener)
}

/// All routes of the listener.
pub(super) fn routes(listener: &mut Value) -> Result<&mut Vec<Value>> {
    let routes = at(manager(listener)?, "/route_config/virtual_hosts/0/routes")?;
    routes.as_array_mut().context("routes: not a list")
}

fn filters(listener: &mut Value) -> Result<&mut Vec<Value>> {
    at(manager(listener)?, "/http_filters")?
        .as_array_mut()
        .context("http_filters: not a list")
}

fn is_wasm(filter: &Value) -> bool {
    filter.get("name").and_then(Value::as_str) == Some("envoy.filters.http.wasm")
}
