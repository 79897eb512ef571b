//! Limits of a service file, and its defaults.

use super::*;

#[test]
fn missing_keys_get_defaults() {
    let service = Service::from_yaml(&small()).unwrap();
    assert_eq!(service.latency_max_ms, 500.0);
    assert_eq!(service.on_time_target, 0.99);
    assert_eq!(service.plan_max_age, Duration::from_secs(60));
    assert_eq!(service.variants[0].max, 8, "the budget");
    assert_eq!(service.variants[0].min, 1);
    assert_eq!(service.variants[0].profile.utilisation, 0.8);
    assert_eq!(
        service.variants[0].profile.parallelism,
        crate::solve::latency_model::Parallelism::PerCore
    );
    assert_eq!(
        service.variants[1].profile.parallelism,
        crate::solve::latency_model::Parallelism::Fixed(std::num::NonZeroU32::new(2).unwrap())
    );
    assert_eq!(service.downstream_ms, 0.0);
    let staged = small().replace("slo: 1s", "slo: 1s\ndownstreamTime: 300.5ms");
    let staged = Service::from_yaml(&staged).unwrap();
    assert_eq!(
        (staged.downstream_ms, staged.latency_max_ms),
        (300.5, 349.75),
        "half of what is left to this stage"
    );
    let quiet = small().replace("mode: active\n", "");
    assert_eq!(
        Service::from_yaml(&quiet).unwrap().mode,
        Mode::Advisory,
        "nothing acts unless told to"
    );
}

#[test]
fn on_time_target_is_a_fraction_with_an_error_budget() {
    let with = |target: &str| {
        let line = format!("slo: 1s\nonTimeTarget: {target}");
        Service::from_yaml(&small().replace("slo: 1s", &line))
    };
    for (target, expected) in [("0.999", 0.999), ("0.999999", 0.999_999), ("1e-6", 1e-6)] {
        assert_eq!(with(target).unwrap().on_time_target, expected);
    }
    for wrong in ["0", "1", "99", "-0.5", "0.9999999", ".nan", ".inf"] {
        let refused = with(wrong).unwrap_err().to_string();
        let right = "it must be 0.000001 to 0.999999 of the demand, such as 0.99 for 99 %";
        assert!(refused.starts_with("onTimeTarget: "), "{wrong}: {refused}");
        assert!(refused.ends_with(right), "{wrong}: {refused}");
    }
    let refused = with("99%").unwrap_err().to_string();
    assert!(refused.starts_with("onTimeTarget: 99%; "), "{refused}");
}

#[test]
fn values_beyond_limits_are_refused() {
    let error = Service::from_yaml(&"#".repeat(FILE_BYTES_MAX + 1))
        .unwrap_err()
        .to_string();
    assert!(error.contains("at most 262144"), "{error}");
    let (head, tail) = small()
        .split_once("- name: a")
        .map(|(h, t)| (h.to_owned(), t.to_owned()))
        .unwrap();
    let one = format!("- name: a{}", tail.split("- name: b").next().unwrap())
        .replace("initial: 2", "initial: 0, min: 0");
    let named = |count: usize| -> String {
        (0..count)
            .map(|i| one.replace("name: a", &format!("name: a{i}")))
            .collect()
    };
    assert!(Service::from_yaml(&format!("{head}{}", named(64))).is_ok());
    let error = Service::from_yaml(&format!("{head}{}", named(65)))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("variants: 65") && error.contains("1 to 64"),
        "{error}"
    );
    let vast = format!("{head}{}", named(10)).replace("cores: 8", "cores: 1024");
    let error = Service::from_yaml(&vast).unwrap_err().to_string();
    assert!(
        error.contains("variants[].cores: 10250") && error.contains("at most 8192"),
        "{error}"
    );
}

#[test]
fn variant_without_resize_needs_no_address() {
    let fixed = small()
        .replace("min: 0, max: 4", "min: 2, max: 2")
        .replace("  resize: http://127.0.0.1:3/cores\n", "");
    assert_eq!(Service::from_yaml(&fixed).unwrap().variants[1].resize, None);
}
