//! Sends a schedule to its targets and records every request's fate.
//!
//! The sending loop only sleeps and spawns; it awaits no response. A request's task sends the head, sends the pieces
//! of the body as the network delivers them, waits until the client disconnects at the latest, and adds the return
//! time of the response.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::answer::{fate, lost};
use super::body::{Lateness, TimedPiece, paced};
use super::client::{Protocol, Sender, Target, client, joined};
use super::{Planned, Schedule};
use crate::fate::{Fate, Outcome};
use crate::network::Network;

/// Upper limit of the recorded lag: an hour, in µs.
const LAG_MAX_US: u64 = 3_600_000_000;

/// Mean time between the pieces of a body: few pieces, and far shorter than a deadline.
const PIECE_EVERY: Duration = Duration::from_millis(10);

/// Delay of requests against the schedule: of each request's head or its latest piece, whichever is larger.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Lag {
    /// 99th percentile, in ms.
    pub p99_ms: f64,
    /// Maximum, in ms.
    pub max_ms: f64,
}

/// Counts of one target during the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests sent.
    pub sent: u64,
    /// Requests that have ended.
    pub ended: u64,
    /// Requests answered on time.
    pub on_time: u64,
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Record {
    /// The requests of each target, in the order of the schedule.
    pub outcomes: Vec<Vec<Outcome>>,
    /// Lag of the generator.
    pub lag: Lag,
}

#[derive(Debug, Default)]
struct Tally {
    sent: AtomicU64,
    ended: AtomicU64,
    on_time: AtomicU64,
}

/// A run in progress; dropping it stops it.
#[derive(Debug)]
pub struct Run {
    started: Instant,
    tallies: Arc<Vec<Tally>>,
    sending: JoinHandle<anyhow::Result<Record>>,
}

impl Run {
    /// Time since its start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Counts so far of each target.
    pub fn progress(&self) -> Vec<Progress> {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let progress = |tally: &Tally| Progress {
            sent: read(&tally.sent),
            ended: read(&tally.ended),
            on_time: read(&tally.on_time),
        };
        self.tallies.iter().map(progress).collect()
    }

    /// Whether every request has ended.
    pub fn is_finished(&self) -> bool {
        self.sending.is_finished()
    }

    /// Waits until every request has ended.
    ///
    /// # Errors
    ///
    /// A request's task panicked, so that the record would be incomplete.
    pub async fn finish(mut self) -> anyhow::Result<Record> {
        (&mut self.sending).await?
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.sending.abort();
    }
}

/// State shared by all requests of a run.
struct Shared {
    started: Instant,
    /// Unix time of `started`, in µs.
    started_us: u128,
    schedule: Arc<Schedule>,
    network: Arc<Network>,
    sender: Sender,
    targets: Vec<(reqwest::Client, Target)>,
    tallies: Arc<Vec<Tally>>,
    lag_us: Mutex<Histogram<u64>>,
}

/// Starts sending `schedule` to all `targets` at once; send times count from now.
///
/// # Errors
///
/// A target's URL or header is invalid, or a client cannot be made.
pub fn start(
    schedule: Arc<Schedule>,
    network: Arc<Network>,
    sender: Sender,
    targets: Vec<Target>,
) -> anyhow::Result<Run> {
    let tallies: Arc<Vec<Tally>> = Arc::new(targets.iter().map(|_| Tally::default()).collect());
    let targets = targets
        .into_iter()
        .map(|target| Ok((client(&target, &sender)?, target)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let started_us = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
    let shared = Shared {
        started: Instant::now(),
        started_us,
        schedule,
        network,
        sender,
        targets,
        tallies: Arc::clone(&tallies),
        lag_us: Mutex::new(Histogram::new_with_bounds(1, LAG_MAX_US, 3)?),
    };
    let started = shared.started;
    Ok(Run {
        started,
        tallies,
        sending: tokio::spawn(send_all(Arc::new(shared))),
    })
}

async fn send_all(shared: Arc<Shared>) -> anyhow::Result<Record> {
    let mut tasks = JoinSet::new();
    let mut ended = Vec::new();
    for (index, planned) in shared.schedule.requests.iter().enumerate() {
        tokio::time::sleep_until(shared.started + planned.send_at).await;
        for target in 0..shared.targets.len() {
            tasks.spawn(send_one(Arc::clone(&shared), index, target));
        }
        while let Some(done) = tasks.try_join_next() {
            ended.push(done?);
        }
    }
    while let Some(done) = tasks.join_next().await {
        ended.push(done?);
    }
    ended.sort_unstable_by_key(|(target, index, _)| (*target, *index));
    let mut outcomes: Vec<Vec<Outcome>> = shared.targets.iter().map(|_| Vec::new()).collect();
    for (target, _, outcome) in ended {
        if let (Some(of_target), Some(outcome)) = (outcomes.get_mut(target), outcome) {
            of_target.push(outcome);
        }
    }
    let lag = shared.lag_us.lock().unwrap_or_else(PoisonError::into_inner);
    let ms = |us: u64| us as f64 / 1e3;
    let lag = Lag {
        p99_ms: ms(lag.value_at_quantile(0.99)),
        max_ms: ms(lag.max()),
    };
    Ok(Record { outcomes, lag })
}

async fn send_one(
    shared: Arc<Shared>,
    index: usize,
    target: usize,
) -> (usize, usize, Option<Outcome>) {
    let parts = (
        shared.schedule.requests.get(index),
        shared.targets.get(target),
    );
    let (Some(planned), Some((client, to))) = parts else {
        return (target, index, None);
    };
    let tally = shared.tallies.get(target);
    let count = |which: fn(&Tally) -> &AtomicU64| {
        if let Some(tally) = tally {
            which(tally).fetch_add(1, Ordering::Relaxed);
        }
    };
    count(|tally| &tally.sent);
    let leaves = planned.send_at.saturating_add(shared.sender.timeout);
    let lateness = Lateness::default();
    let travel = shared.travel(planned, client, to, &lateness);
    let (ended_at, fate) = match shared.until(leaves, travel).await {
        Some((ended_at, fate)) if ended_at <= leaves => (ended_at, fate),
        // The client disconnected before the response, or while it was on its way back.
        _ => (leaves, Fate::Disconnected),
    };
    shared.note_lag(&lateness);
    let outcome = Outcome {
        id: planned.id.clone(),
        sent_at: planned.send_at,
        ended_at,
        fate,
    };
    if outcome.on_time(shared.sender.slo) {
        count(|tally| &tally.on_time);
    }
    count(|tally| &tally.ended);
    (target, index, Some(outcome))
}

impl Shared {
    async fn until<T>(&self, at: Duration, work: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout_at(self.started + at, work).await.ok()
    }

    /// Sends the request, waits for the response, and adds the computed return time. Returns the end and the fate.
    async fn travel(
        &self,
        planned: &Planned,
        client: &reqwest::Client,
        to: &Target,
        lateness: &Lateness,
    ) -> (Duration, Fate) {
        let head = self.started + planned.send_at + self.network.one_way(planned.send_at);
        tokio::time::sleep_until(head).await;
        lateness.note(head.elapsed());
        let pieces = self.pieces(planned);
        let mut fate = self.call(planned, client, &to.url, pieces, lateness).await;
        for url in &to.then {
            if !matches!(fate, Fate::Answered { .. }) {
                break;
            }
            let next = self.call(planned, client, url, Vec::new(), lateness).await;
            fate = joined(fate, next);
        }
        let now = self.started.elapsed();
        (
            now + self.network.download(now, self.sender.answer_bytes),
            fate,
        )
    }

    /// The body in pieces as the link delivers it to the proxy; empty if it arrives with the head.
    fn pieces(&self, planned: &Planned) -> Vec<TimedPiece> {
        let sent_at = planned.send_at;
        if planned.upload <= self.network.one_way(sent_at) {
            return Vec::new();
        }
        let body = &self.sender.body;
        let bytes_until = |arrived: u64| {
            let part = body.len() as u128 * u128::from(arrived);
            let part = part / u128::from(planned.payload_bytes.max(1));
            usize::try_from(part).map_or(body.len(), |part| part.min(body.len()))
        };
        let mut pieces = Vec::new();
        let mut begin = 0;
        for piece in self
            .network
            .pieces(sent_at, planned.payload_bytes, PIECE_EVERY)
        {
            let end = bytes_until(piece.arrived);
            if end > begin {
                pieces.push(TimedPiece {
                    due: self.started + sent_at + piece.after,
                    bytes: body.slice(begin..end),
                });
            }
            begin = end;
        }
        pieces
    }

    /// The fate of the request at one stage. The body is sent in these pieces, or with the head.
    async fn call(
        &self,
        planned: &Planned,
        client: &reqwest::Client,
        url: &str,
        pieces: Vec<TimedPiece>,
        lateness: &Lateness,
    ) -> Fate {
        let start_us = self.started_us + planned.send_at.as_micros();
        let body = &self.sender.body;
        let request = client
            .post(url)
            .header("x-request-id", &planned.id)
            .header("x-slo-start", start_us.to_string());
        // Held until this request has ended.
        let _guard;
        let request = if pieces.is_empty() {
            request.body(body.clone())
        } else {
            let (paced, guard) = paced(pieces.into_iter(), lateness.clone());
            _guard = guard;
            match self.sender.protocol {
                Protocol::Http1 | Protocol::Http2 => {
                    request.header("content-length", body.len()).body(paced)
                }
                // As gRPC clients do: the message contains its own length.
                Protocol::Grpc => request.body(paced),
            }
        };
        match request.send().await {
            Ok(response) => fate(response, &self.sender).await,
            Err(error) => lost(&error),
        }
    }

    fn note_lag(&self, lateness: &Lateness) {
        self.lag_us
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .saturating_record(lateness.max_us());
    }
}
