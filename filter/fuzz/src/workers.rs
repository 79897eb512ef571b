//! One to three workers of a proxy over one slot table, under any events: lost swaps, lost notifications, traps, plans,
//! steps of the wall clock, a table that is corrupted or cleared. Each request ends once, and nothing of it is left.

mod events;

use std::collections::BTreeMap;

use weir_filter::config::Config;
use weir_filter::coordination::{Memory, SlotTable};
use weir_filter::engine::{Answer, End, Engine, IncomingRequest, StreamId};
use weir_filter::health::{HealthSignal, ProbeResult};
use weir_filter::request::body::BodyChunk;
use weir_filter::request::wire::Wire;
use weir_filter::time::{Mono, Now, Wall};
use weir_filter::verdict::{BodyVerdict, Verdict};

use crate::input::Input;

pub(crate) use self::events::run;

/// Bytes of bodies that a worker may hold.
const BYTES_MAX: u64 = 3000;
/// Longest budget of a request, ms.
const BUDGET_MAX_MS: u64 = 2000;
const ENDS: [End; 6] = [
    End::Answered,
    End::Failed,
    End::TimedOut,
    End::Disconnected,
    End::Unreachable,
    End::Unsent,
];
const SIGNALS: [Option<HealthSignal>; 7] = [
    None,
    Some(HealthSignal::Served),
    Some(HealthSignal::Answered),
    Some(HealthSignal::Erred),
    Some(HealthSignal::NotFound),
    Some(HealthSignal::Unreachable),
    Some(HealthSignal::Silent),
];
const PATHS: [&str; 4] = [
    "/v2/models/a/infer",
    "/v1/chat/completions",
    "/inference.GRPCInferenceService/ModelStreamInfer",
    "/v2/health/ready",
];
const LISTS: [&str; 5] = ["a", "b,a", "a;within=50,*", "b;within=1", "x y"];

/// Request that the engine knows of.
#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    worker: usize,
    sent: bool,
    /// Its response has begun: it cannot be refused any more.
    begun: bool,
    bytes: u64,
    complete: bool,
}

struct Proxy {
    config: String,
    max_requests: usize,
    store: Memory,
    workers: Vec<Engine>,
    started: u64,
    now_ms: u64,
    wall_ms: u64,
    last: StreamId,
    streams: BTreeMap<StreamId, Stream>,
}

fn variants(slots: [usize; 2], share: usize, more: &str) -> String {
    let share = share as f64 / 16.0;
    let one = |name: &str, share: f64, slots: usize, service_ms: u32| {
        format!(
            r#"{{"name":"{name}","cluster":"{name}","share":{share},"slots":{slots},"service_ms":{service_ms},"accuracy":70{more}}}"#
        )
    };
    let [a, b] = slots;
    [one("a", share, a, 20), one("b", 1.0 - share, b, 60)].join(",")
}

impl Proxy {
    fn new(input: &mut Input<'_>) -> Proxy {
        let workers = 1 + input.below(3);
        let (max_requests, concurrency_max) = (1 + input.below(8), input.below(4));
        let [overlap, correct, eject] = [input.flag(), input.flag(), input.flag()];
        let more = input.pick(&[
            "",
            r#","batch":3"#,
            r#","cancels":true"#,
            r#","replicas":2"#,
        ]);
        let variants = variants([2, 1], 8, more.unwrap_or_default());
        let config = format!(
            r#"{{"service":"demo","queue":{{"max_requests":{max_requests},"concurrency_max":{concurrency_max},"overlap":{overlap},"correct":{correct}}},"health":{{"eject":{eject}}},"body":{{"request_max_bytes":1000,"source_max_bytes":2000,"total_max_bytes":{BYTES_MAX}}},"plan":{{"variants":[{variants}]}}}}"#
        );
        let mut proxy = Proxy {
            config,
            max_requests,
            store: Memory::default(),
            workers: Vec::new(),
            started: 0,
            now_ms: 0,
            wall_ms: 1_790_000_000_000,
            last: 0,
            streams: BTreeMap::new(),
        };
        for _ in 0..workers {
            let worker = proxy.started_worker();
            proxy.workers.push(worker);
        }
        proxy
    }

    fn started_worker(&mut self) -> Engine {
        self.started += 1;
        let config = Config::parse(self.config.as_bytes()).expect("a valid configuration");
        Engine::new(config, Box::new(self.store.clone()), self.started)
    }

    fn now(&self) -> Now {
        Now {
            mono: Mono(self.now_ms * 1_000_000),
            wall: Wall(self.wall_ms * 1_000_000),
        }
    }

    fn with(
        &mut self,
        worker: usize,
        call: impl FnOnce(&mut Engine, Now, &mut Vec<(StreamId, Verdict)>),
    ) {
        let (now, mut verdicts) = (self.now(), Vec::new());
        call(&mut self.workers[worker], now, &mut verdicts);
        for (stream, verdict) in verdicts {
            assert_ne!(verdict, Verdict::Park, "{stream}: it waits already");
            self.take(worker, stream, &verdict);
        }
    }

    fn take(&mut self, worker: usize, id: StreamId, verdict: &Verdict) {
        let stream = self.streams.get_mut(&id).expect("it has not ended");
        assert_eq!(stream.worker, worker, "{id}: another worker's");
        match verdict {
            Verdict::Forward(dispatch) => {
                assert!(!stream.sent, "{id} is sent twice");
                // One millisecond at least: an answer after that would be refused.
                assert!(dispatch.remaining.as_millis() <= 3_600_000, "{id}");
                stream.sent = true;
            }
            Verdict::Reject(refusal) => {
                assert!(!stream.begun, "{id} has an answer: {refusal:?}");
                self.streams.remove(&id);
            }
            Verdict::Pass | Verdict::PassTo(_) => {
                assert!(!stream.sent, "{id} is sent twice");
                self.streams.remove(&id);
            }
            Verdict::Park => {}
        }
    }

    fn request(&mut self, input: &mut Input<'_>) {
        self.last += 1;
        let (id, worker) = (self.last, input.below(self.workers.len()));
        let budget = (1 + input.wide() % BUDGET_MAX_MS).to_string();
        let start = (self.wall_ms + 200).saturating_sub(input.below(256) as u64 * 2);
        let start = start.to_string();
        let shape = input.below(256);
        let path = PATHS[shape % 16 % PATHS.len()];
        let mut headers = vec![("x-slo-ms", budget.as_str()), (":path", path)];
        if shape & 16 != 0 {
            headers.push(("x-slo-start", &start));
        }
        if shape & 32 != 0 {
            headers.push(("content-type", "application/grpc"));
        }
        if shape & 64 != 0 {
            headers.extend(input.pick(&LISTS).map(|list| ("x-slo-variants", list)));
        }
        let bytes = headers
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()));
        let incoming = IncomingRequest {
            source: Some(input.below(3) as u64),
            body_follows: shape & 128 != 0,
            ..Wire::pick(bytes).into()
        };
        let stream = Stream {
            worker,
            complete: !incoming.body_follows,
            ..Stream::default()
        };
        self.streams.insert(id, stream);
        let (mut verdict, now) = (Verdict::Park, self.now());
        self.with(worker, |engine, _, others| {
            verdict = engine.on_request(id, &incoming, now, others);
        });
        self.take(worker, id, &verdict);
    }

    fn body(&mut self, id: StreamId, more: u64, complete: bool, source: u64) {
        let stream = self.streams.get_mut(&id).expect("it is open");
        if stream.complete {
            return;
        }
        stream.bytes += more;
        stream.complete = complete;
        let Stream {
            worker,
            bytes,
            sent,
            ..
        } = *stream;
        let mut verdict = BodyVerdict::Unknown;
        let mut holds = false;
        self.with(worker, |engine, now, others| {
            holds = !complete && engine.hold_body(id, bytes);
            if !holds {
                let chunk = BodyChunk { bytes, complete };
                verdict = engine.on_body(
                    id,
                    chunk,
                    |of| Some(u64::from(of) % 2 + source),
                    now,
                    others,
                );
            }
        });
        match verdict {
            BodyVerdict::Decided(verdict) => self.take(worker, id, &verdict),
            BodyVerdict::Follows => assert!(sent, "{id}: its body goes on without it"),
            BodyVerdict::Unknown => {
                assert!(holds || !self.streams.contains_key(&id), "{id} is lost")
            }
        }
    }

    /// The headers of a response, and perhaps more of it; or only more, if it has begun.
    fn answer(&mut self, id: StreamId, input: &mut Input<'_>) {
        let stream = self.streams.get_mut(&id).expect("it is open");
        if !stream.sent {
            return;
        }
        let worker = stream.worker;
        if stream.begun {
            return self.with(worker, |engine, now, verdicts| {
                engine.on_response_exceeds_buffer(id, now, verdicts);
            });
        }
        let shape = input.below(256);
        let by = input.flag().then_some("b");
        let answer = Answer {
            failed: shape & 1 != 0,
            streams: input.flag(),
            source: input.flag().then_some(u64::from(id) % 3),
            sign: SIGNALS[shape / 2 % SIGNALS.len()],
            served_by: by.and_then(|name| self.workers[worker].variant(name)),
            expected: None,
            retried: u32::from(shape & 128 != 0),
        };
        let (mut awaits_byte, first_byte) = (false, input.flag());
        self.with(worker, |engine, now, _| {
            let tags = engine.on_answer(id, answer, now);
            awaits_byte = tags.is_some_and(|tags| tags.awaits_byte);
            if awaits_byte && first_byte {
                engine.on_first_byte(id, now);
                awaits_byte = false;
            }
        });
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.begun = !awaits_byte;
        }
    }

    fn end(&mut self, id: StreamId, end: End) {
        let Some(stream) = self.streams.remove(&id) else {
            return;
        };
        self.with(stream.worker, |engine, now, verdicts| {
            engine.on_end(id, end, now, verdicts)
        });
    }

    /// Ticks of all workers after that many ms, with a renewal.
    fn tick(&mut self, ms: u64) {
        self.now_ms += ms;
        self.wall_ms += ms;
        for worker in 0..self.workers.len() {
            self.with(worker, |engine, now, verdicts| {
                engine.renew(true, now.mono);
                engine.release(now, verdicts);
            });
        }
    }

    fn probe(&mut self, worker: usize, status: u32) {
        self.with(worker, |engine, now, verdicts| {
            for probe in engine.probes(now.mono) {
                let result = match status {
                    0 => ProbeResult::Nobody,
                    status => ProbeResult::Status(status),
                };
                engine.on_probe((probe.variant, probe.grpc), result, now, verdicts);
            }
        });
    }

    fn check(&self) {
        for (index, engine) in self.workers.iter().enumerate() {
            let of_it = self
                .streams
                .values()
                .filter(|stream| stream.worker == index);
            assert_eq!(engine.open(), of_it.count(), "requests of worker {index}");
            let held: usize = engine.gauges().map(|gauge| gauge.held).sum();
            assert!(held <= self.max_requests, "{held} held");
            assert!(engine.receiving() <= self.max_requests);
            assert!(engine.bytes_held() <= BYTES_MAX);
        }
    }

    /// Nothing is left 70 s later: what waited is refused, and what is upstream is answered.
    fn finish(mut self) {
        self.store.fail_swaps(0);
        self.store.fail_group_swaps(0);
        for _ in 0..60 {
            self.tick(50);
        }
        let waiting: Vec<_> = self
            .streams
            .iter()
            .filter(|(_, stream)| !stream.sent)
            .collect();
        assert!(waiting.is_empty(), "neither sent nor answered: {waiting:?}");
        let upstream: Vec<_> = self.streams.keys().copied().collect();
        for id in upstream {
            self.end(id, End::Answered);
        }
        self.check();
        for ms in [1000, 66_000, 100, 100, 100, 100] {
            self.tick(ms);
        }
        for engine in &self.workers {
            assert_eq!(
                (engine.open(), engine.receiving(), engine.bytes_held()),
                (0, 0, 0)
            );
            for gauge in engine.gauges() {
                assert_eq!((gauge.taken, gauge.held), (0, 0), "{gauge:?}");
            }
        }
        let Some(bytes) = self.store.bytes() else {
            return;
        };
        let mut table = SlotTable::default();
        table.read(&bytes).expect("a table");
        let now = self.now().mono;
        for column in 0..table.columns.len() {
            assert_eq!(table.taken(column, now), 0, "slots of column {column}");
        }
    }
}
