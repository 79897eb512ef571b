//! The simulated server beside real ones that batch: throughput by requests in flight, as `measured.csv` has it.

use std::num::NonZeroU32;

use serde::Deserialize;

use super::*;
use crate::server::{BatchWindow, LatencyModel};

/// Throughput of real servers, as `cargo xtask test --real-server --parts curves` prints it.
const MEASURED: &str = include_str!("measured.csv");
/// Part by which the simulated throughput may differ.
const OFF_MAX: f64 = 0.1;
/// Span of time that counts, and the time before it.
const BEFORE: Duration = Duration::from_secs(10);
const SPAN: Duration = Duration::from_secs(100);

/// A real server with so many requests in flight.
#[derive(Debug, Deserialize)]
struct Row {
    server: String,
    base_ms: f64,
    each_ms: f64,
    batch_max: NonZeroU32,
    delay_ms: u64,
    in_flight: usize,
    rps: f64,
}

fn rows() -> Vec<Row> {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .from_reader(MEASURED.as_bytes());
    reader.deserialize().map(Result::unwrap).collect()
}

fn server(row: &Row) -> ServerModel<()> {
    let latency = LatencyModel {
        delta_ms: row.each_ms,
        eta_ms: row.base_ms,
        ..LatencyModel::default()
    };
    let mut config = ServerConfig::new(&row.server, latency);
    config.batch_max = row.batch_max;
    config.batch_delay = Duration::from_millis(row.delay_ms);
    config.batch_window = match row.server.as_str() {
        "mosec" => BatchWindow::Idle,
        _ => BatchWindow::Closed,
    };
    ServerModel::new(config).unwrap()
}

/// Answers per second while each of so many clients sends its next request at its answer.
fn closed_loop_rps(mut server: ServerModel<()>, in_flight: usize) -> f64 {
    let until = BEFORE + SPAN;
    let mut ended = Vec::new();
    let mut answers = 0;
    let mut sent = in_flight;
    let mut now = Duration::ZERO;
    while now < until {
        // Requests never arrive at the same instant: the first of them finds the server idle.
        for _ in 0..std::mem::take(&mut sent) {
            server.arrive(now, ()).unwrap();
            server.advance(now, &mut ended);
        }
        now = server.next_event().unwrap();
        server.advance(now, &mut ended);
        sent = ended.drain(..).count();
        if now >= BEFORE {
            answers += sent;
        }
    }
    answers as f64 / SPAN.as_secs_f64()
}

#[test]
fn throughput_by_requests_in_flight_is_that_of_real_servers() {
    let rows = rows();
    for kind in ["triton", "triton-delay", "mosec"] {
        for in_flight in [1, 2, 4, 8, 16] {
            let is_it = |row: &&Row| row.server == kind && row.in_flight == in_flight;
            let found = rows.iter().filter(is_it).count();
            assert!(found > 0, "{kind}: no row with {in_flight} in flight");
        }
    }
    let off = |row: &Row| {
        let rps = closed_loop_rps(server(row), row.in_flight);
        let off = rps / row.rps - 1.0;
        (off.abs() > OFF_MAX).then(|| format!("{:+.0} %: {rps:.1}/s, {row:?}", off * 100.0))
    };
    let problems: Vec<String> = rows.iter().filter_map(off).collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}
