//! Fractions of a core in a service file.

use weir_api::Cores;

use super::*;

/// The small service with this budget, and these cores of its variants.
fn with(budget: &str, a: &str, b: &str) -> Result<Service, String> {
    let text = small()
        .replace("budget: {cores: 8}", &format!("budget: {budget}"))
        .replace("cores: {initial: 2}", &format!("cores: {a}"))
        .replace(
            "cores: {initial: 2, min: 0, max: 4}",
            &format!("cores: {b}"),
        );
    Service::from_yaml(&text).map_err(|error| error.to_string())
}

#[test]
fn sizes_are_multiples_of_the_step() {
    let service = with(
        "{cores: 3, step: 500m}",
        "{initial: 500m, min: 0.5}",
        "{initial: 1.5, min: 0, max: 2500m}",
    )
    .unwrap();
    let millis = Cores::from_millis;
    assert_eq!((service.step, service.budget), (millis(500), 6));
    assert_eq!(service.budget_cores(), Cores::whole(3));
    let [a, b] = &service.variants[..] else {
        panic!("not two variants")
    };
    assert_eq!((a.min, a.max, a.initial.cores()), (1, 6, millis(500)));
    assert_eq!((b.min, b.max, b.initial.cores()), (0, 5, millis(1500)));
    assert_eq!(b.cores(b.max), millis(2500));
}

#[test]
fn wrong_size_or_step_is_refused() {
    let (a, b) = ("{initial: 1}", "{initial: 1, min: 0}");
    for (budget, a, b, message) in [
        (
            "{cores: 8}",
            "{initial: 1.5}",
            b,
            "variants[0].cores.initial: 1.5; it must be a multiple of budget.step (1)",
        ),
        (
            "{cores: 2.5}",
            a,
            b,
            "budget.cores: 2.5; it must be a multiple of budget.step (1)",
        ),
        (
            "{cores: 8, step: 0.25}",
            "{initial: 1, max: 1.1}",
            b,
            "variants[0].cores.max: 1.1; it must be a multiple of budget.step (0.25)",
        ),
        (
            "{cores: 8, step: 0.5}",
            "{initial: 0.5}",
            b,
            "variants[0].cores.initial: 0.5; it must be 1 to 8 cores, cores.min to cores.max",
        ),
        (
            "{cores: 8, step: 0.3}",
            a,
            b,
            "budget.step: 0.3; it must be 0.01 to 1 core",
        ),
        (
            "{cores: 8, step: 5m}",
            a,
            b,
            "budget.step: 0.005; it must be 0.01 to 1 core",
        ),
        (
            "{cores: 8, step: 2}",
            a,
            b,
            "budget.step: 2; it must be 0.01 to 1 core",
        ),
        (
            "{cores: 8, step: 0}",
            a,
            b,
            "budget.step: 0; it must be 0.01 to 1 core",
        ),
        (
            "{cores: 700, step: 0.01}",
            a,
            b,
            "budget.cores: 700; it must be 0.01 to 655.36 cores",
        ),
        (
            "{cores: 20, step: 0.01}",
            "{initial: 1, max: 11}",
            b,
            "variants[0].cores.max: 11; it must be 0.01 to 10.24 cores",
        ),
        (
            "{cores: 1, step: 0.5}",
            "{initial: 0.5, min: 0.5}",
            "{initial: 1, min: 0}",
            "variants[].cores.initial: 1.5; it must be at most budget.cores (1)",
        ),
    ] {
        let error = with(budget, a, b).unwrap_err();
        assert!(error.contains(message), "{budget} {a} {b}: {error}");
    }
}

/// A service of one variant with that policy, these cores and this parallelism, in steps of 0.1.
fn one(policy: &str, cores: &str, parallelism: &str) -> Result<Service, String> {
    let head = small().replace("budget: {cores: 8}", "budget: {cores: 2, step: 0.1}");
    let head = head.split("variants:").next().unwrap();
    let text = format!(
        "{head}policy: {policy}\nvariants: [{{name: a, cluster: a, accuracy: 70, cores: {cores}, \
         latency: {{gammaMs: 40, parallelism: {parallelism}}}, \
         resize: 'http://127.0.0.1:2/cores'}}]\n"
    );
    Service::from_yaml(&text).map_err(|error| error.to_string())
}

#[test]
fn every_policy_plans_replicas_with_fractions() {
    let fixed = "{initial: 0.3, min: 0.3, max: 0.3}, replicas: {initial: 1, min: 0, max: 4}";
    let scaled = "{initial: 0.1, min: 100m, max: 0.8}, replicas: {initial: 1, min: 1, max: 4}";
    let new = "themis\nthemis: {horizontalCores: 200m}";
    for (policy, cores, sizes) in [
        ("ipa", fixed, (3, 3)),
        ("infaas", fixed, (3, 3)),
        (new, scaled, (1, 8)),
        ("sponge", "{initial: 0.2, min: 0.1, max: 0.8}", (1, 8)),
    ] {
        let service = one(policy, cores, "1").unwrap_or_else(|error| panic!("{policy}: {error}"));
        let variant = &service.variants[0];
        assert_eq!((variant.min, variant.max), sizes, "{policy}");
        assert_eq!(service.budget, 20);
    }
}

#[test]
fn fraction_of_a_replica_is_refused() {
    let scaled = "{initial: 0.1, min: 0.1, max: 0.8}";
    for (policy, cores, parallelism, message) in [
        (
            "ipa",
            "{initial: 0.5, min: 0.5}",
            "per-core",
            "cores.min: 0.5; it must be a multiple of 1, with policy ipa and parallelism per-core",
        ),
        (
            "ipa",
            "{initial: 0.5, min: 0, max: 0.5}",
            "per-core",
            "cores.max: 0.5; it must be 1 or more, with policy ipa and parallelism per-core",
        ),
        (
            "infaas",
            "{initial: 0.1, min: 0, max: 1.9}",
            "per-core",
            "cores.max: 1.9; it must be 2, with policy infaas: the budget alone bounds replicas",
        ),
        (
            "ipa",
            scaled,
            "1",
            "cores.min: 0.1; it must be 0.8, as cores.max: policy ipa",
        ),
        (
            "themis",
            scaled,
            "1",
            "cores: 0.1 to 0.8; it must be with themis.horizontalCores (1) in between",
        ),
        (
            "themis\nthemis: {horizontalCores: 0.25}",
            scaled,
            "1",
            "themis.horizontalCores: 0.25; it must be a multiple of budget.step (0.1)",
        ),
        (
            "themis\nthemis: {horizontalCores: 0}",
            scaled,
            "1",
            "themis.horizontalCores: 0; it must be 0.01 to 256 cores",
        ),
    ] {
        let error = one(policy, cores, parallelism).unwrap_err();
        assert!(error.contains(message), "{policy} {cores}: {error}");
    }
}
