//! A request's body in timed pieces: the proxy sees an upload as a network would deliver it.
//!
//! The pacing is done here, because loopback accepts everything at once. A piece that the other side does not accept
//! yet (its window or buffer is full) goes out late; that is not counted as the generator's lag.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use futures_util::stream;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

/// A part of a body, and its send time.
#[derive(Debug, Clone)]
pub(crate) struct TimedPiece {
    pub(crate) due: Instant,
    pub(crate) bytes: Bytes,
}

/// The largest delay of a request's head or any of its pieces.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lateness(Arc<AtomicU64>);

impl Lateness {
    pub(crate) fn note(&self, late: Duration) {
        let us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_max(us, Ordering::Relaxed);
    }

    pub(crate) fn max_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ends the body when dropped: the request has been answered or given up, and the rest is not sent.
#[derive(Debug)]
pub(crate) struct SendGuard {
    _dropped: oneshot::Sender<()>,
}

/// The error that ends a paced body whose request has ended first.
#[derive(Debug, thiserror::Error)]
#[error("the rest of the body is not sent")]
struct BodyAbandoned;

/// A body of these pieces. It ends early when the guard is dropped.
pub(crate) fn paced<I>(pieces: I, lateness: Lateness) -> (reqwest::Body, SendGuard)
where
    I: Iterator<Item = TimedPiece> + Send + 'static,
{
    let (guard, given_up) = oneshot::channel();
    let stream = stream::unfold(
        (pieces, given_up, lateness),
        async |(mut pieces, mut given_up, lateness)| {
            let TimedPiece { due, bytes } = pieces.next()?;
            let in_time = Instant::now() < due;
            let piece = tokio::select! {
                biased;
                _ = &mut given_up => Err(BodyAbandoned),
                () = sleep_until(due) => Ok(bytes),
            };
            if in_time && piece.is_ok() {
                lateness.note(due.elapsed());
            }
            Some((piece, (pieces, given_up, lateness)))
        },
    );
    let guard = SendGuard { _dropped: guard };
    (reqwest::Body::wrap_stream(stream), guard)
}
