//! Proxies of a service file by a DNS name.

use std::time::Duration;

use super::small;
use crate::service::{ProxyDns, Service};

/// A service file with these proxies.
fn with(proxies: &str) -> Result<Service, String> {
    let text = small();
    let stats = "proxies: {stats: [\"http://127.0.0.1:1/stats\"]}";
    assert!(text.contains(stats), "{text}");
    let text = text.replace(stats, &format!("proxies: {proxies}"));
    Service::from_yaml(&text).map_err(|error| error.to_string())
}

#[test]
fn name_has_defaults_of_its_own() {
    let service = with("{dns: {name: envoy.mesh.svc, port: 9901}}").unwrap();
    let expected = ProxyDns {
        name: "envoy.mesh.svc".to_owned(),
        port: 9901,
        path: "/stats/prometheus?filter=weir_".to_owned(),
        interval: Duration::from_secs(5),
    };
    assert_eq!(
        (service.proxy_dns, service.stats),
        (Some(expected), Vec::new())
    );
    for name in [
        "localhost",
        "Envoy.mesh.svc.cluster.local.",
        "_stats.envoy-1.example",
    ] {
        let full = format!("{{dns: {{name: {name}, port: 1, path: /s, interval: 10m}}}}");
        let dns = with(&full).unwrap().proxy_dns.unwrap();
        assert_eq!((&*dns.name, dns.interval), (name, Duration::from_secs(600)));
    }
}

#[test]
fn wrong_values_are_named_with_what_is_right() {
    let long = format!("{{dns: {{name: {}a, port: 1}}}}", "a.".repeat(126) + "a");
    for (proxies, expected) in [
        ("{dns: envoy:9901}", "proxies.dns: "),
        ("{dns: {port: 1}}", "proxies.dns"),
        ("{dns: {name: envoy}}", "proxies.dns"),
        ("{dns: {name: envoy, port: 1, ttl: 5s}}", "proxies.dns"),
        (
            "{dns: {name: '', port: 1}}",
            "proxies.dns.name: ; it must be a DNS name without a port",
        ),
        (
            "{dns: {name: 'envoy:9901', port: 1}}",
            "proxies.dns.name: envoy:9901; it must be",
        ),
        (
            "{dns: {name: 'http://envoy', port: 1}}",
            "proxies.dns.name: http://envoy; it must be",
        ),
        (
            "{dns: {name: 10.0.0.1, port: 1}}",
            "proxies.dns.name: 10.0.0.1; it must be",
        ),
        (
            "{dns: {name: '::1', port: 1}}",
            "proxies.dns.name: ::1; it must be",
        ),
        (
            "{dns: {name: a..b, port: 1}}",
            "proxies.dns.name: a..b; it must be",
        ),
        (
            "{dns: {name: -a, port: 1}}",
            "proxies.dns.name: -a; it must be",
        ),
        (&long, "proxies.dns.name: a.a."),
        (
            "{dns: {name: envoy, port: 0}}",
            "proxies.dns.port: 0; it must be 1 to 65535",
        ),
        (
            "{dns: {name: envoy, port: 1, path: s}}",
            "proxies.dns.path: s; it must be a path",
        ),
        (
            "{dns: {name: envoy, port: 1, interval: 999ms}}",
            "proxies.dns.interval: 999ms; it must be 1s to 10m",
        ),
        (
            "{dns: {name: envoy, port: 1, interval: 10m1s}}",
            "proxies.dns.interval: 10m1s; it must be 1s to 10m",
        ),
        (
            "{stats: [\"http://a/\"], dns: {name: envoy, port: 1}}",
            "proxies.stats, dns: all given; it must be exactly one of these",
        ),
        (
            "{}",
            "proxies.stats, dns, pods: all missing; it must be exactly one of these",
        ),
    ] {
        let refused = with(proxies).unwrap_err();
        assert!(refused.starts_with(expected), "{proxies}: {refused}");
    }
}
