//! Client identity for classes: by its certificate, through a real Envoy that requests one, and by a header
//! of a proxy before it.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType,
};
use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_bed::clients::curl;
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::scene::{Scene, Variant, see};

const SLOT: Variant = Variant {
    name: "small",
    share: 1.0,
    slots: 4,
    service_ms: 5.0,
};
/// Pointer to the transport socket of the shipped listener.
const TRANSPORT: &str = "/static_resources/listeners/0/filter_chains/0/transport_socket";

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
    folder: tempfile::TempDir,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Issuer and subject need different names, or the certificate would look self-signed.
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

    /// Issues a certificate for that name; returns it and its key as PEM.
    fn sign(&self, name: SanType) -> (String, String) {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![name];
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        (signed.pem(), key.serialize_pem())
    }

    /// Writes a client certificate for `uri` and its key to files.
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

    /// TLS of a server on loopback that requests client certificates but also serves clients without one.
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
async fn client_certificate_proves_its_class() {
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
        let headers = scene.backends[0].executions().pop().unwrap().headers;
        assert_eq!(headers["x-slo-class"], class, "{client:?}");
    }
}

/// A proxy before Envoy that adds the owner of a token in a header, as `request_headers_to_add` does by
/// default: as another line after the client's.
async fn appending_proxy(scene: &Scene) -> Envoy {
    const ROUTES: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/\
                          route_config/request_headers_to_add";
    let tier = json!({ "header": { "key": "x-tier", "value": "%REQ(x-token)%" } });
    let hop = Bootstrap::shipped()
        .unwrap()
        .without_filter()
        .backend("weir", scene.envoy.listener("weir").unwrap())
        .fallback("weir")
        .amend(ROUTES, json!([tier]));
    Envoy::start(&hop, 1).await.unwrap()
}

#[tokio::test]
async fn a_repeated_claim_header_proves_nothing() {
    let claim = json!({ "header": "x-tier", "values": ["gold"] });
    let rest = json!({ "default_class": "free", "classes": [
        { "name": "free", "share": 0.5 }, { "name": "gold", "share": 0.5, "claim": claim }] });
    let scene = Scene::start(&[SLOT], 1, |bootstrap, plugin| {
        plugin["default_class"] = rest["default_class"].clone();
        plugin["classes"] = rest["classes"].clone();
        bootstrap
    })
    .await
    .unwrap();
    let hop = appending_proxy(&scene).await;
    let url = format!(
        "http://{}/v2/models/model/infer",
        hop.listener("weir").unwrap()
    );
    /// Entries: header lines sent by the client, its token known to the proxy, and the class it gets.
    const TABLE: [(&[&str], &str, &str); 6] = [
        (&[], "gold", "gold"),
        (&[], "bronze", "free"),
        (&["gold"], "bronze", "free"),
        (&["gold", "gold"], "bronze", "free"),
        (&["gold"], "gold", "free"),
        (&["bronze"], "gold", "free"),
    ];
    for (tiers, token, class) in TABLE {
        let mut request = scene.client.post(&url).body("{}");
        request = request
            .header("x-slo-class", "gold")
            .header("x-token", token);
        for tier in tiers {
            request = request.header("x-tier", *tier);
        }
        assert_eq!(see(request).await.unwrap().status, 200);
        let seen = scene.backends[0].executions().pop().unwrap().headers;
        assert_eq!(seen["x-slo-class"], class, "{tiers:?}, {token}");
    }
    scene
        .until(Metric::InvalidHeaders, "x-slo-class", 5)
        .await
        .unwrap();
}
