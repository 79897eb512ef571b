//! Slow clients: some send a head and hardly anything after it, some upload or read slowly.
//!
//! Their number and time are bounded, and all end when dropped. Over HTTP/1.1 each has a connection of its own; over
//! HTTP/2 and gRPC they are streams of one connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::body::Bytes;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::load::Protocol;
use crate::load::answer::Answer;
use crate::load::body::{Lateness, TimedPiece, paced};
use crate::network::Network;
use crate::wait;

/// Maximum clients of one crowd.
pub const CLIENTS_MAX: u32 = 1000;
/// Maximum time that a crowd stays.
pub const STAY_MAX: Duration = Duration::from_secs(120);
/// Mean time between the pieces of an upload.
const PIECE_EVERY: Duration = Duration::from_millis(10);
/// An HTTP/2 client's window of one response; beyond it the proxy has to wait.
const WINDOW_BYTES: u32 = 65_535;

/// Behaviour of a slow client.
#[derive(Debug, Clone, Copy)]
pub enum Habit {
    /// Sends its head and no byte of its body.
    Silent,
    /// Sends one byte now and one more at each interval.
    Drip(Duration),
    /// Sends its body at this rate, in bytes/s.
    Upload(u32),
    /// Sends everything at once and reads the response at this rate, in bytes/s.
    Read(u32),
}

/// A number of clients with the same habit.
#[derive(Debug, Clone)]
pub struct Crowd {
    /// URL that they post to.
    pub url: String,
    /// Protocol.
    pub protocol: Protocol,
    /// Number, at most [`CLIENTS_MAX`].
    pub count: u32,
    /// Behaviour of each client.
    pub habit: Habit,
    /// The body whose length each announces.
    pub body: Bytes,
    /// Headers besides the protocol's.
    pub headers: Vec<(&'static str, String)>,
    /// Time after which they disconnect, whatever has arrived; at most [`STAY_MAX`].
    pub stay: Duration,
}

/// The end of one client. Times count from its start.
#[derive(Debug, Clone, Default)]
pub struct SlowEnd {
    /// Status of the response, in the protocol's own numbers (gRPC: 0 is success).
    pub status: Option<u16>,
    /// `x-slo-dropped-reason`, or the meaning of the status; empty for a success.
    pub reason: String,
    /// Bytes of the response.
    pub answer_bytes: usize,
    /// Time until the whole response had been read.
    pub answered_after: Option<Duration>,
    /// Time until the other side ended the stream before the body was complete.
    pub cut_after: Option<Duration>,
    /// Reason for a missing response.
    pub error: String,
}

/// A running crowd; dropping it ends it.
#[derive(Debug)]
pub struct SlowClients {
    tasks: JoinSet<SlowEnd>,
    begun: Arc<AtomicU32>,
    count: u32,
}

impl Crowd {
    /// Starts all clients.
    ///
    /// # Errors
    ///
    /// A number is out of its range, or a client cannot be made.
    pub fn start(self) -> Result<SlowClients> {
        let (count, stay) = (self.count, self.stay);
        ensure!(
            (1..=CLIENTS_MAX).contains(&count),
            "count: {count} must be 1 to {CLIENTS_MAX}"
        );
        ensure!(
            stay <= STAY_MAX,
            "stay: {stay:?} must be at most {STAY_MAX:?}"
        );
        let client = self.protocol.client();
        let client = client.default_headers(self.protocol.headers());
        let client = client
            .http2_initial_stream_window_size(WINDOW_BYTES)
            .build()?;
        let begun = Arc::new(AtomicU32::new(0));
        let crowd = Arc::new(self);
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            let slow = SlowClient {
                crowd: Arc::clone(&crowd),
                client: client.clone(),
                begun: Arc::clone(&begun),
                started: Instant::now(),
            };
            tasks.spawn(slow.run());
        }
        Ok(SlowClients {
            tasks,
            begun,
            count,
        })
    }
}

impl SlowClients {
    /// Waits until each client is connected and has written its head.
    ///
    /// # Errors
    ///
    /// They have not within `limit`.
    pub async fn until_begun(&self, limit: Duration) -> Result<()> {
        let all = || self.begun.load(Ordering::Relaxed) == self.count;
        wait::until("all slow clients to begin", limit, all).await
    }

    /// Waits until all have ended.
    ///
    /// # Errors
    ///
    /// A client's task panicked.
    pub async fn finish(mut self) -> Result<Vec<SlowEnd>> {
        let mut ends = Vec::new();
        while let Some(end) = self.tasks.join_next().await {
            ends.push(end.context("a slow client's task panicked")?);
        }
        Ok(ends)
    }
}

/// One slow client.
struct SlowClient {
    crowd: Arc<Crowd>,
    client: reqwest::Client,
    begun: Arc<AtomicU32>,
    started: Instant,
}

impl SlowClient {
    async fn run(self) -> SlowEnd {
        let leaves = self.started + self.crowd.stay;
        let (cut, was_cut) = oneshot::channel();
        let pieces = ObservedPieces {
            pieces: self.pieces(),
            begun: Some(Arc::clone(&self.begun)),
            left: self.crowd.body.len(),
            due: self.started,
            cut: Some(cut),
        };
        // Held until this client disconnects: a response does not end its body, only the other side does.
        let (body, _guard) = paced(pieces, Lateness::default());
        let mut request = self.client.post(&self.crowd.url).body(body);
        if self.crowd.protocol != Protocol::Grpc {
            request = request.header("content-length", self.crowd.body.len());
        }
        for (name, value) in &self.crowd.headers {
            request = request.header(*name, value);
        }
        let mut end = match timeout_at(leaves, self.answered(request)).await {
            Ok(Ok(end)) => end,
            Ok(Err(error)) => SlowEnd {
                error: format!("{error:?}"),
                ..SlowEnd::default()
            },
            Err(_) => SlowEnd {
                error: "no response during its stay".to_owned(),
                ..SlowEnd::default()
            },
        };
        if let Ok(Ok(at)) = timeout_at(leaves, was_cut).await {
            end.cut_after = Some(at.saturating_duration_since(self.started));
        }
        end
    }

    async fn answered(&self, request: reqwest::RequestBuilder) -> reqwest::Result<SlowEnd> {
        let read_bytes_per_s = match self.crowd.habit {
            Habit::Read(bytes_per_s) => Some(bytes_per_s),
            Habit::Silent | Habit::Drip(_) | Habit::Upload(_) => None,
        };
        let answer = Answer::read(request.send().await?, read_bytes_per_s).await?;
        let refusal = answer.refusal(self.crowd.protocol);
        let success = match self.crowd.protocol {
            Protocol::Http1 | Protocol::Http2 => answer.status,
            Protocol::Grpc => 0,
        };
        Ok(SlowEnd {
            status: Some(refusal.unwrap_or(success)),
            reason: refusal.map_or_else(String::new, |status| answer.reason(status)),
            answer_bytes: answer.body.len(),
            answered_after: Some(self.started.elapsed()),
            ..SlowEnd::default()
        })
    }

    fn pieces(&self) -> Box<dyn Iterator<Item = TimedPiece> + Send> {
        let (started, body) = (self.started, self.crowd.body.clone());
        match self.crowd.habit {
            Habit::Silent => {
                let due = started + STAY_MAX;
                Box::new(std::iter::once(TimedPiece { due, bytes: body }))
            }
            Habit::Drip(every) => {
                let piece = move |(place, due): (usize, Instant)| TimedPiece {
                    due,
                    bytes: body.slice(place..place + 1),
                };
                let length = self.crowd.body.len();
                let dues = std::iter::successors(Some(started), move |due| Some(*due + every));
                Box::new((0..length).zip(dues).map(piece))
            }
            Habit::Upload(bytes_per_s) => {
                let link = Network::constant(f64::from(bytes_per_s.max(1)), Duration::ZERO);
                let bytes = body.len() as u64;
                let pieces = link.pieces(Duration::ZERO, bytes, PIECE_EVERY);
                let mut begin = 0;
                let pieces: Vec<TimedPiece> = pieces
                    .map(|piece| {
                        let end = usize::try_from(piece.arrived).unwrap_or(body.len());
                        let bytes = body.slice(begin..end);
                        begin = end;
                        let due = started + piece.after;
                        TimedPiece { due, bytes }
                    })
                    .collect();
                Box::new(pieces.into_iter())
            }
            Habit::Read(_) => {
                let due = started;
                Box::new(std::iter::once(TimedPiece { due, bytes: body }))
            }
        }
    }
}

/// Pieces that report two events: the first one is requested, which means that the head has gone out; and they are
/// dropped before all have been sent.
struct ObservedPieces {
    pieces: Box<dyn Iterator<Item = TimedPiece> + Send>,
    begun: Option<Arc<AtomicU32>>,
    /// Bytes of the body that have not been requested.
    left: usize,
    /// Send time of the latest requested bytes.
    due: Instant,
    cut: Option<oneshot::Sender<Instant>>,
}

impl Iterator for ObservedPieces {
    type Item = TimedPiece;

    fn next(&mut self) -> Option<TimedPiece> {
        if let Some(begun) = self.begun.take() {
            begun.fetch_add(1, Ordering::Relaxed);
        }
        let piece = self.pieces.next()?;
        self.left = self.left.saturating_sub(piece.bytes.len());
        self.due = piece.due;
        Some(piece)
    }
}

impl Drop for ObservedPieces {
    fn drop(&mut self) {
        let now = Instant::now();
        let unsent = self.left > 0 || now < self.due;
        if let Some(cut) = self.cut.take().filter(|_| unsent) {
            let _ = cut.send(now);
        }
    }
}
