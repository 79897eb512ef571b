//! A server is told the cores that it has: more cores are no use to a server that keeps its number of threads. One
//! HTTP request to each pod whose cores have changed since it was told, or has started again; until that is answered
//! a plan counts on the fewer of what the pod has and what its server was told.
//!
//! What the request says is the service's to give: `{cores}` and `{millicores}` in its path and body are replaced.
//! Triton takes `POST /v2/repository/models/MODEL/load` with a config whose instance count is `{cores}`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::{Instant, timeout_at};
use weir_api::Cores;

use super::pod::PodState;
use crate::config::{Retune, RetuneMethod};

/// Longest part of a server's refusal that is repeated, in characters.
const SHOWN_MAX: usize = 200;

/// Tells the servers of one variant.
pub(super) struct Tuner {
    http: reqwest::Client,
    retune: Retune,
    /// By uid: which start of the container was told what.
    told: Mutex<BTreeMap<String, (i32, Cores)>>,
    /// Said once, when it begins and when it ends.
    failing: AtomicBool,
}

impl Tuner {
    pub(super) fn new(http: reqwest::Client, retune: Retune) -> Tuner {
        Tuner {
            http,
            retune,
            told: Mutex::default(),
            failing: AtomicBool::new(false),
        }
    }

    fn told(&self) -> MutexGuard<'_, BTreeMap<String, (i32, Cores)>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the server of this pod was told, if it has not started anew since.
    pub(super) fn tuned(&self, pod: &PodState) -> Option<Cores> {
        let told = self.told().get(&pod.uid).copied();
        told.filter(|(restarts, _)| *restarts == pod.restarts)
            .map(|(_, cores)| cores)
    }

    /// Whether the server of this pod is to be told.
    pub(super) fn is_due(&self, pod: &PodState) -> bool {
        pod.ready && pod.stays() && self.tuned(pod) != Some(pod.has())
    }

    /// Tells it.
    ///
    /// # Errors
    /// What stands in the way, in words.
    pub(super) async fn tell(&self, pod: &PodState, deadline: Instant) -> Result<(), String> {
        let told = self.ask(pod, deadline).await;
        let failed = self.failing.swap(told.is_err(), Ordering::Relaxed);
        match (&told, failed) {
            (Err(why), false) => tracing::warn!(
                "retune of pod {}: {why}; tried again every cycle (said once)",
                pod.name
            ),
            (Ok(()), true) => tracing::info!("retune of pod {}: well again", pod.name),
            _ => {}
        }
        told
    }

    async fn ask(&self, pod: &PodState, deadline: Instant) -> Result<(), String> {
        let cores = pod.has();
        let address = pod.address.ok_or("it has no address yet")?;
        let address = std::net::SocketAddr::new(address, self.retune.port);
        let url = format!("http://{address}{}", filled(&self.retune.path, cores));
        let request = match self.retune.method {
            RetuneMethod::Post => self.http.post(&url),
            RetuneMethod::Put => self.http.put(&url),
        };
        let request = request
            .header("content-type", "application/json")
            .body(filled(&self.retune.body, cores));
        let answer = timeout_at(deadline, request.send()).await;
        let answer = answer.map_err(|_| format!("{url}: no answer in time"))?;
        let answer = answer.map_err(|error| format!("{url}: {}", error.without_url()))?;
        let status = answer.status();
        if !status.is_success() {
            let text = timeout_at(deadline, answer.text()).await;
            let text = text.ok().and_then(Result::ok).unwrap_or_default();
            let shown: String = text.chars().take(SHOWN_MAX).collect();
            return Err(format!("{url}: status {}: {shown}", status.as_u16()));
        }
        self.told().insert(pod.uid.clone(), (pod.restarts, cores));
        Ok(())
    }

    /// Forgets pods that are gone.
    pub(super) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.told().retain(|uid, _| is_there(uid));
    }
}

/// Whole cores are rounded up: a server has a thread at least.
fn filled(text: &str, cores: Cores) -> String {
    let millis = cores.millis();
    text.replace("{cores}", &millis.div_ceil(1000).to_string())
        .replace("{millicores}", &millis.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_filled_in() {
        for (millis, expected) in [(2500, "3 2500 {x}"), (1000, "1 1000 {x}"), (10, "1 10 {x}")] {
            let text = filled("{cores} {millicores} {x}", Cores::from_millis(millis));
            assert_eq!(text, expected);
        }
    }
}
