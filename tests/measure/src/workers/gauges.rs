//! Envoy's own statistics: a histogram's percentiles, memory, processor time. Read only.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use weir_api::metrics::Metric;

use weir_bed::envoy::Envoy;

/// A histogram since Envoy's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Percentiles {
    /// Values recorded.
    pub count: u64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Maximum, to the precision of the histogram's bins.
    pub max: f64,
}

/// One of the filter's histograms; all 0 if nothing was recorded.
///
/// # Errors
///
/// Envoy's admin interface does not answer as expected.
pub async fn percentiles(envoy: &Envoy, metric: Metric, service: &str) -> Result<Percentiles> {
    let count = count(envoy, metric, service).await?;
    if count == 0 {
        return Ok(Percentiles::default());
    }
    let filter = format!("format=json&filter={}", metric.name());
    let stats = admin(envoy, &format!("/stats?{filter}")).await?;
    let all = stats.pointer("/stats").and_then(Value::as_array);
    let histograms = all
        .into_iter()
        .flatten()
        .find_map(|stat| stat.get("histograms"))
        .context("no histograms")?;
    let list = |at: &str| histograms.pointer(at).and_then(Value::as_array);
    let quantiles = list("/supported_quantiles").context("no quantiles")?;
    let values = list("/computed_quantiles/0/values").context("no values")?;
    let at = |percent: f64| {
        let named = quantiles.iter().zip(values);
        let mut found = named.filter(|(quantile, _)| quantile.as_f64() == Some(percent));
        let value = found.next().and_then(|(_, value)| value.get("cumulative"));
        value
            .and_then(Value::as_f64)
            .with_context(|| format!("no P{percent}"))
    };
    Ok(Percentiles {
        count,
        p50: at(50.0)?,
        p99: at(99.0)?,
        p999: at(99.9)?,
        max: at(100.0)?,
    })
}

/// Number of values in one of the filter's histograms at Envoy's latest flush.
///
/// # Errors
///
/// Envoy's admin interface does not answer.
pub async fn count(envoy: &Envoy, metric: Metric, service: &str) -> Result<u64> {
    Ok(envoy.histogram(metric, service).await?.0)
}

/// Memory in use, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Bytes {
    /// Memory allocated by Envoy, without the VMs' memory.
    pub allocated: f64,
    /// Anonymous resident memory of the process, including the VMs'.
    pub resident: f64,
}

/// Envoy's current memory.
///
/// # Errors
///
/// Envoy or the kernel does not report it.
pub async fn memory(envoy: &Envoy) -> Result<Bytes> {
    let answer = admin(envoy, "/memory").await?;
    let allocated = answer.get("allocated").and_then(Value::as_str);
    let status = std::fs::read_to_string(format!("/proc/{}/status", envoy.pid()))?;
    let line = status.lines().find(|line| line.starts_with("RssAnon"));
    let kb = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(Bytes {
        allocated: allocated.context("no 'allocated' in /memory")?.parse()?,
        resident: 1024.0 * kb.context("no RssAnon")?.parse::<f64>()?,
    })
}

/// Processor time used by Envoy, in user and kernel mode, all threads; to 10 ms.
///
/// # Errors
///
/// The kernel does not report it.
pub fn processor_time(envoy: &Envoy) -> Result<Duration> {
    let mut ns = 0;
    for thread in std::fs::read_dir(format!("/proc/{}/task", envoy.pid()))? {
        // The scheduler's own count in ns; `stat` has hundredths of a second.
        let path = thread?.path().join("schedstat");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            // The thread has ended since it was listed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        let first = text
            .split_whitespace()
            .next()
            .context("schedstat is empty")?;
        ns += first.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(ns))
}

async fn admin(envoy: &Envoy, path: &str) -> Result<Value> {
    let url = format!("http://{}{path}", envoy.admin());
    let client = reqwest::Client::builder().no_proxy().build()?;
    let text = client.get(url).send().await?.text().await?;
    Ok(serde_json::from_str(&text)?)
}
