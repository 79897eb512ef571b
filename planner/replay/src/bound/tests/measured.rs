//! Tests of the bounds for servers with measured latency, against brute force and by hand.

use weir_solve::latency_model::{Cell, Linear, Table};

use super::super::options::Options;
use super::*;

/// Measured execution times in units, by batch size: never falling, but not always less per request.
fn times() -> impl Strategy<Value = Vec<u64>> {
    let more = prop::collection::vec(0u64..5, 0..3);
    (1u64..4, more).prop_map(|(single, more)| {
        let mut times = vec![single];
        times.extend(more.iter().scan(single, |time, more| {
            *time += more;
            Some(*time)
        }));
        times
    })
}

/// A variant whose slots and measured times change twice, with these times by step.
fn measured() -> impl Strategy<Value = (Vec<Step>, Vec<Vec<u64>>)> {
    let state = || (0u32..3, times());
    (state(), 1u32..4, state(), 1u32..4, state()).prop_map(|(a, t, b, u, c)| {
        let states = [(0, a), (t, b), (t + u, c)];
        let step = |(from, (slots, times)): &(u32, (u32, Vec<u64>))| {
            Step::new(UNIT * *from, *slots, times.len() as u32, |requests| {
                UNIT * times[requests as usize - 1] as u32
            })
        };
        let steps = states.iter().map(step).collect();
        (steps, states.map(|(_, (_, times))| times).to_vec())
    })
}

/// A table over some of four batches and four numbers of cores.
fn table() -> impl Strategy<Value = Table> {
    let steps = prop::collection::vec(0u32..40, 4);
    let holes = prop::collection::vec(prop::bool::weighted(0.7), 16);
    (steps.clone(), steps, holes).prop_map(|(by_batch, by_cores, holes)| {
        let ms = |row: usize, column: usize| {
            let more =
                by_batch[..=row].iter().sum::<u32>() + by_cores[column..].iter().sum::<u32>();
            f64::from(1 + more)
        };
        let mut cells = Vec::new();
        for (row, batch) in [1u32, 2, 4, 5].into_iter().enumerate() {
            for (column, cores) in [0.5, 1.0, 3.0, 4.0].into_iter().enumerate() {
                // The largest batch on the fewest cores: else the table may be undefined everywhere.
                if holes[row * 4 + column] || (row, column) == (3, 0) {
                    let latency_ms = ms(row, column);
                    cells.push(Cell {
                        batch,
                        cores,
                        latency_ms,
                    });
                }
            }
        }
        Table::new(cells).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_schedule_of_measured_batches_beats_the_upper_bound(
        windows in windows(5), a in measured(), b in measured(), hops in [0u32..3, 0u32..3],
    ) {
        let servers = far(servers(vec![(70.0, a.0), (80.0, b.0)]), &hops);
        let bound = most_on_time(&windows, &servers);
        let mut brute_force = BruteForce::new(&windows, &servers, false);
        brute_force.times = vec![a.1, b.1];
        let best = brute_force.most_on_time();
        prop_assert!(bound.on_time >= best, "{:?} below {}", bound, best);
    }

    #[test]
    fn no_execution_costs_less_than_the_options(
        table in table(), at_once in 0u32..4, whole: bool, batch_max in 1u32..6, length in 0u32..400,
    ) {
        let parallelism = Parallelism::from(NonZeroU32::new(at_once));
        let machine = Machine { whole, ..machine(Latency::Table(table.clone()), parallelism, batch_max) };
        let length_ms = f64::from(length);
        let each: Vec<f64> = match (parallelism, whole) {
            (Parallelism::PerCore, true) => vec![1.0],
            (Parallelism::PerCore, false) => (1..=100).map(|c| f64::from(c) / 100.0).collect(),
            (Parallelism::Fixed(n), true) => {
                (1..=20).map(|c| f64::from(c) / f64::from(n.get())).collect()
            }
            (Parallelism::Fixed(_), false) => (1..=500).map(|c| f64::from(c) / 100.0).collect(),
        };
        let mut least = f64::INFINITY;
        for batch in 1..=batch_max {
            for cores in &each {
                let ms = table.ms(batch, *cores);
                if ms <= length_ms {
                    least = least.min(cores * ms / f64::from(batch));
                }
            }
        }
        let bound = Options::of(&table, &machine).core_ms(length_ms).unwrap_or(f64::INFINITY);
        prop_assert!(bound <= least * (1.0 + 1e-9), "{} above {}", bound, least);
        if whole {
            prop_assert!(bound >= least * (1.0 - 1e-9), "{} far below {}", bound, least);
        }
    }

    #[test]
    fn no_schedule_of_measured_batches_costs_less_than_the_lower_bound(
        windows in windows(5), schedule in prop::collection::vec(0u32..4, 8), times in times(),
        whole: bool, hop in 0u32..3,
    ) {
        let unit_ms = UNIT.as_secs_f64() * 1e3;
        let cell = |(index, time): (usize, &u64)| Cell {
            batch: index as u32 + 1, cores: 1.0, latency_ms: *time as f64 * unit_ms,
        };
        let table = Table::new(times.iter().enumerate().map(cell).collect()).unwrap();
        let batch_max = times.len() as u32;
        let machine = Machine {
            hop: UNIT * hop, whole,
            ..machine(Latency::Table(table), Parallelism::PerCore, batch_max)
        };
        let time = |requests: u32| UNIT * times[requests as usize - 1] as u32;
        let steps = (0..8).map(|i| Step::new(UNIT * 2 * i as u32, schedule[i], batch_max, time));
        let mut steps: Vec<Step> = steps.collect();
        steps.push(Step::new(UNIT * 16, 0, batch_max, time));
        let all_times = vec![vec![times.clone(); steps.len()]];
        let servers = far(servers(vec![(80.0, steps)]), &[hop]);
        let mut brute_force = BruteForce::new(&windows, &servers, true);
        brute_force.times = all_times;
        let best = brute_force.most_on_time();
        let paid = UNIT.as_secs_f64() * f64::from(2 * schedule.iter().sum::<u32>());
        let bound = min(&windows, best, &[machine], UNIT * 16).expect("it was done");
        prop_assert!(bound <= paid, "{} above {}", bound, paid);
    }
}

#[test]
fn least_core_seconds_of_other_models_match_hand_computed_values() {
    let machine = machine(LatencyModel::default(), Parallelism::PerCore, 2);
    let requests: Vec<Window> = (0..10).map(|i| window((100 * i, 9, 0.0))).collect();
    let check = |machine: &Machine, expected: f64| {
        let got = min(&requests, 10, std::slice::from_ref(machine), END).unwrap();
        assert!(
            (got - expected).abs() < 1e-6 && got <= expected,
            "{got}, not {expected}"
        );
    };
    // A linear model of the same times costs the same, and so does a table of them.
    let linear = Latency::Linear(Linear {
        item_ms: 30.0,
        fixed_ms: 20.0,
    });
    let cell = |(batch, cores, latency_ms)| Cell {
        batch,
        cores,
        latency_ms,
    };
    let cells = [(1, 1.0, 50.0), (2, 1.0, 80.0)].map(cell);
    let table = Latency::Table(Table::new(cells.to_vec()).unwrap());
    for latency in [linear, table] {
        let same = Machine {
            latency,
            batch_max: 2,
            ..machine.clone()
        };
        check(&same, 0.4);
    }
    // A pair that is slower for each request than two singles.
    let cells = [(1, 1.0, 50.0), (2, 1.0, 110.0)].map(cell);
    let slower = Machine {
        latency: Latency::Table(Table::new(cells.to_vec()).unwrap()),
        batch_max: 2,
        ..machine.clone()
    };
    check(&slower, 0.5);
}
