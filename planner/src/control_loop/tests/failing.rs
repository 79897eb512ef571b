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

#[tokio::test]
async fn cores_leave_a_variant_that_goes_on_failing_and_come_back() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    bed.warm_up().await;
    let before = requested(&bed.run_cycle(20.0).await);
    assert!(before[1] > 1.0, "{before:?}");
    let fail = |bed: &Bed, each: [bool; 2]| {
        let failing = [("a".to_owned(), each[0]), ("b".to_owned(), each[1])];
        *bed.sim.failing.lock().unwrap() = failing.into();
    };
    fail(&bed, [false, true]);
    let mut moved_after_s = None;
    for lasts_s in 0..30_u64 {
        let report = bed.run_cycle(20.0).await;
        let is_out = requested(&report)[1] == 1.0;
        moved_after_s = moved_after_s.or(is_out.then_some(lasts_s));
        assert_eq!(
            is_out,
            moved_after_s.is_some(),
            "{lasts_s} s: {}",
            report.why
        );
        assert!(report.variants["b"].slots > 0, "to be tried by");
        assert_eq!(bed.shares(), [1.0, 0.0]);
        let is_noted = report.why.contains("only the cores to try it");
        assert_eq!(is_noted, is_out, "{}", report.why);
    }
    assert_eq!(moved_after_s, Some(10));
    // Where all fail, none is left out.
    fail(&bed, [true, true]);
    let report = bed.run_cycle(20.0).await;
    assert!(!report.why.contains("only the cores"), "{}", report.why);
    fail(&bed, [false, false]);
    let mut after = Vec::new();
    for _ in 0..30 {
        after = requested(&bed.run_cycle(20.0).await);
    }
    assert_eq!(after, before);
}
