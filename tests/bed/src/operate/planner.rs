//! A planner of a cluster, in this process: asked as proxies and people ask it, ended as Kubernetes ends it.
//!
//! On the runtime of the story, whose clock may be a paused one; or on its own, with which all that it has begun ends,
//! as with a process.

use anyhow::Context;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use weir_planner::key::Key;
use weir_planner::operator::{Options, operate};

/// The key that proxies show.
pub const KEY: &str = "secret-key";

/// A planner; it ends when dropped.
#[derive(Debug)]
pub struct Planner {
    /// Where it answers.
    pub url: String,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<anyhow::Result<()>>>,
    /// Its own, where it has one.
    runtime: Option<Runtime>,
}

impl Planner {
    /// The planner of that name, with its Lease in `namespace`, for the resources of `planned`.
    ///
    /// # Errors
    /// No port.
    pub async fn start(
        client: kube::Client,
        name: &str,
        namespace: &str,
        planned: &str,
    ) -> anyhow::Result<Planner> {
        Planner::on(None, client, name, namespace, planned).await
    }

    /// The same on a runtime of its own.
    ///
    /// # Errors
    /// No port, or no thread.
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
        Planner::on(Some(runtime), client, name, namespace, planned).await
    }

    async fn on(
        runtime: Option<Runtime>,
        client: kube::Client,
        name: &str,
        namespace: &str,
        planned: &str,
    ) -> anyhow::Result<Planner> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (stop, stopped) = watch::channel(false);
        let options = Options {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            namespaces: vec![planned.to_owned()],
            address: url.clone(),
        };
        let key = Key::new(KEY).context("the key is too short")?;
        let operates = async move {
            operate(client, options, key, listener, stopped).await?;
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

    /// The plan of the service `demo` as a proxy without a name gets it, or the status of the answer; 0 for none.
    ///
    /// # Errors
    /// As told.
    pub async fn plan(&self) -> Result<Value, u16> {
        let asked = client().map_err(|_| 0u16)?;
        let asked = asked.get(format!("{}/v1/plans/demo", self.url));
        let answer = asked.bearer_auth(KEY).send().await.map_err(|_| 0u16)?;
        match answer.status().as_u16() {
            200 => answer.json().await.map_err(|_| 0),
            other => Err(other),
        }
    }

    /// Its metrics.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        let answer = client()?.get(format!("{}/metrics", self.url)).send().await;
        Ok(answer?.text().await?)
    }

    /// Ends it as SIGTERM does.
    ///
    /// # Errors
    /// It could not be set up, or it panicked.
    pub async fn end(mut self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        let task = self.task.take().context("it has ended")?;
        task.await.context("the planner panicked")?
    }

    /// Ends it as SIGKILL does; apart, with all that it has begun.
    pub async fn kill(mut self) {
        let task = self.task.take();
        drop(self);
        if let Some(task) = task {
            task.abort();
            // Returns once it is dropped.
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
