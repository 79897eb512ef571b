//! Resizes that are refused, pending, or not made.

use super::*;

#[tokio::test]
async fn refused_resize_publishes_plan_for_actual_cores() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    bed.sim
        .stubborn
        .lock()
        .unwrap()
        .insert(1, ActuateError::Status(409, "Deferred".into()));
    bed.warm_up().await;
    for _ in 0..3 {
        let report = bed.run_cycle(20.0).await;
        assert_eq!(requested(&report), [1.0, 3.0]);
        assert_eq!(actuated(&report), [1.0, 2.0]);
        assert_eq!(report.resizes_failed, 1, "tried again every cycle");
        let b = &report.variants["b"];
        assert!(
            b.share.0 * 20.0 <= b.capacity_rps.0 + 0.01,
            "{b:?} at 20 requests/s"
        );
        assert!(bed.shares()[0] > 0.0, "a takes what b cannot");
    }
    bed.sim.stubborn.lock().unwrap().clear();
    assert_eq!(actuated(&bed.run_cycle(20.0).await), [1.0, 3.0]);
}

#[tokio::test]
async fn pending_growth_stays_reserved_in_the_budget() {
    let mut bed = Bed::new(service(5), &[2, 1]);
    let lost = ActuateError::Timeout(Duration::from_millis(200));
    bed.warm_up().await;
    bed.sim.stubborn.lock().unwrap().insert(1, lost);
    *bed.sim.mute.lock().unwrap() = true;
    bed.run_cycle(20.0).await;
    assert_eq!(
        bed.planner.rollout.actual[1].reserved,
        Cores::whole(3),
        "b may have 3 cores"
    );
    // 70 requests/s: a wants 4 cores or more, but b may have 3 of the 5.
    let report = bed.run_cycle(200.0).await;
    let a: Cores = bed.sim.real.lock().unwrap()[0];
    assert!(
        a <= Cores::whole(2),
        "{a} cores and 3 in doubt of 5: {report:?}"
    );
    // The backend answers again, which resolves the pending write.
    *bed.sim.mute.lock().unwrap() = false;
    bed.sim.stubborn.lock().unwrap().clear();
    assert_eq!(actuated(&bed.run_cycle(200.0).await), [4.0, 1.0]);
    // One second of this load leaves b its core. Later cycles show that demand exceeds the capacity of both.
    for _ in 0..4 {
        bed.run_cycle(200.0).await;
    }
    assert_eq!(actuated(&bed.run_cycle(200.0).await), [5.0, 0.0]);
}

#[tokio::test]
async fn advisory_mode_reports_targets_without_resizes() {
    let mut advisory = service(8);
    advisory.mode = Mode::Advisory;
    let mut bed = Bed::new(advisory, &[2, 2]);
    bed.warm_up().await;
    let report = bed.run_cycle(20.0).await;
    assert_eq!(requested(&report), [1.0, 3.0]);
    assert_eq!(actuated(&report), [2.0, 2.0]);
    assert_eq!(bed.log(), ["plan 2 2"]);
    let shares = bed.shares();
    assert!(
        (shares[1] - 14.4 / 20.0).abs() < 1e-3,
        "b is filled, a takes the rest: {shares:?}"
    );
}

#[tokio::test]
async fn overload_gets_largest_capacity_and_lost_cores_keep_the_plan() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    bed.warm_up().await;
    let report = bed.run_cycle(900.0).await;
    assert_eq!(
        (report.outcome, actuated(&report)),
        (SolveStatus::Infeasible, vec![8.0, 0.0])
    );
    let plans = bed.sim.plans.lock().unwrap().len();
    // All cores are removed from outside, and resizes are refused.
    *bed.sim.real.lock().unwrap() = vec![Cores::ZERO; 2];
    for variant in 0..2 {
        bed.sim
            .stubborn
            .lock()
            .unwrap()
            .insert(variant, ActuateError::NoAddress);
    }
    let report = bed.run_cycle(900.0).await;
    assert_eq!((report.plans_published, report.plans_rejected), (0, 1));
    assert_eq!(
        bed.sim.plans.lock().unwrap().len(),
        plans,
        "the last plan stays"
    );
}
