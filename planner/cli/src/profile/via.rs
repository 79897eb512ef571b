//! `--via pod/NAME`: the measured server's pod, which is resized in place and restored at the end.

use anyhow::Context;
use weir_planner::backends::kubernetes::pod_server::{ApiPod, CONFIRM_TIME_MAX, PodServer, exact};
use weir_profile::ProfileError;
use weir_profile::resize::{Answer, Resize, ResizePort};

/// Arguments of a server in a pod.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Via {
    /// Pod of the server, whose container is resized in place to the cores and restored at the end (Kubernetes 1.33 or later).
    #[arg(
        long, value_name = "pod/NAME[/CONTAINER]", requires = "url",
        conflicts_with_all = ["cgroup", "resize"], value_parser = pod_name
    )]
    via: Option<PodName>,
    /// Namespace of the pod. Default: that of the kubeconfig's context.
    #[arg(long, value_name = "NS", requires = "via")]
    namespace: Option<String>,
}

/// Pod, and its container if it has several.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PodName {
    pod: String,
    container: Option<String>,
}

fn pod_name(text: &str) -> Result<PodName, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let (pod, container) = match parts.as_slice() {
        ["pod", pod] => (*pod, None),
        ["pod", pod, container] => (*pod, Some(*container)),
        _ => ("", None),
    };
    if pod.is_empty() || container == Some("") {
        return Err("it must be pod/NAME or pod/NAME/CONTAINER".to_owned());
    }
    Ok(PodName {
        pod: pod.to_owned(),
        container: container.map(str::to_owned),
    })
}

impl Via {
    /// Whether a pod is resized.
    pub(super) fn is_given(&self) -> bool {
        self.via.is_some()
    }

    /// Opens the pod, if one is given; all `cores` must be possible.
    ///
    /// # Errors
    /// No cluster, no such pod, or one that cannot be resized to them.
    pub(super) async fn open(&self, cores: &[f64]) -> anyhow::Result<Option<Resize>> {
        let Some(name) = &self.via else {
            return Ok(None);
        };
        for cores in cores {
            exact(*cores).context("--cores, with --via")?;
        }
        let client = kube::Client::try_default().await.context(
            "--via: no cluster: neither a kubeconfig (KUBECONFIG) nor a service account",
        )?;
        let namespace = self.namespace.as_deref();
        let namespace = namespace.unwrap_or(client.default_namespace());
        let port = ApiPod::new(&client, namespace, &name.pod);
        let server = PodServer::open(port, name.container.as_deref(), CONFIRM_TIME_MAX).await;
        let server =
            server.with_context(|| format!("--via pod/{} in namespace {namespace}", name.pod))?;
        Ok(Some(Resize::Port(Box::new(Pod {
            name: name.pod.clone(),
            server,
        }))))
    }
}

/// Implements the profiler's port with a pod.
#[derive(Debug)]
struct Pod {
    name: String,
    server: PodServer,
}

impl Pod {
    fn failed(&self, error: impl std::fmt::Display) -> ProfileError {
        ProfileError(format!("pod {}: {error}", self.name))
    }
}

impl ResizePort for Pod {
    fn set(&self, cores: f64) -> Answer<'_> {
        Box::pin(async move {
            let set = self.server.set(cores).await;
            set.map_err(|error| self.failed(error))
        })
    }

    fn restore(&self) -> Answer<'_> {
        Box::pin(async move {
            let restored = self.server.restore().await;
            restored.map_err(|error| self.failed(error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_named_as_kubectl_names_them() {
        let name = |container: Option<&str>| PodName {
            pod: "small-0".to_owned(),
            container: container.map(str::to_owned),
        };
        assert_eq!(pod_name("pod/small-0"), Ok(name(None)));
        assert_eq!(pod_name("pod/small-0/server"), Ok(name(Some("server"))));
        for wrong in [
            "small-0",
            "pod/",
            "pod/small-0/",
            "deployment/small",
            "pod/a/b/c",
            "",
        ] {
            let error = pod_name(wrong).unwrap_err();
            assert_eq!(
                error, "it must be pod/NAME or pod/NAME/CONTAINER",
                "{wrong}"
            );
        }
    }
}
