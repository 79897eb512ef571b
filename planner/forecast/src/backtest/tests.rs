//! The six shapes of load: the automatic choice is as good as the best single forecaster, and quantiles cover what
//! they should.

use weir_sim::load::{Pulse, Rates};

use super::*;
use crate::gap::Gaps;
use crate::model::Settings;

const HOURS: usize = 14;
const SECONDS: usize = HOURS * 3600;

/// Requests in each second of Poisson arrivals at these rates.
fn arrivals(rates: &Rates, seed: u64) -> Vec<f64> {
    let mut counts = vec![0.0; rates.rps().len()];
    for at in rates.arrivals(seed).unwrap() {
        counts[at.as_secs() as usize] += 1.0;
    }
    counts
}

/// Level that changes at random every two minutes, between a third and three times.
fn fluctuating(seed: u64) -> Rates {
    let pulse = Pulse {
        low_rps: 0.0,
        high_rps: 1.0,
        high_s: 40,
        low_s: 100,
    };
    let parts: Vec<_> = (0..3)
        .map(|part| Rates::bursts(pulse, seed + part, SECONDS).unwrap())
        .collect();
    let sum = |at: usize| -> f64 { parts.iter().map(|part| part.rps()[at]).sum() };
    Rates::new((0..SECONDS).map(|at| 15.0 + 15.0 * sum(at)).collect()).unwrap()
}

fn shape(name: &str, seed: u64) -> Trace {
    let burst = Pulse {
        low_rps: 15.0,
        high_rps: 60.0,
        high_s: 30,
        low_s: 240,
    };
    let ramp = |at: usize| {
        let phase = (at % 3600) as f64 / 3600.0;
        10.0 + 60.0 * (1.0 - (2.0 * phase - 1.0).abs())
    };
    let rates = match name {
        "bursty" => Rates::bursts(burst, seed, SECONDS),
        "steady low" => Rates::constant(2.0, SECONDS),
        "steady high" => Rates::constant(90.0, SECONDS),
        "fluctuating" => Ok(fluctuating(seed)),
        "ramps" => Rates::new((0..SECONDS).map(ramp).collect()),
        _ => Rates::diurnal(8.0, 60.0, 5 * 3600, SECONDS),
    };
    Trace::new(arrivals(&rates.unwrap(), seed), Gaps::Zero, 1).unwrap()
}

fn report(trace: &Trace, task: Task, train_seconds: usize) -> Report {
    let mut ensemble = Ensemble::new(&Kind::UNTRAINED, task, Settings::default());
    let extent = Extent {
        task,
        train_seconds,
        origin: 0,
    };
    run(trace, &extent, &mut ensemble, || Duration::ZERO, |_| ())
}

fn check(name: &str) {
    let task = Task::new(20, 0.95).unwrap();
    let report = report(&shape(name, 11), task, 4 * 3600);
    let (automatic, single) = report.scores.split_last().unwrap();
    assert_eq!(automatic.kind, None);
    let best = single
        .iter()
        .map(|score| score.pinball_rps)
        .fold(f64::MAX, f64::min);
    let by = automatic.pinball_rps / best - 1.0;
    assert!(
        by <= 0.02,
        "{name}: {:.2} % above the best: {report:#?}",
        by * 100.0
    );
    assert!(report.changes <= 3, "{name}: {} changes", report.changes);
    for score in &report.scores {
        assert_eq!(score.forecasts, (HOURS - 4) * 180, "{name}: {score:?}");
        // 1 point, and twice the deviation of a part of 1,800 peaks.
        let off = (score.covered_percent - 95.0).abs();
        assert!(off <= 1.0 + 1.03, "{name}: {score:?}");
    }
}

#[test]
fn choice_is_as_good_as_the_best_on_a_bursty_load() {
    check("bursty");
}

#[test]
fn choice_is_as_good_as_the_best_on_a_steady_low_load() {
    check("steady low");
}

#[test]
fn choice_is_as_good_as_the_best_on_a_steady_high_load() {
    check("steady high");
}

#[test]
fn choice_is_as_good_as_the_best_on_a_fluctuating_load() {
    check("fluctuating");
}

#[test]
fn choice_is_as_good_as_the_best_on_ramps() {
    check("ramps");
}

#[test]
fn choice_is_as_good_as_the_best_on_a_diurnal_load() {
    check("diurnal");
}

#[test]
fn forecasts_next_to_gaps_are_not_scored_and_nothing_ahead_is_known() {
    let mut rates = vec![50.0; 3000];
    rates[2000..2100].fill(0.0);
    let trace = Trace::new(rates, Gaps::Skip, 1).unwrap();
    let task = Task::new(20, 0.9).unwrap();
    let scored = report(&trace, task, 1000);
    let at: Vec<usize> = scored.moments.iter().map(|moment| moment.at + 1).collect();
    let expected = (1000..=1980).step_by(20).chain((2220..=2980).step_by(20));
    assert_eq!(at, expected.collect::<Vec<_>>());
    assert!(scored.scores.iter().all(|score| score.smape_percent < 1e-6));

    let until = trace.first(2500);
    let before = |report: &Report| {
        let moments = report.moments.iter();
        moments
            .filter(|one| one.at < 2400)
            .copied()
            .collect::<Vec<_>>()
    };
    assert_eq!(before(&scored), before(&report(&until, task, 1000)));
}
