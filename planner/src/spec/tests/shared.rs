//! Tests of the membership in a shared budget: accepted values and refusals.

use super::*;
use crate::service::Membership;

#[test]
fn membership_has_a_weight_of_one_by_default() {
    let shared = |keys: &str| {
        let text = small().replace("{cores: 8}", &format!("{{cores: 8{keys}}}"));
        Service::from_yaml(&text).map(|service| service.shared)
    };
    let member = |weight| Membership {
        budget: "cpu-pool".to_owned(),
        weight,
    };
    assert_eq!(shared(""), Ok(None));
    assert_eq!(shared(", shared: cpu-pool"), Ok(Some(member(1.0))));
    let weighted = shared(", shared: cpu-pool, weight: 2.5");
    assert_eq!(weighted, Ok(Some(member(2.5))));
    for (keys, expected) in [
        (
            ", shared: CPU",
            "budget.shared: CPU; it must be 1 to 63 of a-z",
        ),
        (", shared: ''", "budget.shared: ; it must be 1 to 63 of a-z"),
        (
            ", weight: 2",
            "budget.weight: 2; it must be left out: it is for a shared budget, named in budget.shared",
        ),
        (
            ", shared: a, weight: 0",
            "budget.weight: 0; it must be 0.001 to 1000",
        ),
        (
            ", shared: a, weight: 1001",
            "budget.weight: 1001; it must be 0.001 to 1000",
        ),
        (
            ", shared: a, weight: .nan",
            "budget.weight: NaN; it must be 0.001 to 1000",
        ),
    ] {
        let error = shared(keys).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
