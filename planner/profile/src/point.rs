//! Measurement of one point: a number of batches stays in flight (closed loop) until throughput is known well enough.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::ProfileError;
use crate::endpoint::{Endpoint, SendError};
use crate::estimate::{Answered, Estimate, estimate};

/// Minimum interval at which the estimate is made.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// Part of the time so far at which it is made again: an estimate takes time in proportion to its requests, which the
/// requests in flight do not get.
const CHECK_PART: u32 = 10;
/// Minimum window of an estimate.
const WINDOW_MIN: Duration = Duration::from_secs(1);
/// Minimum number of answers for an estimate.
const ANSWERS_MIN: usize = 30;
/// Multiple of the longest answer after which a server without one has stalled.
const STALL_FACTOR: u32 = 3;
/// Number of failures in a row that ends a measurement.
pub const FAILURES_MAX: u32 = 10;
/// Pause after a failure.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);

/// End of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Until {
    /// Half width of the 95 % interval of throughput, in percent.
    pub precision_percent: f64,
    /// Maximum time.
    pub time: Duration,
}

/// Requests of a point so far.
#[derive(Debug, Default)]
struct Record {
    answered: Vec<Answered>,
    /// Time of sending of each worker's request in flight.
    in_flight: Vec<Option<Duration>>,
    failures_in_a_row: u32,
    /// Time of each failure.
    failures: Vec<Duration>,
    last_failure: String,
}

/// Estimate of a point, and whether it is as precise as was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Estimate.
    pub estimate: Estimate,
    /// Number of requests that failed in its window.
    pub failed: usize,
    /// Text of the last failure; empty without one.
    pub last_failure: String,
    /// Whether its interval is narrow enough.
    pub settled: bool,
}

/// Measures `concurrency` batches in flight.
///
/// # Errors
/// [`FAILURES_MAX`] failures in a row, no answer in the time, or a server that has stalled.
pub async fn measure(
    endpoint: &Arc<Endpoint>,
    batch: u32,
    concurrency: u32,
    until: Until,
) -> Result<Measured, ProfileError> {
    let record = Arc::new(Mutex::new(Record {
        in_flight: vec![None; concurrency as usize],
        ..Record::default()
    }));
    let stop = Arc::new(AtomicBool::new(false));
    let start = Instant::now();
    let mut workers = JoinSet::new();
    for worker in 0..concurrency as usize {
        let (endpoint, record, stop) =
            (Arc::clone(endpoint), Arc::clone(&record), Arc::clone(&stop));
        workers.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                send(&endpoint, batch, &record, worker, start).await;
            }
        });
    }
    let found = watch(&record, concurrency as usize, until, start).await;
    stop.store(true, Ordering::Relaxed);
    // The server executes what it was sent, so the next point begins when that has ended.
    while workers.join_next().await.is_some() {}
    found
}

async fn send(
    endpoint: &Endpoint,
    batch: u32,
    record: &Mutex<Record>,
    worker: usize,
    start: Instant,
) {
    let lock = || record.lock().unwrap_or_else(PoisonError::into_inner);
    let sent = start.elapsed();
    lock().set_in_flight(worker, Some(sent));
    let answer = endpoint.send(batch).await;
    let received = start.elapsed();
    lock().set_in_flight(worker, None);
    match answer {
        Ok(_) => lock().succeeded(Answered { sent, received }),
        Err(why) => {
            lock().failed(received, &why);
            sleep(FAILURE_PAUSE).await;
        }
    }
}

/// Waits until the estimate is precise or the time is over.
async fn watch(
    record: &Mutex<Record>,
    concurrency: usize,
    until: Until,
    start: Instant,
) -> Result<Measured, ProfileError> {
    loop {
        let interval = CHECK_EVERY.max(start.elapsed() / CHECK_PART);
        let left = until.time.saturating_sub(start.elapsed());
        sleep(interval.min(left)).await;
        let record = record.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = start.elapsed() >= until.time;
        if record.failures_in_a_row >= FAILURES_MAX {
            let why = &record.last_failure;
            let text = format!("{FAILURES_MAX} requests in a row failed, the last with: {why}");
            return Err(ProfileError(text));
        }
        let window = record.window(concurrency, start.elapsed());
        let found = window
            .and_then(|(from, to)| estimate(&record.answered, from, to).map(|e| (e, from, to)));
        if let Some((estimate, from, to)) = found {
            let length = to - from;
            let settled = estimate.half_width_percent <= until.precision_percent
                && length >= WINDOW_MIN
                && estimate.requests >= ANSWERS_MIN;
            if !settled
                && is_over
                && let Some(silence) = record.stall(length, start.elapsed())
            {
                return Err(ProfileError(format!(
                    "the server has stalled: {} answers, then none for {:.1} s",
                    record.answered.len(),
                    silence.as_secs_f64()
                )));
            }
            if settled || is_over {
                return Ok(Measured {
                    estimate,
                    failed: record.failed_between(from, to),
                    last_failure: record.last_failure.clone(),
                    settled,
                });
            }
        } else if is_over {
            let answers = record.answered.len();
            let failed = match record.failures.len() {
                0 => String::new(),
                failures => format!(
                    ", {failures} failed, the last with: {}",
                    record.last_failure
                ),
            };
            return Err(ProfileError(format!(
                "{answers} answers in {:?}{failed}; more time is needed (--point-time)",
                until.time
            )));
        }
    }
}

impl Record {
    fn set_in_flight(&mut self, worker: usize, sent: Option<Duration>) {
        if let Some(slot) = self.in_flight.get_mut(worker) {
            *slot = sent;
        }
    }

    fn succeeded(&mut self, answered: Answered) {
        self.answered.push(answered);
        self.failures_in_a_row = 0;
    }

    fn failed(&mut self, received: Duration, why: &SendError) {
        self.failures_in_a_row += 1;
        self.failures.push(received);
        self.last_failure = why.to_string();
    }

    /// Number of failures in a window.
    fn failed_between(&self, from: Duration, to: Duration) -> usize {
        let inside = |at: &&Duration| **at > from && **at <= to;
        self.failures.iter().filter(inside).count()
    }

    /// Time since the last answer, if the server has stalled: that is longer than the `window` of the estimate, and
    /// several times the longest answer. What it did before says little of a server that stalls.
    fn stall(&self, window: Duration, now: Duration) -> Option<Duration> {
        let last = self.answered.iter().map(|one| one.received).max()?;
        let times = self.answered.iter().map(|one| one.received - one.sent);
        let silence = now.saturating_sub(last);
        (silence > window.max(times.max()? * STALL_FACTOR)).then_some(silence)
    }

    /// Window of the estimate: from the end of the first round (each request in flight answered once on average) to the
    /// earliest sending of those still in flight, whose end is not known yet.
    fn window(&self, concurrency: usize, now: Duration) -> Option<(Duration, Duration)> {
        let from = self.answered.get(concurrency - 1)?.received;
        let to = self
            .in_flight
            .iter()
            .flatten()
            .min()
            .copied()
            .unwrap_or(now);
        (to > from).then_some((from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_that_no_longer_answers_has_stalled() {
        // Time of each answer and number of them, one after the other; time now; whether the server has stalled.
        for (each_ms, answers, now_ms, stalled) in [
            (10, 100, 5_000, true),
            (10, 100, 1_500, false),
            (10, 3, 5_000, true),
            // A slow server whose next answer is due.
            (4_000, 2, 15_000, false),
            (4_000, 2, 21_000, true),
        ] {
            let ms = Duration::from_millis;
            let answered = (0..answers).map(|index| Answered {
                sent: ms(each_ms * index),
                received: ms(each_ms * (index + 1)),
            });
            let record = Record {
                answered: answered.collect(),
                in_flight: vec![Some(ms(each_ms * answers))],
                ..Record::default()
            };
            let (from, to) = record.window(1, ms(now_ms)).unwrap();
            let found = record.stall(to - from, ms(now_ms));
            let silence = ms(now_ms - each_ms * answers);
            assert_eq!(
                found,
                stalled.then_some(silence),
                "{each_ms} {answers} {now_ms}"
            );
        }
    }
}
