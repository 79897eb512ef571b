//! Service times by size, in virtual time: requests of 10 KB, and requests of 1,000 KB that take five times as long.

use std::collections::HashMap;

use super::*;
use crate::request::body::BodyChunk;

const SMALL: u64 = 10_000;
const LARGE: u64 = 1_000_000;
/// Mean times of their executions.
const SMALL_MS: u64 = 10;
const LARGE_MS: u64 = 50;
/// Length of the play, and the beginning that does not count, in which sizes are measured.
const END_MS: u64 = 60_000;
const LEARN_MS: u64 = 5_000;
const SLOTS: u32 = 4;
const RENEWAL_MS: u64 = 50;

/// Source of the size in a play.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Source {
    /// No request has a length or a body.
    Unknown,
    Header,
    /// The body comes in a second call, without a length in the headers.
    Body,
}

/// Ends of the requests of one size.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Ends {
    sent: u32,
    on_time: u32,
    cut_off: u32,
}

struct Upcoming {
    worker: usize,
    arrived_ms: u64,
    due_ms: u64,
    is_large: bool,
    takes_ms: u64,
    /// End of its execution; `None` while it waits.
    done_ms: Option<u64>,
}

struct Play {
    /// Workers of the proxy.
    engines: Vec<Engine>,
    source: Source,
    requests: HashMap<StreamId, Upcoming>,
    /// Times at which the server's lanes are free: it executes in the order in which requests come.
    lanes_ms: Vec<u64>,
    ends: [Ends; 2],
    random: u64,
    large_ms: u64,
}

impl Play {
    fn below(&mut self, end: u64) -> u64 {
        self.random = (self.random)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % end
    }

    fn ends_of(&mut self, stream: StreamId) -> Option<&mut Ends> {
        let request = &self.requests[&stream];
        let counted = request.arrived_ms >= LEARN_MS;
        counted.then_some(&mut self.ends[usize::from(request.is_large)])
    }

    fn arrive(&mut self, stream: StreamId, now_ms: u64) {
        let is_large = self.below(2) == 0;
        let mean = if is_large { self.large_ms } else { SMALL_MS };
        let budget_ms = 60 + self.below(60);
        let takes_ms = mean * (90 + self.below(20)) / 100;
        // A single worker needs no draw.
        let workers = self.engines.len() as u64;
        let worker = if workers > 1 { self.below(workers) } else { 0 } as usize;
        let request = Upcoming {
            worker,
            arrived_ms: now_ms,
            due_ms: now_ms + budget_ms,
            is_large,
            takes_ms,
            done_ms: None,
        };
        self.requests.insert(stream, request);
        if let Some(ends) = self.ends_of(stream) {
            ends.sent += 1;
        }
        let budget = budget_ms.to_string();
        let bytes = if is_large { LARGE } else { SMALL };
        let length = bytes.to_string();
        let headers = [
            ("x-slo-ms", budget.as_bytes()),
            ("content-length", length.as_bytes()),
        ];
        let count = if self.source == Source::Header { 2 } else { 1 };
        let incoming = IncomingRequest {
            body_follows: self.source == Source::Body,
            ..Wire::pick(headers.into_iter().take(count)).into()
        };
        let (now, mut others) = (at(now_ms), Vec::new());
        let engine = &mut self.engines[worker];
        let mut verdict = engine.on_request(stream, &incoming, now, &mut others);
        if self.source == Source::Body && verdict == Verdict::Park {
            let whole = BodyChunk {
                bytes,
                complete: true,
            };
            let decided = engine.on_body(stream, whole, |_| None, now, &mut others);
            verdict = decided.decided().expect("it was held");
        }
        others.push((stream, verdict));
        self.take(others, now_ms);
    }

    fn take(&mut self, verdicts: Vec<(StreamId, Verdict)>, now_ms: u64) {
        for (stream, verdict) in verdicts {
            let request = self.requests.get_mut(&stream).unwrap();
            match verdict {
                Verdict::Forward(_) => {
                    let lane = self.lanes_ms.iter_mut().min().unwrap();
                    *lane = now_ms.max(*lane) + request.takes_ms;
                    request.done_ms = Some(*lane);
                }
                Verdict::Reject(_) => drop(self.requests.remove(&stream)),
                Verdict::Park | Verdict::Pass | Verdict::PassTo(_) => {}
            }
        }
    }

    fn finish(&mut self, now_ms: u64) {
        // The server goes on with a request that is cut off at its deadline.
        let is_over = |request: &Upcoming| {
            let done = request.done_ms;
            done.is_some_and(|done| done.min(request.due_ms) == now_ms)
        };
        let over = self.requests.iter().filter(|(_, request)| is_over(request));
        let mut over: Vec<StreamId> = over.map(|(stream, _)| *stream).collect();
        over.sort_unstable();
        for stream in over {
            let answered = self.requests[&stream].done_ms == Some(now_ms);
            if let Some(ends) = self.ends_of(stream) {
                ends.on_time += u32::from(answered);
                ends.cut_off += u32::from(!answered);
            }
            let worker = self.requests[&stream].worker;
            self.requests.remove(&stream);
            let end_of = if answered {
                self.engines[worker].on_answer(stream, served(), at(now_ms));
                End::Answered
            } else {
                End::TimedOut
            };
            let verdicts = end(&mut self.engines[worker], stream, end_of, at(now_ms));
            self.take(verdicts, now_ms);
        }
    }
}

/// Plays `per_s` requests a second at random times; returns the ends of the small and of the large ones.
fn play(source: Source, per_s: u64, large_ms: u64) -> [Ends; 2] {
    let engine = engine(&[variant("a", 1.0, SLOTS, 30.0)], SLOTS_HOLD);
    play_at(vec![engine], SLOTS, source, per_s, large_ms)
}

/// The same at workers of one proxy, and a server with one slot; `together`: they share what they measure.
fn play_workers(workers: u64, together: bool, per_s: u64) -> [Ends; 2] {
    let variant = variant("a", 1.0, 1, 30.0);
    let json = format!(r#"{{"service":"demo","plan":{{"variants":[{variant}]}}{SLOTS_HOLD}}}"#);
    let store = Memory::default();
    if !together {
        store.fail_group_swaps(u32::MAX);
    }
    let engines = (1..=workers).map(|incarnation| worker(&json, &store, incarnation));
    play_at(engines.collect(), 1, Source::Header, per_s, LARGE_MS)
}

fn play_at(
    engines: Vec<Engine>,
    slots: u32,
    source: Source,
    per_s: u64,
    large_ms: u64,
) -> [Ends; 2] {
    let mut play = Play {
        engines,
        source,
        requests: HashMap::new(),
        lanes_ms: vec![0; slots as usize],
        ends: [Ends::default(); 2],
        random: 7,
        large_ms,
    };
    let (mut stream, renews) = (0, play.engines.len() > 1);
    for now_ms in 0..END_MS {
        play.finish(now_ms);
        for worker in 0..play.engines.len() {
            let engine = &mut play.engines[worker];
            if renews && (now_ms + 7 * worker as u64).is_multiple_of(RENEWAL_MS) {
                engine.serve(at(now_ms).mono);
            }
            let verdicts = release(engine, at(now_ms));
            play.take(verdicts, now_ms);
        }
        if play.below(1000) < per_s {
            stream += 1;
            play.arrive(stream, now_ms);
        }
    }
    play.ends
}

fn on_time([small, large]: [Ends; 2]) -> f64 {
    f64::from(small.on_time + large.on_time) / f64::from(small.sent + large.sent)
}

#[test]
fn sizes_that_take_longer_are_distinguished() {
    // Requests a second, of which the server executes 133, and what the sizes add to the part that is on time.
    for (per_s, gain) in [(100, 0.005), (130, 0.02), (160, 0.06), (200, 0.12)] {
        let [common, header, body] = [Source::Unknown, Source::Header, Source::Body]
            .map(|source| play(source, per_s, LARGE_MS));
        let shares = [common, header].map(on_time);
        assert!(shares[1] >= shares[0] + gain, "{per_s}/s: {shares:?}");
        // The second call is one more at which a worker reads what others measured.
        for (header, body) in header.iter().zip(&body) {
            assert_eq!(header.sent, body.sent, "{per_s}/s");
            let apart = header.on_time.abs_diff(body.on_time);
            assert!(apart * 200 <= header.sent, "{per_s}/s: {header:?} {body:?}");
        }
        let [small, large] = header;
        assert!(small.on_time * 1000 >= small.sent * 994, "{small:?}");
        let few = large.sent / 40;
        assert!(
            large.cut_off < few.max(common[1].cut_off * 5 / 4),
            "{large:?} {common:?}"
        );
    }
}

#[test]
fn sizes_that_take_the_same_time_are_served_as_one() {
    for per_s in [300, 500] {
        let [common, header] =
            [Source::Unknown, Source::Header].map(|source| play(source, per_s, SMALL_MS));
        assert_eq!(common, header, "{per_s}/s");
    }
}

#[test]
fn workers_that_share_measurements_serve_more_in_time() {
    // Workers, requests a second, of which the server executes 33, and what sharing adds to the part that is on time.
    for (workers, per_s, gain) in [
        (4, 20, 0.05),
        (4, 40, 0.03),
        (8, 20, 0.05),
        (8, 40, 0.1),
        (8, 80, 0.15),
    ] {
        let [apart, together] =
            [false, true].map(|together| on_time(play_workers(workers, together, per_s)));
        assert!(
            together >= apart + gain,
            "{workers} at {per_s}/s: {apart} {together}"
        );
    }
}
