//! Samples between two cycles.

use super::*;

const SAMPLE: Duration = Duration::from_millis(250);

/// Ticks a quarter of a second apart, each with the arrivals before it → those that ran a cycle.
async fn cycles(bed: &mut Bed, samples: impl IntoIterator<Item = (u32, f64)>) -> Vec<u32> {
    let mut cycles = Vec::new();
    for (sample, arrivals) in samples {
        if bed.tick(SAMPLE * sample, arrivals).await.is_some() {
            cycles.push(sample);
        }
    }
    cycles
}

#[tokio::test]
async fn steady_load_is_planned_once_per_cycle() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    let samples = (0..41).map(|sample| (sample, 5.0));
    assert_eq!(
        cycles(&mut bed, samples).await,
        [0, 1, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40]
    );
    assert_eq!(bed.tick(SAMPLE * 41, 1.0).await, None, "less is not urgent");
    // A late timer, and an early one.
    let (late, early) = (SAMPLE * 44 + SAMPLE / 3, SAMPLE * 48 - SAMPLE / 10);
    assert!(bed.tick(late, 5.0).await.is_some());
    assert!(bed.tick(early, 20.0).await.is_some());
}

#[tokio::test]
async fn rise_starts_a_cycle_at_the_sample_that_confirms_it() {
    let mut bed = Bed::new(service(8), &[1, 0]);
    cycles(&mut bed, (0..37).map(|sample| (sample, 2.0))).await;
    let cores = |bed: &Bed| bed.sim.real.lock().unwrap().iter().copied().sum::<Cores>();
    let before = cores(&bed);
    // The rise begins within a sample, three before the next cycle. Two whole samples confirm it.
    assert!(cycles(&mut bed, [(37, 6.0), (38, 12.0)]).await.is_empty());
    let report = bed.tick(SAMPLE * 39, 16.0).await.unwrap();
    assert_eq!(
        bed.planner.inputs().map(|inputs| inputs.forecast.demand),
        report.demand_rps
    );
    let desired = 1.1 * (12.0 + 16.0) / 0.5;
    assert!(
        (report.demand_rps.unwrap().0 - desired).abs() < 1e-9,
        "{report:?}"
    );
    assert!(cores(&bed) > before, "{:?}", bed.log());
    // The reported rate is the mean since the last cycle, not since the last sample.
    let report = bed.tick(SAMPLE * 40, 6.0).await.unwrap();
    assert_eq!(report.measured_rps, Some(Rps(24.0)));
}

#[tokio::test]
async fn rise_already_planned_for_starts_no_further_cycle() {
    let mut bed = Bed::new(service(8), &[8, 0]);
    cycles(&mut bed, (0..40).map(|sample| (sample, 2.0))).await;
    assert_eq!(cycles(&mut bed, [(40, 12.0), (41, 12.0)]).await, [40, 41]);
    assert_eq!(
        cycles(&mut bed, [(42, 12.0), (43, 12.0), (44, 12.0)]).await,
        [44]
    );
}

#[tokio::test]
async fn steady_load_converges_to_constant_cores() {
    for load in (1..=100).map(|step| f64::from(step) * 0.9) {
        let mut bed = Bed::new(service(8), &[2, 2]);
        let mut actual = Vec::new();
        for sample in 0..80 {
            bed.tick(SAMPLE * sample, load / 4.0).await;
            actual.push(bed.sim.real.lock().unwrap().clone());
        }
        let stable = &actual[40..];
        assert!(
            stable.iter().all(|cores| *cores == stable[0]),
            "{load}: {stable:?}"
        );
    }
}

#[tokio::test]
async fn shorter_time_left_starts_a_cycle_at_the_sample_that_shows_it() {
    let mut bed = Bed::new(sponge(), &[1]);
    // 5 requests in each sample with 900 ms left, from the 41st on with 30 ms, from the 43rd on with 25 ms.
    let came = |sample: u32| {
        let [all, slow, slower] = [sample, sample.max(40) - 40, sample.max(42) - 42];
        let [all, slow, slower] = [all, slow, slower].map(|samples| 5.0 * f64::from(samples));
        vec![
            (20.0, 0.0),
            (25.0, slower),
            (30.0, slow),
            (890.0, slow),
            (f64::INFINITY, all),
        ]
    };
    let mut cycles = Vec::new();
    for sample in 0..50 {
        *bed.sim.slack.lock().unwrap() = came(sample);
        if bed.tick(SAMPLE * sample, 5.0).await.is_some() {
            cycles.push((sample, bed.sim.real.lock().unwrap()[0].millis() / 1000));
        }
    }
    let cores_by = |sample: u32| {
        cycles
            .iter()
            .rfind(|(at, _)| *at <= sample)
            .map(|(_, cores)| *cores)
    };
    assert_eq!(
        [36, 40, 41, 42, 43].map(cores_by),
        [1, 1, 3, 3, 4].map(Some)
    );
    let stable: Vec<_> = cycles
        .iter()
        .filter(|(sample, _)| (2..=40).contains(sample))
        .collect();
    assert!(
        stable.iter().all(|(sample, _)| sample % 4 == 0),
        "{cycles:?}"
    );
}

#[tokio::test]
async fn predicted_rise_starts_a_cycle_at_the_sample_that_shows_it() {
    let mut bed = Bed::new(service(8), &[1, 0]);
    let mut service = Service::clone(&bed.planner.service);
    service.demand.moving = Duration::from_secs(3);
    bed.planner = Planner::new(Arc::new(service));
    cycles(&mut bed, (0..81).map(|sample| (sample, 20.0))).await;
    // No sample exceeds the previous one by more than chance explains.
    let mut rise = (81..90).map(|sample| (sample, 20.0 + 2.0 * f64::from(sample - 80)));
    let first = loop {
        let (sample, arrivals) = rise.next().unwrap();
        if bed.tick(SAMPLE * sample, arrivals).await.is_some() && sample % 4 != 0 {
            break sample;
        }
    };
    let foreseen = bed.planner.inputs().unwrap().forecast;
    assert!(
        foreseen.rises && !bed.planner.observations.demand.is_rising(),
        "{first}"
    );
    assert!(
        foreseen.demand.0 > foreseen.present.0 * RISE,
        "{foreseen:?}"
    );
}
