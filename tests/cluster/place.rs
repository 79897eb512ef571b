//! Which cluster: the one of a kubeconfig, or emulators. A story is told on each there is.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::time::Duration;

use futures_util::FutureExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use weir_apiserver::{ADMIN, ApiServer, Options};

use super::ground::Ground;
use super::parts::Parts;
use super::stage::Stage;

/// Names the kubeconfig of the cluster; without it there are emulators.
const KUBECONFIG: &str = "WEIR_KUBECONFIG";
/// Cores of the emulated node.
const NODE_CORES: u32 = 16;

/// A cluster's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Somebody's; it may be anything.
    Given,
    /// Emulated, with controllers, a node and its kubelet.
    Whole,
    /// Emulated, and nothing but an API server.
    Alone,
}

/// A cluster while a story is told.
pub(crate) struct Place {
    kind: Kind,
    /// Of one who may do everything.
    pub(crate) config: kube::Config,
    /// Ends with the story.
    _emulator: Option<ApiServer>,
    /// On a cluster that is somebody's, one story at a time.
    _turn: Option<MutexGuard<'static, ()>>,
}

static TURN: Mutex<()> = Mutex::const_new(());

impl Place {
    /// The cluster of a kubeconfig's current context.
    async fn given(path: PathBuf) -> Place {
        let turn = TURN.lock().await;
        let read = Kubeconfig::read_from(&path);
        let read = read.unwrap_or_else(|error| panic!("{KUBECONFIG}={}: {error}", path.display()));
        Place {
            kind: Kind::Given,
            config: config(read).await,
            _emulator: None,
            _turn: Some(turn),
        }
    }

    async fn emulated(kind: Kind) -> Place {
        let whole = kind == Kind::Whole;
        let emulator = ApiServer::start(Options {
            kubelet: whole,
            scheduler: whole,
            workloads: whole,
            exits_after: Some(Duration::from_millis(10)),
            ..Options::default()
        });
        let emulator = emulator.await.unwrap();
        if whole {
            emulator.store().node("node-a", NODE_CORES, 65_536).unwrap();
        }
        let read = Kubeconfig::from_yaml(&emulator.kubeconfig(ADMIN)).unwrap();
        Place {
            kind,
            config: config(read).await,
            _emulator: Some(emulator),
            _turn: None,
        }
    }

    /// Which of its parts are there; looked for once of each kind.
    pub(crate) async fn parts(&self, look: impl AsyncFnOnce() -> Parts) -> Parts {
        static KNOWN: [OnceCell<Parts>; 3] = [const { OnceCell::const_new() }; 3];
        *KNOWN[self.kind as usize].get_or_init(|| look()).await
    }

    pub(crate) fn label(&self) -> String {
        match self.kind {
            Kind::Given => self.config.cluster_url.to_string(),
            Kind::Whole => "emulator".to_owned(),
            Kind::Alone => "emulator, API server alone".to_owned(),
        }
    }
}

async fn config(read: Kubeconfig) -> kube::Config {
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(read, &options).await;
    config.unwrap_or_else(|error| panic!("the kubeconfig: {error}"))
}

/// Tells a story on each cluster; whatever becomes of it, the ground is cleared.
pub(crate) async fn everywhere(story: impl AsyncFn(&Stage<'_>)) {
    let given = std::env::var_os(KUBECONFIG).filter(|path| !path.is_empty());
    let kinds: &[Kind] = match given {
        Some(_) => &[Kind::Given],
        None => &[Kind::Whole, Kind::Alone],
    };
    for kind in kinds {
        let place = match &given {
            Some(path) => Place::given(path.into()).await,
            None => Place::emulated(*kind).await,
        };
        let ground = Ground::new(place).await;
        let told = async {
            let stage = Stage::set(&ground).await;
            story(&stage).await;
        };
        let told = AssertUnwindSafe(told).catch_unwind().await;
        ground.clear().await;
        if let Err(panic) = told {
            resume_unwind(panic);
        }
    }
}
