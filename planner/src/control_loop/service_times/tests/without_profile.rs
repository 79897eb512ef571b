//! A variant without a profile: what is measured replaces its start value.

use super::*;

/// Start value of 20 ms, and eight slots.
fn bed() -> Bed {
    let mut bed = Bed::default();
    bed.times.learnt = Learnt::without_profile();
    bed
}

#[test]
fn first_estimate_replaces_the_start_value_in_both_directions() {
    for (rps, mean_ms, correction) in [(50, 600.0, 30.0), (9_000, 0.66, 0.03), (50, 20.0, 1.0)] {
        let mut bed = bed();
        // Executions count from the second cycle on.
        let report = bed.run(3, present(1, 1), rps, mean_ms);
        assert_eq!(report.correction, correction, "{mean_ms}");
        let found = (report.has_profile, report.replaces_profile, report.state);
        assert_eq!(found, (false, false, VariantState::Normal));
        // However long it takes, nothing drifts.
        let report = bed.run(700, present(1, 1), rps, mean_ms);
        assert_eq!(
            (report.drift_ms, report.state),
            (None, VariantState::Normal)
        );
        assert_eq!(far_off_note("b", &report), None);
    }
}

#[test]
fn note_has_what_is_measured() {
    let mut bed = bed();
    let report = bed.run(1, present(1, 1), 0, 0.0);
    let expected = "b: no profile; nothing measured yet";
    assert_eq!(no_profile_note("b", &report).as_deref(), Some(expected));
    let report = bed.run(30, present(1, 1), 50, 43.0);
    let expected = "b: no profile; measured 43 ms over 750 executions";
    assert_eq!(no_profile_note("b", &report).as_deref(), Some(expected));
    assert_eq!(no_profile_note("b", &ServiceTimeReport::default()), None);
}
