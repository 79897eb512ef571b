//! Proxies that do not answer, and proxies that are replaced.

use super::*;

#[tokio::test]
async fn lost_scrape_is_not_zero_load() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    bed.warm_up().await;
    for _ in 0..15 {
        bed.run_cycle(60.0).await;
    }
    let before = bed.run_cycle(60.0).await;
    *bed.sim.lost.lock().unwrap() = true;
    for _ in 0..30 {
        let report = bed.run_cycle(60.0).await;
        assert_eq!((report.measured_rps, report.scrapes_failed), (None, 1));
        assert_eq!(
            report.demand_rps, before.demand_rps,
            "the last demand holds"
        );
        assert_eq!(actuated(&report), actuated(&before));
    }
    *bed.sim.lost.lock().unwrap() = false;
    let report = bed.run_cycle(60.0).await;
    assert!(
        (report.measured_rps.unwrap().0 - 60.0).abs() < 1e-9,
        "all seconds are made up for"
    );
}

#[tokio::test]
async fn replaced_proxy_keeps_demand_and_drops_its_errors() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    *bed.sim.proxy.lock().unwrap() = "old";
    bed.warm_up().await;
    let before = bed.run_cycle(20.0).await;
    *bed.sim.lost.lock().unwrap() = true;
    bed.run_cycle(20.0).await;
    assert_eq!(bed.planner.observations.lost.count("old"), Some(1));
    *bed.sim.proxy.lock().unwrap() = "new";
    *bed.sim.arrived.lock().unwrap() = 0.0;
    bed.run_cycle(0.0).await;
    let lost = ["old", "new"].map(|proxy| bed.planner.observations.lost.count(proxy));
    assert_eq!(lost, [None, Some(1)]);
    *bed.sim.lost.lock().unwrap() = false;
    let report = bed.run_cycle(20.0).await;
    assert_eq!(
        report.measured_rps, None,
        "what it had counted before is no rate"
    );
    assert_eq!(report.demand_rps, before.demand_rps);
    assert_eq!(bed.planner.observations.lost.count("new"), None);
    let mut last = report;
    for _ in 0..61 {
        last = bed.run_cycle(20.0).await;
    }
    assert_eq!(last.measured_rps, Some(Rps(20.0)), "the new one's");
}
