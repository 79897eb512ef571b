//! A load that rises at the same time of each season: cores are there before it.

use super::*;
use crate::spec::tests::small;
use crate::state::Past;

const SAMPLE: Duration = Duration::from_millis(250);
const SEASONS: u32 = 5;

/// Requests/s that the cores of a planner with these keys of `demand` sustain at the seconds 20 and 40 of each minute,
/// under a load that trebles from second 40 to 50.
async fn capacities(demand: &str) -> Vec<[f64; 2]> {
    let keys = format!("mode: active\ndemand: {{bursts: 0s, {demand}}}");
    let text = small().replacen("mode: active", &keys, 1);
    let mut bed = Bed::new(Service::from_yaml(&text).unwrap(), &[2, 2]);
    let mut found = Vec::new();
    for sample in 0..SEASONS * 240 {
        // What arrived until the sample.
        let second = sample.saturating_sub(1) / 4 % 60;
        let rate = if (40..50).contains(&second) {
            60.0
        } else {
            20.0
        };
        bed.tick(SAMPLE * sample, rate / 4.0).await;
        if [80, 160].contains(&(sample % 240)) {
            let real = bed.sim.real.lock().unwrap();
            let of = |slope: f64, cores: Cores| (slope * cores.as_f64() - 2.0).max(0.0);
            found.push(of(20.0, real[0]) + of(10.0, real[1]));
        }
    }
    found.chunks(2).map(|pair| [pair[0], pair[1]]).collect()
}

#[tokio::test]
async fn cores_are_raised_before_the_rise_from_the_second_season_on() {
    for demand in [
        "forecaster: seasonal, season: 1m",
        "forecaster: seasonal, season: 2m",
    ] {
        let learned = if demand.contains("2m") { 2 } else { 1 };
        for (season, [quiet, before]) in capacities(demand).await.into_iter().enumerate() {
            let is_ready = before >= 60.0;
            let known = season == 0 || season >= learned;
            let expected = season >= learned;
            assert!(
                !known || is_ready == expected,
                "{demand}, {season}: {before}"
            );
            // They are not kept for the whole season.
            assert!(
                season <= learned || quiet < 60.0,
                "{demand}, {season}: {quiet}"
            );
        }
    }
    for [quiet, before] in capacities("forecaster: reactive").await {
        assert!(quiet < 60.0 && before < 60.0, "{quiet} {before}");
    }
}

/// Requests/s that cores are for before the rise of the first season that a planner sees which starts `gap` samples after
/// the end of another one, within a season; with what that one knew, or not.
async fn capacity_after_restart(gap: u32, keeps: [bool; 2]) -> f64 {
    const END: u32 = 4 * 240 + 50;
    let keys = "mode: active\ndemand: {bursts: 0s, forecaster: seasonal, season: 1m}";
    let text = small().replacen("mode: active", keys, 1);
    let bed = || Bed::new(Service::from_yaml(&text).unwrap(), &[2, 2]);
    let arrivals = |sample: u32| {
        let second = sample.saturating_sub(1) / 4 % 60;
        let rate = if (40..50).contains(&second) {
            60.0
        } else {
            20.0
        };
        rate / 4.0
    };
    let mut first = bed();
    for sample in 0..=END {
        first.tick(SAMPLE * sample, arrivals(sample)).await;
    }
    let written = now(SAMPLE * END);
    let age = SAMPLE * gap;
    let [with_history, with_learnt] = keeps;
    let history = first.planner.history(written).filter(|_| with_history);
    let learnt = first
        .planner
        .forecast_learnt(written)
        .filter(|_| with_learnt);
    let past = Past {
        history: history.map(|(history, _)| (history.clone(), age)),
        learnt: learnt.map(|(learnt, _)| (learnt, age)),
    };
    let mut anew = bed();
    anew.planner.restore(now(Duration::ZERO), &past).unwrap();
    let begun = END + gap;
    let rise = 4 * 240 + 160;
    for sample in begun..=rise {
        anew.tick(SAMPLE * (sample - begun), arrivals(sample)).await;
    }
    let real = anew.sim.real.lock().unwrap();
    let of = |slope: f64, cores: Cores| (slope * cores.as_f64() - 2.0).max(0.0);
    of(20.0, real[0]) + of(10.0, real[1])
}

#[tokio::test]
async fn season_is_known_after_a_restart() {
    for gap in [4, 47, 61] {
        assert!(
            capacity_after_restart(gap, [true, true]).await >= 60.0,
            "{gap}"
        );
        assert!(
            capacity_after_restart(gap, [false, true]).await >= 60.0,
            "{gap}"
        );
        assert!(
            capacity_after_restart(gap, [false, false]).await < 60.0,
            "{gap}"
        );
    }
}
