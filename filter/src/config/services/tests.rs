//! Accepted lists of services, and the messages of refused ones.

use serde_json::{Value, json};

use super::super::Role;
use super::*;
use crate::request::matching::{HOSTS_MAX, Match};
use crate::request::protocol::PATHS_MAX;

fn plan() -> Value {
    json!({ "variants": [{ "name": "a", "cluster": "a", "share": 1, "slots": 2 }] })
}

/// A service with these keys beside its name and plan.
fn service(name: &str, more: Value) -> Value {
    let mut service = json!({ "service": name, "plan": plan() });
    let keys = more.as_object().unwrap().clone();
    service.as_object_mut().unwrap().extend(keys);
    service
}

/// A service of one host.
fn of_host(name: &str, host: &str) -> Value {
    service(name, json!({ "match": { "hosts": [host] } }))
}

fn parse(config: &Value) -> Result<Vec<Config>, String> {
    Config::parse_services(config.to_string().as_bytes()).map_err(|error| error.to_string())
}

#[track_caller]
fn refused(config: &Value, message: &str) {
    let error = parse(config).expect_err(message);
    let message = format!("plugin configuration: {message}");
    assert!(error.starts_with(&message), "'{error}' lacks '{message}'");
}

#[test]
fn one_service_without_match_matches_everything() {
    let [config] = &parse(&service("a", json!({}))).unwrap()[..] else {
        panic!("one service");
    };
    assert!(config.matches.is_everything());
    for everything in [
        json!({}),
        json!({ "hosts": [] }),
        json!({ "hosts": [], "paths": [] }),
    ] {
        let config = service("a", json!({ "match": everything }));
        assert!(parse(&config).unwrap()[0].matches.is_everything());
    }
    let some = json!({ "hosts": ["a.example", "*.b.example"], "paths": ["/a/*"] });
    let config = service("a", json!({ "match": some })).to_string();
    let matches: Match = Config::parse(config.as_bytes()).unwrap().matches;
    let shown = "hosts a.example *.b.example, paths /a/*";
    assert_eq!(matches.to_string(), shown);
}

#[test]
fn several_services_keep_their_order_and_configurations() {
    let config = json!({ "services": [
        service("a", json!({ "match": { "hosts": ["a"] }, "deadline": { "default_ms": 70 } })),
        service("a", json!({ "match": { "paths": ["/a/*"] }, "role": "router" })),
        service("b", json!({})),
    ] });
    let configs = parse(&config).unwrap();
    let names: Vec<_> = configs
        .iter()
        .map(|c| (c.service.as_str(), c.role))
        .collect();
    assert_eq!(
        names,
        [("a", Role::Both), ("a", Role::Router), ("b", Role::Both)]
    );
    assert_eq!(configs[0].deadline.default.as_millis(), 70);
    assert_eq!(configs[1].matches.to_string(), "paths /a/*");
    assert!(configs[2].matches.is_everything());
}

#[test]
fn keys_of_the_planner_are_inherited_one_by_one() {
    let own = |host: &str, planner: Value| json!({ "service": host, "match": { "hosts": [host] }, "planner": planner });
    let config = json!({
        "planner": { "cluster": "planner", "authority": "p.example", "key": "shared" },
        "services": [
            of_host("a", "a"),
            own("b", json!({ "key": "own" })),
            own("c", json!({ "cluster": "other", "authority": "o.example" })),
        ],
    });
    let configs = parse(&config).unwrap();
    let planners: Vec<_> = configs
        .iter()
        .map(|config| {
            let planner = config.planner.as_ref().unwrap();
            [&planner.cluster, &planner.authority, &planner.key].map(String::as_str)
        })
        .collect();
    assert_eq!(
        planners,
        [
            ["planner", "p.example", "shared"],
            ["planner", "p.example", "own"],
            ["other", "o.example", "shared"],
        ]
    );
    let config = json!({ "services": [own("a", json!({ "cluster": "planner" }))] });
    refused(&config, "services[0].planner: missing field `key`");
    let config = json!({ "planner": { "cluster": "p" }, "services": [of_host("a", "a")] });
    refused(&config, "services[0].planner: missing field `key`");
    let config =
        json!({ "planner": { "cluster": "p", "key": "" }, "services": [of_host("a", "a")] });
    refused(&config, "services[0].planner.key: (not shown) must be");
}

#[test]
fn errors_name_the_service_by_its_index() {
    for (more, message) in [
        (
            json!({ "match": { "hosts": ["B"] } }),
            "match.hosts[0]: 'B' must be a name without a port",
        ),
        (
            json!({ "match": { "hosts": ["b", "b:80"] } }),
            "match.hosts[1]: 'b:80' must be",
        ),
        (
            json!({ "match": { "paths": ["/b", "b"] } }),
            "match.paths[1]: 'b' must be a path",
        ),
        (
            json!({ "match": { "paths": ["/*"] } }),
            "match.paths[0]: '/*' must be",
        ),
        (
            json!({ "match": { "host": ["b"] } }),
            "match.host: unknown field `host`, expected `hosts` or `paths`",
        ),
        (
            json!({ "match": { "hosts": "b" } }),
            "match.hosts: invalid type",
        ),
        (
            json!({ "deadline": { "min_ms": 0 } }),
            "deadline.min_ms: 0 must be 1 to",
        ),
        (json!({ "colour": 1 }), "colour: unknown field `colour`"),
        (
            json!({ "plan": { "variants": [] } }),
            "plan: variants: 0 of them; there must be 1 to 64",
        ),
        (json!({ "plan": null }), "planner: (left out) must be given"),
        (
            json!({ "plan": null, "planner": { "cluster": "p", "key": "k" }, "on_stale": "static" }),
            "on_stale: 'static' must be 'keep' or 'refuse'",
        ),
    ] {
        let config = json!({ "services": [of_host("a", "a"), service("b", more.clone())] });
        refused(&config, &format!("services[1].{message}"));
        refused(&service("b", more), message);
    }
}

#[test]
fn lists_have_limits() {
    let many = |count: usize| {
        let name = |n: usize| of_host(&format!("s{n}"), &format!("h{n}"));
        json!({ "services": (0..count).map(name).collect::<Vec<_>>() })
    };
    assert_eq!(parse(&many(SERVICES_MAX)).unwrap().len(), SERVICES_MAX);
    refused(
        &many(SERVICES_MAX + 1),
        "services: 65 of them must be 1 to 64",
    );
    refused(&many(0), "services: 0 of them must be 1 to 64");
    for (key, item, max) in [("hosts", "a", HOSTS_MAX), ("paths", "/a", PATHS_MAX)] {
        let with = |count: usize| service("a", json!({ "match": { key: vec![item; count] } }));
        assert!(parse(&with(max)).is_ok(), "{key}");
        let message = format!("match.{key}: {} of them must be at most {max}", max + 1);
        refused(&with(max + 1), &message);
    }
}

#[test]
fn service_that_no_request_reaches_is_refused() {
    let everything = service("b", json!({}));
    for (first, second, message) in [
        (
            of_host("a", "h"),
            of_host("b", "h"),
            "'hosts h' must be different from that of services[0], or listed before it",
        ),
        (
            of_host("a", "*.h"),
            of_host("b", "x.h"),
            "'hosts x.h' must be different",
        ),
        (
            service("a", json!({})),
            everything.clone(),
            "'every request' must be different",
        ),
        (
            service("a", json!({ "match": { "paths": ["/a/*"] } })),
            service(
                "b",
                json!({ "match": { "paths": ["/a/b/*"], "hosts": ["h"] } }),
            ),
            "'hosts h, paths /a/b/*' must be different",
        ),
    ] {
        let config = json!({ "services": [first, second] });
        refused(&config, &format!("services[1].match: {message}"));
    }
    let config = json!({ "services": [of_host("a", "h"), everything] });
    assert!(parse(&config).is_ok(), "the rest is the second's");
}

#[test]
fn service_is_listed_once_for_each_role() {
    let config = json!({ "services": [of_host("a", "h"), of_host("b", "i"), of_host("a", "j")] });
    let message =
        "services[2].service: 'a' must be given once with role 'both': services[0] is the same";
    refused(&config, message);
}

#[test]
fn list_takes_no_keys_of_a_service_beside_it() {
    let config = json!({ "service": "a", "services": [of_host("a", "h")] });
    refused(
        &config,
        "service: unknown field `service`, expected `planner` or `services`",
    );
    let config = json!({ "services": [{ "services": [] }] });
    refused(&config, "services[0].services: unknown field `services`");
    let error = Config::parse(json!({ "services": [] }).to_string().as_bytes()).unwrap_err();
    assert!(error.to_string().contains("unknown field `services`"));
    for text in ["", "5", "[]", "{"] {
        assert!(Config::parse_services(text.as_bytes()).is_err(), "{text}");
    }
}
