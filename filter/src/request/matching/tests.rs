//! Hosts and paths that match, and the order of services.

use proptest::prelude::*;

use super::*;

fn of(hosts: &[&str], paths: &[&str]) -> Match {
    Match {
        hosts: hosts.iter().map(|host| Host::new(host).unwrap()).collect(),
        paths: paths
            .iter()
            .map(|path| Pattern::new(path).unwrap())
            .collect(),
    }
}

#[test]
fn hosts_are_compared_without_case_port_and_trailing_dot() {
    for (host, authority, matches) in [
        ("a.example", "a.example", true),
        ("a.example", "A.Example", true),
        ("a.example", "a.example:8080", true),
        ("a.example", "a.example.", true),
        ("a.example", "A.EXAMPLE.:443", true),
        ("a.example", "a.example..", false),
        ("a.example", "a.example:http", false),
        ("a.example", "b.a.example", false),
        ("a.example", "a.examples", false),
        ("a.example", "user@a.example", false),
        ("a.example", "", false),
        ("*.example", "a.example", true),
        ("*.example", "b.A.Example:80", true),
        ("*.example", "example", false),
        ("*.example", ".example", false),
        ("*.example", "anexample", false),
        ("10.0.0.7", "10.0.0.7:80", true),
    ] {
        let ours = of(&[host], &[]);
        let found = ours.applies(host_of(authority.as_bytes()), b"/");
        assert_eq!(found, matches, "{host}, {authority}");
    }
    assert_eq!(host_of(b"[::1]:80"), b"[::1]");
    assert_eq!(host_of(b"[::1]"), b"[::1]");
    assert_eq!(host_of(b":80"), b"");
}

#[test]
fn only_names_and_domains_are_hosts() {
    let longest = format!("a{}", ".a".repeat(126));
    for host in ["a", "a_b.c-d", "*.a", "10.0.0.7", &longest] {
        assert!(Host::new(host).is_some(), "{host}");
    }
    let too_long = format!("{longest}a");
    for host in [
        "", "*", "*.", "*a", "a.*", "**.a", ".a", "a.", "a..b", "A", "a:80", "a b", "é", "[::1]",
        &too_long,
    ] {
        assert!(Host::new(host).is_none(), "{host}");
    }
}

/// A client that could leave its service by an escape would be served without a slot.
#[test]
fn paths_are_compared_as_sent_without_their_query() {
    for (pattern, path, matches) in [
        ("/a/*", "/a/", true),
        ("/a/*", "/a/b/c?d", true),
        ("/a/*", "/a/%2e%2e/b", true),
        ("/a/*", "/a/b;c", true),
        ("/a/*", "/a/../b", true),
        ("/a/*", "/a", false),
        ("/a/*", "/b/../a/c", false),
        ("/a/*", "/b?/a/", false),
        ("/a*", "/ab", true),
        ("/a", "/a", true),
        ("/a", "/a?b", true),
        ("/a", "/a/", false),
        ("/v2/models/*/infer", "/v2/models/x%20y/infer", true),
        ("/v2/models/*/infer", "/v2/models/x/ready?/infer", false),
    ] {
        let ours = of(&[], &[pattern]);
        assert_eq!(
            ours.applies(b"", path.as_bytes()),
            matches,
            "{pattern}, {path}"
        );
    }
}

#[test]
fn first_match_in_order_is_chosen() {
    let services = [
        of(&["a.example"], &["/a/*", "/b"]),
        of(&["a.example", "*.b.example"], &[]),
        of(&[], &["/c/*"]),
    ];
    for (authority, path, index) in [
        ("a.example", "/a/x", Some(0)),
        ("a.example", "/b?q", Some(0)),
        ("a.example", "/c/x", Some(1)),
        ("x.b.example:80", "/a/x", Some(1)),
        ("b.example", "/c/x", Some(2)),
        ("b.example", "/a/x", None),
    ] {
        let headers = [
            (":method", "GET"),
            (":path", path),
            (":authority", authority),
            ("host", "a.example"),
        ];
        let headers = headers.map(|(name, value)| (name, value.as_bytes()));
        assert_eq!(first(&services, headers), index, "{authority}{path}");
    }
    let nothing: [(&str, &[u8]); 0] = [];
    assert_eq!(first(&services, nothing), None);
    assert_eq!(first(&[Match::default()], nothing), Some(0));
}

#[test]
fn covered_match_is_recognized() {
    let everything = Match::default();
    for (ours, other, covers) in [
        (of(&["a"], &["/a"]), of(&["a"], &["/a"]), true),
        (everything.clone(), of(&["a"], &["/a"]), true),
        (of(&["a"], &[]), everything.clone(), false),
        (everything.clone(), everything, true),
        (of(&["a", "b"], &[]), of(&["b"], &["/a"]), true),
        (of(&["b"], &[]), of(&["a", "b"], &[]), false),
        (of(&["*.a"], &[]), of(&["x.a", "*.y.a"], &[]), true),
        (of(&["*.a"], &[]), of(&["a"], &[]), false),
        (of(&["x.a"], &[]), of(&["*.a"], &[]), false),
        (of(&[], &["/a*"]), of(&["h"], &["/a", "/ab/*c"]), true),
        (of(&[], &["/a/*"]), of(&[], &["/a"]), false),
        (of(&[], &["/a/*c"]), of(&[], &["/a/bc"]), false),
        (of(&["h"], &["/a/*"]), of(&[], &["/a/*"]), false),
    ] {
        assert_eq!(ours.covers(&other), covers, "{ours:?}, {other:?}");
    }
}

/// Few names, so that matches meet.
fn any_match() -> impl Strategy<Value = Match> {
    let host = proptest::sample::select(vec!["a", "b", "x.a", "*.a", "*.x.a", "y.x.a"]);
    let path = proptest::sample::select(vec!["/a", "/a*", "/a/*", "/a/*/c", "/a/b/c", "/b"]);
    let hosts = proptest::collection::vec(host, 0..3);
    let paths = proptest::collection::vec(path, 0..3);
    (hosts, paths).prop_map(|(hosts, paths)| of(&hosts, &paths))
}

proptest! {
    #[test]
    fn service_behind_one_that_covers_it_is_never_chosen(
        ours in any_match(),
        other in any_match(),
        host in "(y\\.)?(x\\.)?[aAb]\\.?(:[0-9]{1,3})?",
        path in "/[ab](/[ab%.]{0,2}){0,2}(/c)?(\\?c)?",
    ) {
        let headers = [(":authority", host.as_bytes()), (":path", path.as_bytes())];
        let chosen = first([&ours, &other], headers);
        prop_assert!(!ours.covers(&other) || chosen != Some(1));
        prop_assert!(ours.covers(&ours));
    }

    #[test]
    fn any_bytes_are_compared(
        ours in any_match(),
        host in proptest::collection::vec(any::<u8>(), 0..20),
        path in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let headers = [(":authority", &host[..]), (":path", &path[..])];
        let chosen = first([&ours, &Match::default()], headers);
        prop_assert_eq!(chosen == Some(0), ours.applies(host_of(&host), &path));
    }
}
