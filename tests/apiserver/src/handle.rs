//! The test's handle of the emulator: start, clients, objects, kubelets, log, faults.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::task::AbortHandle;

use super::clock::Clock;
use super::cluster::Cluster;
use super::faults::Faults;
use super::journal::Journal;
use super::kubelet::{self, Resizing};
use super::object::{Key, set, text};
use super::pods;
use super::serve::{self, Server};
use super::status_of;
use super::store::Store;
use super::{Change, Options, PodNow};

/// A running emulator; it stops when dropped, and all its connections close.
#[derive(Debug)]
pub struct ApiServer {
    server: Arc<Server>,
    addr: SocketAddr,
    tasks: [AbortHandle; 2],
}

impl ApiServer {
    /// Starts on a free port.
    ///
    /// # Errors
    ///
    /// There is no free port.
    pub async fn start(options: Options) -> anyhow::Result<ApiServer> {
        let faults = Faults::new(options.seed);
        let cluster = Cluster::new(options, Arc::new(Journal::default()), Clock::new());
        let server = Arc::new(Server::new(cluster, faults));
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let addr = listener.local_addr()?;
        let controllers = tokio::spawn(serve::run_controllers(Arc::clone(&server)));
        let accepting = tokio::spawn(serve::accept(Arc::clone(&server), listener));
        Ok(ApiServer {
            server,
            addr,
            tasks: [controllers.abort_handle(), accepting.abort_handle()],
        })
    }

    /// `http://127.0.0.1:port`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The bearer token of a subject, such as `system:serviceaccount:demo:weir` or [`super::ADMIN`].
    pub fn token(&self, subject: &str) -> String {
        self.server.token(subject)
    }

    /// A kubeconfig for a subject, as YAML.
    pub fn kubeconfig(&self, subject: &str) -> String {
        let (url, token) = (self.url(), self.token(subject));
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: emulated\n\
             clusters:\n- name: emulated\n  cluster:\n    server: {url}\n\
             users:\n- name: subject\n  user:\n    token: {token}\n\
             contexts:\n- name: emulated\n  context:\n    cluster: emulated\n    user: subject\n    namespace: default\n"
        )
    }

    /// A client of a subject, with kube's own defaults: it retries after 429, 503 and 504.
    ///
    /// # Errors
    ///
    /// kube rejects the configuration.
    pub async fn client(&self, subject: &str) -> anyhow::Result<kube::Client> {
        Ok(kube::Client::try_from(self.config(subject).await?)?)
    }

    /// A client without retries, which returns the first response.
    ///
    /// # Errors
    ///
    /// As [`ApiServer::client`].
    pub async fn client_without_retries(&self, subject: &str) -> anyhow::Result<kube::Client> {
        let mut config = self.config(subject).await?;
        config.default_retry = false;
        Ok(kube::Client::try_from(config)?)
    }

    async fn config(&self, subject: &str) -> anyhow::Result<kube::Config> {
        let read = Kubeconfig::from_yaml(&self.kubeconfig(subject))?;
        Ok(kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?)
    }

    /// Direct access to the objects, without HTTP, RBAC, faults and the log.
    pub fn store(&self) -> Objects<'_> {
        Objects(&self.server)
    }

    /// The kubelets.
    pub fn kubelet(&self) -> Kubelets<'_> {
        Kubelets(&self.server)
    }

    /// The log.
    pub fn log(&self) -> &Journal {
        &self.server.journal
    }

    /// The faults.
    pub fn faults(&self) -> &Faults {
        &self.server.faults
    }

    /// Receives every pod change from now on. A receiver that lags by more than [`super::CHANGES_MAX`] gets an error.
    pub fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.server.cluster().changes.subscribe()
    }

    /// CEL rules that could not be evaluated, each with the reason. A test that relies on rules asserts that there
    /// are none.
    pub fn unevaluated_rules(&self) -> Vec<(String, String)> {
        self.server
            .cluster()
            .rules
            .unevaluated
            .iter()
            .cloned()
            .collect()
    }

    /// Time since the start on the emulator's clock, the time base of the log.
    pub fn elapsed(&self) -> Duration {
        self.server.cluster().clock.elapsed()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// The objects of an emulator, for a test's setup.
#[derive(Debug, Clone, Copy)]
pub struct Objects<'a>(&'a Arc<Server>);

impl Objects<'_> {
    /// Creates a namespace, unless it exists.
    pub fn namespace(&self, name: &str) {
        self.0.change(|cluster| cluster.make_namespace(name));
    }

    /// Creates a node with this many cores and MiB of memory.
    ///
    /// # Errors
    ///
    /// A node of that name exists.
    pub fn node(&self, name: &str, cores: u32, memory_mib: u32) -> anyhow::Result<()> {
        let capacity =
            json!({"cpu": cores.to_string(), "memory": format!("{memory_mib}Mi"), "pods": "110"});
        let labels = json!({"kubernetes.io/hostname": name});
        self.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"capacity": capacity, "allocatable": capacity,
                "conditions": [{"type": "Ready", "status": "True"}]}}))
        .map(drop)
    }

    /// Stores an object as given, with its status, and creates its namespace if missing. Types are checked and
    /// defaults filled in.
    ///
    /// # Errors
    ///
    /// The kind is unknown, the body has wrong types, or the object exists.
    pub fn create(&self, object: &impl Serialize) -> anyhow::Result<Value> {
        let mut object = serde_json::to_value(object)?;
        self.0.change(|cluster| {
            let kind = cluster.kinds.of_object(&object);
            let kind =
                kind.ok_or_else(|| anyhow::anyhow!("no such kind: {}", text(&object, "/kind")))?;
            let version = text(&object, "/apiVersion")
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned();
            if kind.namespaced && text(&object, "/metadata/namespace").is_empty() {
                set(&mut object, "/metadata/namespace", json!("default"));
            }
            if !kind.namespaced {
                super::object::remove(&mut object, "/metadata/namespace");
            }
            let object = super::admit::conform(&kind, &version, object, false);
            let mut object = object.map_err(|refusal| anyhow::anyhow!(refusal.message))?;
            let key = Key::of(&object);
            anyhow::ensure!(
                cluster.store.get(&kind.shelf, &key).is_none(),
                "{} {key} is there",
                kind.id
            );
            if kind.namespaced {
                cluster.make_namespace(&key.namespace);
            }
            if kind.id == "pods" && object.pointer("/status/phase").is_none() {
                pods::default_new(&mut object);
            }
            Ok(Value::clone(&cluster.make(&kind, object)))
        })
    }

    /// An object, by the `plural.group` of its kind.
    pub fn get(&self, kind: &str, key: &Key) -> Option<Value> {
        let found = self.0.cluster().store.get(kind, key);
        found.map(|object| Value::clone(&object))
    }

    /// All objects of a kind in a namespace (in all, if empty), parsed as `T`.
    ///
    /// # Errors
    ///
    /// An object is not a valid `T`.
    pub fn list<T: DeserializeOwned>(&self, kind: &str, namespace: &str) -> anyhow::Result<Vec<T>> {
        let cluster = self.0.cluster();
        let all = cluster.store.list(kind, namespace, None);
        all.map(|(_, object)| Ok(serde_json::from_value(Value::clone(object))?))
            .collect()
    }

    /// Changes an object in place; its generation increases if its spec changes.
    pub fn amend(&self, kind: &str, key: &Key, change: impl FnOnce(&mut Value)) {
        self.0.change(|cluster| cluster.amend(kind, key, change));
    }

    /// Removes an object at once, despite finalizers.
    pub fn remove(&self, kind: &str, key: &Key) {
        self.0.change(|cluster| {
            if let Some(kind) = cluster.kinds.by_id(kind) {
                cluster.remove_now(&kind, key);
            }
        });
    }

    /// Drops all history: watches that lag get 410.
    pub fn forget_history(&self) {
        self.0.change(|cluster| Store::forget(&mut cluster.store));
    }

    /// Version of the latest change.
    pub fn version(&self) -> u64 {
        self.0.cluster().store.version()
    }
}

/// The kubelets of an emulator.
#[derive(Debug, Clone, Copy)]
pub struct Kubelets<'a>(&'a Arc<Server>);

impl Kubelets<'_> {
    /// Sets the default result of resizes; waiting ones are retried.
    pub fn resizes(&self, resizing: Resizing) {
        self.0.change(|cluster| {
            cluster.controllers.kubelet.usual = resizing;
            kubelet::retry_resizes(cluster, None);
        });
    }

    /// Restarts the kubelets: infeasible resizes are checked again.
    pub fn restart(&self) {
        self.0.change(kubelet::restart);
    }

    /// Sets the result of one pod's resizes; `None` restores the default. A waiting one is retried.
    pub fn resizes_of(&self, pod: &Key, resizing: Option<Resizing>) {
        self.0.change(|cluster| {
            let by_pod = &mut cluster.controllers.kubelet.by_pod;
            match resizing {
                Some(resizing) => drop(by_pod.insert(pod.clone(), resizing)),
                None => drop(by_pod.remove(pod)),
            }
            kubelet::retry_resizes(cluster, Some(pod));
        });
    }

    /// Sets the time from a pod's start until it is ready.
    pub fn ready_after(&self, wait: Duration) {
        self.0.change(|cluster| cluster.options.ready_after = wait);
    }

    /// Makes a pod ready or unready now.
    pub fn set_ready(&self, pod: &Key, ready: bool) {
        self.0.change(|cluster| {
            let now = cluster.clock.now();
            cluster.amend("pods", pod, |pod| status_of::ready(pod, ready, &now));
        });
    }

    /// All pods, in order of namespace and name.
    pub fn pods(&self) -> Vec<PodNow> {
        let cluster = self.0.cluster();
        cluster
            .store
            .list("pods", "", None)
            .map(|(_, pod)| PodNow::of(pod))
            .collect()
    }
}
