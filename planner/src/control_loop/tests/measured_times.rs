//! Measured times that a variant owes to its own batches, to the filter's cut-offs and to a wrong profile: it keeps its
//! capacity and its share.

use super::*;
use crate::service::VariantState;

/// The two servers with dynamic batching of the review, with an objective of three times a request's service time.
fn batching() -> Service {
    let variant = |name: &str, accuracy: u32, eta_ms: f64, delta_ms: f64| {
        format!(
            "- {{name: {name}, cluster: {name}, accuracy: {accuracy}, cores: {{initial: 1, min: 1, max: 1}}, batch: 8, \
             latency: {{etaMs: {eta_ms}, deltaMs: {delta_ms}, parallelism: 1}}}}\n"
        )
    };
    let variants = variant("small", 91, 43.0, 3.0) + &variant("large", 97, 45.0, 3.5);
    let text = format!(
        "service: forest\nlisten: 127.0.0.1:0\nkeyEnv: WEIR_KEY\nslo: 150ms\nmode: advisory\nbudget: {{cores: 2}}\n\
         proxies: {{stats: [\"http://127.0.0.1:1/stats\"]}}\nvariants:\n{variants}"
    );
    Service::from_yaml(&text).unwrap()
}

/// Adds executions: that many answered in `ms` each, and others cut off after `cut_off_ms`.
fn execute(bed: &Bed, name: &str, (answered, ms): (f64, f64), (cut_off, cut_off_ms): (f64, f64)) {
    let mut all = bed.sim.executions.lock().unwrap();
    let of = all.entry(name.to_owned()).or_default();
    of.answered += answered;
    of.total_ms += answered * ms;
    of.cut_off += cut_off;
    of.cut_off_ms += cut_off * cut_off_ms;
}

/// Variant, answers and their mean time in ms, executions that were cut off and their mean time until then.
type ByVariant<'a> = (&'a str, (f64, f64), (f64, f64));

/// Report after 60 cycles with these executions of each variant in each.
async fn report(
    service: Service,
    cores: &[u32],
    rps: f64,
    executions: &[ByVariant<'_>],
) -> CycleReport {
    let mut bed = Bed::new(service, cores);
    bed.warm_up().await;
    for _ in 0..60 {
        for (name, answered, cut_off) in executions {
            execute(&bed, name, *answered, *cut_off);
        }
        bed.run_cycle(rps).await;
    }
    bed.run_cycle(rps).await
}

/// "small has capacity 0: it takes 103 ms, latencyBudget 0.50 of 150 ms allows 75; large: measured 2.56 x profile over 25
/// executions, 14 of them cut off, planned with 2.50: it is interfered".
#[tokio::test]
async fn batching_servers_keep_capacity_and_share_under_own_batches_and_cut_offs() {
    for (small, large) in [
        (((20.0, 103.0), (0.0, 0.0)), ((11.0, 110.0), (14.0, 150.0))),
        (((9.0, 135.0), (20.0, 150.0)), ((0.0, 0.0), (25.0, 150.0))),
        (((0.0, 0.0), (25.0, 150.0)), ((0.0, 0.0), (25.0, 150.0))),
    ] {
        let executions = [("small", small.0, small.1), ("large", large.0, large.1)];
        let report = report(batching(), &[1, 1], 124.0, &executions).await;
        for (name, variant) in &report.variants {
            assert!(variant.capacity_rps.0 > 60.0, "{name}: {variant:?}");
            assert!(variant.share.0 > 0.25, "{name}: {variant:?}");
            assert_eq!(variant.service_time.state, VariantState::Normal);
        }
        assert!(!report.why.contains("capacity 0"), "{}", report.why);
        assert!(!report.why.contains("interfered"), "{}", report.why);
    }
}

/// Answers that take longer than the latency budget lower the rate of a variant, and take away neither it nor the share.
#[tokio::test]
async fn variant_beyond_the_latency_budget_as_measured_serves_at_its_measured_rate() {
    let advisory = || {
        let mut service = service(8);
        (service.latency_max_ms, service.mode) = (150.0, Mode::Advisory);
        service
    };
    let times = |service: &Service| {
        let profiles = service.variants.iter().map(|variant| variant.profile);
        profiles
            .map(|profile| profile.mean_ms(Cores::whole(2)))
            .collect::<Vec<f64>>()
    };
    let ms = times(&advisory());
    let none = (0.0, 0.0);
    // As measured, b takes 249 ms, which the others cannot carry.
    let slow = [("a", (20.0, ms[0]), none), ("b", (20.0, 3.0 * ms[1]), none)];
    let alone = report(advisory(), &[2, 2], 200.0, &slow).await;
    let expected =
        "; as measured, b is not within the 150 ms of latencyBudget: shares go by measured rates";
    assert!(alone.why.contains(expected), "{}", alone.why);
    assert!(!alone.why.contains("capacity 0"), "{}", alone.why);
    let b = &alone.variants["b"];
    // Two at a time in 249 ms, of which 0.8 are planned with.
    assert!((b.capacity_rps.0 - 0.8 * 2e3 / 249.0).abs() < 0.5, "{b:?}");
    assert!(b.share.0 > 0.0);
    // So do all: shares are those of the measured rates.
    let factors = [f64::ceil(160.0 / ms[0]), 3.0];
    let slow = [
        ("a", (20.0, factors[0].min(4.0) * ms[0]), none),
        ("b", (20.0, factors[1] * ms[1]), none),
    ];
    let mut service = advisory();
    service.latency_max_ms = 100.0;
    let all = report(service, &[2, 2], 200.0, &slow).await;
    let capacities = ["a", "b"].map(|name| all.variants[name].capacity_rps.0);
    let shares = ["a", "b"].map(|name| all.variants[name].share.0);
    let expected = capacities[0] / (capacities[0] + capacities[1]);
    assert!(
        (shares[0] - expected).abs() < 1e-3,
        "{shares:?} {capacities:?}"
    );
    let expected = "; as measured, no variant is within the 100 ms of latencyBudget";
    assert!(all.why.contains(expected), "{}", all.why);
}

/// Profiles that are off by 14 and by 30 times are replaced by what is measured, which is said.
#[tokio::test]
async fn profiles_that_are_far_off_are_replaced_and_named() {
    let mut service = service(8);
    service.mode = Mode::Advisory;
    let profiles = service.variants.iter().map(|variant| variant.profile);
    let ms: Vec<f64> = profiles
        .map(|profile| profile.mean_ms(Cores::whole(2)))
        .collect();
    let none = (0.0, 0.0);
    let executions = [
        ("a", (20.0, 14.0 * ms[0]), none),
        ("b", (20.0, 30.0 * ms[1]), none),
    ];
    let report = report(service, &[2, 2], 200.0, &executions).await;
    for (name, index, factor, at_once) in [("a", 0, 14.0, 2.0), ("b", 1, 30.0, 2.0)] {
        let variant = &report.variants[name];
        let time = variant.service_time;
        assert_eq!((time.correction, time.replaces_profile), (factor, true));
        assert_eq!(time.state, VariantState::Normal);
        // Of what the slots execute in the measured time, 0.8 are planned with.
        let capacity = 0.8 * at_once * 1e3 / (factor * ms[index]);
        assert!(
            (variant.capacity_rps.0 - capacity).abs() < 0.01 * capacity,
            "{variant:?}"
        );
        assert!(variant.share.0 > 0.0, "{variant:?}");
        let expected = format!(
            "; the profile of {name} says {:.0} ms, measured {:.0} ms over 280 answers: planned with what is measured; \
             run `weir profile`",
            ms[index],
            factor * ms[index]
        );
        assert!(report.why.contains(&expected), "{}", report.why);
    }
    assert!(!report.why.contains("interfered"), "{}", report.why);
}
