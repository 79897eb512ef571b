//! Tests of TLS: of the endpoints, of the connection to the leader, and of changed files.

use std::path::Path;

use super::*;

/// Name in the certificates.
const NAME: &str = "weir-planner.weir-system.svc";

/// Writes a new self-signed certificate into a folder; returns it.
fn certificate(folder: &Path) -> String {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    std::fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    made.cert.pem()
}

fn files(folder: &Path) -> TlsFiles {
    TlsFiles {
        cert: folder.join("tls.crt"),
        key: folder.join("tls.key"),
        ca: None,
        name: NAME.to_owned(),
    }
}

async fn serve(folder: &Path) -> (Endpoints, String) {
    let endpoints = Endpoints::with(Setup::default()).await;
    endpoints.publish(1);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/v1/plans/demo", listener.local_addr().unwrap());
    let endpoint = Endpoint {
        listener,
        keys: Arc::clone(&endpoints.app.keys),
        tls: Some(Arc::new(files(folder).read().unwrap())),
    };
    let (app, stop) = (Arc::clone(&endpoints.app), endpoints.app.stop.clone());
    tokio::spawn(endpoint.answer(app, ServerLimits::default(), stop));
    (endpoints, url)
}

async fn poll(tls: TlsFiles, url: &str) -> Result<u16, String> {
    let client = LeaderClient::new(Some(&Arc::new(tls.read().unwrap())));
    let key = format!("Bearer {KEY}").parse().unwrap();
    let headers = axum::http::HeaderMap::from_iter([(axum::http::header::AUTHORIZATION, key)]);
    let answer = client.get(url, headers, Duration::from_secs(10)).await;
    answer.map(|answer| answer.status().as_u16())
}

#[tokio::test]
async fn poll_over_tls_needs_trusted_certificate_with_right_name() {
    let folder = tempfile::tempdir().unwrap();
    certificate(folder.path());
    let (_endpoints, url) = serve(folder.path()).await;
    assert_eq!(poll(files(folder.path()), &url).await, Ok(200));
    let mut misnamed = files(folder.path());
    misnamed.name = "another.svc".to_owned();
    let refused = poll(misnamed, &url).await.unwrap_err();
    assert!(refused.contains("certificate"), "{refused}");
    let other = tempfile::tempdir().unwrap();
    certificate(other.path());
    let refused = poll(files(other.path()), &url).await.unwrap_err();
    assert!(refused.contains("certificate"), "{refused}");
    // A key is never sent without TLS by a planner that has it.
    let plain = url.replace("https", "http");
    assert!(poll(files(folder.path()), &plain).await.is_err());
    let mut trusting = files(other.path());
    trusting.ca = Some(folder.path().join("tls.crt"));
    assert_eq!(poll(trusting, &url).await, Ok(200));
}

#[tokio::test]
async fn changed_certificate_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let first = certificate(folder.path());
    let (_endpoints, url) = serve(folder.path()).await;
    let second = certificate(folder.path());
    assert_ne!(first, second);
    until("the second certificate", async || {
        poll(files(folder.path()), &url).await == Ok(200)
    })
    .await;
}

#[test]
fn files_that_do_not_fit_are_refused_with_path() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    certificate(folder.path());
    certificate(other.path());
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("empty"), "").unwrap();
    let good = || files(folder.path());
    for (bad, expected) in [
        (
            TlsFiles {
                cert: path("none"),
                ..good()
            },
            "none: No such file",
        ),
        (
            TlsFiles {
                cert: path("empty"),
                ..good()
            },
            "empty: no certificate in PEM form",
        ),
        (
            TlsFiles {
                key: path("tls.crt"),
                ..good()
            },
            "tls.crt: no private key in PEM form",
        ),
        (
            TlsFiles {
                key: other.path().join("tls.key"),
                ..good()
            },
            "tls.crt, ",
        ),
        (
            TlsFiles {
                ca: Some(path("tls.key")),
                ..good()
            },
            "tls.key: no certificate",
        ),
        (
            TlsFiles {
                name: "no name".to_owned(),
                ..good()
            },
            "--tls-name: 'no name' must be",
        ),
    ] {
        let refused = bad.read().unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
    }
}

#[tokio::test]
async fn commands_reach_a_planner_over_tls_that_they_trust() {
    let folder = tempfile::tempdir().unwrap();
    certificate(folder.path());
    let (endpoints, plan_url) = serve(folder.path()).await;
    let ready = plan_url.replace("/v1/plans/demo", "/readyz");
    let trust = |name: &str, ca: &str| Trust {
        ca: folder.path().join(ca),
        name: name.to_owned(),
    };
    let client = ApiClient::new(Some(&trust(NAME, "tls.crt"))).unwrap();
    let answer = client.get(&ready, None).await.unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, "ready\n"));
    let status = plan_url.replace("plans", "services");
    for (key, expected) in [(Some(KEY), 200), (Some("another-key"), 401), (None, 401)] {
        assert_eq!(client.get(&status, key).await.unwrap().status, expected);
    }
    let other = ApiClient::new(Some(&trust("another.svc", "tls.crt"))).unwrap();
    let refused = other.get(&ready, None).await.unwrap_err();
    assert!(refused.contains("certificate"), "{refused}");
    let plain = ApiClient::new(None).unwrap();
    let refused = plain.get(&ready, None).await.unwrap_err();
    assert!(refused.contains("without certificates"), "{refused}");
    let local = format!("http://{}/readyz", endpoints.address);
    assert_eq!(plain.get(&local, None).await.unwrap().status, 200);
    for (name, ca, expected) in [
        (NAME, "none", "none: No such file"),
        (NAME, "tls.key", "tls.key: no certificate in PEM form"),
        ("no name", "tls.crt", "'no name' is no DNS name"),
    ] {
        let refused = ApiClient::new(Some(&trust(name, ca))).unwrap_err();
        assert!(refused.contains(expected), "{refused}");
    }
}
