//! Tests of the choice: it follows what lasts, and does not flap.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn run(choice: &mut Choice, losses: impl Iterator<Item = Vec<Option<f64>>>) {
    for losses in losses {
        choice.observe(&losses);
    }
}

/// Losses with a mean of 1 and a deviation of 1.
fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    -libm::log(1.0 - rng.random::<f64>())
}

#[test]
fn lasting_advantage_of_a_few_percent_decides() {
    let mut choice = Choice::new(2, 0, 4.0);
    run(&mut choice, (0..8000).map(|_| vec![Some(1.03), Some(1.0)]));
    assert_eq!((choice.current(), choice.changes()), (1, 1));
}

#[test]
fn one_spike_and_equal_losses_change_nothing() {
    let mut choice = Choice::new(2, 0, 4.0);
    run(&mut choice, (0..8000).map(|_| vec![Some(1.0), Some(1.0)]));
    choice.observe(&[Some(50.0), Some(1.0)]);
    run(&mut choice, (0..8000).map(|_| vec![Some(1.0), Some(1.0)]));
    assert_eq!(choice.changes(), 0);
}

#[test]
fn equal_forecasters_of_random_losses_are_kept() {
    for seed in 0..20 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut choice = Choice::new(3, 0, 1.0);
        for _ in 0..20_000 {
            // As of one load, most of the loss is common.
            let common = exponential(&mut rng);
            let losses: Vec<_> = (0..3)
                .map(|_| Some(common + 0.2 * exponential(&mut rng)))
                .collect();
            choice.observe(&losses);
        }
        assert!(choice.changes() <= 10, "seed {seed}: {}", choice.changes());
    }
}

#[test]
fn forecaster_that_fails_is_left() {
    let mut choice = Choice::new(2, 0, 1.0);
    run(&mut choice, (0..20_000).map(|_| vec![Some(1.0), Some(1.5)]));
    assert_eq!(choice.current(), 0);
    run(&mut choice, (0..300).map(|_| vec![Some(10.0), Some(1.5)]));
    assert_eq!(choice.current(), 1);
}

#[test]
fn forecaster_without_forecast_is_not_chosen_and_is_left() {
    let mut choice = Choice::new(3, 0, 1.0);
    let losses = [Some(1.0), None, Some(f64::NAN)];
    run(&mut choice, (0..1000).map(|_| losses.to_vec()));
    assert_eq!(choice.changes(), 0);
    let mut none_yet = Choice::new(2, 0, 1.0);
    run(&mut none_yet, (0..20).map(|_| vec![None, Some(1.0)]));
    assert_eq!(none_yet.current(), 1);
    Choice::new(0, 0, 1.0).observe(&[]);
}

proptest! {
    #[test]
    fn changes_have_their_minimum_distance_whatever_the_losses(
        losses in prop::collection::vec(prop::collection::vec(0.0..10.0_f64, 4), 1..3000),
        per_horizon in 1.0..6.0_f64,
    ) {
        let mut choice = Choice::new(4, 0, per_horizon);
        let mut last = 0;
        for (at, losses) in losses.iter().enumerate() {
            let before = choice.current();
            let given: Vec<_> = losses.iter().copied().map(Some).collect();
            choice.observe(&given);
            if choice.current() != before {
                prop_assert!((at + 1 - last) as f64 / per_horizon >= HORIZONS_MIN - 1e-6);
                last = at + 1;
            }
        }
    }

    /// Two that take turns at being better keep the choice where it is, unless they do so for very long.
    #[test]
    fn alternating_advantage_does_not_flap(period in 1_usize..30, factor in 1.0..3.0_f64) {
        let mut choice = Choice::new(2, 0, 1.0);
        for at in 0..20_000 {
            let first_is_better = at / period % 2 == 0;
            let losses = if first_is_better { [1.0, factor] } else { [factor, 1.0] };
            choice.observe(&losses.map(Some));
        }
        prop_assert!(choice.changes() <= 30, "{}", choice.changes());
    }
}
