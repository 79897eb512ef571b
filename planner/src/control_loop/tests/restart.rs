//! A planner that starts anew with the history of the one before it.

use super::*;
use crate::forecast::Forecast;
use crate::state::{Past, StateFile};

const SAMPLE: Duration = Duration::from_millis(250);

/// Arrivals of a sample: bursts of 5 s every 40 s, with noise that repeats.
fn arrivals(sample: u32) -> f64 {
    let noise = f64::from(sample * 7 % 5);
    let burst = if sample % 160 < 20 { 25.0 } else { 0.0 };
    10.0 + noise + burst
}

fn bed() -> Bed {
    let service = service(8);
    let demand = service.demand.clone();
    let mut bed = Bed::new(service, &[2, 2]);
    // The window of the service, and not a short one.
    let mut service = Service::clone(&bed.planner.service);
    service.demand = demand;
    bed.planner = Planner::new(Arc::new(service));
    bed
}

/// Ticks a planner whose own clock began at sample `begun`. Returns the forecast after each.
async fn run(bed: &mut Bed, samples: std::ops::Range<u32>, begun: u32) -> Vec<Option<Forecast>> {
    let mut forecasts = Vec::new();
    for sample in samples {
        bed.tick(SAMPLE * (sample - begun), arrivals(sample)).await;
        let inputs = bed.planner.observations.demand.forecast();
        forecasts.push(inputs);
    }
    forecasts
}

/// The history of a planner at a sample of its clock, by way of a file, for one that starts `gap` samples later.
fn past(planner: &Planner, sample: u32, gap: u32) -> Past {
    let folder = tempfile::tempdir().unwrap();
    let file = StateFile::new(folder.path(), "demo");
    let written = now(SAMPLE * sample);
    let (history, age) = planner.history(written).unwrap();
    assert_eq!(age, Duration::ZERO);
    file.write(&file.text(history, age, written).unwrap())
        .unwrap();
    if let Some((learnt, age)) = planner.forecast_learnt(written) {
        file.write_learnt(&file.learnt_text(learnt, age, written).unwrap())
            .unwrap();
    }
    let begun = now(SAMPLE * (sample + gap));
    Past {
        history: file.read(begun).unwrap(),
        learnt: file.read_learnt(begun).unwrap(),
    }
}

/// Restarts a planner `gap` samples after its last one, and compares its forecasts with those of one that went on.
async fn restarted(gap: u32, with_history: bool) -> Vec<(Option<Forecast>, Forecast)> {
    // After the third burst: what was learned of them counts.
    const END: u32 = 350;
    let mut on = bed();
    run(&mut on, 0..END + 1, 0).await;
    let past = past(&on.planner, END, gap);
    let begun = END + gap;
    let mut anew = bed();
    *anew.sim.arrived.lock().unwrap() = *on.sim.arrived.lock().unwrap();
    if with_history {
        anew.planner.restore(now(Duration::ZERO), &past).unwrap();
        let forecasts = [&on, &anew].map(|bed| bed.planner.observations.demand.forecast());
        assert_eq!(forecasts[0], forecasts[1], "as it was left");
    }
    // Requests that nobody counted in time.
    for sample in END + 1..begun {
        *anew.sim.arrived.lock().unwrap() += arrivals(sample);
    }
    run(&mut on, END + 1..begun, 0).await;
    let on = run(&mut on, begun..begun + 160, 0).await;
    let anew = run(&mut anew, begun..begun + 160, begun).await;
    anew.into_iter().zip(on.into_iter().flatten()).collect()
}

#[tokio::test]
async fn restarted_planner_forecasts_as_the_one_before_it() {
    for gap in [1, 4, 20] {
        for (sample, (anew, on)) in restarted(gap, true).await.into_iter().enumerate() {
            let anew = anew.unwrap();
            assert!(anew.window_full, "{gap} {sample}");
            let ratio = anew.demand.0 / on.demand.0;
            assert!(
                (0.9..1.1).contains(&ratio),
                "{gap} {sample}: {anew:?}, {on:?}"
            );
            // The gap is no time without load.
            assert!(anew.present.0 > 40.0, "{gap} {sample}: {anew:?}");
        }
    }
}

#[tokio::test]
async fn planner_without_history_knows_no_bursts() {
    let forecasts = restarted(4, false).await;
    assert_eq!(forecasts[0].0, None);
    // Before the next burst.
    let (anew, on) = forecasts[100];
    assert!(
        anew.unwrap().demand.0 < 0.7 * on.demand.0,
        "{anew:?}, {on:?}"
    );
}

#[tokio::test]
async fn window_fills_anew_after_a_long_gap() {
    // The window has 10 s.
    let forecasts = restarted(44, true).await;
    let full: Vec<bool> = forecasts
        .iter()
        .map(|(anew, _)| anew.is_some_and(|one| one.window_full))
        .collect();
    assert_eq!(full.iter().position(|full| *full), Some(41));
    let (anew, on) = forecasts.last().unwrap();
    let ratio = anew.unwrap().demand.0 / on.demand.0;
    assert!(
        (0.9..1.1).contains(&ratio),
        "bursts are remembered: {anew:?}, {on:?}"
    );
}
