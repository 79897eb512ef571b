//! Envoy's admin interface: readiness, listeners, metrics.
//!
//! Reads, and posts the commands a test asks for; changes nothing else.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use prometheus_parse::Sample;
use reqwest::{Client, Url};
use serde_json::Value;
use weir_api::metrics::{Series, decode};

/// Time limit for one response.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A client of one admin interface.
#[derive(Debug)]
pub(super) struct Admin {
    address: SocketAddr,
    client: Client,
}

impl Admin {
    pub(super) fn new(address: SocketAddr) -> Result<Self> {
        let client = Client::builder().no_proxy().timeout(ANSWER_MAX).build()?;
        Ok(Self { address, client })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether every listener is open and every cluster warm.
    pub(super) async fn is_ready(&self) -> bool {
        self.get("/ready", &[]).await.is_ok()
    }

    /// The listeners' names and addresses.
    pub(super) async fn listeners(&self) -> Result<BTreeMap<String, SocketAddr>> {
        let text = self.get("/listeners", &[("format", "json")]).await?;
        let answer: Value = serde_json::from_str(&text)?;
        let statuses = answer.get("listener_statuses").and_then(Value::as_array);
        let statuses = statuses.context("/listeners: listener_statuses is missing")?;
        statuses.iter().map(name_and_address).collect()
    }

    pub(super) async fn stats(&self, filter: &str) -> Result<String> {
        self.get("/stats/prometheus", &[("filter", filter)]).await
    }

    pub(super) async fn counter(&self, name: &str) -> Result<u64> {
        let samples = self.samples().await?;
        let named = samples.iter().filter(|sample| sample.metric == name);
        Ok(named.map(|sample| number(&sample.value)).sum::<f64>() as u64)
    }

    /// The sum of a metric's samples, whichever form Envoy shows its labels in. `part` is `_sum` or `_count` of a
    /// histogram, and empty for other metrics.
    pub(super) async fn metric(&self, query: &Series, part: &str) -> Result<f64> {
        let samples = self.samples().await?;
        let same = |sample: &&Sample| {
            let name = sample.metric.strip_suffix(part);
            let series = name.and_then(|name| decode(name, |label| sample.labels.get(label)));
            series.as_ref() == Some(query)
        };
        let found = samples.iter().filter(same);
        Ok(found.map(|sample| number(&sample.value)).sum())
    }

    async fn samples(&self) -> Result<Vec<Sample>> {
        // No `filter` parameter: it would match Envoy's own names, which differ from the Prometheus
        // names.
        let text = self.get("/stats/prometheus", &[]).await?;
        // Envoy writes `name{} 5` for a metric without labels, which the parser rejects. Types are left out, so that
        // the parts of a histogram are samples like others.
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let lines = lines.map(|line| Ok(line.replacen("{}", "", 1)));
        Ok(prometheus_parse::Scrape::parse(lines)?.samples)
    }

    /// Posts a command.
    pub(super) async fn post(&self, path: &str) -> Result<()> {
        let url = format!("http://{}{path}", self.address);
        self.client.post(url).send().await?.error_for_status()?;
        Ok(())
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<String> {
        let url = format!("http://{}{path}", self.address);
        let url = Url::parse_with_params(&url, query)?;
        let answer = self.client.get(url).send().await?.error_for_status()?;
        Ok(answer.text().await?)
    }
}

fn number(value: &prometheus_parse::Value) -> f64 {
    match value {
        prometheus_parse::Value::Counter(value)
        | prometheus_parse::Value::Gauge(value)
        | prometheus_parse::Value::Untyped(value) => *value,
        _ => 0.0,
    }
}

fn name_and_address(status: &Value) -> Result<(String, SocketAddr)> {
    let text = |pointer: &str| status.pointer(pointer).and_then(Value::as_str);
    let port = status
        .pointer("/local_address/socket_address/port_value")
        .and_then(Value::as_u64);
    let (Some(name), Some(host), Some(port)) = (
        text("/name"),
        text("/local_address/socket_address/address"),
        port,
    ) else {
        anyhow::bail!("a listener without name, address or port: {status}");
    };
    Ok((name.to_owned(), format!("{host}:{port}").parse()?))
}
