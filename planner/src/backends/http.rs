//! Reads and changes cores over HTTP, one endpoint per variant: `GET` and `PUT {"cores": 4.0}` at the variant's
//! `resize` address, answered with the actual state, `{"cores": 4.0, …}`. Time and size of an answer are limited. A
//! change counts once it is confirmed. A change without an answer may still take effect: old and new state are both
//! counted until the backend reports the new one or answers another change, for one minute at most. Such a change
//! is remembered by the backend's address, from before it is sent, and outlives the service that sent it
//! ([`HttpMemory`]).
//!
//! The replicas of a variant share one address: in `{"cores": 4.0, "parallelism": 2}` the cores are the total of all
//! replicas, distributed evenly, and `parallelism` is their number. If new replicas start beside serving ones with
//! other cores, `"each": 3.0` gives the cores of the serving ones until then.
//!
//! A server without an address may be a control group of this host, whose CPU quota is its cores ([`super::cgroup`]).
//!
//! Servers with a variable batch size (`tellBatch`) are told it at the same address, `PUT {"batch": 4}`, and with
//! every change of their cores. Each answer reports the batch size in use; a server that reports none is told again.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use weir_api::Cores;

use super::cgroup::CgroupServer;
use super::{Actuate, ActuateError, NotReplaced, PendingWrites};
use crate::capacity::{Actual, Allocation, Resize};

mod memory;
mod switched;

pub use memory::HttpMemory;
pub use switched::SwitchedBackends;

/// Maximum size of a backend's answer, in bytes.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Time after which a pending write is no longer expected to take effect.
const PENDING_WRITE_TTL: Duration = Duration::from_secs(60);

/// Backends that are changed over HTTP, or by a control group of this host.
#[derive(Debug, Clone)]
pub struct HttpBackends {
    http: reqwest::Client,
    backends: Vec<Backend>,
    timeout: Duration,
    memory: Arc<HttpMemory>,
    batches: Arc<Mutex<Batches>>,
}

/// Batch sizes by variant.
type Batches = BTreeMap<usize, Batch>;

/// Maximum batch size that servers are to use, and the one that they reported last.
#[derive(Debug, Clone, Copy, Default)]
struct Batch {
    desired: Option<NonZeroU32>,
    reported: Option<NonZeroU32>,
}

/// Place where a variant's cores are read and changed, and what it accepts. Without any they cannot be changed.
#[derive(Debug, Clone, Default)]
pub struct Backend {
    /// Address, if they are changed over HTTP.
    pub address: Option<url::Url>,
    /// Control group, if they are its quota.
    pub cgroup: Option<CgroupServer>,
    /// Whether it may have several replicas.
    pub replicated: bool,
    /// Whether its servers are told their batch size.
    pub tell_batch: bool,
}

/// Backends whose cores are read and never changed (mode advisory).
#[derive(Debug, Clone)]
pub struct Advisory(HttpBackends);

#[derive(Debug, Default, Deserialize)]
struct Resources {
    cores: Cores,
    #[serde(default)]
    parallelism: Option<NonZeroU32>,
    #[serde(default)]
    batch: Option<NonZeroU32>,
}

/// Change sent to a backend; an omitted field stays as it is.
#[derive(Debug, Default, Serialize)]
struct Change {
    #[serde(skip_serializing_if = "Option::is_none")]
    cores: Option<Cores>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallelism: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    each: Option<Cores>,
}

impl HttpBackends {
    /// Creates the port to these backends, one per variant, in the variants' order, with the `memory` of what was sent
    /// to them.
    pub fn new(
        http: reqwest::Client,
        backends: Vec<Backend>,
        timeout: Duration,
        memory: Arc<HttpMemory>,
    ) -> HttpBackends {
        HttpBackends {
            http,
            backends,
            timeout,
            memory,
            batches: Arc::default(),
        }
    }

    /// Returns a port to the same backends that cannot change them.
    pub fn advisory(self) -> Advisory {
        Advisory(self)
    }

    fn batches(&self) -> MutexGuard<'_, Batches> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the actual capacity from an answer and remembers the batch size in it.
    fn record_answer(&self, variant: usize, reported: &Resources) -> Actual {
        let backend = self.backends.get(variant);
        if backend.is_some_and(|backend| backend.tell_batch) {
            self.batches().entry(variant).or_default().reported = reported.batch;
        }
        reported.actual(backend.is_some_and(|backend| backend.replicated))
    }

    fn batch(&self, variant: usize) -> Batch {
        self.batches().get(&variant).copied().unwrap_or_default()
    }

    fn address(&self, variant: usize) -> Option<&url::Url> {
        self.backends.get(variant)?.address.as_ref()
    }

    /// Starts a read of the variant's backend, or a change; `None` if it has none.
    fn start_request(&self, variant: usize, change: Option<Change>) -> Option<PendingAnswer> {
        if let Some(server) = self.backends.get(variant)?.cgroup.clone() {
            let cores = change.and_then(|change| change.cores);
            return Some(tokio::task::spawn_blocking(move || {
                let cores = server.apply(cores)?;
                Ok(Resources {
                    cores,
                    ..Resources::default()
                })
            }));
        }
        let address = self.address(variant)?.clone();
        let request = match change {
            None => self.http.get(address),
            Some(change) => self.http.put(address).json(&change),
        };
        let timeout = self.timeout;
        Some(tokio::spawn(async move {
            let answer = tokio::time::timeout(timeout, answer(request)).await;
            answer.unwrap_or(Err(ActuateError::Timeout(timeout)))
        }))
    }

    /// Records the change and starts it; `None` if the variant has no backend. Also returns the record before. A quota
    /// that was set needs no record: it has taken effect once the answer is there.
    fn start_resize(&self, change: &Resize) -> Option<(PendingAnswer, PendingWrites<Instant>)> {
        let backend = self.backends.get(change.variant)?;
        let until = Instant::now() + self.timeout + PENDING_WRITE_TTL;
        let address = self.address(change.variant);
        let before = address.map(|address| self.memory.record(address, change, until));
        let replicas = NonZeroU32::new(change.target.replicas);
        let change_of = Change {
            cores: Some(change.cores()),
            parallelism: replicas.filter(|_| backend.replicated),
            batch: self.batch(change.variant).desired,
            each: serving_cores(change).filter(|_| backend.replicated),
        };
        let answer = self.start_request(change.variant, Some(change_of))?;
        Some((answer, before.unwrap_or_default()))
    }

    /// Starts to tell the servers their batch size, unless they already have it.
    fn start_batch_change(&self, variant: usize, desired: Option<u32>) -> Option<PendingAnswer> {
        let desired = desired.and_then(NonZeroU32::new)?;
        let tells = self.backends.get(variant)?.tell_batch;
        let reported = {
            let mut batches = self.batches();
            let batch = batches.entry(variant).or_default();
            batch.desired = Some(desired).filter(|_| tells);
            batch.reported
        };
        let change = Change {
            batch: Some(desired),
            ..Change::default()
        };
        (tells && reported != Some(desired)).then(|| self.start_request(variant, Some(change)))?
    }
}

/// Cores of each serving replica, if new replicas are to start with other cores.
fn serving_cores(change: &Resize) -> Option<Cores> {
    let Resize { target, ready, .. } = change;
    let staying = target.ready(*ready).replicas();
    let starts = staying > 0 && target.replicas > staying && target.each != target.start;
    starts.then_some(target.each)
}

type PendingAnswer = tokio::task::JoinHandle<Result<Resources, ActuateError>>;

async fn await_answer(requested: PendingAnswer) -> Result<Resources, ActuateError> {
    requested.await.unwrap_or_else(|error| Err(broken(&error)))
}

impl Resources {
    fn actual(&self, replicated: bool) -> Actual {
        let replicas = self.parallelism.filter(|_| replicated);
        let replicas = replicas.map_or(1, NonZeroU32::get);
        let each = Cores::from_millis(self.cores.millis() / replicas);
        Actual {
            reserved: self.cores,
            ..Actual::certain(Allocation::new(replicas, each))
        }
    }
}

impl Actuate for HttpBackends {
    async fn actual(&self) -> Vec<Option<Result<Actual, ActuateError>>> {
        let all = 0..self.backends.len();
        let requested: Vec<Option<PendingAnswer>> = all
            .map(|variant| self.start_request(variant, None))
            .collect();
        let mut answers = Vec::with_capacity(requested.len());
        for (variant, requested) in requested.into_iter().enumerate() {
            answers.push(match requested {
                Some(requested) => {
                    let reported = await_answer(requested).await;
                    let actual = reported.map(|reported| self.record_answer(variant, &reported));
                    let with_pending = |actual| match self.address(variant) {
                        Some(address) => self.memory.with_pending_writes(address, actual),
                        None => actual,
                    };
                    Some(actual.map(with_pending))
                }
                None => None,
            });
        }
        answers
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<Actual, ActuateError>> {
        let requested = changes.iter().map(|change| self.start_resize(change));
        let requested: Vec<_> = requested.collect();
        let mut answers = Vec::with_capacity(requested.len());
        for (change, requested) in changes.iter().zip(requested) {
            let answer = match requested {
                Some((requested, before)) => {
                    let answer = await_answer(requested).await;
                    if let Some(address) = self.address(change.variant) {
                        self.memory
                            .record_answer(address, answer.as_ref().err(), before);
                    }
                    answer
                }
                None => Err(ActuateError::NoAddress),
            };
            answers.push(answer.map(|reported| self.record_answer(change.variant, &reported)));
        }
        answers
    }

    async fn tell(&self, batches: &[Option<u32>]) -> Vec<Option<Result<u32, ActuateError>>> {
        let each = batches.iter().enumerate();
        let requested = each.map(|(variant, desired)| self.start_batch_change(variant, *desired));
        let requested: Vec<Option<PendingAnswer>> = requested.collect();
        let mut answers = Vec::with_capacity(requested.len());
        for (variant, requested) in requested.into_iter().enumerate() {
            let failed = match requested {
                Some(requested) => await_answer(requested)
                    .await
                    .map(|reported| self.record_answer(variant, &reported)),
                None => Ok(Actual::default()),
            };
            let reported = self.batch(variant).reported;
            answers.push(match failed {
                Err(error) => Some(Err(error)),
                Ok(_) => reported.map(|batch| Ok(batch.get())),
            });
        }
        answers
    }

    fn retire(&self, _: usize, _: Cores) -> Option<Result<Actual, NotReplaced>> {
        None
    }

    async fn replace(&self, _: usize) -> Result<Actual, ActuateError> {
        Err(ActuateError::NoAddress)
    }
}

impl Actuate for Advisory {
    async fn actual(&self) -> Vec<Option<Result<Actual, ActuateError>>> {
        self.0.actual().await
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<Actual, ActuateError>> {
        changes
            .iter()
            .map(|_| Err(ActuateError::Advisory))
            .collect()
    }

    fn retire(&self, _: usize, _: Cores) -> Option<Result<Actual, NotReplaced>> {
        None
    }

    async fn replace(&self, _: usize) -> Result<Actual, ActuateError> {
        Err(ActuateError::NoAddress)
    }
}

async fn answer(request: reqwest::RequestBuilder) -> Result<Resources, ActuateError> {
    let mut answer = request.send().await.map_err(|error| unreachable(&error))?;
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| unreachable(&error))? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(ActuateError::Answer(format!(
                "more than {ANSWER_BYTES_MAX} bytes"
            )));
        }
        body.extend_from_slice(&chunk);
    }
    if answer.status() != reqwest::StatusCode::OK {
        let beginning: String = String::from_utf8_lossy(&body).chars().take(200).collect();
        return Err(ActuateError::Status(answer.status().as_u16(), beginning));
    }
    serde_json::from_slice(&body).map_err(|error| ActuateError::Answer(error.to_string()))
}

fn unreachable(error: &reqwest::Error) -> ActuateError {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    ActuateError::Unreachable(cause.to_string())
}

fn broken(error: &tokio::task::JoinError) -> ActuateError {
    ActuateError::Unreachable(error.to_string())
}

#[cfg(test)]
mod tests;
