//! Who a client is by its certificate, through a real Envoy that asks for one: the proof of its class.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType,
};
use serde_json::{Value, json};
use weir_tests::clients::curl;
use weir_tests::scene::{Scene, Variant};

const SLOT: Variant = Variant {
    name: "small",
    share: 1.0,
    slots: 4,
    service_ms: 5.0,
};
/// Where the shipped listener would have its transport.
const TRANSPORT: &str = "/static_resources/listeners/0/filter_chains/0/transport_socket";

/// An authority, and what it has signed.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
    folder: tempfile::TempDir,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Who signs and who is signed must not have one name: it would look self-signed.
        params
            .distinguished_name
            .push(DnType::CommonName, "authority");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Authority {
            issuer: Issuer::new(params, key),
            certificate,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A certificate in that name and its key, as PEM.
    fn sign(&self, name: SanType) -> (String, String) {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![name];
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        (signed.pem(), key.serialize_pem())
    }

    /// A client that is who `uri` says: its certificate and key, as files.
    fn client(&self, name: &str, uri: &str) -> (PathBuf, PathBuf) {
        let (certificate, key) = self.sign(SanType::URI(uri.try_into().unwrap()));
        (
            self.file(&format!("{name}.pem"), &certificate),
            self.file(&format!("{name}.key"), &key),
        )
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// TLS of a server on loopback that asks its clients for a certificate, and serves without one too.
    fn transport(&self) -> Value {
        let (certificate, key) = self.sign(SanType::IpAddress([127, 0, 0, 1].into()));
        json!({
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
                "common_tls_context": {
                    "tls_certificates": [{
                        "certificate_chain": { "inline_string": certificate },
                        "private_key": { "inline_string": key },
                    }],
                    "validation_context": {
                        "trusted_ca": { "inline_string": self.certificate.pem() },
                    },
                },
            },
        })
    }
}

#[tokio::test]
async fn a_clients_certificate_proves_its_class() {
    let authority = Authority::new();
    let claim = json!({ "property": ["connection", "uri_san_peer_certificate"],
                        "values": ["spiffe://mesh/ns/vision/*"] });
    let scene = Scene::start(&[SLOT], 1, |bootstrap, plugin| {
        plugin["default_class"] = json!("free");
        plugin["classes"] = json!([
            { "name": "free", "share": 0.5 },
            { "name": "vision", "share": 0.5, "claim": claim }]);
        bootstrap
            .plugin(plugin)
            .amend(TRANSPORT, authority.transport())
    })
    .await
    .unwrap();
    let root = authority.file("root.pem", &authority.certificate.pem());
    let vision = authority.client("vision", "spiffe://mesh/ns/vision/sa/camera");
    let other = authority.client("other", "spiffe://mesh/ns/audio/sa/camera");
    let url = format!(
        "https://{}/v2/models/small/infer",
        scene.envoy.listener("weir").unwrap()
    );
    for (client, class) in [
        (Some(&vision), "vision"),
        (Some(&other), "free"),
        (None, "free"),
    ] {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let mut arguments = vec!["--cacert".to_owned(), text(&root)];
        if let Some((certificate, key)) = client {
            arguments.extend(["--cert".to_owned(), text(certificate)]);
            arguments.extend(["--key".to_owned(), text(key)]);
        }
        let rest = [
            "--data",
            "{}",
            "--header",
            "x-slo-ms: 5000",
            "--header",
            "x-slo-class: vision",
        ];
        arguments.extend(rest.map(str::to_owned));
        arguments.push(url.clone());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert_eq!(curl(&arguments).await.unwrap().status, 200);
        let told = scene.backends[0].executions().pop().unwrap().headers;
        assert_eq!(told["x-slo-class"], class, "{client:?}");
    }
}
