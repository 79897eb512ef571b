//! A planner on Kubernetes, run in this process. It is polled as by proxies and people, and ended as by Kubernetes.
//!
//! It runs on the test's runtime, whose clock may be paused, or on its own. Dropping its own runtime ends all its
//! tasks, like the end of a process.

use std::sync::Arc;

use anyhow::Context;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use weir_planner::file_reload::Reloaded;
use weir_planner::http::Endpoint;
use weir_planner::key::{Key, Keys};
use weir_planner::operator::{Options, operate};
use weir_planner::shared_budget::SharedBudgets;

/// The key that proxies present.
pub const KEY: &str = "secret-key";

/// A planner; it ends when dropped.
#[derive(Debug)]
pub struct Planner {
    /// URL of its HTTP API.
    pub url: String,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<anyhow::Result<()>>>,
    /// Its own runtime, if it has one.
    runtime: Option<Runtime>,
}

/// Settings in which planners differ.
#[derive(Debug, Default)]
struct Setting {
    /// Address at which other planners reach it, if it is not its own.
    advertised: Option<String>,
    /// Budgets that services share.
    budgets: Arc<SharedBudgets>,
}

impl Planner {
    /// Starts a planner called `name`, with its Lease in `namespace`, for the resources of `planned`.
    ///
    /// # Errors
    ///
    /// There is no free port.
    pub async fn start(
        client: kube::Client,
        name: &str,
        namespace: &str,
        planned: &str,
    ) -> anyhow::Result<Planner> {
        let names = [name, namespace, planned];
        Planner::on(None, client, names, Setting::default()).await
    }

    /// Starts it with budgets that services share; `names` are its own, its namespace and that of the resources.
    ///
    /// # Errors
    ///
    /// There is no free port.
    pub async fn start_sharing(
        client: kube::Client,
        names: [&str; 3],
        budgets: SharedBudgets,
    ) -> anyhow::Result<Planner> {
        let setting = Setting {
            budgets: Arc::new(budgets),
            ..Setting::default()
        };
        Planner::on(None, client, names, setting).await
    }

    /// Starts it with `advertised` as the address at which other planners reach it.
    ///
    /// # Errors
    ///
    /// There is no free port.
    pub async fn start_advertising(
        client: kube::Client,
        name: &str,
        namespace: &str,
        planned: &str,
        advertised: &str,
    ) -> anyhow::Result<Planner> {
        let names = [name, namespace, planned];
        let setting = Setting {
            advertised: Some(advertised.to_owned()),
            ..Setting::default()
        };
        Planner::on(None, client, names, setting).await
    }

    /// Starts it on a runtime of its own.
    ///
    /// # Errors
    ///
    /// There is no free port, or no thread.
    pub async fn start_apart(
        client: kube::Client,
        name: &str,
        namespace: &str,
        planned: &str,
    ) -> anyhow::Result<Planner> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let names = [name, namespace, planned];
        Planner::on(Some(runtime), client, names, Setting::default()).await
    }

    async fn on(
        runtime: Option<Runtime>,
        client: kube::Client,
        [name, namespace, planned]: [&str; 3],
        setting: Setting,
    ) -> anyhow::Result<Planner> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (stop, stopped) = watch::channel(false);
        let options = Options {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            namespaces: vec![planned.to_owned()],
            address: setting.advertised.unwrap_or_else(|| url.clone()),
            state: None,
            budgets: setting.budgets,
            replay: None,
            traces: None,
        };
        let key = Key::new(KEY).context("the key is too short")?;
        let endpoint = Endpoint {
            listener,
            keys: Reloaded::fixed(Keys::of(key)).into(),
            tls: None,
        };
        let operates = async move {
            operate(client, options, endpoint, stopped).await?;
            Ok(())
        };
        let task = match &runtime {
            Some(runtime) => runtime.spawn(operates),
            None => tokio::spawn(operates),
        };
        Ok(Planner {
            url,
            stop,
            task: Some(task),
            runtime,
        })
    }

    /// The plan of the service `demo`, as a proxy without a name gets it.
    ///
    /// # Errors
    ///
    /// The status of another response; 0 if there was none.
    pub async fn plan(&self) -> Result<Value, u16> {
        self.poll("").await
    }

    /// The plan of the service `demo` with the slots of a proxy.
    ///
    /// # Errors
    ///
    /// As [`Planner::plan`].
    pub async fn plan_of(&self, proxy: &str) -> Result<Value, u16> {
        self.poll(&format!("?proxy={proxy}&incarnation=1&role=both"))
            .await
    }

    async fn poll(&self, query: &str) -> Result<Value, u16> {
        let client = client().map_err(|_| 0u16)?;
        let request = client.get(format!("{}/v1/plans/demo{query}", self.url));
        let answer = request.bearer_auth(KEY).send().await.map_err(|_| 0u16)?;
        match answer.status().as_u16() {
            200 => answer.json().await.map_err(|_| 0),
            other => Err(other),
        }
    }

    /// Checks that it is ready.
    ///
    /// # Errors
    ///
    /// The reason why it is not.
    pub async fn ready(&self) -> Result<(), String> {
        let request = client().map_err(|error| error.to_string())?;
        let request = request.get(format!("{}/readyz", self.url));
        let answer = request.send().await.map_err(|error| error.to_string())?;
        match answer.status().is_success() {
            true => Ok(()),
            false => Err(answer.text().await.unwrap_or_default()),
        }
    }

    /// Its metrics.
    ///
    /// # Errors
    ///
    /// It does not answer.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        let answer = client()?.get(format!("{}/metrics", self.url)).send().await;
        Ok(answer?.text().await?)
    }

    /// Ends it as SIGTERM does.
    ///
    /// # Errors
    ///
    /// It could not be set up, or it panicked.
    pub async fn end(mut self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        let task = self.task.take().context("the planner has already ended")?;
        task.await.context("the planner panicked")?
    }

    /// Ends it as SIGKILL does; with a runtime of its own, all its tasks end too.
    pub async fn kill(mut self) {
        let task = self.task.take();
        drop(self);
        if let Some(task) = task {
            task.abort();
            // Returns once the task has been dropped.
            drop(task.await);
        }
    }
}

impl Drop for Planner {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn client() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder().no_proxy().build()
}
