//! Allocations of a request: none, once the containers have grown.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use allocation_counter::measure;
use weir_filter::config::Config;
use weir_filter::coordination::{ByteStore, Notification};
use weir_filter::engine::{Answer, End, Engine, StreamId};
use weir_filter::request::matching;
use weir_filter::request::wire::Wire;
use weir_filter::stats::Sample;
use weir_filter::time::{Mono, Now, Wall};
use weir_filter::verdict::Verdict;

/// A store that, like Envoy's, keeps one copy of the slot table.
#[derive(Debug, Default)]
struct OneVm {
    bytes: Vec<u8>,
    version: Option<u32>,
    groups: Vec<u8>,
    groups_version: Option<u32>,
}

impl ByteStore for OneVm {
    fn load(&mut self, into: &mut Vec<u8>) -> Option<u32> {
        into.clear();
        into.extend_from_slice(&self.bytes);
        self.version
    }

    fn swap(&mut self, bytes: &[u8], version: Option<u32>) -> bool {
        if version != self.version {
            return false;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.version = Some(self.version.unwrap_or(0) + 1);
        true
    }

    fn load_groups(&mut self, into: &mut Vec<u8>) -> Option<u32> {
        into.clone_from(&self.groups);
        self.groups_version
    }

    fn swap_groups(&mut self, bytes: &[u8], version: Option<u32>) -> bool {
        if version != self.groups_version {
            return false;
        }
        self.groups.clear();
        self.groups.extend_from_slice(bytes);
        self.groups_version = Some(version.unwrap_or(0) + 1);
        true
    }

    fn guess(&mut self) -> Option<u32> {
        self.version
    }

    fn claim_row(&mut self, _: usize) {}

    fn notify(&mut self, _: usize, _: Notification) {}
}

struct Bench {
    engine: Engine,
    samples: Vec<Sample>,
    verdicts: Vec<(StreamId, Verdict)>,
    stream: StreamId,
    us: u64,
}

impl Bench {
    fn new(slots: u32, rest: &str) -> Bench {
        let variant = |n: u32| {
            format!(
                r#"{{"name":"v{n}","cluster":"v{n}","share":0.1,"slots":{slots},"service_ms":40,"accuracy":{}}}"#,
                70 + n
            )
        };
        let variants: Vec<String> = (0..10).map(variant).collect();
        let json = format!(
            r#"{{"service":"demo","plan":{{"variants":[{}]}}{rest}}}"#,
            variants.join(",")
        );
        let config = Config::parse(json.as_bytes()).unwrap();
        Bench {
            engine: Engine::new(config, Box::new(OneVm::default()), 1),
            samples: Vec::new(),
            verdicts: Vec::new(),
            stream: 0,
            us: 0,
        }
    }

    fn now(&mut self) -> Now {
        self.us += 10;
        Now {
            mono: Mono(self.us * 1000),
            wall: Wall(1_790_000_000_000_000_000 + self.us * 1000),
        }
    }

    fn submit(&mut self) -> Verdict {
        let large = self.stream.is_multiple_of(2);
        let length: &[u8] = if large { b"1000000" } else { b"10000" };
        let headers: [(&str, &[u8]); 4] = [
            ("x-slo-ms", b"1000"),
            ("content-length", length),
            ("content-type", b"application/json"),
            ("x-slo-class", b"gold"),
        ];
        // A class that nobody knows is ignored, and the answer says so.
        let known = 3 + usize::from(self.engine.config().classes.len() > 1);
        self.submit_with(&headers[..known])
    }

    fn submit_with(&mut self, headers: &[(&str, &[u8])]) -> Verdict {
        self.stream += 1;
        let (stream, now) = (self.stream, self.now());
        let incoming = Wire::pick(headers.iter().copied()).into();
        let verdict = self
            .engine
            .on_request(stream, &incoming, now, &mut self.verdicts);
        self.engine.stats.swap(&mut self.samples);
        verdict
    }

    fn end(&mut self, stream: StreamId) {
        let now = self.now();
        self.engine.on_answer(stream, Answer::default(), now);
        let now = self.now();
        self.engine
            .on_end(stream, End::Answered, now, &mut self.verdicts);
        self.engine.stats.swap(&mut self.samples);
    }
}

const CLASSES: &str = r#","classes":[{"name":"gold","share":0.5},{"name":"iron","share":0.3}],"default_class":"iron""#;

#[test]
fn request_through_a_free_slot_does_not_allocate() {
    for rest in ["", CLASSES] {
        let mut bench = Bench::new(100, rest);
        let mut through = || {
            for _ in 0..1000 {
                assert!(matches!(bench.submit(), Verdict::Forward(_)));
                bench.end(bench.stream);
            }
        };
        through();
        let allocations = measure(through).count_total;
        assert_eq!(allocations, 0, "{rest}");
    }
}

/// One for the list, one for its text on the answer.
#[test]
fn list_of_variants_allocates_twice() {
    const MANY: u32 = 1000;
    let mut bench = Bench::new(100, "");
    let value = b"v7;within=30, v2;within=600, *";
    let mut through = || {
        for _ in 0..MANY {
            let verdict = bench.submit_with(&[("x-slo-variants", value)]);
            let Verdict::Forward(dispatch) = verdict else {
                panic!("not sent")
            };
            assert_eq!(&*dispatch.name, "v2");
            bench.end(bench.stream);
        }
    };
    through();
    let allocations = measure(through).count_total;
    assert_eq!(allocations, 2 * u64::from(MANY));
}

/// Nothing in the engine, and two texts for the answer.
#[test]
fn refusal_allocates_its_body_alone() {
    const MANY: u32 = 1000;
    let mut bench = Bench::new(100, r#","queue":{"correct":false}"#);
    let short: [(&str, &[u8]); 1] = [("x-slo-ms", b"20")];
    let floor: [(&str, &[u8]); 1] = [("x-slo-min-accuracy", b"99")];
    let mut refuse = |headers: &[(&str, &[u8])], reads: bool| {
        for _ in 0..MANY {
            let Verdict::Reject(refusal) = bench.submit_with(headers) else {
                panic!("not refused")
            };
            if reads {
                let body = refusal.facts.body(refusal.reason);
                assert!(body.len() > 100, "{body}");
            }
        }
    };
    for headers in [&short, &floor] {
        refuse(headers, false);
        assert_eq!(measure(|| refuse(headers, false)).count_total, 0);
        let allocations = measure(|| refuse(headers, true)).count_total;
        assert!(allocations <= 2 * u64::from(MANY), "{allocations}");
    }
}

#[test]
fn held_request_allocates_at_most_its_place() {
    const MANY: u32 = 1000;
    const WAITING: u32 = 50;
    for rest in ["", CLASSES] {
        let mut bench = Bench::new(1, rest);
        let mut running: Vec<StreamId> = Vec::new();
        // One request comes, one ends, and one held request leaves.
        let mut run = |times: u32| {
            for time in 0..times {
                if matches!(bench.submit(), Verdict::Forward(_)) {
                    running.push(bench.stream);
                }
                if time >= WAITING {
                    let ends = running.pop().unwrap();
                    bench.end(ends);
                }
                let verdicts = bench.verdicts.drain(..);
                let sent = verdicts.filter(|(_, verdict)| matches!(verdict, Verdict::Forward(_)));
                running.extend(sent.map(|(stream, _)| stream));
            }
        };
        run(MANY);
        let allocations = measure(|| run(MANY)).count_total;
        assert!(allocations <= u64::from(MANY), "{allocations} {rest}");
    }
}

#[test]
fn choice_among_services_does_not_allocate() {
    let service = |n: u32| {
        format!(
            r#"{{"service":"s{n}","match":{{"hosts":["h{n}.example","*.s{n}.example"],"paths":["/v2/models/*/infer"]}}}}"#
        )
    };
    let services: Vec<String> = (0..64).map(service).collect();
    let json = format!(
        r#"{{"planner":{{"cluster":"p","key":"k"}},"services":[{}]}}"#,
        services.join(",")
    );
    let configs = Config::parse_services(json.as_bytes()).unwrap();
    let choose = |host: &str| {
        let headers: [(&str, &[u8]); 3] = [
            (":authority", host.as_bytes()),
            (":path", b"/v2/models/resnet/infer?a=b"),
            ("x-slo-ms", b"1000"),
        ];
        matching::first(configs.iter().map(|config| &config.matches), headers)
    };
    let allocations = measure(|| {
        assert_eq!(choose("x.S63.example:80"), Some(63));
        assert_eq!(choose("h64.example"), None);
    });
    assert_eq!(allocations.count_total, 0);
}
