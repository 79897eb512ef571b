//! What happens between two turns of a cycle.

use super::*;

const LOOK: Duration = Duration::from_millis(250);

/// Looks a quarter of a second apart, each with what arrived before it → those of them that were turns.
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
async fn a_load_that_stays_is_planned_for_once_a_cycle() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    let looks = (0..41).map(|look| (look, 5.0));
    assert_eq!(
        turns(&mut bed, looks).await,
        [0, 1, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40]
    );
    assert_eq!(bed.tick(LOOK * 41, 1.0).await, None, "less is not urgent");
    // A timer that is late, and one that is early.
    let (late, early) = (LOOK * 44 + LOOK / 3, LOOK * 48 - LOOK / 10);
    assert!(bed.tick(late, 5.0).await.is_some());
    assert!(bed.tick(early, 20.0).await.is_some());
}

#[tokio::test]
async fn a_rise_is_planned_for_with_the_look_that_shows_it() {
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
    // In the midst of a look, three of which the cycle has left: two whole ones are certain of it.
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
    // What is reported as measured is the mean since the last turn, not since the last look.
    let report = bed.tick(LOOK * 40, 6.0).await.unwrap();
    assert_eq!(report.measured_rps, Some(Rps(24.0)));
}

#[tokio::test]
async fn a_rise_that_the_last_turn_knew_is_no_reason_for_another() {
    let mut bed = Bed::new(service(8), &[8, 0]);
    turns(&mut bed, (0..40).map(|look| (look, 2.0))).await;
    assert_eq!(turns(&mut bed, [(40, 12.0), (41, 12.0)]).await, [40, 41]);
    assert_eq!(
        turns(&mut bed, [(42, 12.0), (43, 12.0), (44, 12.0)]).await,
        [44]
    );
}

#[tokio::test]
async fn whatever_the_load_is_the_cores_that_carry_it_stay() {
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
async fn less_time_that_clients_leave_is_planned_for_with_the_look_that_shows_it() {
    let mut bed = Bed::new(sponge(), &[1]);
    // 5 requests in each look: with 900 ms left, from the 41st look on with 30, from the 43rd on with 25.
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
async fn a_rise_that_is_foreseen_is_planned_for_with_the_look_that_shows_it() {
    let mut bed = Bed::new(service(8), &[1, 0]);
    let mut service = Service::clone(&bed.planner.service);
    service.demand.moving = Duration::from_secs(3);
    bed.planner = Planner::new(Arc::new(service));
    turns(&mut bed, (0..81).map(|look| (look, 20.0))).await;
    // No look of it is above all that chance explains of the one before.
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
