//! Cost of a request in the core, without Envoy: reading its deadline, choosing a variant, holding it and
//! passing on a slot, with as many requests held as the default configuration allows.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a bench takes the time"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use weir_filter::config::Config;
use weir_filter::coordination::Memory;
use weir_filter::engine::{Answer, End, Engine};
use weir_filter::request::wire::Wire;
use weir_filter::time::{Mono, Now, Wall};
use weir_filter::verdict::Verdict;

const HEADERS: [(&str, &[u8]); 8] = [
    (":method", b"POST"),
    (":path", b"/v2/models/resnet/infer"),
    (":authority", b"models.example"),
    ("content-type", b"application/json"),
    ("user-agent", b"bench"),
    ("x-request-id", b"6f1c9f0e-3f5c-4b57-9b0b-6f8f6a3f8a11"),
    ("x-slo-ms", b"1000"),
    ("x-slo-start", b"1790000000000.000"),
];

/// Creates an engine with this many variants, each less accurate than the next.
fn engine(variants: u32, slots: u32, service_ms: f64) -> Engine {
    let variant = |index: u32| {
        let share = 1.0 / f64::from(variants);
        format!(
            r#"{{"name":"v{index}","cluster":"v{index}","share":{share},"slots":{slots},"service_ms":{service_ms},"accuracy":{}}}"#,
            60 + index
        )
    };
    let variants: Vec<_> = (0..variants).map(variant).collect();
    let variants = variants.join(",");
    let json = format!(r#"{{"service":"bench","plan":{{"variants":[{variants}]}}}}"#);
    let config = Config::parse(json.as_bytes()).expect("a valid configuration");
    Engine::new(config, Box::new(Memory::default()), 1)
}

fn at(us: u64) -> Now {
    Now {
        mono: Mono(us * 1000),
        wall: Wall(1_790_000_000_000_000_000 + us * 1000),
    }
}

/// Takes the samples, as the shell does after each call.
fn take_samples(engine: &mut Engine, samples: &mut Vec<weir_filter::stats::Sample>) {
    engine.stats.swap(samples);
}

/// Decision on a request with extracted headers: its deadline read, its variant chosen, its slot acquired.
fn decision(c: &mut Criterion) {
    const AT_ONCE: u32 = 512;
    let mut engine = engine(10, 1000, 40.0);
    let (mut samples, mut verdicts) = (Vec::new(), Vec::new());
    let mut some = |count: u32| {
        let incoming = Wire::pick(black_box(HEADERS)).into();
        let began = Instant::now();
        for stream in 0..count {
            black_box(engine.on_request(stream, black_box(&incoming), at(10), &mut verdicts));
            take_samples(&mut engine, &mut samples);
        }
        let took = began.elapsed();
        (0..count)
            .for_each(|stream| engine.on_end(stream, End::Disconnected, at(30), &mut verdicts));
        assert_eq!(engine.open(), 0);
        take_samples(&mut engine, &mut samples);
        took
    };
    c.bench_function("decision, 10 variants", |b| {
        b.iter_custom(|times| {
            let whole = (0..times / u64::from(AT_ONCE)).map(|_| some(AT_ONCE));
            let whole: Duration = whole.sum();
            whole + some((times % u64::from(AT_ONCE)) as u32)
        });
    });
}

fn through(c: &mut Criterion) {
    let mut engine = engine(10, 1000, 40.0);
    let (mut stream, mut samples, mut verdicts) = (0_u32, Vec::new(), Vec::new());
    c.bench_function("request through a free slot, 10 variants", |b| {
        b.iter(|| {
            stream = stream.wrapping_add(1);
            let wire = Wire::pick(black_box(HEADERS));
            let verdict = engine.on_request(stream, &wire.into(), at(10), &mut verdicts);
            black_box(engine.on_answer(stream, Answer::default(), at(20)));
            engine.on_end(stream, End::Answered, at(30), &mut verdicts);
            take_samples(&mut engine, &mut samples);
            verdict
        });
    });
}

fn held(c: &mut Criterion) {
    let (mut samples, mut verdicts) = (Vec::new(), Vec::new());
    let (mut engine, mut running) = full(4095);
    let mut stream = 1_000_000;
    c.bench_function("held among 4,095, slot handed over", |b| {
        b.iter(|| {
            stream += 1;
            let wire = Wire::pick(black_box(HEADERS));
            let verdict = engine.on_request(stream, &wire.into(), at(10), &mut verdicts);
            assert!(matches!(verdict, Verdict::Park));
            engine.on_end(running, End::Answered, at(20), &mut verdicts);
            // The request that got the slot runs now.
            let handed = verdicts.pop();
            running = handed.expect("a slot was handed over").0;
            take_samples(&mut engine, &mut samples);
        });
    });
    assert_eq!(engine.open(), 4095 + 3);
}

/// Creates an engine with three slots taken and `held` requests held; returns one of those running.
fn full(held: u32) -> (Engine, u32) {
    // So short that the last one can still answer in time.
    let mut engine = engine(1, 3, 0.1);
    for stream in 0..held + 3 {
        engine.on_request(stream, &Wire::pick(HEADERS).into(), at(0), &mut Vec::new());
    }
    (engine, 0)
}

criterion_group!(benches, decision, through, held);
criterion_main!(benches);
