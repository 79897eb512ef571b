//! Validation of one variant.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use weir_api::Cores;
use weir_api::plan::{BATCH_MAX, HOUR_MS, SLOTS_MAX};

use super::duration::{HOUR, SECOND, duration};
use super::raw::{
    RawCapacity, RawCpu, RawLatency, RawParallelism, RawReconfigure, RawReference, RawReplicas,
    RawVariant, RawWorkload,
};
use super::{servers, without_profile};
use crate::capacity::Allocation;
use crate::profile::{Correction, Fit, Latency, Origin, Profile};
use crate::service::rule::{refusal, rule, valid_name, within};
use crate::service::{
    BATCH, CORES_MAX, ConfigError, Mode, Policy, REPLICAS_MAX, Reconfigure, Replicas, Variant,
    VariantShape, Workload,
};
use crate::solve::latency_model::{LatencyModel, Parallelism};

/// Maximum batch window of a server.
const BATCH_DELAY_MAX: Duration = SECOND;
/// Minimum price of a core.
const PRICE_MIN: f64 = 1e-6;
/// Maximum price of a core.
const PRICE_MAX: f64 = 1e6;

fn batch_delay(at: &str, raw: &RawVariant) -> Result<Duration, ConfigError> {
    let delay = duration(at, raw.batch_delay, Duration::ZERO..=BATCH_DELAY_MAX, "")?;
    let right = "left out where batch is 1: there is no batch to wait for";
    let holds = delay.is_zero() || raw.batch_max() > 1;
    rule(holds, at, raw.batch_delay, right)?;
    Ok(delay)
}

/// Properties of the service that a variant's rules depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    /// Name of the service.
    pub(super) service: &'a str,
    /// Objective, in ms.
    pub(super) slo_ms: f64,
    /// Executions at the same time of a replica without a profile, until they are measured.
    pub(super) start_slots: u32,
    /// Time that one execution may take, in ms.
    pub(super) latency_max_ms: f64,
    /// Whether any variant has an accuracy.
    pub(super) has_accuracies: bool,
    /// Budget, in steps.
    pub(super) budget: u32,
    /// Step of all numbers of cores.
    pub(super) step: Cores,
    pub(super) mode: Mode,
    pub(super) policy: &'a dyn Policy,
}

/// Returns the number of steps in a number of cores, which is in that range of steps.
pub(super) fn size(
    path: &str,
    cores: Cores,
    (range, step): (RangeInclusive<u32>, Cores),
    unit: &str,
) -> Result<u32, ConfigError> {
    let whole = step == Cores::whole(1);
    let kind = if whole { "whole cores" } else { "cores" };
    let comma = if unit.is_empty() { "" } else { ", " };
    let right = format!("a multiple of budget.step ({step}), as all numbers of cores");
    let multiple = cores.is_multiple(step);
    let (first, last) = (step.times(*range.start()), step.times(*range.end()));
    within(path, cores, first..=last, &format!("{kind}{comma}{unit}"))?;
    rule(multiple, path, cores, &right)?;
    Ok(cores.count(step))
}

/// Validates the variant at that path.
pub(super) fn variant(
    at: &str,
    raw: &RawVariant,
    frame: Frame<'_>,
) -> Result<Variant, ConfigError> {
    let key = |key: &str| format!("{at}.{key}");
    servers::names(at, raw)?;
    let Frame { budget, step, .. } = frame;
    let highest = budget.min(CORES_MAX);
    let cores = |name, raw: Option<RawCpu>, range: RangeInclusive<u32>, unit| match raw {
        Some(raw) => size(&key(name), raw.0, (range, step), unit),
        None => Ok(*range.end()),
    };
    let written = without_profile::cores(at, raw)?;
    let max = cores("cores.max", written.max, 1..=highest, "within budget.cores")?;
    let min = Some(written.min);
    let min = cores("cores.min", min, 0..=max, "at most cores.max")?;
    let initial = Some(written.initial);
    let unit = "cores.min to cores.max";
    let initial = cores("cores.initial", initial, min..=max, unit)?;
    let unread = raw.profile.as_ref().filter(|reference| !reference.read);
    if let Some(reference) = unread {
        let right = "left out, and latency given instead: references are not followed here";
        return Err(refusal(key("profile"), reference.label(), right));
    }
    within(key("batch"), raw.batch_max(), 1..=BATCH_MAX, "requests")?;
    let profile = match &raw.latency {
        Some(model) => {
            let given = given(at, raw, model, frame);
            given.map_err(|error| of_profile(raw, error))?
        }
        None => without_profile::start(at, raw, frame)?,
    };
    let (min, max) = without_profile::planned_cores(&profile, initial, (min, max));
    let profile = match raw.batch {
        Some(_) => profile,
        None => profile.with_batch_within(step.times(max), frame.latency_max_ms),
    };
    let (replicas, count) = replicas(&key("replicas"), raw.replicas)?;
    let shape = VariantShape {
        profile: &profile,
        step,
        min,
        max,
        highest,
        replicas,
    };
    frame.policy.check(at, &shape)?;
    let single = replicas == Replicas::ONE;
    let right = "1 or more: a replica has cores; replicas.min: 0 unloads the variant";
    rule(single || min > 0, key("cores.min"), min, right)?;
    let slots = profile.slots(step.times(max)).saturating_mul(replicas.max);
    let right = format!("at most {SLOTS_MAX} slots (batch × parallelism at cores.max × replicas)");
    rule(
        slots <= SLOTS_MAX,
        key("latency.parallelism"),
        format!("{slots} slots"),
        &right,
    )?;
    let place = servers::place(at, raw)?;
    let right =
        "above 0 with cgroup or systemd: a server without CPU time does not unload its model";
    let stops = place.cgroup.is_some() && min == 0;
    rule(!stops, key("cores.min"), min, right)?;
    let right = "left out with cgroup or systemd: a control group is one server";
    let single = place.cgroup.is_none() || replicas == Replicas::ONE;
    rule(single, key("replicas"), "given", right)?;
    let fixed = min == max && replicas.min == replicas.max;
    let workload = match &raw.workload {
        Some(workload) => Some(self::workload(&key("workload"), workload, profile.batch)?),
        None => None,
    };
    let changed = place.resize.is_some() || place.cgroup.is_some() || workload.is_some();
    let reachable = changed || fixed || frame.mode == Mode::Advisory;
    let right = "the address where its cores are changed (or cgroup or systemd, on the planner's host, or workload, \
        on Kubernetes), in mode active where cores.min and cores.max (or those of replicas) differ";
    rule(reachable, key("resize"), "missing", right)?;
    Ok(Variant {
        name: valid_name(key("name"), &raw.name)?,
        cluster: raw.cluster.clone(),
        grpc_cluster: raw.grpc_cluster.clone(),
        model: raw.model.clone(),
        path: raw.path.clone(),
        accuracy: accuracy(key("accuracy"), raw.accuracy, frame)?,
        initial: Allocation::new(count, step.times(initial)),
        step,
        min,
        max,
        replicas,
        profile,
        profile_from: raw.profile.as_ref().map(RawReference::label),
        price: price(key("price"), raw.price, frame.policy.name())?,
        cancels: raw.cancels,
        batch_max: raw.batch_max(),
        batch_delay: batch_delay(&key("batchDelay"), raw)?,
        readiness: duration(key("readiness"), raw.readiness, Duration::ZERO..=HOUR, "")?,
        tell_batch: tell_batch(&key("tellBatch"), raw)?,
        resize: place.resize,
        cgroup: place.cgroup,
        workload,
    })
}

/// Profile of a variant whose latency is given.
fn given(
    at: &str,
    raw: &RawVariant,
    model: &RawLatency,
    frame: Frame<'_>,
) -> Result<Profile, ConfigError> {
    let (fit, utilisation) = match &raw.capacity {
        Some(capacity) => {
            let (fit, utilisation) = fit(&format!("{at}.capacity"), capacity)?;
            (Some(fit), utilisation)
        }
        None => (None, frame.policy.derived_utilisation()),
    };
    Ok(Profile {
        origin: Origin::Given,
        latency: latency(&format!("{at}.latency"), model)?,
        parallelism: parallelism(&format!("{at}.latency.parallelism"), model.parallelism)?,
        batch: raw.batch_max(),
        fit,
        utilisation,
        correction: Correction::NONE,
    })
}

/// Names the profile in the error of a value that it has given.
fn of_profile(raw: &RawVariant, error: ConfigError) -> ConfigError {
    match (&raw.profile, error) {
        (Some(reference), ConfigError::Value { path, value, right }) => ConfigError::Value {
            right: format!("{right}, in {}", reference.label()),
            path,
            value,
        },
        (_, error) => error,
    }
}

fn tell_batch(at: &str, raw: &RawVariant) -> Result<bool, ConfigError> {
    let right = "left out where there is no resize (an address), or where batch is 1";
    let can = raw.resize.is_some() && raw.batch_max() > 1;
    rule(!raw.tell_batch || can, at, raw.tell_batch, right)?;
    Ok(raw.tell_batch)
}

fn workload(at: &str, raw: &RawWorkload, batch: u32) -> Result<Workload, ConfigError> {
    // A DNS subdomain, as required for names in Kubernetes.
    let fits = |name: &str, most: usize| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        (1..=most).contains(&name.len())
            && name.chars().all(plain)
            && !name.starts_with(['-', '.'])
            && !name.ends_with(['-', '.'])
    };
    let right = "a name of Kubernetes: a-z, 0-9, - and ., at most 253";
    rule(fits(&raw.name, 253), format!("{at}.name"), &raw.name, right)?;
    if let Some(container) = &raw.container {
        let right = "a container's name: a-z, 0-9 and -, at most 63";
        let fits = fits(container, 63) && !container.contains('.');
        rule(fits, format!("{at}.container"), container, right)?;
    }
    Ok(Workload {
        kind: raw.kind,
        name: raw.name.clone(),
        container: raw.container.clone(),
        reconfigure: match &raw.reconfigure {
            Some(raw) => Some(reconfigure(&format!("{at}.reconfigure"), raw, batch)?),
            None => None,
        },
    })
}

fn reconfigure(at: &str, raw: &RawReconfigure, batch: u32) -> Result<Reconfigure, ConfigError> {
    within(format!("{at}.port"), raw.port, 1..=u16::MAX, "")?;
    let right = "a path, such as /v1/threads, of printable characters without spaces";
    let fits = raw.path.starts_with('/') && raw.path.chars().all(|c| c.is_ascii_graphic());
    rule(fits, format!("{at}.path"), &raw.path, right)?;
    let has_placeholder = |text: &str| {
        ["{cores}", "{millicores}", BATCH]
            .iter()
            .any(|one| text.contains(one))
    };
    let right = "with {cores}, {millicores} or {batch} in it, or in the path: what else would the server be told";
    let contains_any = has_placeholder(&raw.path) || has_placeholder(&raw.body);
    rule(contains_any, format!("{at}.body"), &raw.body, right)?;
    Ok(Reconfigure {
        port: raw.port,
        path: raw.path.clone(),
        method: raw.method,
        body: raw.body.clone(),
        batch,
    })
}

/// Returns the minimum and maximum, and the initial number.
fn replicas(at: &str, raw: RawReplicas) -> Result<(Replicas, u32), ConfigError> {
    let key = |key: &str| format!("{at}.{key}");
    let max = raw.max.unwrap_or(raw.initial.max(1));
    within(key("max"), max, 1..=REPLICAS_MAX, "replicas")?;
    let unit = "replicas, at most replicas.max";
    let min = within(key("min"), raw.min, 0..=max, unit)?;
    let unit = "replicas, replicas.min to replicas.max";
    let initial = within(key("initial"), raw.initial, min..=max, unit)?;
    Ok((Replicas { min, max }, initial))
}

fn accuracy(at: String, raw: Option<f64>, frame: Frame<'_>) -> Result<f64, ConfigError> {
    if !frame.has_accuracies && !frame.policy.needs_profiles() {
        return Ok(without_profile::NO_ACCURACY);
    }
    let right = "0 to 100 percent, here or in the profile; or left out of all variants";
    let percent = raw.ok_or_else(|| refusal(&at, "missing", right))?;
    within(at, percent, 0.0..=100.0, "percent")
}

fn price(at: String, raw: Option<f64>, policy: &str) -> Result<f64, ConfigError> {
    let Some(price) = raw else { return Ok(1.0) };
    let right = "left out or 1, unless policy is infaas: the others plan cores";
    rule(policy == "infaas" || price == 1.0, &at, price, right)?;
    within(at, price, PRICE_MIN..=PRICE_MAX, "for a core")
}

fn latency(at: &str, raw: &RawLatency) -> Result<Latency, ConfigError> {
    let ms = |name: &str, value: Option<f64>| {
        let ms = value.unwrap_or_default();
        within(format!("{at}.{name}"), ms, 0.0..=HOUR_MS as f64, "ms")
    };
    let coefficients = [raw.gamma_ms, raw.epsilon_ms, raw.delta_ms, raw.eta_ms];
    let given = coefficients.iter().any(Option::is_some);
    let right = "either meanMs or coefficients of the model";
    let value = if given { "both given" } else { "both missing" };
    let keys = format!("{at}.meanMs, .gammaMs, .epsilonMs, .deltaMs, .etaMs");
    rule(raw.mean_ms.is_some() != given, keys, value, right)?;
    let model = match raw.mean_ms {
        Some(_) => LatencyModel::constant(ms("meanMs", raw.mean_ms)?),
        None => LatencyModel {
            gamma_ms: ms("gammaMs", raw.gamma_ms)?,
            epsilon_ms: ms("epsilonMs", raw.epsilon_ms)?,
            delta_ms: ms("deltaMs", raw.delta_ms)?,
            eta_ms: ms("etaMs", raw.eta_ms)?,
        },
    };
    let latency = Latency {
        model,
        tail: within(
            format!("{at}.tail"),
            raw.tail,
            1.0..=100.0,
            "times the mean",
        )?,
    };
    let one_ms = model.service_ms(1, 1.0);
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

/// Returns the line, and the fraction of it that is planned with.
fn fit(at: &str, raw: &RawCapacity) -> Result<(Fit, f64), ConfigError> {
    let rps = |name, value, range| within(format!("{at}.{name}"), value, range, "requests/s");
    let fit = Fit {
        slope_rps: rps("slopeRps", raw.slope_rps, 0.0..=1e6)?,
        intercept_rps: rps("interceptRps", raw.intercept_rps, -1e6..=1e6)?,
    };
    let utilisation = within(format!("{at}.utilisation"), raw.utilisation, 0.01..=1.0, "")?;
    Ok((fit, utilisation))
}
