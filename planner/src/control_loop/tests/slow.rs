//! Variants that become ready or answer later than configured.

use super::*;

fn late() -> ActuateError {
    ActuateError::Timeout(Duration::from_millis(200))
}

#[tokio::test]
async fn uncarried_demand_is_reported_until_capacity_is_ready() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    bed.warm_up().await;
    bed.sim.stubborn.lock().unwrap().insert(0, late());
    let report = bed.run_cycle(80.0).await;
    let each = report.variants.values();
    let carried: f64 = each.map(|variant| variant.capacity_rps.0).sum();
    let percent = (carried / 88.0 * 100.0).floor();
    assert!(percent < 100.0);
    let expected = format!("; {percent} % of the demand is carried until more of a serves");
    assert!(report.why.ends_with(&expected), "{}", report.why);
    bed.sim.stubborn.lock().unwrap().clear();
    let report = bed.run_cycle(80.0).await;
    assert!(!report.why.contains("is carried"), "{}", report.why);
}

#[tokio::test]
async fn slow_start_is_planned_with_measured_time() {
    let mut bed = Bed::new(service(8), &[2, 0]);
    bed.warm_up().await;
    bed.sim.stubborn.lock().unwrap().insert(1, late());
    for _ in 0..15 {
        let report = bed.run_cycle(20.0).await;
        assert_eq!(requested(&report), [1.0, 3.0]);
        assert_eq!(actuated(&report), [2.0, 0.0]);
        assert!(!report.why.contains("ready"), "{}", report.why);
    }
    bed.sim.stubborn.lock().unwrap().clear();
    bed.run_cycle(20.0).await;
    let report = bed.run_cycle(20.0).await;
    let expected = "; b took 16 s to be ready, readiness says 0s";
    assert!(report.why.contains(expected), "{}", report.why);
    let readiness = bed.planner.attainable().variants[1].readiness;
    assert_eq!(readiness, Duration::from_secs(16));
}

#[tokio::test]
async fn variant_slower_than_its_profile_is_named() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    bed.warm_up().await;
    let log_decision = |bed: &Bed, ms: f64| {
        *bed.sim.predicted_ms.lock().unwrap() = [("b".to_owned(), ms)].into();
    };
    log_decision(&bed, 900.0);
    let mut whys = Vec::new();
    for _ in 0..20 {
        whys.push(bed.run_cycle(20.0).await.why);
    }
    let expected =
        "; b takes 900 ms, its profile says 56 ms: its latency or its batches are others";
    let first = whys.iter().position(|why| why.contains(expected));
    assert_eq!(first, Some(15), "{whys:?}");
    log_decision(&bed, 60.0);
    let why = bed.run_cycle(20.0).await.why;
    assert!(!why.contains("its profile"), "{why}");
}
