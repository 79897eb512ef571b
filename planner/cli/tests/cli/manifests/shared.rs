//! Several services: in one bootstrap of Envoy, and in one folder.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{TARGETS, files, made_in, refuses, root, taken};

/// Writes a service of that name, with clusters of its own, into the folder. Returns its path.
fn service_file(folder: &Path, name: &str, namespace: &str) -> String {
    let text = fs::read_to_string(root().join("k8s/service.example.yaml")).unwrap();
    let text = text
        .replace("service: resnet", &format!("service: {name}"))
        .replace(".models.svc", &format!(".{namespace}.svc"));
    let path = folder.join(format!("{name}.yaml"));
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn several_services_share_one_bootstrap() {
    let folder = tempfile::tempdir().unwrap();
    let a = service_file(folder.path(), "a", "models");
    let b = service_file(folder.path(), "b", "vision");
    let out = folder.path().join("out");
    let hosts = [
        "--host",
        "a=a.example.com",
        "--host",
        "example.com",
        "--path",
        "b=/v2/*",
    ];
    let arguments = [&["--envoy", &a, &b][..], &hosts].concat();
    made_in(&out, &arguments);
    let made = files(&out);
    let command = format!(
        "weir manifests --envoy {a} {b} {}",
        hosts.join(" ").replace("b=/v2/*", "'b=/v2/*'")
    );
    assert!(
        made["envoy/weir.yaml"].starts_with(&format!("# Made by `{command}`.")),
        "{command}"
    );
    let mut config: Value = serde_saphyr::from_str(&made["envoy/weir.yaml"]).unwrap();
    let services = taken(&mut config)["services"].clone();
    // A host without a service is of both. `b` has a path, but not all of the hosts of `a`: the order stays.
    let matches: Vec<&Value> = services
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["match"])
        .collect();
    let expected = [
        json!({ "hosts": ["a.example.com", "example.com"] }),
        json!({ "hosts": ["example.com"], "paths": ["/v2/*"] }),
    ];
    assert_eq!(
        matches,
        [&expected[1], &expected[0]],
        "the narrower one is first"
    );

    // All services of the bootstrap are rendered at once.
    let out_text = out.to_str().unwrap();
    let alone = ["--envoy", &a, "--out", out_text];
    refuses(
        &alone,
        &[
            "envoy/weir.yaml: ",
            "it has service b, which this command leaves out",
            "--replace",
        ],
    );
    assert_eq!(files(&out), made, "nothing is written");
    made_in(&out, &arguments);
    assert_eq!(files(&out), made);
    made_in(&out, &["--envoy", &a, "--replace"]);
}

#[test]
fn services_that_cannot_share_an_envoy_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let a = service_file(folder.path(), "a", "models");
    let b = service_file(folder.path(), "b", "vision");
    let c = service_file(folder.path(), "c", "models");
    let own = ["--host", "a=a", "--host", "c=c"];
    refuses(
        &["--envoy", &a, &b],
        &[
            "--host, --path: every request, for service b as for service a",
            "--host NAME.example.com",
        ],
    );
    refuses(
        &["--envoy", &a, &b, "--host", "x"],
        &["hosts x, for service b as for service a"],
    );
    refuses(
        &[&["--envoy", &a, &c][..], &own].concat(),
        &[
            "service c: variants[0].cluster: outbound|8000||resnet18.models",
            "of service a",
        ],
    );
    refuses(
        &[&["--envoy", &a, &a][..], &own[..2]].concat(),
        &["service: a; it must be another name"],
    );
    refuses(
        &["--envoy", &a, &b, "--host", "d=x"],
        &["--host: d=x; it must begin with a service of the files, which are a, b"],
    );
    for target in TARGETS {
        refuses(
            &[target, &a, &b],
            &[
                "FILE: 2 of them; it must be 1 with",
                target,
                "the same --out",
            ],
        );
    }
    refuses(&["--envoy"], &["<FILE>"]);
}

/// A second service that takes the first one's requests is not added to its folder.
#[test]
fn second_service_with_the_same_requests_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let a = service_file(folder.path(), "a", "models");
    let b = service_file(folder.path(), "b", "vision");
    for (target, first, second, refused) in [
        ("--istio", "", "", true),
        ("--gateway", "", "", true),
        ("--istio", "x", "x", true),
        ("--gateway", "x", "x", true),
        // Istio's filters see every request; Envoy Gateway's narrower route goes first.
        ("--istio", "", "x", true),
        ("--gateway", "", "x", false),
        ("--istio", "x", "y", false),
        ("--gateway", "x", "y", false),
        ("--kubernetes", "", "", false),
    ] {
        let out = tempfile::tempdir().unwrap();
        let of = |file, host| match host {
            "" => vec![target, file],
            host => vec![target, file, "--host", host],
        };
        made_in(out.path(), &of(&a, first));
        let before = files(out.path());
        let mut arguments = of(&b, second);
        if !refused {
            made_in(out.path(), &arguments);
            continue;
        }
        arguments.extend(["--out", out.path().to_str().unwrap()]);
        refuses(
            &arguments,
            &[
                "--out: ",
                "--host, --path: ",
                "service a",
                "service b",
                "of its own",
            ],
        );
        assert_eq!(files(out.path()), before, "nothing is written");
    }
}
