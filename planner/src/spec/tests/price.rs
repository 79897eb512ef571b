//! Tests of the price of a variant's cores.

use super::*;

/// A service of policy infaas, whose only variant has those keys.
fn priced(keys: &str) -> Result<Service, crate::service::ConfigError> {
    let (head, _) = EXAMPLE.split_once("variants:\n").unwrap();
    Service::from_yaml(&format!(
        "{head}policy: infaas\nvariants:\n- name: a\n  cluster: a\n  accuracy: 70\n  {keys}\n  \
        cores: {{initial: 2, min: 2, max: 2}}\n  replicas: {{initial: 1, min: 0, max: 4}}\n  \
        latency: {{meanMs: 10, parallelism: 1}}\n  resize: http://127.0.0.1:9001/a\n"
    ))
}

#[test]
fn price_is_read_and_is_1_by_default() {
    for (keys, price) in [("", 1.0), ("price: 0.3825", 0.3825)] {
        let service = priced(keys).unwrap();
        assert_eq!(service.variants[0].price.to_bits(), f64::to_bits(price));
    }
}

#[test]
fn prices_beyond_the_limits_and_of_other_policies_are_refused() {
    for (keys, expected) in [
        ("price: 0", "variants[0].price: 0; it must be "),
        ("price: -1", "variants[0].price: -1"),
        ("price: 2000000", "variants[0].price: 2000000"),
    ] {
        let refused = priced(keys).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
    }
    let other = small().replace("name: a\n", "name: a\n  price: 2\n");
    let refused = Service::from_yaml(&other).unwrap_err().to_string();
    let expected = "variants[0].price: 2; it must be left out or 1, unless policy is infaas";
    assert!(refused.contains(expected), "{refused}");
    let one = small().replace("name: a\n", "name: a\n  price: 1\n");
    assert!(Service::from_yaml(&one).is_ok());
}
