//! `weir operate`: plans for the `SloService`s of a Kubernetes cluster. The cluster is found by the pod's
//! service account, or the kubeconfig.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use tokio::sync::watch;
use weir_planner::http::Endpoint;
use weir_planner::key::KeySource;
use weir_planner::operator::{Options, operate};
use weir_planner::shared_budget::{SharedBudgetArgument, SharedBudgets};

use crate::endpoint::{TlsArguments, listen, scheme};
use crate::traces::Traces;

/// Arguments of `weir operate`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Operate {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// File with the proxies' keys, one in each line, as KEY or as NAME KEY; read again when it changes.
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
    /// Plan only for the resources of this namespace; may be repeated. Default: all namespaces.
    #[arg(long, value_name = "NS")]
    namespace: Vec<String>,
    /// Namespace of the planners' Lease. Default: POD_NAMESPACE.
    #[arg(long, value_name = "NS")]
    lease_namespace: Option<String>,
    /// Unique name of this planner. Default: POD_NAME.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Address at which other planners reach this one. Default: POD_IP, or else the address of --listen.
    #[arg(long, value_name = "IP")]
    advertise: Option<IpAddr>,
    /// Folder in which the loads, requests and service times of late, and what forecasters have learned, are kept for the
    /// planner's next start; it is made if it is missing.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Cores of a budget that several services share (budget.shared), as NAME=CORES; may be repeated.
    #[arg(long, value_name = "NAME=CORES")]
    shared_budget: Vec<SharedBudgetArgument>,
    #[command(flatten)]
    tls: TlsArguments,
    /// Certificates by which that of another planner is trusted (PEM). Default: the file of --tls-cert.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// Name that the certificate of another planner must carry. Default: weir-planner.NS.svc, NS as of the Lease.
    #[arg(long, value_name = "NAME", requires = "tls_cert")]
    tls_name: Option<String>,
}

impl Operate {
    /// # Errors
    /// A missing or invalid flag or variable, a port in use, or an unreachable cluster.
    pub(crate) async fn run(self, stop: watch::Receiver<bool>) -> anyhow::Result<()> {
        let budgets = SharedBudgets::new(&self.shared_budget)?;
        let traces = Traces::start()?;
        let keys = KeySource::File(self.key_file.clone())
            .read()
            .with_context(|| format!("--key-file {}", self.key_file.display()))?;
        let name = given(self.name, "name", "POD_NAME")?;
        let namespace = given(self.lease_namespace, "lease-namespace", "POD_NAMESPACE")?;
        let tls_name = self.tls_name;
        let tls_name = tls_name.unwrap_or_else(|| format!("weir-planner.{namespace}.svc"));
        let tls = self.tls.read(self.tls_ca, tls_name)?;
        let listener = listen(self.listen)
            .await
            .with_context(|| format!("--listen {}: cannot be had; name a free one", self.listen))?;
        let listening = listener.local_addr()?;
        let ip = match (self.advertise, std::env::var("POD_IP")) {
            (Some(ip), _) => ip,
            (None, Ok(text)) => text
                .parse()
                .with_context(|| format!("POD_IP: '{text}' is no address"))?,
            (None, Err(_)) => listening.ip(),
        };
        anyhow::ensure!(
            !ip.is_unspecified(),
            "--advertise: missing; other planners cannot reach {ip}, where this one listens"
        );
        // Services of one namespace each add it to the arguments.
        let namespaces: BTreeSet<String> = self.namespace.into_iter().collect();
        let client = kube::Client::try_default()
            .await
            .context("no cluster: neither a service account nor a kubeconfig (KUBECONFIG)")?;
        if let Some(folder) = &self.state {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("--state {}", folder.display()))?;
        }
        let options = Options {
            name,
            namespace,
            namespaces: namespaces.into_iter().collect(),
            address: format!(
                "{}://{}",
                scheme(tls.as_ref()),
                SocketAddr::new(ip, listening.port())
            ),
            state: self.state,
            budgets: Arc::new(budgets),
            replay: crate::sent_replay::runner(),
            traces: traces.sink(),
        };
        let endpoint = Endpoint {
            listener,
            keys: keys.into(),
            tls,
        };
        let place = match options.namespaces.as_slice() {
            [] => "all namespaces".to_owned(),
            some => some.join(", "),
        };
        tracing::info!(
            "{} answers on {}, for {place}",
            options.name,
            options.address
        );
        let ended = operate(client, options, endpoint, stop).await;
        traces.end().await;
        ended?;
        tracing::info!("ended");
        Ok(())
    }
}

/// Value of the flag, or else of the variable.
fn given(flag: Option<String>, name: &str, variable: &str) -> anyhow::Result<String> {
    flag.or_else(|| std::env::var(variable).ok())
        .filter(|value| !value.is_empty())
        .with_context(|| format!("--{name}: missing, and the variable {variable} is not set"))
}
