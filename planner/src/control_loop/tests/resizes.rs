//! Resizes that are refused, in doubt, or not made.

use super::*;

#[tokio::test]
async fn a_refused_resize_leaves_a_plan_for_what_is_there() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    bed.world
        .stubborn
        .lock()
        .unwrap()
        .insert(1, ActuateError::Status(409, "Deferred".into()));
    bed.warm_up().await;
    for _ in 0..3 {
        let report = bed.turn(20.0).await;
        assert_eq!(asked(&report), [1.0, 3.0]);
        assert_eq!(actuated(&report), [1.0, 2.0]);
        assert_eq!(report.resizes_failed, 1, "tried again every cycle");
        let b = &report.variants["b"];
        assert!(
            b.share.0 * 22.0 <= b.capacity_rps.0 + 0.01,
            "{b:?} at 22 requests/s"
        );
        assert!(bed.shares()[0] > 0.0, "a takes what b cannot");
    }
    bed.world.stubborn.lock().unwrap().clear();
    assert_eq!(actuated(&bed.turn(20.0).await), [1.0, 3.0]);
}

#[tokio::test]
async fn a_growth_in_doubt_keeps_its_part_of_the_budget() {
    let mut bed = Bed::new(service(5), &[2, 1]);
    let lost = ActuateError::Timeout(Duration::from_millis(200));
    bed.warm_up().await;
    bed.world.stubborn.lock().unwrap().insert(1, lost);
    *bed.world.mute.lock().unwrap() = true;
    bed.turn(20.0).await;
    assert_eq!(
        bed.planner.actual[1].reserved,
        Cores::whole(3),
        "b may have 3 cores"
    );
    // 70 requests/s: a wants 4 cores or more, but b may have 3 of the 5.
    let report = bed.turn(200.0).await;
    let a: Cores = bed.world.real.lock().unwrap()[0];
    assert!(
        a <= Cores::whole(2),
        "{a} cores and 3 in doubt of 5: {report:?}"
    );
    // The backend speaks again: what it says ends the doubt.
    *bed.world.mute.lock().unwrap() = false;
    bed.world.stubborn.lock().unwrap().clear();
    assert_eq!(actuated(&bed.turn(200.0).await), [4.0, 1.0]);
    // By a second of them, b is taken for what arrives. Soon it is seen that more of it does than both carry.
    for _ in 0..4 {
        bed.turn(200.0).await;
    }
    assert_eq!(actuated(&bed.turn(200.0).await), [5.0, 0.0]);
}

#[tokio::test]
async fn advisory_changes_nothing_and_says_what_it_would() {
    let mut advisory = service(8);
    advisory.mode = Mode::Advisory;
    let mut bed = Bed::new(advisory, &[2, 2]);
    bed.warm_up().await;
    let report = bed.turn(20.0).await;
    assert_eq!(asked(&report), [1.0, 3.0]);
    assert_eq!(actuated(&report), [2.0, 2.0]);
    assert_eq!(bed.log(), ["plan 2 2"]);
    let shares = bed.shares();
    assert!(
        (shares[1] - 14.4 / 22.0).abs() < 1e-3,
        "b is filled, a takes the rest: {shares:?}"
    );
}

#[tokio::test]
async fn overload_gets_the_greatest_capacity_and_all_cores_gone_keep_the_plan() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    bed.warm_up().await;
    let report = bed.turn(900.0).await;
    assert_eq!(
        (report.outcome, actuated(&report)),
        (SolveStatus::Infeasible, vec![8.0, 0.0])
    );
    let plans = bed.world.plans.lock().unwrap().len();
    // Somebody takes all cores away and lets none be given.
    *bed.world.real.lock().unwrap() = vec![Cores::ZERO; 2];
    for variant in 0..2 {
        bed.world
            .stubborn
            .lock()
            .unwrap()
            .insert(variant, ActuateError::NoAddress);
    }
    let report = bed.turn(900.0).await;
    assert_eq!((report.published, report.unpublished), (0, 1));
    assert_eq!(
        bed.world.plans.lock().unwrap().len(),
        plans,
        "the last plan stays"
    );
}
