//! Variants that come to serve after a while: what is said of that, and learnt.

use super::*;

fn late() -> ActuateError {
    ActuateError::Timeout(Duration::from_millis(200))
}

#[tokio::test]
async fn less_than_the_demand_is_said_until_more_serves() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    bed.warm_up().await;
    bed.world.stubborn.lock().unwrap().insert(0, late());
    let report = bed.turn(80.0).await;
    let each = report.variants.values();
    let carried: f64 = each.map(|variant| variant.capacity_rps.0).sum();
    let percent = (carried / 88.0 * 100.0).floor();
    assert!(percent < 100.0);
    let said = format!("; {percent} % of the demand is carried until more of a serves");
    assert!(report.why.ends_with(&said), "{}", report.why);
    bed.world.stubborn.lock().unwrap().clear();
    let report = bed.turn(80.0).await;
    assert!(!report.why.contains("is carried"), "{}", report.why);
}

#[tokio::test]
async fn a_variant_that_takes_longer_than_it_is_said_is_planned_with_what_it_took() {
    let mut bed = Bed::new(service(8), &[2, 0]);
    bed.warm_up().await;
    bed.world.stubborn.lock().unwrap().insert(1, late());
    for _ in 0..15 {
        let report = bed.turn(20.0).await;
        assert_eq!(asked(&report), [1.0, 3.0]);
        assert_eq!(actuated(&report), [2.0, 0.0]);
        assert!(!report.why.contains("ready"), "{}", report.why);
    }
    bed.world.stubborn.lock().unwrap().clear();
    bed.turn(20.0).await;
    let report = bed.turn(20.0).await;
    let said = "; b took 16 s to be ready, readiness_s says 0";
    assert!(report.why.contains(said), "{}", report.why);
    let readiness = bed.planner.attainable().variants[1].readiness;
    assert_eq!(readiness, Duration::from_secs(16));
}
