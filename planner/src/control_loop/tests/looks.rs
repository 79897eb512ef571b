//! Samples between two cycles.

use super::*;

const LOOK: Duration = Duration::from_millis(250);

/// Ticks a quarter of a second apart, each with the arrivals before it → those that ran a cycle.
async fn turns(bed: &mut Bed, looks: impl IntoIterator<Item = (u32, f64)>) -> Vec<u32> {
    let mut turns = Vec::new();
    for (look, arrivals) in looks {
        if bed.tick(LOOK * look, arrivals).await.is_some() {
            turns.push(look);
        }
    }
    turns
}

#[tokio::test]
async fn steady_load_is_planned_once_per_cycle() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    let looks = (0..41).map(|look| (look, 5.0));
    assert_eq!(
        turns(&mut bed, looks).await,
        [0, 1, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40]
    );
    assert_eq!(bed.tick(LOOK * 41, 1.0).await, None, "less is not urgent");
    // A late timer, and an early one.
    let (late, early) = (LOOK * 44 + LOOK / 3, LOOK * 48 - LOOK / 10);
    assert!(bed.tick(late, 5.0).await.is_some());
    assert!(bed.tick(early, 20.0).await.is_some());
}

#[tokio::test]
async fn rise_starts_a_cycle_at_the_sample_that_confirms_it() {
    let mut bed = Bed::new(service(8), &[1, 0]);
    turns(&mut bed, (0..37).map(|look| (look, 2.0))).await;
    let cores = |bed: &Bed| {
        bed.world
            .real
            .lock()
            .unwrap()
            .iter()
            .copied()
            .sum::<Cores>()
    };
    let before = cores(&bed);
    // The rise begins within a sample, three before the next cycle. Two whole samples confirm it.
    assert!(turns(&mut bed, [(37, 6.0), (38, 12.0)]).await.is_empty());
    let report = bed.tick(LOOK * 39, 16.0).await.unwrap();
    assert_eq!(
        bed.planner.inputs().map(|inputs| inputs.forecast.demand),
        report.demand_rps
    );
    let wanted = 1.1 * (12.0 + 16.0) / 0.5;
    assert!(
        (report.demand_rps.unwrap().0 - wanted).abs() < 1e-9,
        "{report:?}"
    );
    assert!(cores(&bed) > before, "{:?}", bed.log());
    // The reported rate is the mean since the last cycle, not since the last sample.
    let report = bed.tick(LOOK * 40, 6.0).await.unwrap();
    assert_eq!(report.measured_rps, Some(Rps(24.0)));
}

#[tokio::test]
async fn rise_already_planned_for_starts_no_further_cycle() {
    let mut bed = Bed::new(service(8), &[8, 0]);
    turns(&mut bed, (0..40).map(|look| (look, 2.0))).await;
    assert_eq!(turns(&mut bed, [(40, 12.0), (41, 12.0)]).await, [40, 41]);
    assert_eq!(
        turns(&mut bed, [(42, 12.0), (43, 12.0), (44, 12.0)]).await,
        [44]
    );
}

#[tokio::test]
async fn steady_load_settles_on_constant_cores() {
    for load in (1..=100).map(|step| f64::from(step) * 0.9) {
        let mut bed = Bed::new(service(8), &[2, 2]);
        let mut there = Vec::new();
        for look in 0..80 {
            bed.tick(LOOK * look, load / 4.0).await;
            there.push(bed.world.real.lock().unwrap().clone());
        }
        let settled = &there[40..];
        assert!(
            settled.iter().all(|cores| *cores == settled[0]),
            "{load}: {settled:?}"
        );
    }
}

#[tokio::test]
async fn shorter_time_left_starts_a_cycle_at_the_sample_that_shows_it() {
    let mut bed = Bed::new(sponge(), &[1]);
    // 5 requests in each sample with 900 ms left, from the 41st on with 30 ms, from the 43rd on with 25 ms.
    let came = |look: u32| {
        let [all, slow, slower] = [look, look.max(40) - 40, look.max(42) - 42];
        let [all, slow, slower] = [all, slow, slower].map(|looks| 5.0 * f64::from(looks));
        vec![
            (20.0, 0.0),
            (25.0, slower),
            (30.0, slow),
            (890.0, slow),
            (f64::INFINITY, all),
        ]
    };
    let mut turns = Vec::new();
    for look in 0..50 {
        *bed.world.slack.lock().unwrap() = came(look);
        if bed.tick(LOOK * look, 5.0).await.is_some() {
            turns.push((look, bed.world.real.lock().unwrap()[0].millis() / 1000));
        }
    }
    let cores_by = |look: u32| {
        turns
            .iter()
            .rfind(|(at, _)| *at <= look)
            .map(|(_, cores)| *cores)
    };
    assert_eq!(
        [36, 40, 41, 42, 43].map(cores_by),
        [1, 1, 3, 3, 4].map(Some)
    );
    let settled: Vec<_> = turns
        .iter()
        .filter(|(look, _)| (2..=40).contains(look))
        .collect();
    assert!(settled.iter().all(|(look, _)| look % 4 == 0), "{turns:?}");
}

#[tokio::test]
async fn predicted_rise_starts_a_cycle_at_the_sample_that_shows_it() {
    let mut bed = Bed::new(service(8), &[1, 0]);
    let mut service = Service::clone(&bed.planner.service);
    service.demand.moving = Duration::from_secs(3);
    bed.planner = Planner::new(Arc::new(service));
    turns(&mut bed, (0..81).map(|look| (look, 20.0))).await;
    // No sample exceeds the previous one by more than chance explains.
    let mut rise = (81..90).map(|look| (look, 20.0 + 2.0 * f64::from(look - 80)));
    let first = loop {
        let (look, arrivals) = rise.next().unwrap();
        if bed.tick(LOOK * look, arrivals).await.is_some() && look % 4 != 0 {
            break look;
        }
    };
    let foreseen = bed.planner.inputs().unwrap().forecast;
    assert!(foreseen.rises && !bed.planner.demand.is_rising(), "{first}");
    assert!(
        foreseen.demand.0 > foreseen.present.0 * RISE,
        "{foreseen:?}"
    );
}
