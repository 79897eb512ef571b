//! A shipped bootstrap with other addresses, clusters and plugin configuration; every other setting is as shipped.
//!
//! Knows where these settings are in `envoy/weir.yaml` and `envoy/gate.yaml`. Never weakens a limit or timeout,
//! unless a test asks for it by name.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::backend::{Backend, WEBSOCKET, address};
use super::discovery::Discovery;
use super::launch::Launch;
use super::listeners::{self, Careful};
use super::pointer::{amend, at};

/// The shipped files.
const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../envoy/weir.yaml");
const GATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../envoy/gate.yaml");
/// Name of the planner's cluster, the one example cluster that is no variant.
const PLANNER: &str = "planner";

/// A shipped bootstrap and the changes to make.
#[derive(Debug, Clone)]
pub struct Bootstrap {
    shipped: Value,
    filter: bool,
    plugin: Option<String>,
    module: Option<PathBuf>,
    backends: Vec<Backend>,
    planner: Option<SocketAddr>,
    fallback: Option<String>,
    failover: bool,
    plain: Vec<(Backend, u32)>,
    careful: Vec<(String, Careful)>,
    beside: Option<String>,
    stream_idle_timeout: Option<Duration>,
    amendments: Vec<(String, Value)>,
    launch: Launch,
    discovery: Option<Discovery>,
}

impl Bootstrap {
    /// `envoy/weir.yaml` with other addresses: each listener and the admin interface get a free port of the loopback
    /// interface, and the clusters are those added below.
    ///
    /// # Errors
    ///
    /// The file cannot be read or is not valid YAML.
    pub fn shipped() -> Result<Self> {
        Self::read(SHIPPED)
    }

    /// The same for `envoy/gate.yaml`, whose single route leads to the first cluster added.
    ///
    /// # Errors
    ///
    /// The file cannot be read or is not valid YAML.
    pub fn gate() -> Result<Self> {
        Self::read(GATE)
    }

    /// A bootstrap of `weir manifests --envoy`, with which the same can be done.
    ///
    /// # Errors
    ///
    /// The file cannot be read or is not valid YAML.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let shown = path.as_ref().display();
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {shown}"))?;
        let shipped = serde_saphyr::from_str(&text).with_context(|| format!("in {shown}"))?;
        Ok(Self {
            shipped,
            filter: true,
            plugin: None,
            module: None,
            backends: Vec::new(),
            planner: None,
            fallback: None,
            failover: false,
            plain: Vec::new(),
            careful: Vec::new(),
            beside: None,
            stream_idle_timeout: None,
            amendments: Vec::new(),
            launch: Launch::default(),
            discovery: None,
        })
    }

    /// Path of the shipped `envoy/weir.yaml`.
    #[must_use]
    pub fn path() -> &'static Path {
        Path::new(SHIPPED)
    }

    /// Path of the shipped `envoy/gate.yaml`.
    #[must_use]
    pub fn gate_path() -> &'static Path {
        Path::new(GATE)
    }

    /// The shipped file's values, unchanged.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.shipped
    }

    /// Sets the plugin's configuration.
    #[must_use]
    pub fn plugin(self, configuration: &Value) -> Self {
        self.plugin_text(configuration.to_string())
    }

    /// Sets the plugin's configuration as text, which need not be valid JSON.
    #[must_use]
    pub fn plugin_text(mut self, configuration: impl Into<String>) -> Self {
        self.plugin = Some(configuration.into());
        self
    }

    /// Uses another filter module than the one built by `cargo xtask`.
    #[must_use]
    pub fn wasm(mut self, module: impl Into<PathBuf>) -> Self {
        self.module = Some(module.into());
        self
    }

    /// Leaves out the filter, and nothing else.
    #[must_use]
    pub fn without_filter(mut self) -> Self {
        self.filter = false;
        self
    }

    /// Adds a variant's cluster with one host, made from the shipped example.
    #[must_use]
    pub fn backend(self, cluster: &str, host: SocketAddr) -> Self {
        self.backends(cluster, &[host])
    }

    /// Adds a variant's cluster with any number of hosts; with none it has no healthy host.
    #[must_use]
    pub fn backends(mut self, cluster: &str, hosts: &[SocketAddr]) -> Self {
        self.backends.push(Backend::new(cluster, hosts, false));
        self
    }

    /// Adds a variant's cluster whose hosts are discovered from `file`.
    #[must_use]
    pub fn discovered_backend(mut self, cluster: &str, file: &Path) -> Self {
        self.backends.push(Backend::discovered(cluster, file));
        self
    }

    /// Adds a variant's cluster whose host speaks HTTP/2, as gRPC servers do.
    #[must_use]
    pub fn backend_http2(mut self, cluster: &str, host: SocketAddr) -> Self {
        self.backends.push(Backend::new(cluster, &[host], true));
        self
    }

    /// Makes all clusters added so far speak HTTP/2 to their hosts, as gRPC servers do.
    #[must_use]
    pub fn http2_backends(mut self) -> Self {
        for backend in &mut self.backends {
            backend.http2 = true;
        }
        self
    }

    /// Removes a cluster added before.
    #[must_use]
    pub fn without_backend(mut self, cluster: &str) -> Self {
        self.backends.retain(|backend| backend.cluster != cluster);
        self
    }

    /// Adds a failover cluster for each cluster added, made from the shipped example.
    #[must_use]
    pub fn failover(mut self) -> Self {
        self.failover = true;
        self
    }

    /// Sets the planner's address. By default there is no planner cluster.
    #[must_use]
    pub fn planner(mut self, host: SocketAddr) -> Self {
        self.planner = Some(host);
        self
    }

    /// Sets the cluster of the routes that name one (in a gate: of the only route). The default is the first one
    /// added.
    #[must_use]
    pub fn fallback(mut self, cluster: &str) -> Self {
        self.fallback = Some(cluster.to_owned());
        self
    }

    /// Adds a listener `plain`: no filter, equal weights over these variants, each with a cluster `plain-<name>`.
    #[must_use]
    pub fn plain(mut self, variants: &[(&str, Vec<SocketAddr>)]) -> Self {
        for (name, hosts) in variants {
            let backend = Backend::new(&format!("plain-{name}"), hosts, false);
            self.plain.push((backend, 1));
        }
        self
    }

    /// Weighs the variants of the listener `plain`, in their order.
    #[must_use]
    pub fn plain_weights(mut self, weights: &[u32]) -> Self {
        let both = self.plain.iter_mut().zip(weights);
        both.for_each(|(one, weight)| one.1 = *weight);
        self
    }

    /// Adds a listener of that name: no filter, tuned as a good engineer would without Weir.
    #[must_use]
    pub fn careful(mut self, name: &str, careful: Careful) -> Self {
        self.careful.push((name.to_owned(), careful));
        self
    }

    /// Adds a listener `beside`: a second copy of the shipped listener, whose filter has this configuration.
    #[must_use]
    pub fn beside(mut self, configuration: &Value) -> Self {
        self.beside = Some(configuration.to_string());
        self
    }

    /// Sets another idle timeout of a stream, queued or not, on every listener. The shipped file says what it ends.
    #[must_use]
    pub fn stream_idle_timeout(mut self, timeout: Duration) -> Self {
        self.stream_idle_timeout = Some(timeout);
        self
    }

    /// Sets the value at a JSON pointer in the finished configuration, for changes that only one test needs. The
    /// place must exist, or be a new key of an object.
    #[must_use]
    pub fn amend(mut self, pointer: &str, value: Value) -> Self {
        self.amendments.push((pointer.to_owned(), value));
        self
    }

    /// Sets other launch options than the default: no hot restart, the machine's clock.
    #[must_use]
    pub fn launch(mut self, launch: Launch) -> Self {
        self.launch = launch;
        self
    }

    /// Moves part of the configuration into a file that Envoy watches: see [`Envoy::update`](super::Envoy::update).
    #[must_use]
    pub fn discovered(mut self, discovery: Discovery) -> Self {
        self.discovery = Some(discovery);
        self
    }

    pub(super) fn discovery(&self) -> Option<Discovery> {
        self.discovery
    }

    pub(super) fn how(&self) -> &Launch {
        &self.launch
    }

    /// The finished configuration.
    ///
    /// # Errors
    ///
    /// The shipped file lacks a part to adapt, or the filter module is not found.
    pub fn config(&self) -> Result<Value> {
        let mut config = self.shipped.clone();
        *at(&mut config, "/admin/address")? = free_port();
        let clusters = self.clusters()?;
        let first = clusters
            .first()
            .and_then(|cluster| cluster.get("name"))
            .cloned();
        *at(&mut config, "/static_resources/clusters")? = Value::Array(clusters);
        let listener = at(&mut config, "/static_resources/listeners/0")?;
        *at(listener, "/address")? = free_port();
        if let Some(timeout) = self.stream_idle_timeout {
            let seconds = format!("{}s", timeout.as_secs_f64());
            *at(listeners::manager(listener)?, "/stream_idle_timeout")? = json!(seconds);
            let held = |route: &&mut Value| route.get("name") != Some(&json!(WEBSOCKET));
            for route in listeners::routes(listener)?.iter_mut().filter(held) {
                *at(route, "/route/idle_timeout")? = json!(seconds);
            }
        }
        let filterless = listeners::without_filter(listener)?;
        if self.filter {
            self.adapt_filter(listener)?;
        } else {
            *listener = filterless.clone();
        }
        let fallback = self
            .fallback
            .clone()
            .map(Value::String)
            .or(first)
            .unwrap_or_default();
        for route in listeners::routes(listener)? {
            if let Ok(cluster) = at(route, "/route/cluster")
                && *cluster != WEBSOCKET
            {
                *cluster = fallback.clone();
            }
        }
        let twin = listener.clone();
        let all = at(&mut config, "/static_resources/listeners")?;
        let all = all.as_array_mut().context("listeners: not a list")?;
        if !self.plain.is_empty() {
            all.push(listeners::plain(&filterless, &self.plain)?);
        }
        for (name, careful) in &self.careful {
            all.push(listeners::careful(&filterless, name, careful)?);
        }
        if let Some(configuration) = &self.beside {
            all.push(listeners::beside(twin, configuration)?);
        }
        for (pointer, value) in &self.amendments {
            amend(&mut config, pointer, value)?;
        }
        Ok(config)
    }

    fn adapt_filter(&self, listener: &mut Value) -> Result<()> {
        let plugin = listeners::plugin(listener)?;
        if let Some(configuration) = &self.plugin {
            *at(plugin, "/configuration/value")? = json!(configuration);
        }
        let module = self.module.clone().map_or_else(crate::built::filter, Ok)?;
        *at(plugin, "/vm_config/code/local/filename")? = json!(module);
        Ok(())
    }

    fn clusters(&self) -> Result<Vec<Value>> {
        let shipped = self
            .shipped
            .pointer("/static_resources/clusters")
            .and_then(Value::as_array);
        let shipped = shipped.context("static_resources.clusters: not a list")?;
        let named = |name: &Value| name.as_str() == Some(PLANNER);
        let (planners, variants): (Vec<_>, Vec<_>) = shipped
            .iter()
            .partition(|cluster| cluster.get("name").is_some_and(named));
        let template = variants
            .first()
            .context("static_resources.clusters: no variant's cluster")?;
        let mut clusters = Vec::new();
        let plain = self.plain.iter().map(|(backend, _)| backend);
        for backend in self.backends.iter().chain(plain) {
            clusters.push(backend.cluster_from(template)?);
        }
        if self.failover {
            let moves_on = |cluster: &&&Value| cluster.get("cluster_type").is_some();
            let template = variants.iter().find(moves_on);
            let template = template.context("static_resources.clusters: no failover cluster")?;
            for backend in &self.backends {
                clusters.push(backend.failover_from(template, &self.backends)?);
            }
        }
        for (name, careful) in &self.careful {
            clusters.push(careful.cluster_from(name, template)?);
        }
        if let Some(host) = self.planner {
            let template = planners
                .first()
                .context("static_resources.clusters: no planner cluster")?;
            clusters.push(Backend::new(PLANNER, &[host], false).addressed(template)?);
        }
        // The shipped clusters, for a bootstrap that only replaces addresses.
        if clusters.is_empty() {
            return Ok(shipped.clone());
        }
        let named = |cluster: &&Value| cluster.get("name").is_some_and(|it| it == WEBSOCKET);
        if let Some(template) = shipped.iter().find(named) {
            let last = |backend: &&Backend| Some(&backend.cluster) == self.fallback.as_ref();
            let last = self.backends.iter().find(last).or(self.backends.first());
            let none = Backend::new(WEBSOCKET, &[], false);
            clusters.push(last.unwrap_or(&none).websocket_from(template)?);
        }
        Ok(clusters)
    }
}

/// An address with a port chosen by Envoy.
fn free_port() -> Value {
    address("127.0.0.1", 0)
}
