//! Tests of the bound on an objective: against all assignments of a few requests, and by hand.

use super::super::objective::{Pool, Weights, max};
use super::*;

/// Variant of an accuracy whose request takes that time on a core.
fn variant(accuracy: f64, ms: f64) -> Machine {
    let latency = LatencyModel {
        eta_ms: ms,
        ..LatencyModel::default()
    };
    Machine {
        accuracy,
        ..machine(latency, Parallelism::PerCore, 1)
    }
}

fn pool<'a>(stages: &'a [&'a [Machine]], budget: f64, end_s: u64) -> Pool<'a> {
    Pool {
        stages,
        budget,
        end: Duration::from_secs(end_s),
    }
}

fn check(got: Option<f64>, expected: f64) {
    let got = got.unwrap();
    assert!((got - expected).abs() < 1e-3, "{got}, not {expected}");
    assert!(got >= expected, "{got} below {expected}");
}

#[test]
fn best_objective_matches_hand_computed_values() {
    let variants = [variant(70.0, 10.0), variant(80.0, 30.0)];
    let stages: [&[Machine]; 1] = [&variants];
    // 100 requests in 10 s, each due within its period.
    let requests: Vec<Window> = (0..100).map(|i| window((10 * i, 4, 0.0))).collect();
    let best = |on_time, budget, accuracy, core| {
        let weights = Weights { accuracy, core };
        max(&requests, on_time, pool(&stages, budget, 10), weights)
    };
    // A tenth of a core with one variant, three with the other.
    check(best(100, 9.0, 1.0, 0.0), 80.0);
    check(best(100, 9.0, 1.0, 10.0), 80.0 - 3.0);
    check(best(100, 9.0, 1.0, 60.0), 70.0 - 6.0);
    // A fifth of a core carries half of the requests with the accurate variant.
    check(best(100, 0.2, 1.0, 0.0), 75.0);
    check(best(100, 0.2, 1.0, 10.0), 75.0 - 2.0);
    // Ten requests that are not on time may be answered late.
    check(best(90, 9.0, 1.0, 60.0), 71.0 - 5.4);
    assert_eq!(best(101, 9.0, 1.0, 1.0), None);
}

#[test]
fn accuracy_of_a_pipeline_is_the_product() {
    let first = [variant(50.0, 10.0), variant(60.0, 30.0)];
    let second = [variant(80.0, 20.0), variant(90.0, 100.0)];
    let stages: [&[Machine]; 2] = [&first, &second];
    let requests = [window((0, 50, 0.0)), window((10, 50, 0.0))];
    let best = |core| {
        let weights = Weights {
            accuracy: 1.0,
            core,
        };
        max(&requests, 2, pool(&stages, 9.0, 1), weights)
    };
    check(best(0.0), 54.0);
    // 60 ms a request are 0.1 cores; the second stage's accurate variant needs another 160 ms for 6 points.
    check(best(10.0), 54.0 - 10.0 * 0.26);
    check(best(60.0), 48.0 - 60.0 * 0.1);
}

#[test]
fn minimum_accuracy_leaves_out_variants() {
    let variants = [variant(70.0, 100.0), variant(80.0, 300.0)];
    let stages: [&[Machine]; 1] = [&variants];
    let weights = Weights {
        accuracy: 1.0,
        core: 100.0,
    };
    let best = |accuracy| {
        max(
            &[window((0, 50, accuracy))],
            1,
            pool(&stages, 9.0, 1),
            weights,
        )
    };
    check(best(0.0), 70.0 - 10.0);
    check(best(75.0), 80.0 - 30.0);
    assert_eq!(best(90.0), None);
}

#[test]
fn initial_cores_stay_for_the_resize_delay() {
    let delayed = Machine {
        cores: 4.0,
        resize_delay: Duration::from_secs(2),
        ..variant(80.0, 100.0)
    };
    let stages: [&[Machine]; 1] = [&[delayed]];
    let weights = Weights {
        accuracy: 1.0,
        core: 1.0,
    };
    let requests = [window((0, 50, 0.0)), window((300, 50, 0.0))];
    check(
        max(&requests, 2, pool(&stages, 9.0, 10), weights),
        80.0 - 0.8 - 0.01,
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Every assignment of variants, some requests late, whose work is within the budget of each second in which it is
    /// executed: at the release, all at once.
    #[test]
    fn no_assignment_is_better_than_the_bound(
        releases in prop::collection::vec(0u32..400, 1..7), times in [1u32..60, 1u32..60, 1u32..60],
        accuracies in [50u32..100, 50u32..100, 50u32..100], budget in 1u32..4, core in 0u32..100,
    ) {
        let each = times.iter().zip(&accuracies);
        let variants: Vec<Machine> = each
            .map(|(time, accuracy)| variant(f64::from(*accuracy), f64::from(10 * time)))
            .collect();
        let stages: [&[Machine]; 1] = [&variants];
        let requests: Vec<Window> = releases.iter().map(|at| window((*at, 60, 0.0))).collect();
        let weights = Weights { accuracy: 1.0, core: f64::from(core) };
        // The last of them is executed before the end.
        let end_s = 5;
        let count = requests.len();
        let best = f64::from(*accuracies.iter().max().unwrap());
        let mut bounds = vec![f64::NEG_INFINITY; count + 1];
        for (on_time, bound) in bounds.iter_mut().enumerate() {
            *bound = max(&requests, on_time as u64, pool(&stages, f64::from(budget), end_s), weights).unwrap();
        }
        for code in 0..4u32.pow(count as u32) {
            let choice = |index: usize| (code / 4u32.pow(index as u32) % 4) as usize;
            let (mut on_time, mut accuracy, mut work) = (0, 0.0, 0.0);
            // Work of each hundredth of a second.
            let mut busy = vec![0u32; 100 * (end_s as usize + 1)];
            for index in 0..count {
                let Some(time) = times.get(choice(index)) else {
                    accuracy += best;
                    continue;
                };
                on_time += 1;
                accuracy += f64::from(accuracies[choice(index)]);
                work += f64::from(*time) / 100.0;
                let from = releases[index] as usize;
                for slot in &mut busy[from..from + *time as usize] {
                    *slot += 1;
                }
            }
            if busy.iter().any(|busy| *busy > budget) {
                continue;
            }
            let value = accuracy / count as f64 - weights.core * work / end_s as f64;
            prop_assert!(value <= bounds[on_time] + 1e-9, "{} above {}", value, bounds[on_time]);
        }
    }
}
