//! Tests of what services may not share: names, clusters and requests.

use super::*;

/// A service of that name, with clusters of that name in theirs.
fn named(name: &str) -> Service {
    let text = example()
        .replace("service: resnet", &format!("service: {name}"))
        .replace("outbound|8000||", &format!("{name}-"))
        .replace(".models.svc.cluster.local", "");
    service(&ServiceSpec::from_yaml(&text).unwrap()).unwrap()
}

fn options(hosts: &[&str], paths: &[&str]) -> Options {
    Options {
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        paths: paths.iter().map(|&path| path.to_owned()).collect(),
        ..Options::default()
    }
}

fn together(services: &[(&str, Options)]) -> Result<Vec<File>, ManifestError> {
    let services: Vec<(Service, &Options)> = services
        .iter()
        .map(|(name, options)| (named(name), options))
        .collect();
    let services: Vec<_> = services
        .iter()
        .map(|(it, options)| (it, *options))
        .collect();
    render_together(&services)
}

/// Names of services in the order of the filter's list.
fn order(files: &[File]) -> Vec<String> {
    let requests = ServiceRequests::read(&[&files[0].documents[0].body]);
    requests.iter().map(|it| it.service().to_owned()).collect()
}

#[test]
fn narrower_services_are_listed_first() {
    let files = together(&[
        ("all", options(&[], &[])),
        ("domain", options(&["*.example.com"], &[])),
        ("other", options(&["example.org"], &[])),
        ("host", options(&["a.example.com"], &[])),
        ("path", options(&["a.example.com"], &["/v2/*"])),
    ])
    .unwrap();
    assert_eq!(order(&files), ["other", "path", "host", "domain", "all"]);
    // The order among others is that of the files.
    let files = together(&[("b", options(&["b"], &[])), ("a", options(&["a"], &[]))]).unwrap();
    assert_eq!(order(&files), ["b", "a"]);
}

#[test]
fn services_of_one_envoy_have_nothing_in_common() {
    let refused = |services: &[(&str, Options)], expected: &[&str]| {
        let error = together(services).unwrap_err().to_string();
        for part in expected {
            assert!(error.contains(part), "'{error}' does not say '{part}'");
        }
    };
    let (all, a) = (options(&[], &[]), options(&["a", "b"], &["/x"]));
    refused(
        &[("one", all.clone()), ("two", all.clone())],
        &[
            "--host, --path: every request, for service two as for service one",
            "--host NAME",
        ],
    );
    let same = options(&["b", "a"], &["/x"]);
    refused(
        &[("one", a.clone()), ("two", same)],
        &["hosts a b, paths /x for service one"],
    );
    refused(
        &[("one", a.clone()), ("one", all.clone())],
        &["service: one; it must be another name"],
    );
    let mut same = named("two");
    same.variants[1].cluster = "one-resnet50".to_owned();
    let error = render_together(&[(&named("one"), &a), (&same, &all)]).unwrap_err();
    let expected = "service two: variants[1].cluster: one-resnet50; it must be another name than the cluster of \
        service one";
    assert!(error.to_string().starts_with(expected), "{error}");
    same.variants[1].cluster = "planner-one".to_owned();
    let error = render_together(&[(&named("one"), &a), (&same, &all)]).unwrap_err();
    assert!(
        error.to_string().contains("the planner of service one"),
        "{error}"
    );
}

/// Returns what a service takes at Istio's or Envoy Gateway's proxies.
fn requests_of(name: &str, target: Target, options: &Options) -> ServiceRequests {
    let text = example().replace("service: resnet", &format!("service: {name}"));
    let files = render(&text, options, target).unwrap();
    let mut found = requests(&files);
    assert_eq!(found.len(), 1);
    found.remove(0)
}

#[test]
fn services_that_take_the_same_requests_are_refused() {
    let edge = |mut options: Options| {
        options.gateway.namespace = Some("edge".to_owned());
        options.gateway.parent = Some("edge/main".to_owned());
        options
    };
    let (all, host) = (options(&[], &[]), options(&["a.example.com"], &[]));
    // Whether Istio refuses them, whose filters all see every request, and Envoy Gateway, whose routes are sorted.
    for (first, second, chain, routes) in [
        (all.clone(), all.clone(), true, true),
        (host.clone(), host.clone(), true, true),
        (all.clone(), host.clone(), true, false),
        (options(&["*.example.com"], &[]), host.clone(), true, false),
        (
            options(&["a.example.com", "b"], &[]),
            options(&["b", "c"], &[]),
            true,
            false,
        ),
        (
            options(&["a"], &["/v2/*"]),
            options(&["a"], &["/v2/x", "/y"]),
            true,
            false,
        ),
        (
            options(&["a"], &["/v2/*"]),
            options(&["a"], &["/v1/*"]),
            false,
            false,
        ),
        (
            options(&["a"], &["/v2/*"]),
            options(&["b"], &["/v2/*"]),
            false,
            false,
        ),
        (host, options(&["b.example.com"], &[]), false, false),
        (all.clone(), edge(all), false, false),
    ] {
        for (target, refused) in [(Target::Istio, chain), (Target::Gateway, routes)] {
            let first = requests_of("one", target, &first);
            let second = requests_of("two", target, &second);
            for (a, b) in [(&first, &second), (&second, &first)] {
                let checked = a.check_beside(std::slice::from_ref(b));
                assert_eq!(checked.is_err(), refused, "{target:?}: {a:?}, {b:?}");
                let Err(error) = checked else { continue };
                let error = error.to_string();
                for part in [
                    "--host, --path: ",
                    "service one",
                    "service two",
                    "of its own",
                ] {
                    assert!(error.contains(part), "'{error}' does not say '{part}'");
                }
            }
            // A service may take what it took before.
            first.check_beside(std::slice::from_ref(&first)).unwrap();
        }
    }
}
