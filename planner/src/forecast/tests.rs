//! Arrival rates and the demand planned for.

use super::*;

pub(super) fn demand(headroom: f64) -> Demand {
    Demand::new(rule(headroom, Forecasting::Reactive))
}

pub(super) fn rule(headroom: f64, forecasting: Forecasting) -> DemandRule {
    let seconds = Duration::from_secs;
    let task = weir_forecast::task::Task::new(20, 0.95).unwrap();
    DemandRule {
        ahead: AheadRule::new(forecasting, task, None, None),
        smoothing: seconds(5),
        window: seconds(10),
        moving: seconds(3),
        headroom,
        bursts: seconds(300),
    }
}

/// Rates, one a second from second 0, and the demand after the last.
fn check(headroom: f64, rates: &[f64], expected: f64) {
    let mut demand = demand(headroom);
    for (second, rate) in rates.iter().enumerate() {
        demand.observe(Duration::from_secs(second as u64), Rps(*rate));
    }
    let got = demand.forecast().unwrap().demand.0;
    assert!(
        (got - expected).abs() < 1e-6,
        "{rates:?}: {got}, not {expected}"
    );
}

#[test]
fn demand_follows_the_history_of_rates() {
    assert_eq!(demand(1.1).forecast(), None);
    check(1.1, &[0.0], 0.0);
    check(1.1, &[40.0; 20], 44.0);
    // One noisy second counts for a third.
    check(
        1.0,
        &[[40.0; 20].as_slice(), &[55.0], &[40.0; 3]].concat(),
        45.0,
    );
    // A steep rise counts at once, up to its certain part; then as fast as the moving mean.
    check(1.0, &[[40.0; 20].as_slice(), &[100.0]].concat(), 80.0);
    check(1.0, &[[40.0; 20].as_slice(), &[100.0; 3]].concat(), 100.0);
    // The highest mean holds for a window after the fall, and then the remainder of the average.
    let fallen = 100.0 * libm::exp(-13.0 / 5.0);
    check(1.0, &[[100.0; 20].as_slice(), &[0.0; 9]].concat(), 100.0);
    check(1.0, &[[100.0; 60].as_slice(), &[0.0; 13]].concat(), fallen);
}

/// Samples a quarter of a second apart: 40 requests/s for 20 s, and then these counts → the demand.
fn check_samples(counts: &[f64], expected: f64) {
    let mut demand = demand(1.0);
    let steady = std::iter::repeat_n(&10.0, 80);
    for (sample, count) in steady.chain(counts).enumerate() {
        demand.observe(Duration::from_millis(250 * sample as u64), Rps(count * 4.0));
    }
    let got = demand.forecast().unwrap().demand.0;
    assert!(
        (got - expected).abs() < 1e-6,
        "{counts:?}: {got}, not {expected}"
    );
}

#[test]
fn mean_is_that_of_three_windows_until_more_is_to_come() {
    let mut demand = demand(1.1);
    let mut at = Duration::ZERO;
    let mut mean = |ms: u64, rates: &[f64]| {
        for rate in rates {
            at += Duration::from_millis(ms);
            demand.observe(at, Rps(*rate));
        }
        demand.forecast().unwrap().mean.0
    };
    assert_eq!(mean(1000, &[40.0; 20]), 40.0);
    // The highest mean of three seconds is 45.
    let high = 815.0 / 20.0;
    assert_eq!(mean(1000, &[55.0]), high);
    // A fall by chance is none.
    assert!((mean(1000, &[35.0]) - high).abs() < 1e-9);
    assert!((mean(1000, &[20.0; 30]) - 20.0).abs() < 1e-9);
    // The windows do not show a steep rise yet, and what was before it is not of the load after it.
    assert!((mean(250, &[400.0; 2]) - 400.0).abs() < 1e-9);
    assert!(mean(1000, &[400.0; 4]) >= 400.0);
}

#[test]
fn rise_counts_after_two_certain_samples() {
    check_samples(&[], 40.0);
    // One sample may be a burst, or lie half before and half after the rise.
    let certain_of = |requests: f64| requests - 2.0 * requests.sqrt();
    check_samples(&[40.0], certain_of(70.0));
    check_samples(&[25.0, 40.0], certain_of(85.0));
    check_samples(&[25.0, 40.0, 40.0], 160.0);
    // Each further one makes the mean more certain.
    check_samples(&[25.0, 40.0, 38.0, 42.0], 160.0);
    check_samples(&[25.0, 44.0, 40.0, 36.0, 40.0], 160.0);
    check_samples(&[25.0, 40.0, 38.0, 9.0], 4.0 * 87.0 / 3.0);
    // A certain excess over that is another rise.
    check_samples(&[25.0, 40.0, 40.0, 80.0, 80.0], 320.0);
    // The first sample above it may lie entirely after the rise.
    check_samples(&[40.0, 40.0], 160.0);
    check_samples(&[36.0, 40.0], 152.0);
    // A small rise counts once it is certain, or by the moving mean.
    check_samples(&[12.0, 16.0, 15.0], 40.0 + 13.0 / 3.0);
    check_samples(&[15.0, 16.0, 16.0, 16.0, 16.0], 40.0 + 29.0 / 3.0);
    check_samples(&[20.0, 20.0], 40.0 + 20.0 / 3.0);
    check_samples(&[24.0, 24.0], 96.0);
    // A rise not confirmed by each sample does not count either.
    check_samples(&[25.0, 35.0, 10.0], certain_of(80.0));
}

#[test]
fn forecast_window_is_full_after_its_length() {
    let mut demand = demand(1.0);
    for second in 100..120 {
        demand.observe(Duration::from_secs(second), Rps(40.0));
        assert_eq!(
            demand.forecast().unwrap().window_full,
            second >= 110,
            "{second}"
        );
    }
}

#[test]
fn lasting_load_is_the_minimum_over_the_window() {
    let mut demand = demand(1.1);
    let rate = |second| if second < 130 { 40.0 } else { 80.0 };
    for second in 100..150 {
        demand.observe(Duration::from_secs(second), Rps(rate(second)));
        let lasted = demand.forecast().unwrap().lasted;
        let expected = match second {
            ..110 => None,
            // The last interval of 40 is in the mean until 132, and in the window until 139.
            110..139 => Some(Rps(1.1 * 40.0)),
            _ => lasted.filter(|lasted| lasted.0 > 1.1 * 40.0),
        };
        assert_eq!(lasted, expected, "{second}");
        assert!(
            second < 142 || lasted == Some(Rps(1.1 * 80.0)),
            "{second}: {lasted:?}"
        );
    }
}

#[test]
fn burst_that_comes_again_has_lasted_once_it_was_expected_for_the_window() {
    let mut demand = demand(1.0);
    let mut lasted = Vec::new();
    for second in 0..100 {
        // 60 s apart, for 5 s.
        let rate = if second % 60 >= 20 && second % 60 < 25 {
            120.0
        } else {
            20.0
        };
        demand.observe(Duration::from_secs(second), Rps(rate));
        demand.foresee(Duration::from_secs(2));
        let forecast = demand.forecast().unwrap();
        lasted.push(forecast.lasted);
        assert!(forecast.demand <= Rps(120.0), "{second}: {forecast:?}");
    }
    // The second burst begins at 80 s.
    let expected = [(75, 20.0), (85, 20.0), (95, 120.0)];
    for (second, rate) in expected {
        assert_eq!(lasted[second], Some(Rps(rate)), "{second}");
    }
}

#[test]
fn irregular_intervals_are_weighted_by_length() {
    let mut demand = demand(1.0);
    for (at_ms, rate) in [(0, 40.0), (1000, 40.0), (1100, 400.0), (3000, 40.0)] {
        demand.observe(Duration::from_millis(at_ms), Rps(rate));
    }
    // The highest mean is (40 + 40) / 1.1 s, the tenth of a second at 400 included.
    assert!((demand.forecast().unwrap().demand.0 - 80.0 / 1.1).abs() < 1e-9);
    // Without further observations the demand holds.
    assert!((demand.forecast().unwrap().demand.0 - 80.0 / 1.1).abs() < 1e-9);
}

#[test]
fn memory_is_bounded() {
    let mut demand = demand(1.0);
    for tick in 0..SAMPLES_MAX as u64 + 100 {
        demand.observe(Duration::from_micros(tick), Rps(1.0));
    }
    assert_eq!(demand.samples.len(), SAMPLES_MAX);
}

#[test]
fn predicted_rise_is_expected_until_its_horizon() {
    let mut demand = demand(1.0);
    let horizon = Duration::from_secs(2);
    let sample = |demand: &mut Demand, sample: u64, rate: f64| {
        demand.observe(Duration::from_millis(250 * sample), Rps(rate));
        demand.foresee(horizon);
        demand.forecast().unwrap()
    };
    for flat in 0..80 {
        assert_eq!(sample(&mut demand, flat, 100.0).demand, Rps(100.0));
    }
    // 40 requests/s more each second for three seconds, then constant.
    let mut max = 0.0_f64;
    for rising in 1..=12 {
        let forecast = sample(&mut demand, 80 + rising, 100.0 + 10.0 * rising as f64);
        assert!(
            forecast.present.0 <= 240.0,
            "shares go by what arrives: {forecast:?}"
        );
        max = max.max(forecast.demand.0);
    }
    assert!((300.0..450.0).contains(&max), "{max}");
    let first = sample(&mut demand, 93, 220.0);
    assert!(first.demand.0 >= max * 0.99, "{first:?}, {max} before");
    for after in 94..110 {
        sample(&mut demand, after, 220.0);
    }
    let later = sample(&mut demand, 110, 220.0);
    assert!(later.demand.0 < 260.0, "{later:?}");
    assert!((later.arriving.0 - 220.0).abs() < 10.0, "{later:?}");
}

#[test]
fn forecast_of_the_peak_only_raises_the_demand_for_cores() {
    for forecasting in [
        Forecasting::Auto,
        Forecasting::Last,
        Forecasting::Maximum,
        Forecasting::Smoothing,
        Forecasting::Linear,
    ] {
        let mut ahead = Demand::new(rule(1.1, forecasting));
        let mut reactive = demand(1.1);
        let mut raised = 0;
        for second in 0..2000_u64 {
            // Every tenth second is twice as busy, which a mean over three seconds does not show.
            let rate = Rps(if second % 10 == 0 { 80.0 } else { 40.0 });
            for one in [&mut ahead, &mut reactive] {
                one.observe(Duration::from_secs(second), rate);
                one.foresee(Duration::from_secs(4));
            }
            let (ahead, reactive) = (ahead.forecast().unwrap(), reactive.forecast().unwrap());
            assert!(
                ahead.demand >= reactive.demand,
                "{forecasting:?}: {ahead:?}"
            );
            raised += usize::from(second >= 1000 && ahead.demand > reactive.demand);
            let demand = reactive.demand;
            assert_eq!(Forecast { demand, ..ahead }, reactive);
        }
        assert!(raised > 900, "{forecasting:?}: {raised}");
    }
}
