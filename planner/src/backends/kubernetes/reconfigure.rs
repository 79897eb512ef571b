//! Tells servers their cores and batch size: a server with a fixed number of threads gains nothing from more cores,
//! and one that builds larger batches than planned leaves lanes idle. Sends one HTTP request to each pod whose cores
//! or batch size have changed since the last one, or which has restarted. Until it is answered, plans count on the
//! smaller of the pod's cores and the cores its server has confirmed, and on the batch size that servers use by
//! default. A server that has never confirmed any counts with the cores of the workload's template at most, because it
//! started with those.
//!
//! The service defines path and body of the request, in which `{cores}`, `{millicores}` and `{batch}` are replaced.
//! Triton takes `POST /v2/repository/models/MODEL/load` with a config whose instance count is `{cores}` and whose
//! `max_batch_size` is `{batch}`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::{Instant, timeout_at};
use weir_api::Cores;

use super::pod::PodState;
use crate::service::{BATCH, Reconfigure, ReconfigureMethod};

/// Maximum length of a server's error that is repeated in messages, in characters.
const SHOWN_MAX: usize = 200;

/// Maximum number of bytes read of the answer of a server that refuses.
const ANSWER_BYTES_MAX: usize = 4_096;

/// Client of the servers of one variant.
pub(super) struct ServerHook {
    http: reqwest::Client,
    reconfigure: Reconfigure,
    /// Maximum batch size that they are to use.
    batch: AtomicU32,
    /// Values sent last, by pod uid.
    confirmed: Mutex<BTreeMap<String, Confirmed>>,
    /// Whether the last request failed; logged when it begins and when it ends.
    failing: AtomicBool,
}

/// Values that a server was configured with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Confirmed {
    /// Restart count of the container at that time.
    restarts: i32,
    cores: Cores,
    batch: u32,
}

/// Returns the address of the reconfigure request to a pod.
pub(crate) fn url(reconfigure: &Reconfigure, pod: IpAddr, cores: Cores, batch: u32) -> String {
    let address = SocketAddr::new(pod, reconfigure.port);
    format!(
        "http://{address}{}",
        filled(&reconfigure.path, cores, batch)
    )
}

impl ServerHook {
    pub(super) fn new(http: reqwest::Client, reconfigure: Reconfigure) -> ServerHook {
        ServerHook {
            http,
            batch: AtomicU32::new(reconfigure.batch),
            reconfigure,
            confirmed: Mutex::default(),
            failing: AtomicBool::new(false),
        }
    }

    fn confirmed(&self) -> MutexGuard<'_, BTreeMap<String, Confirmed>> {
        self.confirmed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the values last sent to this pod's server, if it has not restarted since.
    fn confirmed_by(&self, pod: &PodState) -> Option<Confirmed> {
        let confirmed = self.confirmed().get(&pod.uid).copied();
        confirmed.filter(|confirmed| confirmed.restarts == pod.restarts)
    }

    /// Returns the cores that this pod's server works with, if servers are sent cores. A server that has confirmed
    /// none works with those it started with: at most the workload's `template`, and one core if that has no request.
    pub(super) fn configured_cores(&self, pod: &PodState, template: Cores) -> Option<Cores> {
        if !self.reconfigure.contains_cores() {
            return None;
        }
        let initial = match template {
            Cores::ZERO => Cores::whole(1),
            template => template,
        };
        let confirmed = self.confirmed_by(pod);
        Some(confirmed.map_or(initial, |confirmed| confirmed.cores))
    }

    /// Returns the batch size sent to this pod's server, if servers are sent it.
    pub(super) fn batch_of(&self, pod: &PodState) -> Option<u32> {
        let confirmed = self
            .confirmed_by(pod)
            .filter(|_| self.reconfigure.contains_batch());
        confirmed.map(|confirmed| confirmed.batch)
    }

    /// Sets the maximum batch size that servers are to use.
    pub(super) fn want_batch(&self, batch: u32) {
        self.batch.store(batch, Ordering::Relaxed);
    }

    /// Whether the server of this pod needs to be reconfigured.
    pub(super) fn is_due(&self, pod: &PodState) -> bool {
        let confirmed = self.confirmed_by(pod);
        let knows = confirmed.is_some_and(|confirmed| {
            let batch = self.batch.load(Ordering::Relaxed);
            let cores = !self.reconfigure.contains_cores() || confirmed.cores == pod.has();
            cores && (!self.reconfigure.contains_batch() || confirmed.batch == batch)
        });
        pod.ready && pod.stays() && !knows
    }

    /// Tells the server of this pod.
    ///
    /// # Errors
    /// The reason, for people.
    pub(super) async fn tell(&self, pod: &PodState, deadline: Instant) -> Result<(), String> {
        let confirmed = self.send(pod, deadline).await;
        let failed = self.failing.swap(confirmed.is_err(), Ordering::Relaxed);
        match (&confirmed, failed) {
            (Err(why), false) => tracing::warn!(
                "reconfiguring pod {}: {why}; tried again every cycle (logged once)",
                pod.name
            ),
            (Ok(()), true) => tracing::info!("reconfiguring pod {}: well again", pod.name),
            _ => {}
        }
        confirmed
    }

    async fn send(&self, pod: &PodState, deadline: Instant) -> Result<(), String> {
        let cores = pod.has();
        let batch = self.batch.load(Ordering::Relaxed);
        let address = pod.address.ok_or("it has no address yet")?;
        let url = url(&self.reconfigure, address, cores, batch);
        let request = match self.reconfigure.method {
            ReconfigureMethod::Post => self.http.post(&url),
            ReconfigureMethod::Put => self.http.put(&url),
        };
        let request = request
            .header("content-type", "application/json")
            .body(filled(&self.reconfigure.body, cores, batch));
        let answer = timeout_at(deadline, request.send()).await;
        let answer = answer.map_err(|_| format!("{url}: no answer in time"))?;
        let answer = answer.map_err(|error| format!("{url}: {}", error.without_url()))?;
        let status = answer.status();
        if !status.is_success() {
            let text = timeout_at(deadline, beginning(answer)).await;
            let text = text.unwrap_or_default();
            let shown: String = text.chars().take(SHOWN_MAX).collect();
            return Err(format!("{url}: status {}: {shown}", status.as_u16()));
        }
        let confirmed = Confirmed {
            restarts: pod.restarts,
            cores,
            batch,
        };
        self.confirmed().insert(pod.uid.clone(), confirmed);
        Ok(())
    }

    /// Forgets deleted pods.
    pub(super) fn retain(&self, exists: impl Fn(&str) -> bool) {
        self.confirmed().retain(|uid, _| exists(uid));
    }
}

/// Returns the beginning of an answer's body, at most [`ANSWER_BYTES_MAX`].
async fn beginning(mut answer: reqwest::Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < ANSWER_BYTES_MAX {
        match answer.chunk().await {
            Ok(Some(piece)) => bytes.extend_from_slice(&piece),
            Ok(None) | Err(_) => break,
        }
    }
    bytes.truncate(ANSWER_BYTES_MAX);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Fills in the placeholders. Whole cores are rounded up: a server has at least one thread.
fn filled(text: &str, cores: Cores, batch: u32) -> String {
    let millis = cores.millis();
    text.replace("{cores}", &millis.div_ceil(1000).to_string())
        .replace("{millicores}", &millis.to_string())
        .replace(BATCH, &batch.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_with_cores_and_batch() {
        for (millis, expected) in [
            (2500, "3 2500 4 {x}"),
            (1000, "1 1000 4 {x}"),
            (10, "1 10 4 {x}"),
        ] {
            let text = filled(
                "{cores} {millicores} {batch} {x}",
                Cores::from_millis(millis),
                4,
            );
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn server_that_never_confirmed_counts_with_its_template() {
        let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "web-1", "uid": "u"},
            "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "4"}}}]},
        }))
        .unwrap();
        let pod = PodState::of(&pod, "app").unwrap();
        let hook = |body: &str| {
            let reconfigure = Reconfigure {
                port: 1,
                path: "/".to_owned(),
                method: ReconfigureMethod::Post,
                body: body.to_owned(),
                batch: 1,
            };
            ServerHook::new(reqwest::Client::new(), reconfigure)
        };
        let cores = |hook: &ServerHook, template| {
            let configured_cores = hook.configured_cores(&pod, Cores::whole(template));
            PodState {
                configured_cores,
                ..pod.clone()
            }
            .cores()
        };
        let untold = hook("{cores}");
        for (template, counted) in [(1, 1), (2, 2), (6, 4), (0, 1)] {
            assert_eq!(
                cores(&untold, template),
                Cores::whole(counted),
                "{template}"
            );
        }
        let confirmed = Confirmed {
            restarts: 0,
            cores: Cores::whole(3),
            batch: 1,
        };
        untold.confirmed().insert("u".to_owned(), confirmed);
        assert_eq!(cores(&untold, 1), Cores::whole(3));
        // Servers that are told only their batch use all cores.
        assert_eq!(cores(&hook("{batch}"), 1), Cores::whole(4));
    }
    #[tokio::test]
    async fn at_most_the_limit_is_read_of_a_refusal() {
        let echo = |axum::extract::Path(bytes): axum::extract::Path<usize>| async move {
            "x".repeat(bytes)
        };
        let router = axum::Router::new().route("/{bytes}", axum::routing::get(echo));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let http = crate::app::client().unwrap();
        for (bytes, read) in [
            (0, 0),
            (ANSWER_BYTES_MAX, ANSWER_BYTES_MAX),
            (ANSWER_BYTES_MAX + 1, ANSWER_BYTES_MAX),
            (1_000_000, ANSWER_BYTES_MAX),
        ] {
            let answer = http.get(format!("http://{address}/{bytes}")).send().await;
            assert_eq!(beginning(answer.unwrap()).await.len(), read, "{bytes}");
        }
    }
}
