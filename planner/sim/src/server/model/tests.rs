//! Tests of the server on a virtual clock: order, bound, batching, capacity.

use std::num::NonZeroU32;

use proptest::prelude::*;
use weir_solve::latency_model::{Cell, Table};

use super::*;
use crate::server::{BatchWindow, Latency, LatencyModel, Noise};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Records every start.
#[derive(Default)]
struct Starts(Vec<Run>);

impl Witness<()> for Starts {
    fn started(&mut self, (): &(), run: &Run) {
        self.0.push(*run);
    }
}

type Model = ServerModel<(), Starts>;

fn engine(change: impl FnOnce(&mut ServerConfig)) -> Model {
    let mut config = ServerConfig::new("m", LatencyModel::constant(100.0));
    change(&mut config);
    ServerModel::new(config).unwrap()
}

fn arrive(engine: &mut Model, now: Duration) -> usize {
    let ended = advance(engine, now);
    assert!(engine.arrive(now, ()).is_ok());
    ended + advance(engine, now)
}

/// Advances to `now`; returns the number of ended executions.
fn advance(engine: &mut Model, now: Duration) -> usize {
    let mut ended = Vec::new();
    engine.advance(now, &mut ended);
    ended.len()
}

fn starts(engine: &Model) -> Vec<f64> {
    let runs = engine.witness().0.iter();
    runs.map(|run| run.started.as_secs_f64() * 1e3).collect()
}

#[test]
fn late_advance_costs_no_capacity() {
    let mut engine = engine(|_| {});
    for at in [0, 10, 20, 350] {
        arrive(&mut engine, ms(at));
    }
    // No call came between 20 and 350 ms; this cost no capacity.
    assert_eq!(starts(&engine), [0.0, 100.0, 200.0, 350.0]);
    assert_eq!(engine.next_event(), Some(ms(450)));
}

#[test]
fn added_cores_start_waiting_work_and_removed_cores_keep_running_work() {
    let mut engine = engine(|_| {});
    for _ in 0..6 {
        arrive(&mut engine, ms(0));
    }
    advance(&mut engine, ms(50));
    engine.set_resources(ms(50), 3.0, Parallelism::PerCore);
    advance(&mut engine, ms(50));
    assert_eq!(starts(&engine), [0.0, 50.0, 50.0]);
    engine.set_resources(ms(50), 0.0, Parallelism::PerCore);
    assert_eq!(advance(&mut engine, ms(1000)), 3);
    assert_eq!((engine.next_event(), engine.load()), (None, (3, 0)));
    assert!((engine.core_seconds(ms(1000)) - 0.05).abs() < 1e-9);
}

#[test]
fn batch_starts_when_full_or_after_the_batch_window() {
    let mut engine = engine(|config| {
        config.latency = LatencyModel {
            gamma_ms: 10.0,
            ..LatencyModel::default()
        }
        .into();
        config.batch_max = NonZeroU32::new(3).unwrap();
        config.batch_delay = ms(5);
    });
    for at in [0, 1, 2, 3] {
        arrive(&mut engine, ms(at));
    }
    assert_eq!(advance(&mut engine, ms(32)), 3);
    advance(&mut engine, ms(100));
    let batches: Vec<_> = engine
        .witness()
        .0
        .iter()
        .map(|run| (run.batch, run.started.as_millis()))
        .collect();
    // The fourth waited for its batch until 8 ms, then for the core.
    assert_eq!(batches, [(3, 2), (3, 2), (3, 2), (1, 32)]);
}

#[test]
fn batch_window_begins_at_arrival_or_when_the_server_is_idle() {
    let batches = |window| {
        let mut engine = engine(|config| {
            config.batch_max = NonZeroU32::new(2).unwrap();
            config.batch_delay = ms(5);
            config.batch_window = window;
        });
        for at in [0, 1, 20, 30, 103] {
            arrive(&mut engine, ms(at));
        }
        advance(&mut engine, ms(400));
        let runs = engine.witness().0.iter();
        let batch = |run: &Run| (run.batch, run.started.as_millis());
        runs.map(batch).collect::<Vec<_>>()
    };
    let expected = [(2, 1), (2, 1), (2, 101), (2, 101), (1, 201)];
    assert_eq!(batches(BatchWindow::Arrival), expected);
    let expected = [(2, 1), (2, 1), (2, 101), (2, 101), (1, 206)];
    assert_eq!(batches(BatchWindow::Idle), expected);
    // The third's batch is closed at 25 ms, and the fourth comes too late for it.
    let expected = [(2, 1), (2, 1), (1, 101), (2, 201), (2, 201)];
    assert_eq!(batches(BatchWindow::Closed), expected);
}

#[test]
fn closed_batch_is_filled_by_a_full_one_behind_it_and_by_no_less() {
    let batches = |arrivals: &[u64]| {
        let mut engine = engine(|config| {
            config.batch_max = NonZeroU32::new(3).unwrap();
            config.batch_delay = ms(5);
            config.batch_window = BatchWindow::Closed;
        });
        for at in arrivals {
            arrive(&mut engine, ms(*at));
        }
        advance(&mut engine, ms(1000));
        let mut runs = &engine.witness().0[..];
        let mut batches = Vec::new();
        while let Some(run) = runs.first() {
            batches.push((run.batch, run.started.as_millis()));
            runs = &runs[run.batch as usize..];
        }
        batches
    };
    // Two behind a closed one; then both fit into one batch.
    assert_eq!(
        batches(&[0, 1, 2, 10, 20, 21]),
        [(3, 2), (1, 102), (2, 202)]
    );
    // Three behind it: it takes two of them.
    assert_eq!(
        batches(&[0, 1, 2, 10, 20, 21, 22]),
        [(3, 2), (3, 102), (1, 202)]
    );
    // The next is closed with one, and those behind that do not fit into it.
    let arrivals = [0, 1, 2, 10, 20, 21, 22, 30, 31, 32];
    assert_eq!(batches(&arrivals), [(3, 2), (3, 102), (1, 202), (3, 302)]);
}

#[test]
fn full_queue_returns_the_request() {
    let mut engine = engine(|config| config.cores = 0.0);
    for _ in 0..QUEUE_MAX {
        assert!(engine.arrive(ms(0), ()).is_ok());
    }
    assert_eq!(engine.arrive(ms(0), ()), Err(()));
}

#[test]
fn noise_has_mean_one_and_follows_seed() {
    let run = |seed| {
        let mut engine = engine(|config| config.noise = Some(Noise { sigma: 0.2, seed }));
        (0..2000).for_each(|_| assert_eq!(arrive(&mut engine, ms(0)), 0));
        advance(&mut engine, Duration::from_secs(1000));
        starts(&engine)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    let mean = run(1).last().unwrap() / 1999.0;
    assert!((97.0..103.0).contains(&mean), "mean {mean} ms");
}

#[test]
fn measured_latency_holds_and_the_unmeasured_takes_the_maximum() {
    let cell = |batch, cores, latency_ms| Cell {
        batch,
        cores,
        latency_ms,
    };
    let table = Table::new(vec![cell(1, 1.0, 30.0), cell(2, 1.0, 80.0)]).unwrap();
    let mut engine = engine(|config| {
        config.latency = Latency::Table(table);
        config.batch_max = NonZeroU32::new(2).unwrap();
        config.batch_delay = ms(1);
    });
    for at in [0, 0, 0] {
        arrive(&mut engine, ms(at));
    }
    assert_eq!(advance(&mut engine, ms(110)), 3);
    engine.set_resources(ms(110), 0.5, Parallelism::PerCore);
    arrive(&mut engine, ms(110));
    advance(&mut engine, ms(200));
    let took = |run: &Run| run.ended - run.started;
    let runs = &engine.witness().0;
    let times: Vec<Duration> = runs.iter().map(took).collect();
    assert_eq!(times, [ms(80), ms(80), ms(30), SERVICE_MAX]);
}

proptest! {
    /// Executions are FIFO, conserve requests, stay within the bound, and last as long as the
    /// latency model says.
    #[test]
    fn executions_keep_order_bound_and_latency_model(
        gaps in prop::collection::vec(0u64..80, 1..60),
        cores in 1u32..5,
        batch_max in 1u32..4,
    ) {
        let latency = LatencyModel { gamma_ms: 30.0, epsilon_ms: 5.0, delta_ms: 3.0, eta_ms: 2.0 };
        let mut engine = engine(|config| {
            config.latency = latency.into();
            config.cores = f64::from(cores);
            config.batch_max = NonZeroU32::new(batch_max).unwrap();
            config.batch_delay = ms(4);
        });
        let mut now = Duration::ZERO;
        let mut ended = 0;
        for gap in &gaps {
            now += ms(*gap);
            ended += arrive(&mut engine, now);
        }
        ended += advance(&mut engine, now + Duration::from_secs(60));
        prop_assert_eq!(ended, gaps.len());
        let done = engine.witness().0.clone();
        prop_assert!(done.is_sorted_by_key(|d| d.arrived));
        prop_assert!(done.is_sorted_by_key(|d| d.started));
        for d in &done {
            let took = (d.ended - d.started).as_secs_f64() * 1e3;
            prop_assert!((took - latency.service_ms(d.batch, 1.0)).abs() < 1e-3);
            prop_assert!(d.started >= d.arrived && d.batch <= batch_max);
            let together: f64 = done
                .iter()
                .filter(|o| o.started <= d.started && d.started < o.ended)
                .map(|o| 1.0 / f64::from(o.batch))
                .sum();
            prop_assert!(together <= f64::from(cores) + 1e-6);
        }
    }
}
