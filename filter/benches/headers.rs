//! Cost of a client's headers: extraction, kind of the request, deadline, clock offset; with ordinary
//! headers and with the worst.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use weir_filter::config::{Config, SERVICES_MAX};
use weir_filter::request::deadline::read;
use weir_filter::request::matching::{HOSTS_MAX, Host, Match, first};
use weir_filter::request::protocol::{Bypass, Streams, shape};
use weir_filter::request::skew::{SOURCES_MAX, Sources};
use weir_filter::request::wire::{Names, Wire};
use weir_filter::time::{Mono, Now, Span, Wall};

const HEADERS: [(&str, &[u8]); 14] = [
    (":authority", b"models.example"),
    (":path", b"/v2/models/resnet/infer"),
    (":method", b"POST"),
    (":scheme", b"http"),
    ("content-type", b"application/json"),
    ("content-length", b"150528"),
    ("accept", b"*/*"),
    ("accept-encoding", b"gzip, deflate"),
    ("user-agent", b"python-requests/2.32"),
    ("x-forwarded-proto", b"http"),
    ("x-forwarded-for", b"10.1.2.3"),
    ("x-request-id", b"6f1c9f0e-3f5c-4b57-9b0b-6f8f6a3f8a11"),
    ("x-slo-ms", b"1000"),
    ("x-slo-start", b"1790000000000.000"),
];

const NOW: Now = Now {
    mono: Mono(5_000_000_000),
    wall: Wall(1_790_000_000_050_000_000),
};

fn picked(c: &mut Criterion) {
    c.bench_function("pick out of 14 headers", |b| {
        b.iter(|| Wire::pick(black_box(HEADERS)));
    });
    let claims: Vec<String> = (0..8).map(|i| format!("x-claim-header-{i}")).collect();
    c.bench_function("pick, with 8 configured headers", |b| {
        let names = Names {
            claims: &claims,
            budgets: &[],
        };
        b.iter(|| Wire::pick_with(black_box(HEADERS), black_box(names)));
    });
    let wire = Wire::pick(HEADERS);
    let (bypass, streams) = (Bypass::default(), Streams::default());
    c.bench_function("shape", |b| {
        b.iter(|| shape(&bypass, &streams, black_box(&wire), false));
    });
}

/// Services with as many hosts as allowed, and a request that is the last one's.
fn chosen(c: &mut Criterion) {
    let service = |n: usize, hosts: usize| Match {
        hosts: (0..hosts)
            .filter_map(|host| Host::new(&format!("{n:06}.{host:07}")))
            .collect(),
        paths: Vec::new(),
    };
    let mut services: Vec<Match> = (1..SERVICES_MAX).map(|n| service(n, HOSTS_MAX)).collect();
    services.push(Match {
        hosts: Host::new("models.example").into_iter().collect(),
        paths: Vec::new(),
    });
    c.bench_function("choice of a service out of the most", |b| {
        b.iter(|| first(black_box(&services), black_box(HEADERS)));
    });
    let two = [service(1, 1), service(2, 1)];
    c.bench_function("choice of a service out of two", |b| {
        b.iter(|| first(black_box(&two), black_box(HEADERS)));
    });
}

fn read_out(c: &mut Criterion) {
    let json = br#"{"service":"bench","planner":{"cluster":"p","key":"k"}}"#;
    let policy = Config::parse(json).expect("valid").deadline;
    let wire = Wire::pick(HEADERS);
    c.bench_function("deadline", |b| {
        b.iter(|| read(&policy, black_box(&wire), NOW, None));
    });
    let mut sources = Sources::default();
    c.bench_function("deadline, of a known source", |b| {
        b.iter(|| read(&policy, black_box(&wire), NOW, Some((&mut sources, 7))));
    });
    let streams = Streams::default();
    let long = vec![b'9'; 65_536];
    let worst: Vec<(&str, &[u8])> = HEADERS.iter().map(|(name, _)| (*name, &long[..])).collect();
    c.bench_function("pick, shape and deadline of 64 KB values", |b| {
        b.iter(|| {
            let wire = Wire::pick(black_box(worst.iter().copied()));
            (
                shape(
                    &Bypass {
                        methods: Vec::new(),
                        paths: Vec::new(),
                        get_paths: Vec::new(),
                    },
                    &streams,
                    &wire,
                    false,
                ),
                read(&policy, &wire, NOW, None),
            )
        });
    });
}

/// Each source is new, or was just evicted from the table.
fn flooded(c: &mut Criterion) {
    let (mut sources, mut source) = (Sources::default(), 0);
    let most = Span::from_millis(50);
    c.bench_function("offset, the table flooded", |b| {
        b.iter(|| {
            source = (source + 1) % (3 * SOURCES_MAX as u64);
            sources
                .observe(black_box(source), 5, NOW.mono)
                .correction(most, most)
        });
    });
}

criterion_group!(benches, picked, chosen, read_out, flooded);
criterion_main!(benches);
