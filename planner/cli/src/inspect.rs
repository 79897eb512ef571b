//! Connection of `weir status`, `top`, `why` and `doctor` to a planner: its address, the key, the services. They read its
//! REST API and change nothing.

pub(crate) mod api;
mod keys;
pub(crate) mod requests;
mod samples;
pub(crate) mod screen;
pub(crate) mod view;

use std::path::PathBuf;

use anyhow::Context;
use url::Url;
use weir_planner::http::{ApiClient, Trust};

pub(crate) use api::{Api, Failure};
use keys::ClientKeys;
pub(crate) use samples::{Samples, services};
use view::StatusView;

/// Maximum number of services of one command.
const SERVICES_MAX: usize = 256;

/// Arguments about the planner.
#[derive(Debug, clap::Args)]
pub(crate) struct PlannerArguments {
    /// Services to show; all that the planner plans for, if none is named.
    #[arg(value_name = "SERVICE")]
    services: Vec<String>,
    /// Address of the planner.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", value_parser = address)]
    url: Url,
    /// Environment variable with the key, or with lines as in a key file.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "WEIR_KEY",
        conflicts_with = "key_file"
    )]
    key_env: String,
    /// File with keys, one in each line, as KEY or as NAME KEY; the first that fits the service is sent.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Certificates by which the planner's is trusted (PEM), for an address with https.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Name that the planner's certificate must carry. Default: the host of --url.
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    tls_name: Option<String>,
}

/// Reads an address with `http` or `https`.
///
/// # Errors
/// Another text.
pub(crate) fn address(text: &str) -> Result<Url, String> {
    let right = "it must be an address such as http://127.0.0.1:8080";
    let url: Url = text.parse().map_err(|error| format!("{error}; {right}"))?;
    let fits = matches!(url.scheme(), "http" | "https") && url.host().is_some();
    fits.then_some(url).ok_or_else(|| right.to_owned())
}

impl PlannerArguments {
    /// Returns the connection.
    ///
    /// # Errors
    /// Keys or certificates that cannot be read.
    pub(crate) fn api(&self) -> anyhow::Result<Api> {
        let keys = match &self.key_file {
            Some(file) => {
                let about = || format!("--key-file {}", file.display());
                ClientKeys::of_file(file).with_context(about)?
            }
            None => ClientKeys::of_variable(&self.key_env)
                .with_context(|| format!("--key-env {}", self.key_env))?,
        };
        if self.url.scheme() == "https" && self.tls_ca.is_none() {
            anyhow::bail!(
                "--tls-ca: missing; with https it must be the certificates (PEM) to trust"
            );
        }
        let host = self.url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let trust = self.tls_ca.clone().map(|ca| Trust {
            ca,
            name: self.tls_name.clone().unwrap_or_else(|| host.to_owned()),
        });
        let client = ApiClient::new(trust.as_ref()).map_err(anyhow::Error::msg);
        Ok(Api::new(client.context("--tls-ca")?, &self.url, keys))
    }

    /// Returns the services that are named.
    pub(crate) fn named(&self) -> &[String] {
        &self.services
    }

    /// Returns the services: the named ones, or all that the planner's metrics have.
    ///
    /// # Errors
    /// A planner that does not answer, or that plans for none.
    pub(crate) async fn services(&self, api: &Api) -> anyhow::Result<Vec<String>> {
        let services = match self.services.is_empty() {
            false => self.services.clone(),
            true => {
                let metrics = api.text("/metrics").await;
                let metrics = metrics.with_context(|| api.about("/metrics"))?;
                services(&Samples::new(&metrics))
            }
        };
        let count = services.len();
        anyhow::ensure!(count > 0, "{}: it plans for no service", api.url());
        anyhow::ensure!(
            count <= SERVICES_MAX,
            "SERVICE: {count} of them; it must be at most {SERVICES_MAX}: name those to show"
        );
        Ok(services)
    }
}

/// Returns the status of a service, with the latest cycles.
///
/// # Errors
/// A planner that does not answer, or refuses.
pub(crate) async fn status(api: &Api, service: &str, cycles: usize) -> anyhow::Result<StatusView> {
    let about = || format!("{}, service {service}", api.url());
    let text = api.status(service, cycles).await.with_context(about)?;
    serde_json::from_str(&text).with_context(about)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_a_scheme_and_a_host() {
        for (text, good) in [
            ("http://127.0.0.1:8080", true),
            ("https://weir-planner.weir-system.svc:8080/", true),
            ("127.0.0.1:8080", false),
            ("ftp://a", false),
            ("", false),
        ] {
            let read = address(text);
            assert_eq!(read.is_ok(), good, "{text}: {read:?}");
            let named = read.err().is_none_or(|why| why.contains("it must be"));
            assert!(named, "{text}");
        }
    }
}
