//! Proxies of a service as written: where their statistics are.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration::RawDuration;
use super::rules::in_range;
use crate::service::{DNS_INTERVAL, SCRAPE_TIMEOUT};

/// Source of the proxies' statistics: addresses, pods or a DNS name.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RawProxies {
    /// Addresses of the Prometheus statistics of every Envoy that carries the filter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub stats: Vec<String>,
    /// Pods whose Envoys carry the filter. Resource only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<RawPods>,
    /// DNS name of all Envoys that carry the filter, such as a headless Service's: each of its addresses is scraped. Of
    /// a name with IPv4 and IPv6 addresses, the IPv4 ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<RawDns>,
    /// Scrape interval, at most cycle. A significant rise in demand is planned for at once. Defaults to a
    /// quarter of cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = in_range("100ms", "1m")))]
    pub interval: Option<RawDuration>,
    /// Timeout of one scrape. Must be less than cycle.
    #[serde(default = "scrape_timeout")]
    pub timeout: RawDuration,
}

/// Selector of the pods whose Envoys are scraped.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RawPods {
    /// Labels that a pod must have, all of them.
    pub labels: BTreeMap<String, String>,
    /// Namespace of the pods. Defaults to the resource's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Port of Envoy's statistics. Defaults to Istio's, 15090.
    #[serde(default = "stats_port")]
    pub port: u16,
    /// Path and query of Envoy's statistics.
    #[serde(default = "stats_path")]
    pub path: String,
}

/// DNS name whose addresses are scraped.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RawDns {
    /// The name, without a port.
    #[schemars(length(max = 254))]
    pub name: String,
    /// Port of Envoy's statistics.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: u16,
    /// Path and query of Envoy's statistics.
    #[serde(default = "stats_path")]
    pub path: String,
    /// Interval at which the name is resolved. While it cannot be, or has no address, the last addresses hold.
    #[serde(default = "dns_interval")]
    #[schemars(extend("x-kubernetes-validations" = in_range("1s", "10m")))]
    pub interval: RawDuration,
}

const fn dns_interval() -> RawDuration {
    RawDuration(DNS_INTERVAL)
}

/// Port of the statistics of Istio's proxies.
const fn stats_port() -> u16 {
    15_090
}

/// Statistics of the filter only.
fn stats_path() -> String {
    "/stats/prometheus?filter=weir_".to_owned()
}

const fn scrape_timeout() -> RawDuration {
    RawDuration(SCRAPE_TIMEOUT)
}
