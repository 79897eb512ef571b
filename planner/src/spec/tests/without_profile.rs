//! Services whose variants have no profile: what may be left out, and what is refused.

use weir_api::Cores;

use crate::capacity::Allocation;
use crate::service::{Mode, Service};
use crate::spec::ServiceSpec;

/// The shortest service file.
const SHORTEST: &str = "\
service: digits
listen: 127.0.0.1:8080
keyEnv: WEIR_KEY
slo: 400ms
proxies: {stats: ['http://127.0.0.1:9901/stats/prometheus?filter=weir_']}
variants:
- {name: small, cluster: small}
- {name: large, cluster: large}
";

#[test]
fn names_clusters_and_an_objective_suffice() {
    let service = Service::from_yaml(SHORTEST).unwrap();
    assert_eq!((service.mode, service.budget), (Mode::Advisory, 2));
    for variant in &service.variants {
        assert!(!variant.has_profile() && variant.profile.is_unknown());
        assert_eq!(variant.initial, Allocation::one(Cores::whole(1)));
        assert_eq!((variant.min, variant.max, variant.accuracy), (1, 1, 0.0));
        // One for each proxy, and a thousandth of the objective.
        assert_eq!(variant.profile.slots(Cores::whole(1)), 1);
        assert_eq!(variant.profile.service_ms(Cores::whole(1)), 0.4);
    }
}

/// Replacements in the shortest file that leave it valid → budget, and slots of the first variant on a core.
#[test]
fn keys_may_be_given_without_a_profile() {
    for (from, to, budget, slots) in [
        ("", "", 2, 1),
        ("small}", "small, cores: {initial: 4}}", 5, 1),
        (
            "small}",
            "small, cores: {initial: 4}, replicas: {initial: 2}}",
            9,
            1,
        ),
        ("small}", "small, batch: 8}", 2, 8),
        ("slo:", "budget: {cores: 6}\nslo:", 6, 1),
        (
            "stats: ['http://127.0.0.1:9901/stats/prometheus?filter=weir_']",
            "stats: ['http://127.0.0.1:1/stats', 'http://127.0.0.1:2/stats']",
            2,
            2,
        ),
        (
            "stats: ['http://127.0.0.1:9901/stats/prometheus?filter=weir_']",
            "dns: {name: envoy.mesh.svc, port: 9901}",
            2,
            4,
        ),
        // One variant has a profile, the other has none.
        (
            "small}",
            "small, cores: {initial: 1, min: 1, max: 1}, latency: {meanMs: 20, parallelism: 3}}",
            2,
            3,
        ),
    ] {
        let service = Service::from_yaml(&SHORTEST.replace(from, to)).unwrap();
        assert_eq!(service.budget, budget, "{to}");
        assert_eq!(
            service.variants[0].profile.slots(Cores::whole(1)),
            slots,
            "{to}"
        );
    }
}

#[test]
fn refusal_names_the_variant_the_reason_and_the_commands() {
    let commands = "`weir profile` writes one through its endpoint, `weir profile --from-proxy URL --service digits \
                    --variant small --cores N` one of its requests in production";
    let active = format!(
        "variants[0].latency: missing; it must be given, or profile (where it is), in mode active: what other cores would \
         do is planned; {commands}"
    );
    let ipa = format!(
        "variants[0].latency: missing; it must be given, or profile (where it is), with policy ipa: it plans by times on \
         other cores; {commands}"
    );
    for (from, to, expected) in [
        (
            "slo:",
            "mode: active\nslo:",
            "budget: missing; it must be given in mode active: the cores that all variants may use together",
        ),
        ("slo:", "mode: active\nbudget: {cores: 2}\nslo:", &active),
        ("slo:", "policy: ipa\nslo:", &ipa),
        (
            "small}",
            "small, capacity: {slopeRps: 1, interceptRps: 0}}",
            "variants[0].capacity: given; it must be left out without latency: the rate is measured in production, as the \
             times are",
        ),
        (
            "small}",
            "small, latency: {meanMs: 20}}",
            "variants[0].cores: missing; it must be given, where latency or profile are: these are by cores",
        ),
        (
            "small}",
            "small, accuracy: 80}",
            "variants[1].accuracy: missing; it must be 0 to 100 percent, here or in the profile; or left out of all variants",
        ),
        (
            "slo:",
            "serviceTimes: {correct: false}\nslo:",
            "serviceTimes.correct: false; it must be left out where a variant has no profile (small): it is planned with \
             what is measured",
        ),
    ] {
        let error = Service::from_yaml(&SHORTEST.replace(from, to)).unwrap_err();
        assert_eq!(error.to_string(), expected, "{to}");
    }
}

#[test]
fn what_is_left_out_stays_so_where_the_service_is_shown() {
    let spec = ServiceSpec::from_yaml(SHORTEST).unwrap();
    let shown = serde_json::to_value(&spec).unwrap();
    assert_eq!(shown.get("budget"), None);
    for key in ["cores", "latency", "accuracy", "profile"] {
        assert_eq!(shown["variants"][0].get(key), None, "{key}");
    }
}
