//! The rules about one variant.

use std::num::NonZeroU32;

use weir_api::Cores;
use weir_api::plan::{BATCH_MAX, CLUSTER_MAX, HOUR_MS, SLOTS_MAX, is_cluster};

use super::policy::RawPolicy;
use super::raw::{RawCapacity, RawLatency, RawParallelism, RawVariant};
use super::rule::{named, rule, seconds, url, within};
use super::{CORES_MAX, ConfigError, Mode, Variant};
use crate::profile::{Fit, Latency, Profile};
use crate::solve::law::{Law, Parallelism};

/// What of the service a variant's rules depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) budget: u32,
    pub(super) mode: Mode,
    pub(super) policy: RawPolicy,
}

/// Checks the variant at that path.
pub(super) fn variant(at: &str, raw: &RawVariant, frame: Frame) -> Result<Variant, ConfigError> {
    let key = |key: &str| format!("{at}.{key}");
    let right = format!("1 to {CLUSTER_MAX} printable ASCII characters without spaces");
    rule(
        is_cluster(&raw.cluster),
        key("cluster"),
        &raw.cluster,
        &right,
    )?;
    let highest = frame.budget.min(CORES_MAX);
    let greatest = raw.cores.greatest.unwrap_or(highest);
    let unit = "whole cores, within budget.cores";
    within(key("cores.greatest"), greatest, 1..=highest, unit)?;
    let unit = "whole cores, at most cores.greatest";
    let least = within(key("cores.least"), raw.cores.least, 0..=greatest, unit)?;
    let unit = "whole cores, cores.least to cores.greatest";
    let initial = within(
        key("cores.initial"),
        raw.cores.initial,
        least..=greatest,
        unit,
    )?;
    let profile = Profile {
        latency: latency(&key("latency"), &raw.latency)?,
        parallelism: parallelism(&key("latency.parallelism"), raw.latency.parallelism)?,
        batch: within(key("batch"), raw.batch, 1..=BATCH_MAX, "requests")?,
        fit: match &raw.capacity {
            Some(capacity) => Some(fit(&key("capacity"), capacity)?),
            None => None,
        },
    };
    match frame.policy {
        RawPolicy::Infadapter => {
            let right = "given, with policy infadapter";
            rule(raw.capacity.is_some(), key("capacity"), "missing", right)?;
        }
        RawPolicy::Sponge => for_sponge(at, &profile, least)?,
        RawPolicy::Ipa => for_replicas(at, "ipa", &profile, least)?,
        RawPolicy::Infaas => {
            for_replicas(at, "infaas", &profile, least)?;
            let right = format!("{highest}, with policy infaas: the budget alone bounds replicas");
            rule(greatest == highest, key("cores.greatest"), greatest, &right)?;
        }
    }
    let slots = profile.slots(Cores::whole(greatest));
    let right = format!("at most {SLOTS_MAX} slots (batch × parallelism at cores.greatest)");
    rule(
        slots <= SLOTS_MAX,
        key("latency.parallelism"),
        format!("{slots} slots"),
        &right,
    )?;
    let resize = raw
        .resize
        .as_deref()
        .map(|text| url(key("resize"), text))
        .transpose()?;
    let reachable = resize.is_some() || least == greatest || frame.mode == Mode::Advisory;
    let right = "the address where its cores are changed, \
        in mode active where cores.least and cores.greatest differ";
    rule(reachable, key("resize"), "missing", right)?;
    Ok(Variant {
        name: named(key("name"), &raw.name)?,
        cluster: raw.cluster.clone(),
        accuracy: within(key("accuracy"), raw.accuracy, 0.0..=100.0, "percent")?,
        initial: Cores::whole(initial),
        least,
        greatest,
        profile,
        cancels: raw.cancels,
        readiness: seconds(key("readiness_s"), raw.readiness_s, 0.0..=3600.0, "")?,
        resize,
    })
}

/// One instance that is always there and executes one batch after the other on all its cores: what
/// Sponge's h(b, c) = b / l(b, c) says.
fn for_sponge(at: &str, profile: &Profile, least: u32) -> Result<(), ConfigError> {
    let one = Parallelism::Fixed(NonZeroU32::MIN);
    let path = format!("{at}.latency.parallelism");
    let right = "1, with policy sponge";
    rule(profile.parallelism == one, path, "something else", right)?;
    let right = "1 or more, with policy sponge";
    rule(least > 0, format!("{at}.cores.least"), least, right)
}

/// Replicas of one core each, any number of them, none included.
fn for_replicas(at: &str, policy: &str, profile: &Profile, least: u32) -> Result<(), ConfigError> {
    let each = profile.parallelism == Parallelism::PerCore;
    let path = format!("{at}.latency.parallelism");
    let right = format!("per-core, with policy {policy}: a replica is one core");
    rule(each, path, "a number", &right)?;
    let right = format!("0, with policy {policy}: not every variant runs");
    rule(least == 0, format!("{at}.cores.least"), least, &right)
}

fn latency(at: &str, raw: &RawLatency) -> Result<Latency, ConfigError> {
    let ms = |name, value| within(format!("{at}.{name}"), value, 0.0..=HOUR_MS as f64, "ms");
    let law = Law {
        gamma_ms: ms("gamma_ms", raw.gamma_ms)?,
        epsilon_ms: ms("epsilon_ms", raw.epsilon_ms)?,
        delta_ms: ms("delta_ms", raw.delta_ms)?,
        eta_ms: ms("eta_ms", raw.eta_ms)?,
    };
    let latency = Latency {
        law,
        tail: within(
            format!("{at}.tail"),
            raw.tail,
            1.0..=100.0,
            "times the mean",
        )?,
    };
    let one_ms = law.service_ms(1, 1.0);
    rule(
        one_ms > 0.0,
        at,
        one_ms,
        "more than 0 ms for one request on one core",
    )?;
    Ok(latency)
}

fn parallelism(at: &str, raw: RawParallelism) -> Result<Parallelism, ConfigError> {
    let RawParallelism::Fixed(batches) = raw else {
        return Ok(Parallelism::PerCore);
    };
    let batches = within(at, batches, 1..=SLOTS_MAX, "batches at once, or per-core")?;
    Ok(NonZeroU32::new(batches).map_or(Parallelism::PerCore, Parallelism::Fixed))
}

fn fit(at: &str, raw: &RawCapacity) -> Result<Fit, ConfigError> {
    let rps = |name, value, range| within(format!("{at}.{name}"), value, range, "requests/s");
    Ok(Fit {
        slope_rps: rps("slope_rps", raw.slope_rps, 0.0..=1e6)?,
        intercept_rps: rps("intercept_rps", raw.intercept_rps, -1e6..=1e6)?,
        utilisation: within(format!("{at}.utilisation"), raw.utilisation, 0.01..=1.0, "")?,
    })
}
