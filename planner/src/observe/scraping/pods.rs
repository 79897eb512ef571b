//! Finds the statistics addresses of the pods whose proxies run the filter, by a watch.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::watcher;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::backends::kubernetes::namespace::slim_pod;
use crate::backends::kubernetes::watch::{ApiOutage, ChangeNotifier, ObjectWatch};
use crate::observe::ScrapeTarget;
use crate::service::ProxyPods;

/// Addresses of the running proxies, watched until dropped.
pub struct ProxyWatch {
    targets: watch::Receiver<Arc<[ScrapeTarget]>>,
    pods: Arc<ObjectWatch<Pod>>,
    task: AbortHandle,
}

impl ProxyWatch {
    /// Watches the pods with these labels. `outage` is shared by all watches of the API server.
    pub fn new(
        client: &kube::Client,
        namespace: &str,
        pods: &ProxyPods,
        outage: &Arc<ApiOutage>,
    ) -> ProxyWatch {
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let labels: Vec<String> = pods
            .labels
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        let (sender, mut changed) = watch::channel(());
        let notifier: ChangeNotifier = Arc::new(sender);
        let chosen = watcher::Config::default().labels(&labels.join(","));
        let name = format!("the proxies' pods of namespace {namespace}");
        let watch: ObjectWatch<Pod> =
            ObjectWatch::new(name, api, chosen, (), slim_pod, notifier, outage);
        let watch = Arc::new(watch);
        let listed = Arc::clone(&watch);
        let none: Arc<[ScrapeTarget]> = Arc::default();
        let (publisher, targets) = watch::channel(none);
        let pods = pods.clone();
        let task = tokio::spawn(async move {
            while changed.changed().await.is_ok() {
                let Ok(store) = listed.store() else {
                    continue;
                };
                let all = store.state();
                let mut now: Vec<ScrapeTarget> =
                    all.iter().filter_map(|pod| target(pod, &pods)).collect();
                now.sort_by(|a, b| a.name.cmp(&b.name));
                publisher.send_if_modified(|before| {
                    let new = **before != *now;
                    if new {
                        *before = now.into();
                    }
                    new
                });
            }
        });
        ProxyWatch {
            targets,
            pods: watch,
            task: task.abort_handle(),
        }
    }

    /// Returns why the proxies are not known, if their pods have never been listed.
    pub fn failure(&self) -> Option<String> {
        self.pods.failure()
    }

    /// Returns why the proxies may be outdated, if their watch has failed for long.
    pub fn stale(&self) -> Option<String> {
        self.pods.stale()
    }

    /// Returns the addresses of the proxies' statistics.
    pub fn targets(&self) -> watch::Receiver<Arc<[ScrapeTarget]>> {
        self.targets.clone()
    }
}

impl Drop for ProxyWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the address of a running pod, ready or not: an ending pod still serves requests.
pub(crate) fn target(pod: &Pod, pods: &ProxyPods) -> Option<ScrapeTarget> {
    let status = pod.status.as_ref()?;
    let runs = status.phase.as_deref() == Some("Running");
    let ip: std::net::IpAddr = status.pod_ip.as_ref().filter(|_| runs)?.parse().ok()?;
    let address = std::net::SocketAddr::new(ip, pods.port);
    Some(ScrapeTarget {
        name: pod.name_any().into(),
        url: format!("http://{address}{}", pods.path).parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn running_pod_is_scraped_at_its_address() {
        let pods = ProxyPods {
            labels: BTreeMap::new(),
            namespace: None,
            port: 15090,
            path: "/stats/prometheus?filter=weir_".to_owned(),
        };
        for (status, url) in [
            (
                json!({"phase": "Running", "podIP": "10.0.0.7"}),
                Some("http://10.0.0.7:15090/stats/prometheus?filter=weir_"),
            ),
            (
                json!({"phase": "Running", "podIP": "fd00::7"}),
                Some("http://[fd00::7]:15090/stats/prometheus?filter=weir_"),
            ),
            (json!({"phase": "Running"}), None),
            (json!({"phase": "Pending", "podIP": "10.0.0.7"}), None),
            (json!({"phase": "Succeeded", "podIP": "10.0.0.7"}), None),
            (json!({"phase": "Running", "podIP": "x"}), None),
        ] {
            let pod = json!({"metadata": {"name": "gateway-1"}, "status": status});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            let target = target(&pod, &pods);
            assert_eq!(
                target.as_ref().map(|target| target.url.as_str()),
                url,
                "{pod:?}"
            );
            assert!(target.is_none_or(|target| *target.name == *"gateway-1"));
        }
    }
}
