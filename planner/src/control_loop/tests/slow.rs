//! Variants that become ready or answer later than configured.

use super::*;
use crate::service::VariantState;

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
    let percent = (carried / 80.0 * 100.0).floor();
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

/// Adds executions of b that take `ms` each.
pub(super) fn execute(bed: &Bed, executions: u32, ms: f64) {
    let mut all = bed.sim.executions.lock().unwrap();
    let b = all.entry("b".to_owned()).or_default();
    b.answered += f64::from(executions);
    b.total_ms += f64::from(executions) * ms;
}

#[tokio::test]
async fn slow_variant_is_planned_with_its_measured_time() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    bed.warm_up().await;
    let before = bed.run_cycle(20.0).await;
    // 22 requests/s: b alone carries 22.4 on 3 cores, in 56 ms each.
    assert_eq!(actuated(&before), [1.0, 3.0]);
    let mut reports = Vec::new();
    for _ in 0..20 {
        execute(&bed, 20, 168.0);
        reports.push(bed.run_cycle(20.0).await);
    }
    let last = reports.last().unwrap();
    // Two at a time in 168 ms are 0.8·11.9: no number of cores carries 22 any more.
    let expected = "b: measured 3.00 × profile over ";
    assert!(last.why.contains(expected), "{}", last.why);
    assert!(
        last.why.contains("planned with 3.00: it is interfered"),
        "{}",
        last.why
    );
    let b = &last.variants["b"];
    assert_eq!(b.service_time.correction, 3.0);
    assert!(b.share.0 < 0.6 && b.share.0 > 0.0, "{:?}", b.share);
    assert!((b.capacity_rps.0 - before.variants["b"].capacity_rps.0).abs() > 5.0);
    // Filters correct their predictions by themselves.
    let ms = |report: usize| bed.sim.plans.lock().unwrap()[report][1].service_ms;
    let plans = bed.sim.plans.lock().unwrap().len();
    let at_cores = |service: &Service, cores: f64| {
        let profile = service.variants[1].profile.uncorrected();
        profile.service_ms(Cores::try_from(cores).unwrap())
    };
    let actual = b.cores_actual.as_f64();
    assert_eq!(ms(plans - 1), at_cores(&bed.planner.service, actual));
    for _ in 0..30 {
        let cores = bed.sim.real.lock().unwrap()[1].as_f64();
        let profiled = at_cores(&bed.planner.service, cores);
        execute(&bed, 20, profiled);
        reports.push(bed.run_cycle(20.0).await);
    }
    let last = reports.last().unwrap();
    assert_eq!(
        (actuated(last), requested(last)),
        (vec![1.0, 3.0], vec![1.0, 3.0])
    );
    assert!(!last.why.contains("profile"), "{}", last.why);
    assert_eq!(last.variants["b"].service_time.state, VariantState::Normal);
}
