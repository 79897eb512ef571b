//! Tests of a planner with TLS: all that listens, probes and calls it agrees.

use serde_json::{Value, json};

use super::*;

fn options(tls: PlannerTls) -> Options {
    Options {
        planner_tls: Some(tls),
        ..Options::default()
    }
}

fn tls() -> PlannerTls {
    PlannerTls {
        secret: "planner-cert".to_owned(),
        ..PlannerTls::default()
    }
}

/// Documents of these files, by kind.
fn documents<'a>(files: &'a [File], kind: &str) -> Vec<&'a Value> {
    let documents = files.iter().flat_map(|file| &file.documents);
    let bodies = documents.map(|document| &document.body);
    bodies.filter(|body| body["kind"] == kind).collect()
}

#[test]
fn planner_listens_and_is_probed_with_tls() {
    let files = render(&example(), &options(tls()), Target::Kubernetes).unwrap();
    let pod = &documents(&files, "Deployment")[0]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let arguments = json!([
        "--tls-cert",
        "/etc/weir-tls/tls.crt",
        "--tls-key",
        "/etc/weir-tls/tls.key",
        "--tls-ca",
        "/etc/weir-tls/ca.crt"
    ]);
    assert_eq!(json!(container["args"].as_array().unwrap()[5..]), arguments);
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let get = &container[probe]["httpGet"];
        assert_eq!(
            (&get["scheme"], &get["port"]),
            (&json!("HTTPS"), &json!("https")),
            "{probe}"
        );
    }
    let (volume, mount) = (&pod["volumes"][1], &container["volumeMounts"][1]);
    assert_eq!(volume["secret"]["secretName"], "planner-cert");
    assert_eq!(
        (&mount["name"], &mount["mountPath"]),
        (&volume["name"], &json!("/etc/weir-tls"))
    );
    let items = volume["secret"]["items"].as_array().unwrap();
    for file in ["tls.crt", "tls.key", "ca.crt"] {
        assert!(
            items.contains(&json!({ "key": file, "path": file })),
            "{file}"
        );
    }
    for service in documents(&files, "Service") {
        assert_eq!(service["spec"]["ports"][0]["targetPort"], "https");
    }
    let endpoint = &documents(&files, "PodMonitor")[0]["spec"]["podMetricsEndpoints"][0];
    assert_eq!(
        (&endpoint["scheme"], &endpoint["port"]),
        (&json!("https"), &json!("https"))
    );
    assert_eq!(
        endpoint["tlsConfig"]["serverName"],
        "weir-planner.weir-system.svc"
    );
    assert_eq!(
        endpoint["tlsConfig"]["ca"]["secret"],
        json!({ "name": "planner-cert", "key": "ca.crt" })
    );
    // A sidecar that demands mutual TLS would refuse the polls.
    for file in files
        .iter()
        .filter(|file| file.path.starts_with("k8s/overlays/"))
    {
        let text = file.body().unwrap();
        assert!(!text.contains(r#"inject: "true""#), "{}", file.path);
    }
}

#[test]
fn proxies_of_istio_verify_the_planner() {
    let tls = PlannerTls {
        ca_secret: Some("planner-ca".to_owned()),
        name: Some("planner.example.com".to_owned()),
        ..tls()
    };
    let kubernetes = render(&example(), &options(tls.clone()), Target::Kubernetes).unwrap();
    let container =
        &documents(&kubernetes, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        json!(container["args"].as_array().unwrap()[11..]),
        json!(["--tls-name", "planner.example.com"])
    );

    let files = render(&example(), &options(tls), Target::Istio).unwrap();
    let rules = documents(&files, "DestinationRule");
    let rules: Vec<_> = rules
        .iter()
        .filter(|it| it["spec"]["workloadSelector"].is_object())
        .collect();
    let trusted = [
        ("istio-ingress", "credentialName", "planner-ca"),
        ("models", "caCertificates", "/etc/weir-tls/ca.crt"),
    ];
    assert_eq!(rules.len(), trusted.len());
    for (rule, (namespace, key, value)) in rules.iter().zip(trusted) {
        assert_eq!(rule["metadata"]["namespace"], namespace);
        assert_eq!(
            rule["spec"]["host"],
            "weir-planner.weir-system.svc.cluster.local"
        );
        let expected = json!({
            "mode": "SIMPLE", "sni": "planner.example.com", "subjectAltNames": ["planner.example.com"], key: value,
        });
        assert_eq!(rule["spec"]["trafficPolicy"]["tls"], expected);
    }
    // The files that the rules name are listed, and the sidecars have the certificates.
    for folder in ["gateway", "sidecar"] {
        let path = format!("istio/{folder}/resnet/kustomization.yaml");
        let list = files.iter().find(|file| file.path == path).unwrap();
        let resources = list.documents[0].body["resources"].as_array().unwrap();
        assert!(resources.contains(&json!("planner.yaml")), "{path}");
    }
    let patch = files
        .iter()
        .find(|file| file.path == "istio/pods/resnet/server-resnet18.yaml");
    let annotations =
        &patch.unwrap().documents[0].body["spec"]["template"]["metadata"]["annotations"];
    let of = |key: &str| -> Value {
        let text = annotations[format!("sidecar.istio.io/{key}")]
            .as_str()
            .unwrap();
        serde_json::from_str(text).unwrap()
    };
    let secret =
        json!({ "secretName": "planner-ca", "items": [{ "key": "ca.crt", "path": "ca.crt" }] });
    assert_eq!(
        of("userVolume"),
        json!({ "weir-tls": { "secret": secret } })
    );
    let mount = json!({ "weir-tls": { "mountPath": "/etc/weir-tls", "readOnly": true } });
    assert_eq!(of("userVolumeMount"), mount);
}

#[test]
fn invalid_names_of_secrets_and_certificates_are_refused() {
    for (tls, expected) in [
        (
            PlannerTls {
                secret: "A".to_owned(),
                ..tls()
            },
            ["--planner-tls-secret: A; it must be", "Secret"],
        ),
        (
            PlannerTls {
                ca_secret: Some("a/b".to_owned()),
                ..tls()
            },
            ["--planner-ca-secret: a/b; it must be", "Secret"],
        ),
        (
            PlannerTls {
                name: Some("a b".to_owned()),
                ..tls()
            },
            ["--planner-tls-name: a b; it must be", "DNS name"],
        ),
    ] {
        for target in ALL {
            refuses(&example(), &options(tls.clone()), target, &expected);
        }
    }
}
