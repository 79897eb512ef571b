//! Explanations for capacities lower than what servers execute.

use super::*;

/// MLServer's digits (mlserver 1.7, three sizes, fixed cores); `parallelism` is that of `large`.
fn digits(latency_budget: &str, parallelism: u32) -> Service {
    let variant = |name: &str, accuracy: f64, rps: f64, ms: f64, parallelism: u32| {
        format!(
            "- {{name: {name}, cluster: {name}, accuracy: {accuracy}, cores: {{initial: 1, min: 1, max: 1}}, \
             capacity: {{slopeRps: {rps}, interceptRps: 0}}, latency: {{gammaMs: {ms}, epsilonMs: 0, \
             deltaMs: 0, etaMs: 0, parallelism: {parallelism}, tail: 1.4}}}}\n"
        )
    };
    let variants = variant("small", 91.21, 44.2, 25.6, 1)
        + &variant("medium", 97.78, 25.3, 43.8, 1)
        + &variant("large", 98.89, 13.7, 75.2, parallelism);
    let text = format!(
        "service: digits\nlisten: 127.0.0.1:0\nkeyEnv: WEIR_KEY\nslo: 400ms\n{latency_budget}mode: advisory\n\
         budget: {{cores: 3}}\nproxies: {{stats: [\"http://127.0.0.1:1/stats\"]}}\nvariants:\n{variants}"
    );
    Service::from_yaml(&text).unwrap()
}

async fn why(service: Service, real: &[u32], rps: f64) -> CycleReport {
    let mut bed = Bed::new(service, real);
    for _ in 0..3 {
        bed.run_cycle(rps).await;
    }
    bed.run_cycle(rps).await
}

#[tokio::test]
async fn variant_over_latency_budget_is_named_with_right_value() {
    // Two slots on one core: each answer takes twice as long, 2 × 75.2 × 1.4 ms.
    let report = why(digits("", 2), &[1, 1, 1], 40.0).await;
    assert_eq!(report.variants["large"].share.0, 0.0);
    let expected = "; large has capacity 0 and only the share that the others cannot carry: it takes 211 ms \
                (cores: 1, its most), latencyBudget 0.50 of 400 ms allows 200; 0.53 or more would do";
    assert!(report.why.contains(expected), "{}", report.why);
    assert!(!report.why.contains("small has"), "{}", report.why);

    let report = why(digits("latencyBudget: 0.53\n", 2), &[1, 1, 1], 76.0).await;
    assert!(report.variants["large"].share.0 > 0.0, "{}", report.why);
    assert!(!report.why.contains("capacity 0"), "{}", report.why);
    // No latency budget suffices here, so the SLO is too short.
    let report = why(digits("latencyBudget: 1.0\n", 4), &[1, 1, 1], 20.0).await;
    let expected = "takes 421 ms (cores: 1, its most), latencyBudget 1.00 of 400 ms allows 400; \
                slo of 422ms or more would do";
    assert!(report.why.contains(expected), "{}", report.why);
}

#[tokio::test]
async fn variant_over_latency_budget_takes_what_the_others_cannot_carry() {
    // One after the other they execute 1000 / 25.6 and 1000 / 43.8 a second: 49.5 at 0.8. Large has 0.8 · 1000 / 75.2.
    let shares = async |rps: f64| {
        let report = why(digits("", 2), &[1, 1, 1], rps).await;
        ["small", "large"].map(|name| report.variants[name].share.0)
    };
    // The others keep a fifth back, so the headroom of the demand is left out: 0.5 of 50, less than in proportion.
    let [_, large] = shares(50.0).await;
    assert!((0.005..0.02).contains(&large), "{large}");
    // More than all of them carry: in proportion.
    let [small, large] = shares(200.0).await;
    assert!(
        (small / large - 75.2 / 25.6).abs() < 0.01,
        "{small} {large}"
    );
    // In no time that the objective has.
    let report = why(digits("", 4), &[1, 1, 1], 200.0).await;
    assert_eq!(report.variants["large"].share.0, 0.0);
    assert!(
        report.why.contains("large has capacity 0 and share 0"),
        "{}",
        report.why
    );
}

#[tokio::test]
async fn variant_too_slow_on_actual_cores_is_reported_to_need_more() {
    // b takes 164 ms with 1 core, 83 ms with 2.
    let mut service = service(8);
    service.latency_max_ms = 150.0;
    service.mode = Mode::Advisory;
    let report = why(service, &[3, 1], 20.0).await;
    let expected = "; b has capacity 0 and only the share that the others cannot carry: it takes";
    assert!(report.why.contains(expected), "{}", report.why);
    let expected = "(cores: 1), latencyBudget 0.15 of 1000 ms allows 150; it needs more cores";
    assert!(report.why.contains(expected), "{}", report.why);
}

#[tokio::test]
async fn all_variants_over_budget_are_named_and_share_by_slots() {
    let mut service = service(8);
    service.latency_max_ms = 1.0;
    let report = why(service, &[3, 2], 20.0).await;
    for expected in [
        "; a has capacity 0: it takes",
        "; b has capacity 0: it takes",
    ] {
        assert!(report.why.contains(expected), "{}", report.why);
    }
    assert!(report.variants.values().all(|one| one.share.0 > 0.0));
    assert!(!report.why.contains("utilisation"), "{}", report.why);
}

#[tokio::test]
async fn demand_above_capacity_names_utilisation() {
    let report = why(digits("", 1), &[1, 1, 1], 76.0).await;
    let expected = "; only 0.8 of what servers sustain is planned with (capacity.utilisation)";
    assert_eq!(report.outcome, SolveStatus::Infeasible);
    assert!(
        report.why.contains("exceeds the 60.") && report.why.contains(expected),
        "{}",
        report.why
    );
    // A carried demand needs no explanation.
    let report = why(digits("", 1), &[1, 1, 1], 20.0).await;
    assert!(!report.why.contains("utilisation"), "{}", report.why);
    // Nor does a utilisation of 1.
    let mut all = digits("", 1);
    for variant in &mut all.variants {
        variant.profile.utilisation = 1.0;
    }
    let report = why(all.clone(), &[1, 1, 1], 200.0).await;
    assert_eq!(report.outcome, SolveStatus::Infeasible);
    assert!(!report.why.contains("utilisation"), "{}", report.why);
    all.variants[0].profile.utilisation = 0.7;
    let report = why(all, &[1, 1, 1], 200.0).await;
    assert!(report.why.contains("; only 0.7 to 1 of"), "{}", report.why);
}
