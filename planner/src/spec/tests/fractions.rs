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

#[test]
fn policies_of_whole_cores_refuse_a_step() {
    for policy in ["ipa", "infaas", "themis"] {
        let text = small().replace("budget: {cores: 8}", "budget: {cores: 8, step: 0.5}");
        let text = format!("policy: {policy}\n{text}");
        let error = Service::from_yaml(&text).unwrap_err().to_string();
        let message = format!("budget.step: 0.5; it must be 1, or left out, with policy {policy}");
        assert!(error.contains(&message), "{error}");
    }
}
