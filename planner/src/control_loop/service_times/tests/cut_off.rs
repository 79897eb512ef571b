//! Executions that were cut off: lower bounds of the time, and no reason for a state.

use super::*;

#[test]
fn rate_counts_with_few_executions_cut_off_if_it_is_lower() {
    for (rps, cut_off, correction) in [
        (200.0, 20.0, 2.0),
        // By the times, which those cut off do not lengthen beyond what was seen.
        (200.0, 80.0, 1.0),
        (600.0, 0.0, 0.65),
        (600.0, 20.0, 1.0),
    ] {
        let mut bed = Bed::default();
        let found = bed.run_cut_off(20, unmeasured(1), (1.0, rps), cut_off);
        assert_eq!(found, correction, "{rps}/s, {cut_off} cut off");
    }
}

#[test]
fn cut_off_executions_count_with_the_time_seen_and_make_no_state() {
    // 20 ms by the profile. Each second some are answered and others cut off after 60 ms.
    for (answered, answered_ms, cut_off, ratio, state) in [
        (0.0, 0.0, 30.0, 3.0, VariantState::Normal),
        (0.0, 0.0, 95.0, 3.0, VariantState::Normal),
        (1.0, 50.0, 29.0, 2.9833, VariantState::Normal),
        (10.0, 50.0, 20.0, 2.8333, VariantState::Interfered),
        (20.0, 40.0, 10.0, 2.3333, VariantState::Interfered),
        // A few are no reason.
        (98.0, 20.0, 2.0, 1.0, VariantState::Normal),
        // With a short deadline their times say little: it is not faster for that.
        (98.0, 5.0, 2.0, 1.0, VariantState::Normal),
    ] {
        let mut bed = Bed::default();
        bed.run(20, present(1, 1), 50, 20.0);
        let new = Executions {
            answered,
            total_ms: answered * answered_ms,
            cut_off,
            cut_off_ms: cut_off * 60.0,
            batches: answered + cut_off,
            batched: answered + cut_off,
        };
        for _ in 0..30 {
            bed.see(new, present(1, 1));
        }
        let now = Duration::from_secs(bed.second - 1);
        let report = bed.times.report(now, &bed.rule);
        let measured = report.measured_ratio.unwrap();
        assert!((measured - ratio).abs() < 1e-3, "{measured} for {ratio}");
        assert_eq!(report.state, state, "{answered} {cut_off}");
        assert_eq!(report.cut_off, cut_off as u64 * 15);
        assert_eq!(report.is_bound, answered * 15.0 < 20.0);
        // Bounded as any ratio is.
        assert!(report.correction <= bed.rule.correction_max);
        assert_eq!(report.correction > 1.0, ratio > 1.1, "{report:?}");
    }
}

#[test]
fn bound_shortens_no_correction() {
    let mut bed = Bed::default();
    bed.run(20, present(1, 1), 50, 60.0);
    assert_eq!(bed.correction(1.0), 3.0);
    // Cut off after 30 ms, because little time was left to them.
    let short = Executions {
        cut_off: 50.0,
        cut_off_ms: 1500.0,
        ..Executions::default()
    };
    for _ in 0..30 {
        bed.see(short, present(1, 1));
    }
    let report = bed.times.report(bed.now(), &bed.rule);
    let found = (report.measured_ratio, report.is_bound, report.correction);
    assert_eq!(found, (Some(1.5), true, 3.0));
}

#[test]
fn server_that_never_answers_is_active() {
    let mut bed = Bed::default();
    bed.run(20, present(1, 1), 50, 20.0);
    let hangs = Executions {
        cut_off: 1.0,
        cut_off_ms: 500.0,
        ..Executions::default()
    };
    for _ in 0..120 {
        bed.see(hangs, present(1, 1));
    }
    let report = bed.times.report(bed.now(), &bed.rule);
    assert_eq!(report.state, VariantState::Normal);
    assert_eq!(report.correction, bed.rule.correction_max);
}
