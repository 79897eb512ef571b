//! Requests routed by the proxies, compared with the quotas of the plans.

use super::*;

#[tokio::test]
async fn routed_traffic_is_reported_and_shortfall_explained() {
    let mut bed = Bed::new(service(8), &[4, 2]);
    let mut advisory = service(8);
    advisory.mode = Mode::Advisory;
    bed.planner = Planner::new(Arc::new(advisory));
    let first = bed.run_cycle(57.6).await;
    assert_eq!(
        (first.routed_accuracy_percent, first.variants["b"].routed),
        (None, None)
    );
    let mut last = first;
    for _ in 0..10 {
        // The proxies follow the plan, except for a tenth of all requests, which b should have had.
        let shares = bed.shares();
        {
            let mut routes = bed.sim.routes.lock().unwrap();
            routes.entry("a".to_owned()).or_default().routed += 100.0 * shares[0] + 10.0;
            let b = routes.entry("b".to_owned()).or_default();
            b.routed += 100.0 * shares[1] - 10.0;
            b.downgraded += 10.0;
        }
        last = bed.run_cycle(57.6).await;
    }
    let (a, b) = (
        last.variants["a"].routed.unwrap(),
        last.variants["b"].routed.unwrap(),
    );
    assert!((b.quota.0 - b.share.0 - 0.1).abs() < 1e-9, "{b:?}");
    assert!((b.downgraded.0 - 0.1).abs() < 1e-9, "{b:?}");
    assert!((a.share.0 + b.share.0 - 1.0).abs() < 1e-9);
    let accuracy = last.routed_accuracy_percent.unwrap();
    assert!((accuracy - (70.0 * a.share.0 + 80.0 * b.share.0)).abs() < 1e-9);
    let expected = format!(
        "; b got {:.0} % of {:.0} %: requests could not wait for it",
        b.share.0 * 100.0,
        b.quota.0 * 100.0
    );
    assert!(last.why.ends_with(&expected), "{} / {expected}", last.why);
}
