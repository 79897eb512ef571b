//! A server is told the cores that it has: more cores are no use to a server that keeps its number of threads. It is
//! told the batch too that the plan has chosen: one that makes greater ones leaves lanes idle. One HTTP request to each
//! pod whose cores or batch have changed since it was told, or has started again; until that is answered a plan counts on
//! the fewer of what the pod has and what its server was told, and on the batches that servers make by themselves.
//!
//! What the request says is the service's to give: `{cores}`, `{millicores}` and `{batch}` in its path and body are
//! replaced. Triton takes `POST /v2/repository/models/MODEL/load` with a config whose instance count is `{cores}` and
//! whose `max_batch_size` is `{batch}`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::{Instant, timeout_at};
use weir_api::Cores;

use super::pod::PodState;
use crate::service::{BATCH, Retune, RetuneMethod};

/// Longest part of a server's refusal that is repeated, in characters.
const SHOWN_MAX: usize = 200;

/// Tells the servers of one variant.
pub(super) struct Tuner {
    http: reqwest::Client,
    retune: Retune,
    /// Greatest batch that they are to make.
    batch: AtomicU32,
    /// By uid.
    told: Mutex<BTreeMap<String, Told>>,
    /// Said once, when it begins and when it ends.
    failing: AtomicBool,
}

/// What a server was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    /// The start of its container that was told.
    restarts: i32,
    cores: Cores,
    batch: u32,
}

impl Tuner {
    pub(super) fn new(http: reqwest::Client, retune: Retune) -> Tuner {
        Tuner {
            http,
            batch: AtomicU32::new(retune.batch),
            retune,
            told: Mutex::default(),
            failing: AtomicBool::new(false),
        }
    }

    fn told(&self) -> MutexGuard<'_, BTreeMap<String, Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the server of this pod was told, if it has not started anew since.
    fn told_to(&self, pod: &PodState) -> Option<Told> {
        let told = self.told().get(&pod.uid).copied();
        told.filter(|told| told.restarts == pod.restarts)
    }

    /// The cores that the server of this pod was told, where servers are told cores.
    pub(super) fn tuned(&self, pod: &PodState) -> Option<Cores> {
        let told = self.told_to(pod).filter(|_| self.retune.says_cores());
        told.map(|told| told.cores)
    }

    /// The batch that the server of this pod was told, where servers are told it.
    pub(super) fn batch_of(&self, pod: &PodState) -> Option<u32> {
        let told = self.told_to(pod).filter(|_| self.retune.says_batch());
        told.map(|told| told.batch)
    }

    /// From now on servers are to make batches of so many at most.
    pub(super) fn want_batch(&self, batch: u32) {
        self.batch.store(batch, Ordering::Relaxed);
    }

    /// Whether the server of this pod is to be told.
    pub(super) fn is_due(&self, pod: &PodState) -> bool {
        let told = self.told_to(pod);
        let knows = told.is_some_and(|told| {
            let batch = self.batch.load(Ordering::Relaxed);
            let cores = !self.retune.says_cores() || told.cores == pod.has();
            cores && (!self.retune.says_batch() || told.batch == batch)
        });
        pod.ready && pod.stays() && !knows
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
        let batch = self.batch.load(Ordering::Relaxed);
        let address = pod.address.ok_or("it has no address yet")?;
        let address = std::net::SocketAddr::new(address, self.retune.port);
        let url = format!(
            "http://{address}{}",
            filled(&self.retune.path, cores, batch)
        );
        let request = match self.retune.method {
            RetuneMethod::Post => self.http.post(&url),
            RetuneMethod::Put => self.http.put(&url),
        };
        let request = request
            .header("content-type", "application/json")
            .body(filled(&self.retune.body, cores, batch));
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
        let told = Told {
            restarts: pod.restarts,
            cores,
            batch,
        };
        self.told().insert(pod.uid.clone(), told);
        Ok(())
    }

    /// Forgets pods that are gone.
    pub(super) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.told().retain(|uid, _| is_there(uid));
    }
}

/// Whole cores are rounded up: a server has a thread at least.
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
    fn cores_and_batch_are_filled_in() {
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
}
