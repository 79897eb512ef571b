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
async fn demand_of_proxies_without_weir_is_unknown_and_the_plan_stays() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    *bed.sim.proxy.lock().unwrap() = "proxy";
    bed.warm_up().await;
    for _ in 0..15 {
        bed.run_cycle(60.0).await;
    }
    let before = bed.run_cycle(60.0).await;
    let shares = bed.shares();
    *bed.sim.without_weir.lock().unwrap() = true;
    for _ in 0..30 {
        let report = bed.run_cycle(0.0).await;
        assert_eq!((report.measured_rps, report.demand_rps), (None, None));
        let scrapes = (report.scrapes_answered, report.scrapes_failed);
        assert_eq!((scrapes, report.proxies_without_weir), ((0, 0), 1));
        assert_eq!(report.outcome, SolveStatus::NoDemand);
        let note = "; without Weir: proxy: the demand is unknown";
        assert!(report.why.ends_with(note), "{}", report.why);
        assert_eq!(actuated(&report), actuated(&before));
        assert_eq!(bed.shares(), shares);
    }
    // Neither a lost scrape nor the first answer tells a rate.
    *bed.sim.without_weir.lock().unwrap() = false;
    *bed.sim.lost.lock().unwrap() = true;
    assert_eq!(bed.run_cycle(0.0).await.demand_rps, None);
    *bed.sim.lost.lock().unwrap() = false;
    *bed.sim.arrived.lock().unwrap() = 7.0;
    assert_eq!(bed.run_cycle(0.0).await.demand_rps, None);
    let report = bed.run_cycle(20.0).await;
    assert_eq!(report.measured_rps, Some(Rps(20.0)));
    let demand = report.demand_rps.unwrap().0;
    assert!((20.0..30.0).contains(&demand), "{demand}");
    assert!(!report.why.contains("without Weir"), "{}", report.why);
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
