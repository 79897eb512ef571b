//! Measurements of one variant, cycle by cycle.

mod cut_off;
mod servers;
mod without_profile;

use weir_api::Cores;

use super::*;

/// 20 ms for a request on one core, 5 ms on four; 8 slots, 100 requests/s on one core.
fn present(cores: u32, replicas: u32) -> Present {
    let single_ms = 20.0 / f64::from(cores.max(1));
    let expected = Expected {
        millis: cores * 1000,
        slots: 8,
        sustained_rps: 100.0,
        executed_rps: 8e3 / single_ms,
        longest_ms: 900.0,
        single_ms,
        per_request_ms: 0.0,
        largest: 1,
        by_server: false,
        delay_ms: 0.0,
    };
    Present {
        allocation: Allocation::new(replicas, Cores::whole(cores)),
        expected: (replicas > 0).then_some(expected),
        fails: false,
    }
}

/// A variant that is measured once a second.
#[derive(Default)]
struct Bed {
    times: VariantTimes,
    second: u64,
    rule: ServiceTimeRule,
}

impl Bed {
    /// Runs cycles with `rps` executions of `mean_ms` each, and returns the last report.
    fn run(&mut self, cycles: u64, present: Present, rps: u32, mean_ms: f64) -> ServiceTimeReport {
        for _ in 0..cycles {
            let answered = f64::from(rps);
            let new = Executions {
                answered,
                total_ms: answered * mean_ms,
                batches: answered,
                batched: answered,
                ..Executions::default()
            };
            self.see(new, present);
        }
        let now = Duration::from_secs(self.second - 1);
        self.times.report(now, &self.rule)
    }

    fn see(&mut self, new: Executions, present: Present) {
        self.see_full(new, None, present);
    }

    fn see_full(&mut self, new: Executions, full: Option<FullRate>, present: Present) {
        let now = self.now();
        self.times.see(now, new, full, present, &self.rule);
        self.second += 1;
    }

    /// Runs cycles in which all slots are taken for that part of the time, with that many executions a second then.
    fn run_full(&mut self, cycles: u64, present: Present, full: (f64, f64)) -> f64 {
        self.run_cut_off(cycles, present, full, 0.0)
    }

    /// The same with that many executions a second that are cut off.
    fn run_cut_off(
        &mut self,
        cycles: u64,
        present: Present,
        (seconds, rps): (f64, f64),
        cut_off: f64,
    ) -> f64 {
        for _ in 0..cycles {
            // As the profile has it, with nearly all slots taken.
            let answered = 390.0 - cut_off;
            let new = Executions {
                answered,
                total_ms: answered * 20.0,
                cut_off,
                cut_off_ms: cut_off * 20.0,
                ..Executions::default()
            };
            let full = FullRate {
                rps,
                executions: rps * seconds,
                seconds,
            };
            self.see_full(new, Some(full), present);
        }
        self.correction(1.0)
    }

    fn now(&self) -> Duration {
        Duration::from_secs(self.second)
    }

    fn correction(&self, cores: f64) -> f64 {
        Correction::of(self.times.learnt.ratios(self.now())).factor(cores)
    }
}

#[test]
fn twenty_executions_correct_the_profile() {
    let mut bed = Bed::default();
    let one = present(1, 1);
    // The first two cycles may have seen executions of before.
    for (cycles, measured, correction) in [(3, None, 1.0), (1, None, 1.0), (1, Some(1.5), 1.5)] {
        let report = bed.run(cycles, one, 9, 30.0);
        assert_eq!(
            (report.measured_ratio, report.correction),
            (measured, correction)
        );
    }
    let report = bed.run(30, one, 9, 20.0);
    assert_eq!((report.measured_ratio, report.correction), (Some(1.0), 1.0));
    bed.rule.correct = false;
    let report = bed.run(30, one, 9, 30.0);
    assert_eq!((report.measured_ratio, report.correction), (Some(1.5), 1.0));
}

#[test]
fn cold_starts_do_not_count() {
    let mut bed = Bed::default();
    bed.run(5, present(0, 0), 0, 0.0);
    // Ready for a minute before the first request comes.
    bed.run(60, present(1, 1), 0, 0.0);
    let report = bed.run(11, present(1, 1), 50, 400.0);
    assert_eq!((report.measured_ratio, bed.correction(1.0)), (None, 1.0));
    let report = bed.run(5, present(1, 1), 50, 20.0);
    assert_eq!((report.measured_ratio, report.executions), (Some(1.0), 250));
    // A second replica starts.
    bed.run(11, present(1, 2), 50, 400.0);
    assert_eq!(bed.correction(1.0), 1.0);
    bed.run(20, present(1, 2), 50, 20.0);
    assert_eq!(bed.correction(1.0), 1.0);
    // Fewer replicas are no start.
    let report = bed.run(12, present(1, 1), 50, 40.0);
    assert_eq!(report.correction, 2.0);
}

#[test]
fn ratio_of_one_core_is_replaced_by_that_of_four_after_a_resize() {
    let mut bed = Bed::default();
    bed.run(20, present(1, 1), 50, 26.0);
    assert_eq!(bed.correction(1.0), 1.3);
    // On four cores nothing is known yet; 26 ms would be five times the profile there, and do not count.
    let report = bed.run(2, present(4, 1), 50, 26.0);
    assert_eq!((report.measured_ratio, report.correction), (None, 1.3));
    let report = bed.run(10, present(4, 1), 50, 5.0);
    assert_eq!((report.measured_ratio, report.correction), (Some(1.0), 1.0));
    assert_eq!((bed.correction(1.0), bed.correction(4.0)), (1.3, 1.0));
    // Back on one core, what was learnt there holds at once.
    let report = bed.run(1, present(1, 1), 50, 5.0);
    assert_eq!((report.measured_ratio, report.correction), (None, 1.3));
}

#[test]
fn correction_fades_without_requests() {
    let mut bed = Bed::default();
    bed.run(20, present(1, 1), 50, 40.0);
    for (cycles, state, correction) in [
        (59, VariantState::Interfered, 2.0),
        (2, VariantState::Inactive, 2.0),
        (120, VariantState::Inactive, 1.5),
        (120, VariantState::Inactive, 1.0),
    ] {
        let report = bed.run(cycles, present(1, 1), 0, 0.0);
        assert_eq!((report.state, report.correction), (state, correction));
    }
    // So it does where the variant has lost its cores for being slow.
    bed.run(20, present(1, 1), 50, 40.0);
    let report = bed.run(60, present(0, 0), 0, 0.0);
    assert_eq!(report.correction, 2.0);
    assert_eq!(bed.run(240, present(0, 0), 0, 0.0).correction, 1.0);
}

/// A server that executes one request after another answers faster while few are in flight, and carries no more for it.
#[test]
fn variant_with_free_slots_carries_what_it_was_seen_to() {
    let mut bed = Bed::default();
    for (rps, in_flight) in [(240_u32, 4.0), (300, 5.0), (340, 6.0)] {
        let mean_ms = in_flight / f64::from(rps) * 1e3;
        let correction = bed.run(20, present(1, 1), rps, mean_ms).correction;
        assert_eq!(correction, 1.0, "{rps}");
    }
}

#[test]
fn only_a_busy_variant_is_faster_than_its_profile() {
    let mut bed = Bed::default();
    // 8 slots for 400 requests/s: 100 requests/s of 10 ms take one of them, 500 take five, 790 nearly all.
    assert_eq!(bed.run(20, present(1, 1), 100, 10.0).correction, 1.0);
    // Five at once take 10 ms; eight may take 16.
    assert_eq!(bed.run(20, present(1, 1), 500, 10.0).correction, 0.8);
    assert_eq!(bed.run(20, present(1, 1), 790, 10.0).correction, 0.5);
    assert_eq!(bed.run(20, present(1, 1), 100, 10.0).correction, 1.0);
}

/// The latency model alone: 400 requests/s on one core.
fn unmeasured(replicas: u32) -> Present {
    let mut present = present(1, replicas);
    if let Some(expected) = &mut present.expected {
        expected.sustained_rps = expected.executed_rps;
    }
    present
}

#[test]
fn rate_with_all_slots_taken_counts_from_100_executions_on() {
    for (seconds, rps, correction) in [
        (0.9, 200.0, 2.0),
        (0.9, 600.0, 0.65),
        (0.9, 400.0, 1.0),
        // 100 executions in 15 s are 6.7 a second.
        (0.9, 6.0, 1.0),
        (0.9, 8.0, 4.0),
        // At a lower load it is an upper bound of the capacity.
        (0.6, 200.0, 2.0),
        (0.6, 600.0, 1.0),
        (0.4, 200.0, 1.0),
    ] {
        let mut bed = Bed::default();
        let found = bed.run_full(20, unmeasured(1), (seconds, rps));
        assert_eq!(found, correction, "{seconds} s, {rps}/s");
    }
    // A measured capacity of 100 requests/s: what lies between it and the model agrees with both.
    for (rps, correction) in [(101.0, 1.0), (399.0, 1.0), (99.0, 4.0), (600.0, 0.65)] {
        let found = Bed::default().run_full(20, present(1, 1), (1.0, rps));
        assert_eq!(found, correction, "{rps}/s");
    }
}

#[test]
fn rate_of_cold_failing_or_stalled_servers_does_not_count() {
    let mut bed = Bed::default();
    bed.run_full(5, unmeasured(1), (1.0, 400.0));
    assert_eq!(bed.run_full(11, unmeasured(2), (1.0, 100.0)), 1.0, "cold");
    let fails = Present {
        fails: true,
        ..unmeasured(2)
    };
    assert_eq!(bed.run_full(20, fails, (1.0, 100.0)), 1.0);
    let mut bed = Bed::default();
    bed.run_full(20, unmeasured(1), (1.0, 400.0));
    bed.run_full(3, unmeasured(1), (1.0, 20.0));
    assert_eq!(bed.run_full(5, unmeasured(1), (1.0, 400.0)), 1.0, "a stall");
}

#[test]
fn failing_servers_are_not_measured() {
    let mut bed = Bed::default();
    let fails = Present {
        fails: true,
        ..present(1, 1)
    };
    let report = bed.run(20, fails, 50, 200.0);
    assert_eq!((report.measured_ratio, report.correction), (None, 1.0));
}

#[test]
fn state_follows_rate_and_time_and_drift_is_reported() {
    let mut bed = Bed::default();
    for (cycles, rps, mean_ms, state, drift_min) in [
        (30, 50, 20.0, VariantState::Normal, None),
        (30, 50, 40.0, VariantState::Interfered, None),
        (30, 95, 40.0, VariantState::Overloaded, None),
        (30, 50, 40.0, VariantState::Interfered, None),
        (540, 50, 40.0, VariantState::Interfered, Some(10)),
        (300, 50, 40.0, VariantState::Interfered, Some(15)),
        (30, 50, 20.0, VariantState::Normal, None),
        // A profile that is too slow does not hold either.
        (620, 900, 10.0, VariantState::Normal, Some(10)),
    ] {
        let report = bed.run(cycles, present(1, 1), rps, mean_ms);
        let drift = report.drift_ms.map(|ms| ms / 60_000);
        assert_eq!((report.state, drift), (state, drift_min), "{rps} {mean_ms}");
    }
}

/// A profile of 20 ms for a model of 300, and one of 20 for 0.7.
#[test]
fn measured_time_replaces_a_profile_that_is_far_off() {
    for (rps, mean_ms, before, after) in [
        (
            50,
            300.0,
            (4.0, VariantState::Interfered),
            (15.0, VariantState::Normal),
        ),
        (
            9_000,
            0.7,
            (0.5, VariantState::Normal),
            (0.04, VariantState::Normal),
        ),
    ] {
        let mut bed = Bed::default();
        let report = bed.run(25, present(1, 1), rps, mean_ms);
        let found = (report.correction, report.state, report.replaces_profile);
        assert_eq!(found, (before.0, before.1, false));
        assert_eq!(far_off_note("b", &report), None);
        let report = bed.run(25, present(1, 1), rps, mean_ms);
        let found = (report.correction, report.state, report.replaces_profile);
        assert_eq!(found, (after.0, after.1, true));
    }
    let mut bed = Bed::default();
    let report = bed.run(60, present(1, 1), 50, 300.0);
    let expected = "the profile of b says 20 ms, measured 300 ms over 750 answers: planned with what is measured; run \
                    `weir profile`";
    assert_eq!(far_off_note("b", &report).as_deref(), Some(expected));
    // It holds again, or was measured anew.
    let report = bed.run(60, present(1, 1), 50, 20.0);
    assert_eq!((report.correction, report.replaces_profile), (1.0, false));
    // Without answers nothing replaces it.
    let mut bed = Bed::default();
    let hangs = Executions {
        cut_off: 50.0,
        cut_off_ms: 15_000.0,
        ..Executions::default()
    };
    for _ in 0..60 {
        bed.see(hangs, present(1, 1));
    }
    let report = bed.times.report(bed.now(), &bed.rule);
    assert_eq!((report.correction, report.replaces_profile), (4.0, false));
}

#[test]
fn notes_name_ratio_plan_state_and_renewal() {
    let report = ServiceTimeReport::default();
    assert_eq!(
        measured_note("b", &report) + &drift_note("demo", "b", &report),
        ""
    );
    let report = ServiceTimeReport {
        state: VariantState::Interfered,
        measured_ratio: Some(1.31),
        executions: 412,
        cut_off: 0,
        is_bound: false,
        correction: 1.3,
        has_profile: true,
        profile_ms: Some(20.0),
        replaces_profile: false,
        drift_ms: Some(720_000),
    };
    assert_eq!(
        measured_note("b", &report) + &drift_note("demo", "b", &report),
        "; b: measured 1.31 × profile over 412 executions, planned with 1.30: it is interfered; the profile of b has not \
         held for 12 min: measure it anew with `weir profile`, or `weir profile --from-proxy URL --service demo --variant b`"
    );
    let cut_off = ServiceTimeReport {
        cut_off: 400,
        drift_ms: None,
        ..report
    };
    let expected = "; b: measured 1.31 × profile over 412 executions, 400 of them cut off, planned with 1.30: it is interfered";
    assert_eq!(measured_note("b", &cut_off), expected);
    let bound = ServiceTimeReport {
        cut_off: 412,
        is_bound: true,
        state: VariantState::Normal,
        drift_ms: None,
        ..report
    };
    let expected = "; b: measured at least 1.31 × profile over 412 executions, 412 of them cut off, planned with 1.30";
    assert_eq!(measured_note("b", &bound), expected);
    let unmeasured = ServiceTimeReport {
        measured_ratio: None,
        state: VariantState::Inactive,
        drift_ms: None,
        ..report
    };
    let expected = "; b: not measured of late, planned with 1.30";
    assert_eq!(measured_note("b", &unmeasured), expected);
}
