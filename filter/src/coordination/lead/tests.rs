//! Tests of the lead: gaps of simulated servers, and what is measured of them.

use super::*;

fn ms(ms: f64) -> Span {
    Span::from_millis_f64(ms)
}

fn times(lead: &Lead) -> LeadTimes {
    LeadTimes::new(*lead)
}

/// Simulates an always busy lane with that gap: each request is sent by the lead before the predicted
/// answer, or with the answer. Returns the fraction of time for which the lane idles.
fn learn(lead: &mut Lead, service: impl Fn(u32) -> f64, gap: f64, count: u32) -> f64 {
    let (mut answered, mut answer, mut idle) = (0.0, service(0), 0.0);
    let at = |now: f64| Mono((now * 1e6) as u64);
    for request in 1..=count {
        let predicted = ms(service(0));
        let early = lead
            .service(predicted)
            .saturating_sub(times(lead).lead(predicted, at(answered)));
        let sent = (answered + early.as_millis_f64()).min(answer);
        let early_wait = answer - sent;
        let late = (gap - early_wait).max(0.0);
        let next = answer + late + service(request);
        if early_wait > 0.0 {
            lead.record_early(ms(next - answer), ms(early_wait), at(next));
        } else {
            lead.record_idle(ms(next - sent), at(next));
        }
        (answered, answer, idle) = (answer, next, idle + late);
    }
    idle / answered
}

#[test]
fn gap_of_a_busy_server_is_measured() {
    let mut lead = Lead::default();
    lead.record_idle(ms(28.0), Mono(0));
    learn(&mut lead, |_| 25.0, 3.0, 1000);
    assert!((ms(2.9)..ms(3.2)).contains(&lead.gap()), "{:?}", lead.gap());
    let idle = learn(&mut lead, |_| 25.0, 3.0, 1000);
    assert!(idle < 0.002, "idle for {idle}");
}

#[test]
fn lead_covers_the_scatter_of_service_times() {
    let scattered = |request: u32| {
        let mixed = u64::from(request + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let chance = (mixed >> 40) as f64 / f64::from(1 << 24);
        25.0 * (0.5 + chance)
    };
    let mut lead = Lead::default();
    learn(&mut lead, scattered, 3.0, 2000);
    let idle = learn(&mut lead, scattered, 3.0, 5000);
    assert!(idle < 0.02, "idle for {idle}, {lead:?}");
    let longest = times(&lead).lead(ms(25.0), Mono(0));
    assert!(longest <= ms(12.5) + MARGIN, "{longest:?}");
}

#[test]
fn lead_starts_small_and_stays_below_half_of_the_service_time() {
    let mut lead = Lead::default();
    assert_eq!(times(&lead).lead(ms(25.0), Mono(0)), ms(25.0) / 16);
    assert_eq!(times(&lead).lead(ms(1000.0), Mono(0)), FIRST_MAX);
    for _ in 0..100 {
        lead.record_idle(ms(50.0), Mono(0));
        lead.record_early(ms(25.0), ms(40.0), Mono(0));
    }
    let lead = times(&lead).lead(ms(25.0), Mono(0));
    assert!(ms(12.4) < lead && lead <= ms(12.5), "{lead:?}");
}

#[test]
fn time_measured_by_all_workers_needs_few_recent_measurements() {
    let mut lead = Lead::default();
    for n in 1..MEASURED_MIN {
        lead.record_idle(ms(75.0), Mono(0));
        assert_eq!(lead.measured(Mono(0)), None, "{n}");
    }
    lead.record_idle(ms(75.0), Mono(0));
    let measured = lead.measured(Mono(0)).unwrap();
    assert_eq!(measured.mean, ms(75.0));
    assert_eq!(measured.deviation, Span::ZERO);
    let end = Mono(0) + MEASURED_FOR;
    assert_eq!(lead.measured(end), None);
    // The other kind alone is enough too; it counts from dispatch until it is confirmed.
    let mut early = Lead::default();
    for _ in 0..MEASURED_MIN {
        early.record_early(ms(70.0), ms(5.0), Mono(0));
    }
    assert_eq!(early.measured(Mono(0)).unwrap().mean, ms(75.0));
}

/// The server has two lanes where one slot is known.
#[test]
fn without_server_wait_times_count_from_dispatch() {
    let mut lead = Lead::default();
    for _ in 0..1000 {
        lead.record_idle(ms(28.0), Mono(0));
        let early = times(&lead).lead(ms(28.0), Mono(0)).as_millis_f64();
        lead.record_early(ms(28.0 - early), ms(early), Mono(0));
    }
    assert!(!lead.is_confirmed());
    assert_eq!(lead.gap(), Span::ZERO);
    assert!(times(&lead).lead(ms(28.0), Mono(0)) <= ms(7.0));
}

#[test]
fn zero_lead_by_chance_is_probed_again() {
    let mut lead = Lead::default();
    for took in [15.0, 35.0, 15.0, 35.0] {
        lead.record_idle(ms(took), Mono(0));
        lead.record_early(ms(took), ms(5.0), Mono(0));
    }
    assert_eq!(lead.gap(), Span::ZERO);
    assert_eq!(times(&lead).lead(ms(25.0), Mono(0)), Span::ZERO);
    let later = Mono(0) + ms(25.0) * PROBE_INTERVAL + ms(1.0);
    assert_eq!(times(&lead).lead(ms(25.0), later), ms(25.0) / FIRST_PART);
}

#[test]
fn lead_is_zero_without_a_gap_and_stale_measurements_are_renewed() {
    let mut lead = Lead::default();
    for _ in 0..100 {
        lead.record_idle(ms(25.1), Mono(0));
        lead.record_early(ms(25.0), ms(5.0), Mono(0));
    }
    assert_eq!(times(&lead).lead(ms(25.0), Mono(0)), Span::ZERO);
    let later = Mono(0) + STALE + ms(1.0);
    assert!(
        times(&lead).lead(ms(25.0), later) > Span::ZERO,
        "no early one"
    );
    let mut busy = Lead::default();
    for _ in 0..100 {
        busy.record_idle(ms(28.0), Mono(0));
        busy.record_early(ms(25.0), ms(5.0), later);
    }
    assert!(times(&busy).lead(ms(25.0), Mono(0)) > ms(3.0));
    assert_eq!(
        times(&busy).lead(ms(25.0), later),
        Span::ZERO,
        "no idle lane"
    );
}
