//! Variants whose servers fail, as reported by the proxies.

use super::*;

#[tokio::test]
async fn failing_variant_gets_no_share_and_keeps_its_cores() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    bed.warm_up().await;
    bed.run_cycle(20.0).await;
    assert_eq!(bed.shares(), [0.0, 1.0]);
    let log_decision = |bed: &Bed, fails: bool| {
        let failing = [("a".to_owned(), false), ("b".to_owned(), fails)];
        *bed.sim.failing.lock().unwrap() = failing.into();
    };
    log_decision(&bed, true);
    for lasts_s in 0..3_u64 {
        let report = bed.run_cycle(20.0).await;
        assert_eq!(bed.shares(), [1.0, 0.0]);
        assert_eq!(
            (requested(&report), actuated(&report)),
            (vec![1.0, 3.0], vec![1.0, 3.0])
        );
        let expected = format!("b has been failing for {lasts_s} s: it gets no share");
        assert!(report.why.contains(&expected), "{}", report.why);
        assert_eq!(report.variants["b"].failing_ms, Some(lasts_s * 1000));
        assert_eq!(report.variants["a"].failing_ms, None);
        assert!(report.variants["b"].slots > 0, "to be tried by");
    }
    // A lost scrape changes nothing.
    *bed.sim.lost.lock().unwrap() = true;
    bed.run_cycle(20.0).await;
    assert_eq!(bed.shares(), [1.0, 0.0]);
    *bed.sim.lost.lock().unwrap() = false;
    log_decision(&bed, false);
    let report = bed.run_cycle(20.0).await;
    assert_eq!(bed.shares(), [0.0, 1.0]);
    assert!(!report.why.contains("failing"), "{}", report.why);
}
