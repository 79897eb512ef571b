//! Validation of the proxies of a service: addresses, pods or a DNS name.

use super::duration::whole_ms;
use super::raw::{RawDns, RawPods, RawProxies};
use crate::service::rule::{refusal, rule, url, within};
use crate::service::{
    ConfigError, DNS_INTERVAL_MAX, DNS_INTERVAL_MIN, ProxyDns, ProxyPods, STATS_MAX,
};

/// Validates the addresses of the proxies' statistics; none if the proxies are found by pods or a name.
pub(super) fn stats(raw: &RawProxies) -> Result<Vec<url::Url>, ConfigError> {
    let texts = &raw.stats;
    let given = [
        ("stats", !texts.is_empty()),
        ("pods", raw.pods.is_some()),
        ("dns", raw.dns.is_some()),
    ];
    let given = given.iter().filter(|(_, is_given)| *is_given);
    let given: Vec<&str> = given.map(|(key, _)| *key).collect();
    let right = "exactly one of these: stats (addresses), dns (a name of all proxies) or, in a resource, pods (labels \
        of the proxies' pods)";
    match given.as_slice() {
        ["stats"] => {}
        [_] => return Ok(Vec::new()),
        [] => return Err(refusal("proxies.stats, dns, pods", "all missing", right)),
        several => {
            let keys = format!("proxies.{}", several.join(", "));
            return Err(refusal(keys, "all given", right));
        }
    }
    within("proxies.stats", texts.len(), 1..=STATS_MAX, "addresses")?;
    let mut urls = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let path = format!("proxies.stats[{index}]");
        let url = url(&path, text)?;
        // A proxy scraped twice would double its demand.
        rule(
            !urls.contains(&url),
            path,
            text,
            "another address: this one stands twice",
        )?;
        urls.push(url);
    }
    Ok(urls)
}

/// Validates the pods whose proxies are scraped.
pub(super) fn proxy_pods(raw: RawPods) -> Result<ProxyPods, ConfigError> {
    let right = "one or more: without any, all pods would be scraped";
    rule(!raw.labels.is_empty(), "proxies.pods.labels", "none", right)?;
    for (key, value) in &raw.labels {
        let right = "labels as Kubernetes has them: a key such as app or example.com/app, and a value, each of at most \
             63 letters, digits, '-', '_' and '.', with a letter or digit at both ends";
        let holds = is_label_key(key) && (value.is_empty() || is_label_name(value));
        let shown = format!("{key}={value}");
        rule(holds, "proxies.pods.labels", shown, right)?;
    }
    if let Some(namespace) = &raw.namespace {
        let right =
            "a namespace: at most 63 of a-z, 0-9 and '-', with a letter or digit at both ends";
        let holds = is_dns_label(namespace);
        rule(holds, "proxies.pods.namespace", namespace, right)?;
    }
    place("proxies.pods", raw.port, &raw.path)?;
    Ok(ProxyPods {
        labels: raw.labels,
        namespace: raw.namespace,
        port: raw.port,
        path: raw.path,
    })
}

/// Validates the name whose addresses are scraped.
pub(super) fn proxy_dns(raw: RawDns) -> Result<ProxyDns, ConfigError> {
    let right =
        "a DNS name without a port, such as envoy.mesh.svc; addresses stand in proxies.stats";
    rule(is_dns_name(&raw.name), "proxies.dns.name", &raw.name, right)?;
    place("proxies.dns", raw.port, &raw.path)?;
    let range = DNS_INTERVAL_MIN..=DNS_INTERVAL_MAX;
    Ok(ProxyDns {
        interval: whole_ms("proxies.dns.interval", raw.interval, range, "")?,
        name: raw.name,
        port: raw.port,
        path: raw.path,
    })
}

/// Validates port and path of the statistics.
fn place(key: &str, port: u16, path: &str) -> Result<(), ConfigError> {
    rule(port > 0, format!("{key}.port"), port, "1 to 65535")?;
    let right = "a path, such as /stats/prometheus";
    rule(path.starts_with('/'), format!("{key}.path"), path, right)
}

/// Maximum length of a DNS name.
const DNS_NAME_MAX: usize = 253;

/// Whether the text is a DNS name, with or without the dot that ends a full one, and no address.
fn is_dns_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let inside = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
    let ends = |c: &u8| c.is_ascii_alphanumeric() || *c == b'_';
    let is_label = |label: &str| has_form(label, ends, inside);
    let is_number = |label: &str| label.bytes().all(|c| c.is_ascii_digit());
    // The last label of a name is never a number; that of an address always is.
    let is_address = name.rsplit('.').next().is_none_or(is_number);
    name.len() <= DNS_NAME_MAX && !is_address && name.split('.').all(is_label)
}

/// Maximum length of a label's name or value, and of a namespace.
const LABEL_MAX: usize = 63;
/// Maximum length of the prefix of a label's key.
const LABEL_PREFIX_MAX: usize = 253;

/// Whether the text is the key of a label, with or without a prefix.
fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        None => is_label_name(key),
        Some((prefix, name)) => {
            let dns = prefix.len() <= LABEL_PREFIX_MAX && prefix.split('.').all(is_dns_label);
            dns && is_label_name(name)
        }
    }
}

/// Whether the text is the name or a value, not empty, of a label.
fn is_label_name(text: &str) -> bool {
    let inside = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    has_form(text, u8::is_ascii_alphanumeric, inside)
}

/// Whether the text is a DNS label, such as the name of a namespace.
fn is_dns_label(text: &str) -> bool {
    let plain = |c: &u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    has_form(text, plain, |c| plain(&c) || c == b'-')
}

/// Whether the text has 1 to [`LABEL_MAX`] characters, with these at both ends and those inside.
fn has_form(text: &str, ends: impl Fn(&u8) -> bool, inside: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let both = bytes.first().is_some_and(&ends) && bytes.last().is_some_and(&ends);
    both && bytes.len() <= LABEL_MAX && bytes.iter().copied().all(inside)
}
