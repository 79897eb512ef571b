//! TLS of the planner: the flags and files of its pods, and what proxies trust it by.
//!
//! The planner's Secret (`kubernetes.io/tls`) has `tls.crt`, `tls.key` and `ca.crt`. Proxies need `ca.crt` alone, from
//! a Secret of their own namespace: the private key stays in the planner's.

use serde_json::{Value, json};

/// Folder in which the planner's Secret, or the proxies', is mounted.
pub(super) const FOLDER: &str = "/etc/weir-tls";
/// Certificates that proxies trust, in that folder.
pub(super) const CA: &str = "ca.crt";
/// Name of the volume.
pub(super) const VOLUME: &str = "weir-tls";

/// Secrets and name of the planner's certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlannerTls {
    /// Secret of the planner's namespace.
    pub secret: String,
    /// Secret of the proxies' namespaces; the same name if `None`.
    pub ca_secret: Option<String>,
    /// Name in the certificate; that of the planner's Service if `None`.
    pub name: Option<String>,
}

impl PlannerTls {
    /// Returns the name that the certificate must carry, or else this one.
    pub(super) fn name_or<'a>(&'a self, otherwise: &'a str) -> &'a str {
        self.name.as_deref().unwrap_or(otherwise)
    }

    /// Returns the Secret with the certificates that proxies trust.
    pub(super) fn ca_secret(&self) -> &str {
        self.ca_secret.as_deref().unwrap_or(&self.secret)
    }

    /// Returns the planner's flags.
    pub(super) fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        for (flag, file) in [("cert", "tls.crt"), ("key", "tls.key"), ("ca", CA)] {
            flags.extend([format!("--tls-{flag}"), format!("{FOLDER}/{file}")]);
        }
        if let Some(name) = &self.name {
            flags.extend(["--tls-name".to_owned(), name.clone()]);
        }
        flags
    }

    /// Returns the source of the planner's volume.
    pub(super) fn volume(&self) -> Value {
        let items = ["tls.crt", "tls.key", CA].map(|file| json!({ "key": file, "path": file }));
        json!({ "secretName": self.secret, "defaultMode": 0o440, "items": items })
    }

    /// Returns the source of a proxy's volume: no private key.
    pub(super) fn ca_volume(&self) -> Value {
        json!({ "secretName": self.ca_secret(), "items": [{ "key": CA, "path": CA }] })
    }
}

/// Returns Envoy's transport socket for a planner whose certificate carries that name.
pub(super) fn transport_socket(name: &str) -> Value {
    json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "sni": name,
            "common_tls_context": {
                "alpn_protocols": ["http/1.1"],
                "validation_context": {
                    "trusted_ca": { "filename": format!("{FOLDER}/{CA}") },
                    "match_typed_subject_alt_names": [{ "san_type": "DNS", "matcher": { "exact": name } }],
                },
            },
        },
    })
}
