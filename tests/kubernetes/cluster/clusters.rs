//! Clusters to test on: the one of a kubeconfig, or emulators. Each test runs on every available cluster.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::time::Duration;

use futures_util::FutureExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use weir_apiserver::{ADMIN, ApiServer, Options};

use super::fixture::Fixture;
use super::parts::Parts;
use super::sandbox::Sandbox;

/// Environment variable with the path of the cluster's kubeconfig; without it, emulators are used.
const KUBECONFIG: &str = "WEIR_KUBECONFIG";
/// Cores of the emulated node.
const NODE_CORES: u32 = 16;

/// Kind of cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An existing cluster of unknown make.
    External,
    /// An emulator with controllers, a node and its kubelet.
    Full,
    /// An emulator that is only an API server.
    ApiServerOnly,
}

/// A cluster for the duration of one test.
pub(crate) struct Cluster {
    kind: Kind,
    /// Configuration with all rights.
    pub(crate) config: kube::Config,
    /// The emulator; stopped when the test ends.
    emulator: Option<ApiServer>,
    /// Lock that runs the tests one at a time on an existing cluster.
    _lock: Option<MutexGuard<'static, ()>>,
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

impl Cluster {
    /// Connects to the cluster of a kubeconfig's current context.
    async fn external(path: PathBuf) -> Cluster {
        let lock = ONE_AT_A_TIME.lock().await;
        let read = Kubeconfig::read_from(&path);
        let read = read.unwrap_or_else(|error| panic!("{KUBECONFIG}={}: {error}", path.display()));
        Cluster {
            kind: Kind::External,
            config: config(read).await,
            emulator: None,
            _lock: Some(lock),
        }
    }

    async fn emulated(kind: Kind) -> Cluster {
        let full = kind == Kind::Full;
        let emulator = ApiServer::start(Options {
            kubelet: full,
            scheduler: full,
            workloads: full,
            exits_after: Some(Duration::from_millis(10)),
            ..Options::default()
        });
        let emulator = emulator.await.unwrap();
        if full {
            emulator.store().node("node-a", NODE_CORES, 65_536).unwrap();
        }
        let read = Kubeconfig::from_yaml(&emulator.kubeconfig(ADMIN)).unwrap();
        Cluster {
            kind,
            config: config(read).await,
            emulator: Some(emulator),
            _lock: None,
        }
    }

    /// Returns the cluster's parts; detected once for each kind of cluster.
    pub(crate) async fn parts(&self, detect: impl AsyncFnOnce() -> Parts) -> Parts {
        static KNOWN: [OnceCell<Parts>; 3] = [const { OnceCell::const_new() }; 3];
        *KNOWN[self.kind as usize].get_or_init(|| detect()).await
    }

    /// Asserts that the emulator evaluated every validation rule it met; it would otherwise accept too much.
    fn assert_rules_evaluated(&self) {
        if let Some(emulator) = &self.emulator {
            assert_eq!(emulator.unevaluated_rules(), []);
        }
    }

    pub(crate) fn label(&self) -> String {
        match self.kind {
            Kind::External => self.config.cluster_url.to_string(),
            Kind::Full => "emulator".to_owned(),
            Kind::ApiServerOnly => "emulator, API server alone".to_owned(),
        }
    }
}

async fn config(read: Kubeconfig) -> kube::Config {
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(read, &options).await;
    config.unwrap_or_else(|error| panic!("the kubeconfig: {error}"))
}

/// Runs a test on each cluster, and removes its namespace even if the test fails.
pub(crate) async fn on_each_cluster(scenario: impl AsyncFn(&Fixture<'_>)) {
    let given = std::env::var_os(KUBECONFIG).filter(|path| !path.is_empty());
    let kinds: &[Kind] = match given {
        Some(_) => &[Kind::External],
        None => &[Kind::Full, Kind::ApiServerOnly],
    };
    for kind in kinds {
        let cluster = match &given {
            Some(path) => Cluster::external(path.into()).await,
            None => Cluster::emulated(*kind).await,
        };
        let sandbox = Sandbox::new(cluster).await;
        let outcome = async {
            let fixture = Fixture::new(&sandbox).await;
            scenario(&fixture).await;
            sandbox.cluster.assert_rules_evaluated();
        };
        let outcome = AssertUnwindSafe(outcome).catch_unwind().await;
        sandbox.clear().await;
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    }
}
