//! Validation of a whole service: from [`ServiceSpec`] to [`Service`]. Each refusal names the path of the
//! key.

use std::net::SocketAddr;
use std::time::Duration;

use weir_api::plan::HOUR_MS;

use super::ServiceFile;
use super::bounds::{bounds, holds};
use super::classes::classes;
use super::raw::{RawDemand, RawObjective, RawPods, RawProxies, ServiceSpec};
use super::stages::stages;
use super::variant::Frame;
use crate::forecast::{BURSTS_MAX, DemandRule, WINDOW_MAX};
use crate::key::KeySource;
use crate::policy::{self, Sections, WEIGHT_MAX};
use crate::service::rule::{millis, refusal, rule, seconds, url, valid_name, within};
use crate::service::{
    BUDGET_MAX, CYCLE_MAX, CYCLE_MIN, ConfigError, Objective, ProxyPods, SCRAPE_INTERVAL_MIN,
    SCRAPES_PER_CYCLE, STATS_MAX, Service,
};

impl TryFrom<ServiceSpec> for ServiceFile {
    type Error = ConfigError;

    fn try_from(mut raw: ServiceSpec) -> Result<ServiceFile, ConfigError> {
        let missing = |key| refusal(key, "missing", "given in a service file");
        let name = raw.service.take().ok_or_else(|| missing("service"))?;
        let listen_at = raw.listen.take().ok_or_else(|| missing("listen"))?;
        let (env, file) = (raw.key_env.take(), raw.key_file.take());
        let right = "left out: pods are found for a resource of Kubernetes, not for a file";
        rule(raw.proxies.pods.is_none(), "proxies.pods", "given", right)?;
        Ok(ServiceFile {
            service: service(valid_name("service", &name)?, raw)?,
            listen: listen(&listen_at)?,
            key: key(env, file)?,
        })
    }
}

/// Validates the service of the resource called `name`.
pub(super) fn from_resource(name: &str, raw: ServiceSpec) -> Result<Service, ConfigError> {
    for (key, value) in [
        ("service", &raw.service),
        ("listen", &raw.listen),
        ("key_env", &raw.key_env),
        ("key_file", &raw.key_file),
    ] {
        let right = "left out: it is for files, a resource has a name and its planner flags";
        let value = value.as_deref();
        rule(value.is_none(), key, value.unwrap_or_default(), right)?;
    }
    service(valid_name("metadata.name", name)?, raw)
}

fn service(name: String, raw: ServiceSpec) -> Result<Service, ConfigError> {
    let slo_ms = within("slo_ms", raw.slo_ms, 1..=HOUR_MS, "ms")?;
    let part = within(
        "latency_budget",
        raw.latency_budget,
        0.01..=1.0,
        "of slo_ms",
    )?;
    let unit = "ms, less than slo_ms";
    let downstream_ms = within(
        "downstream_ms",
        raw.downstream_ms,
        0.0..=(slo_ms - 1) as f64,
        unit,
    )?;
    let cycles = whole_ms(CYCLE_MIN)..=whole_ms(CYCLE_MAX);
    let cycle = millis("cycle_ms", raw.cycle_ms, cycles, "")?;
    let ages = 2 * raw.cycle_ms + 1..=HOUR_MS;
    let more = ", more than two cycles";
    let plan_max_age = millis("plan_max_age_ms", raw.plan_max_age_ms, ages, more)?;
    let intervals = whole_ms(SCRAPE_INTERVAL_MIN)..=raw.cycle_ms;
    let interval = raw.proxies.interval_ms;
    let interval = interval.unwrap_or((raw.cycle_ms / SCRAPES_PER_CYCLE).max(*intervals.start()));
    let scrape_interval = millis(
        "proxies.interval_ms",
        interval,
        intervals,
        ", at most cycle_ms",
    )?;
    let shorter = |path, value| millis(path, value, 1..=raw.cycle_ms - 1, ", less than cycle_ms");
    let budget = within(
        "budget.cores",
        raw.budget.cores,
        1..=BUDGET_MAX,
        "whole cores",
    )?;
    let sections = Sections {
        sponge: raw.sponge,
        ipa: raw.ipa,
        infaas: raw.infaas,
        themis: raw.themis,
    };
    let policy = policy::checked(raw.policy, sections)?;
    let frame = Frame {
        budget,
        mode: raw.mode,
        policy: &*policy,
    };
    let holds = holds(raw.variants.as_deref(), raw.stages.as_deref());
    let (stages, variants) = stages(&name, raw.variants, raw.stages, frame)?;
    let bounds = bounds(&raw.budget.held, &holds, &stages, &variants)?;
    Ok(Service {
        name,
        slo: Duration::from_millis(slo_ms),
        latency_max_ms: part * (slo_ms as f64 - downstream_ms),
        downstream_ms,
        cycle,
        plan_max_age,
        mode: raw.mode,
        policy,
        objective: objective(&raw.objective)?,
        budget,
        bounds,
        demand: demand(&raw.demand)?,
        solver_limit: shorter("solver.time_limit_ms", raw.solver.time_limit_ms)?,
        stats: stats(&raw.proxies)?,
        proxy_pods: raw.proxies.pods.map(proxy_pods).transpose()?,
        scrape_interval,
        scrape_timeout: shorter("proxies.timeout_ms", raw.proxies.timeout_ms)?,
        fallback: raw.resize.fallback,
        scale_down_after: seconds(
            "resize.scale_down_after_s",
            raw.resize.scale_down_after_s,
            0.0..=3600.0,
            "",
        )?,
        resize_timeout: shorter("resize.timeout_ms", raw.resize.timeout_ms)?,
        classes: classes(&raw.classes, raw.default_class.as_deref(), raw.max_skips)?,
        stages,
        variants,
    })
}

fn objective(raw: &RawObjective) -> Result<Objective, ConfigError> {
    let weight =
        |name: &str, value| within(format!("objective.{name}"), value, 0.0..=WEIGHT_MAX, "");
    Ok(Objective {
        alpha: weight("alpha", raw.alpha)?,
        beta: weight("beta", raw.beta)?,
        gamma: weight("gamma", raw.gamma)?,
        tolerance: weight("tolerance", raw.tolerance)?,
    })
}

fn demand(raw: &RawDemand) -> Result<DemandRule, ConfigError> {
    let longest = WINDOW_MAX.as_secs_f64();
    let within_window = 0.1..=raw.window_s.max(0.1);
    Ok(DemandRule {
        smoothing: seconds("demand.smoothing_s", raw.smoothing_s, 0.1..=longest, "")?,
        window: seconds("demand.window_s", raw.window_s, 1.0..=longest, "")?,
        moving: seconds(
            "demand.moving_s",
            raw.moving_s,
            within_window,
            ", at most window_s",
        )?,
        headroom: within("demand.headroom", raw.headroom, 1.0..=10.0, "")?,
        bursts: seconds(
            "demand.bursts_s",
            raw.bursts_s,
            0.0..=BURSTS_MAX.as_secs_f64(),
            "",
        )?,
    })
}

fn key(env: Option<String>, file: Option<String>) -> Result<KeySource, ConfigError> {
    let right = "exactly one of the two: \
        key_env (an environment variable's name) or key_file (a path)";
    match (env, file) {
        (Some(env), None) => {
            let fits = !env.is_empty() && !env.contains(['=', '\0']);
            rule(fits, "key_env", &env, "an environment variable's name")?;
            Ok(KeySource::Env(env))
        }
        (None, Some(file)) => Ok(KeySource::File(file.into())),
        (None, None) => Err(refusal("key_env, key_file", "both missing", right)),
        (Some(_), Some(_)) => Err(refusal("key_env, key_file", "both given", right)),
    }
}

fn listen(text: &str) -> Result<SocketAddr, ConfigError> {
    let right = "an address with a port, such as 127.0.0.1:8080";
    text.parse().map_err(|_| refusal("listen", text, right))
}

fn stats(raw: &RawProxies) -> Result<Vec<reqwest::Url>, ConfigError> {
    let texts = &raw.stats;
    let min = usize::from(raw.pods.is_none());
    let most = if raw.pods.is_none() { STATS_MAX } else { 0 };
    let unit = "addresses: these, or pods";
    within("proxies.stats", texts.len(), min..=most, unit)?;
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

fn proxy_pods(raw: RawPods) -> Result<ProxyPods, ConfigError> {
    let right = "one or more: all pods there are would be asked";
    rule(!raw.labels.is_empty(), "proxies.pods.labels", "none", right)?;
    rule(raw.port > 0, "proxies.pods.port", raw.port, "1 to 65535")?;
    let right = "a path, such as /stats/prometheus";
    rule(
        raw.path.starts_with('/'),
        "proxies.pods.path",
        &raw.path,
        right,
    )?;
    Ok(ProxyPods {
        labels: raw.labels,
        namespace: raw.namespace,
        port: raw.port,
        path: raw.path,
    })
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
