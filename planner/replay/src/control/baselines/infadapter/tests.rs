//! Worked examples of the published program, computed by hand from `reconfig.py` and `main.py`.

use super::*;
use crate::simulation::tests::two_variants;

/// Service of a (70 %, 0 s, th = 20·n − 2) and b (80 %, 10 s, 10·n − 2) with that budget.
fn service(budget: u32, beta: f64) -> Service {
    let mut service = two_variants();
    service.budget = budget;
    (service.objective.alpha, service.objective.beta) = (1.0, beta);
    service.objective.gamma = 0.001;
    service.variants[0].readiness = Duration::ZERO;
    service.variants[1].readiness = Duration::from_secs(10);
    service
}

/// `regression_model`: int(0.8 · (coef · cpu + int(min(intercept, 0.99)))).
#[test]
fn capacity_is_a_rounded_part_of_the_line() {
    let service = service(8, 0.05);
    let of = |variant: usize, steps| capacity(&service.variants[variant], steps);
    // 0.8·(20·2 − 2) = 30.4, 0.8·(10·3 − 2) = 22.4.
    assert_eq!((of(0, 0), of(0, 2), of(1, 3)), (0.0, 30.0, 22.0));
    let mut other = service.variants[0].clone();
    for (intercept, expected) in [(-1.88, 31.0), (0.04, 32.0), (5.0, 32.0)] {
        other.profile.fit.as_mut().unwrap().intercept_rps = intercept;
        assert_eq!(capacity(&other, 2), expected, "{intercept}");
    }
}

/// `reconfig_msp`: each variant with the fewest cores that carry λ, of at least 2; the best by the objective.
#[test]
fn model_switching_takes_one_variant_by_the_objective() {
    let current = [0, 4];
    let chosen = |beta, load| {
        let problem = Problem::new(&service(8, beta));
        problem.model_switching(load, &current).steps
    };
    // b needs 4 cores (30), a 2 (30): 0.8 − 0.05·4/8 = 0.775 against 0.7 − 0.05·2/8 = 0.6875.
    assert_eq!(chosen(0.05, 30.0), [0, 4]);
    // 0.8 − 0.5·4/8 = 0.55 against 0.7 − 0.5·2/8 = 0.575.
    assert_eq!(chosen(0.5, 30.0), [2, 0]);
    // b carries at most 0.8·78 = 62; a carries 63 with 5 cores.
    assert_eq!(chosen(0.05, 63.0), [5, 0]);
    // Nothing carries it: all cores for the least accurate.
    assert_eq!(chosen(0.05, 1000.0), [8, 0]);
}

/// `run_optimizer`: all combinations in arithmetic of this test, with rl ≥ 0 for every variant.
#[test]
fn infadapter_finds_the_best_combination_of_its_model() {
    let current = [2, 0];
    for (beta, load) in [(0.0125, 50.0), (0.05, 30.0), (0.05, 70.0), (0.2, 45.0)] {
        let service = service(10, beta);
        let capacity = |variant: usize, n| capacity(&service.variants[variant], n);
        let mut best: Option<(f64, [u32; 2])> = None;
        for a in (0..=10).filter(|n| *n != 1) {
            for b in (0..=10 - a).filter(|n| *n != 1) {
                let (on_a, on_b) = (capacity(0, a), capacity(1, b));
                if on_a + on_b < load || on_b > load {
                    continue;
                }
                let accuracy = (0.8 * on_b + 0.7 * (load - on_b)) / load;
                let loading = if b > 0 { 1.0 } else { 0.0 };
                let value = accuracy - beta * f64::from(a + b) / 10.0 - 0.001 * loading;
                if best.is_none_or(|(most, _)| value > most + 1e-12) {
                    best = Some((value, [a, b]));
                }
            }
        }
        let problem = Problem::new(&service);
        let got = problem.infadapter(load, &current);
        let (value, steps) = best.unwrap();
        assert!(
            (problem.value(&got.steps, load, &current) - value).abs() < 1e-9,
            "{beta} {load}: {got:?}, not {steps:?}"
        );
        assert!((got.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}

/// The published constraint: with λ = 20 three cores of b (22) would do, which InfAdapter's model forbids: `rl` of
/// a, λ less the capacity of b, may not be negative. MS+ may.
#[test]
fn published_model_misses_an_optimum() {
    let problem = Problem::new(&service(8, 0.0125));
    assert_eq!(problem.model_switching(20.0, &[0, 3]).steps, [0, 3]);
    let got = problem.infadapter(20.0, &[0, 3]);
    assert_eq!(got.steps, [2, 2], "b carries 14, a the rest");
    assert_eq!(got.shares, [0.3, 0.7]);
    assert_eq!(problem.infadapter(1000.0, &[0, 3]).steps, [8, 0]);
}

/// `make_decision`: pandas' `ewm(span=10).mean()` of 10 and 20 is (10·9/11 + 20)/(9/11 + 1) = 15.5.
#[test]
fn forecast_is_an_exponential_mean_and_then_the_last_minute() {
    assert_eq!(exponential_mean(&[]), None);
    assert!((exponential_mean(&[10.0, 20.0]).unwrap() - 15.5).abs() < 1e-12);
    let mut decisions = Decisions::default();
    let mut all = 0;
    let mut loads = Vec::new();
    for second in 0..=660 {
        decisions.observe(all);
        all += if second < 600 { 40 } else { 60 };
        let now = Duration::from_secs(second);
        loads.extend(decisions.due(now, 30.0).map(|load| (second, load)));
    }
    // ⌊1.1 · 40⌋; then four decisions are passed over each time, but not for a rise.
    assert_eq!(loads[..3], [(120, 44.0), (270, 44.0), (420, 44.0)]);
    assert_eq!(loads[3..], [(570, 44.0), (630, 66.0)]);
}
