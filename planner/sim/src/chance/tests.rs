//! Distributions of the drawn numbers, and their exact bits for fixed seeds.

use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;

const DRAWS: usize = 200_000;

fn seeded(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn draw(mut one: impl FnMut(&mut ChaCha8Rng) -> f64) -> Vec<f64> {
    let mut rng = seeded(1);
    (0..DRAWS).map(|_| one(&mut rng)).collect()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

/// Checks that the share of `values` up to `limit` is `expected`, within 4.5 deviations of a count.
fn check_share(values: &[f64], limit: f64, expected: f64) {
    let count = values.iter().filter(|value| **value <= limit).count() as f64;
    let draws = values.len() as f64;
    let deviation = (draws * expected * (1.0 - expected)).sqrt();
    assert!(
        (count - draws * expected).abs() < 4.5 * deviation,
        "up to {limit}: {} of {expected}",
        count / draws
    );
}

#[test]
fn standard_normal_follows_the_normal_distribution() {
    let drawn = draw(standard_normal);
    // Φ from tables.
    for (limit, share) in [
        (0.5, 0.691_462),
        (1.0, 0.841_345),
        (1.644_854, 0.95),
        (2.326_348, 0.99),
        (3.090_232, 0.999),
    ] {
        check_share(&drawn, limit, share);
        check_share(&drawn, -limit, 1.0 - share);
    }
    check_share(&drawn, 0.0, 0.5);
    let (one, two) = (drawn.iter(), drawn.iter().skip(1));
    let beside = mean(one.zip(two).map(|(a, b)| a * b));
    assert!(beside.abs() < 0.01, "each by itself: {beside}");
}

#[test]
fn exponential_follows_the_exponential_distribution() {
    let drawn = draw(exponential);
    assert!(drawn.iter().all(|value| *value >= 0.0));
    for (limit, more) in [
        (0.01, 0.990_050),
        (0.1, 0.904_837),
        (1.0, 0.367_879),
        (3.0, 0.049_787),
        (6.0, 0.002_479),
    ] {
        check_share(&drawn, limit, 1.0 - more);
    }
}

#[test]
fn factor_has_mean_one_and_the_tail_of_its_sigma() {
    for sigma in [0.0, 0.1, 0.5, 1.0] {
        let factor = Factor::new(sigma).unwrap();
        let drawn = draw(|rng| factor.sample(rng));
        let mean = mean(drawn.iter().copied());
        assert!((mean - 1.0).abs() < 0.015, "σ {sigma}: mean {mean}");
        if sigma > 0.0 {
            let median = libm::exp(-sigma * sigma / 2.0);
            check_share(&drawn, median, 0.5);
            check_share(&drawn, median * libm::exp(2.326_348 * sigma), 0.99);
        }
    }
    for wrong in [-0.1, f64::NAN, f64::INFINITY] {
        let error = Factor::new(wrong).unwrap_err().to_string();
        assert!(error.contains(&wrong.to_string()), "{error}");
    }
}

#[test]
fn poisson_event_count_has_poisson_mean_and_variance() {
    for (rate, runs) in [(0.01, 200_000), (0.5, 50_000), (7.0, 20_000), (900.0, 2000)] {
        let mut rng = seeded(2);
        let mut run = |_| poisson_events(&mut rng, rate).count() as f64;
        let counts: Vec<f64> = (0..runs).map(&mut run).collect();
        let count = f64::from(runs);
        let mean = mean(counts.iter().copied());
        let off = (mean - rate).abs() / (rate / count).sqrt();
        assert!(off < 4.5, "rate {rate}: mean {mean}");
        let variance = counts.iter().map(|n| (n - mean) * (n - mean)).sum::<f64>() / count;
        // The variance of a Poisson number's sample variance is nearly (λ + 2λ²)/n.
        let off = (variance - rate).abs() / ((rate + 2.0 * rate * rate) / count).sqrt();
        assert!(off < 4.5, "rate {rate}: variance {variance}");
        if rate < 10.0 {
            check_share(&counts, 0.0, libm::exp(-rate));
        }
    }
    let mut rng = seeded(3);
    let events: Vec<f64> = poisson_events(&mut rng, 100_000.0).collect();
    for part in [0.001, 0.25, 0.5, 0.9] {
        check_share(&events, part, part);
    }
    for rate in [0.0, -1.0, f64::NAN, 1e-300] {
        assert_eq!(poisson_events(&mut rng, rate).count(), 0, "{rate}");
    }
}

proptest! {
    #[test]
    fn events_ascend_within_the_unit(seed: u64, rate in 0.0..5000.0) {
        let mut rng = seeded(seed);
        let events: Vec<f64> = poisson_events(&mut rng, rate).collect();
        prop_assert!(events.is_sorted());
        prop_assert!(events.iter().all(|at| (0.0..1.0).contains(at)));
    }

    #[test]
    fn drawn_numbers_are_finite(seed: u64, sigma in 0.0..=1.0) {
        let mut rng = seeded(seed);
        let factor = Factor::new(sigma).unwrap();
        for _ in 0..100 {
            prop_assert!(standard_normal(&mut rng).abs() < 8.6);
            prop_assert!((0.0..37.0).contains(&exponential(&mut rng)));
            let factor = factor.sample(&mut rng);
            prop_assert!(factor.is_finite() && factor > 0.0);
        }
    }
}

/// Do not update the expected bits for a machine on which this fails: its arithmetic differs.
#[test]
fn seed_gives_the_same_bits_on_every_machine() {
    let mut rng = seeded(4);
    let factor = Factor::new(0.3).unwrap();
    let mut sums = [0_u64; 3];
    for _ in 0..100_000 {
        let drawn = [
            standard_normal(&mut rng),
            exponential(&mut rng),
            factor.sample(&mut rng),
        ];
        for (sum, value) in sums.iter_mut().zip(drawn) {
            *sum = sum.rotate_left(1) ^ value.to_bits();
        }
    }
    let bits = [
        0x2c30_14b3_0b53_7fff,
        0xf85f_c8df_6bc0_9c58,
        0xb1a5_7b6a_8bc1_f3aa,
    ];
    assert_eq!(sums, bits);
}
