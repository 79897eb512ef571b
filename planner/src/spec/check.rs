//! Validation of a whole service: from [`ServiceSpec`] to [`Service`]. Each refusal names the path of the
//! key.

use std::net::SocketAddr;
use std::time::Duration;

use weir_api::Cores;

use super::classes::classes;
use super::demand::{demand, refuse_model};
use super::duration::{HOUR, MS, duration, whole_ms};
use super::filter::filter;
use super::limits::{limits, resources};
use super::proxies::{proxy_dns, proxy_pods, stats};
use super::raw::{RawDuration, RawObjective, ServiceSpec};
use super::servers::refuse_groups;
use super::service_times::service_times;
use super::stages::stages;
use super::variant::{Frame, size};
use super::without_profile;
use super::{KeySource, ServiceFile};
use crate::policy::{self, WEIGHT_MAX};
use crate::service::rule::{refusal, rule, valid_name, within};
use crate::service::{
    BUDGET_MAX, CYCLE_MAX, CYCLE_MIN, ConfigError, Membership, ON_TIME_TARGET_MAX,
    ON_TIME_TARGET_MIN, Objective, SCRAPE_INTERVAL_MIN, SCRAPES_PER_CYCLE, SHARE_WEIGHT_MAX,
    SHARE_WEIGHT_MIN, STEP_MIN, Service,
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
        ("keyEnv", &raw.key_env),
        ("keyFile", &raw.key_file),
    ] {
        let right = "left out: it is for files, a resource has a name and its planner flags";
        let value = value.as_deref();
        rule(value.is_none(), key, value.unwrap_or_default(), right)?;
    }
    refuse_groups(&raw)?;
    refuse_model(&raw.demand)?;
    service(valid_name("metadata.name", name)?, raw)
}

fn service(name: String, raw: ServiceSpec) -> Result<Service, ConfigError> {
    let slo = whole_ms("slo", raw.slo, MS..=HOUR, "")?;
    let on_time_target = within(
        "onTimeTarget",
        raw.on_time_target,
        ON_TIME_TARGET_MIN..=ON_TIME_TARGET_MAX,
        "of the demand, such as 0.99 for 99 %",
    )?;
    let part = within("latencyBudget", raw.latency_budget, 0.01..=1.0, "of slo")?;
    let downstream = duration(
        "downstreamTime",
        raw.downstream_time,
        Duration::ZERO..=slo.saturating_sub(MS),
        ", less than slo",
    )?;
    let downstream_ms = RawDuration(downstream).as_ms();
    let latency_max_ms = part * (RawDuration(slo).as_ms() - downstream_ms);
    let cycle = whole_ms("cycle", raw.cycle, CYCLE_MIN..=CYCLE_MAX, "")?;
    let more = ", more than two cycles";
    let plan_max_age = whole_ms("planMaxAge", raw.plan_max_age, 2 * cycle + MS..=HOUR, more)?;
    let scrape_interval = whole_ms(
        "proxies.interval",
        raw.proxies.interval.unwrap_or_else(|| every(cycle)),
        SCRAPE_INTERVAL_MIN..=cycle,
        ", at most cycle",
    )?;
    let shorter = |path, value| {
        let range = MS..=cycle.saturating_sub(MS);
        whole_ms(path, value, range, ", less than cycle")
    };
    let policy = policy::checked(raw.policy, raw.sections())?;
    without_profile::check(&raw)?;
    let written = raw.sizes();
    let step = step(written.step.0)?;
    let steps = (1..=BUDGET_MAX, step);
    let budget = size("budget.cores", written.cores.0, steps, "")?;
    let frame = Frame {
        service: &name,
        slo_ms: RawDuration(slo).as_ms(),
        latency_max_ms,
        start_slots: without_profile::start_slots(&raw.proxies),
        has_accuracies: raw.all_variants().any(|variant| variant.accuracy.is_some()),
        budget,
        step,
        mode: raw.mode,
        policy: &*policy,
    };
    let resources = resources(raw.variants.as_deref(), raw.stages.as_deref());
    let (stages, variants) = stages(&name, raw.variants, raw.stages, frame)?;
    let limits = limits(&written.resources, &resources, &stages, &variants)?;
    let classes = classes(&raw.classes, raw.default_class.as_deref(), raw.max_skips)?;
    Ok(Service {
        name,
        slo,
        on_time_target,
        latency_max_ms,
        downstream_ms,
        cycle,
        plan_max_age,
        mode: raw.mode,
        policy,
        objective: objective(&raw.objective)?,
        budget,
        step,
        shared: membership(written.shared, written.weight)?,
        limits,
        demand: demand(&raw.demand, &variants)?,
        solver_limit: shorter("solver.timeLimit", raw.solver.time_limit)?,
        stats: stats(&raw.proxies)?,
        proxy_pods: raw.proxies.pods.map(proxy_pods).transpose()?,
        proxy_dns: raw.proxies.dns.map(proxy_dns).transpose()?,
        scrape_interval,
        scrape_timeout: shorter("proxies.timeout", raw.proxies.timeout)?,
        fallback: raw.resize.fallback,
        scale_down_after: duration(
            "resize.scaleDownStabilization",
            raw.resize.scale_down_stabilization,
            Duration::ZERO..=HOUR,
            "",
        )?,
        resize_timeout: shorter("resize.timeout", raw.resize.timeout)?,
        service_times: service_times(&raw.service_times)?,
        filter: filter(raw.filter, &classes)?,
        classes,
        stages,
        variants,
    })
}

/// Validates the step of all numbers of cores.
fn step(step: Cores) -> Result<Cores, ConfigError> {
    let one = Cores::whole(1);
    let right =
        "0.01 to 1 core, and go into one core without a remainder, such as 0.5, 0.1 or 0.05";
    let fits = step >= STEP_MIN && one.is_multiple(step);
    rule(fits, "budget.step", step, right)?;
    Ok(step)
}

/// Validates the shared budget's name and the weight in it.
fn membership(
    shared: Option<String>,
    weight: Option<f64>,
) -> Result<Option<Membership>, ConfigError> {
    let Some(name) = shared else {
        let right = "left out: it is for a shared budget, named in budget.shared";
        let value = weight.unwrap_or_default();
        rule(weight.is_none(), "budget.weight", value, right)?;
        return Ok(None);
    };
    let range = SHARE_WEIGHT_MIN..=SHARE_WEIGHT_MAX;
    Ok(Some(Membership {
        budget: valid_name("budget.shared", &name)?,
        weight: within("budget.weight", weight.unwrap_or(1.0), range, "")?,
    }))
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

fn key(env: Option<String>, file: Option<String>) -> Result<KeySource, ConfigError> {
    let right = "exactly one of the two: \
        keyEnv (an environment variable's name) or keyFile (a path)";
    match (env, file) {
        (Some(env), None) => {
            let fits = !env.is_empty() && !env.contains(['=', '\0']);
            rule(fits, "keyEnv", &env, "an environment variable's name")?;
            Ok(KeySource::Env(env))
        }
        (None, Some(file)) => Ok(KeySource::File(file.into())),
        (None, None) => Err(refusal("keyEnv, keyFile", "both missing", right)),
        (Some(_), Some(_)) => Err(refusal("keyEnv, keyFile", "both given", right)),
    }
}

fn listen(text: &str) -> Result<SocketAddr, ConfigError> {
    let right = "an address with a port, such as 127.0.0.1:8080";
    text.parse().map_err(|_| refusal("listen", text, right))
}

/// Returns the scrape interval of a service that sets none, in whole ms.
fn every(cycle: Duration) -> RawDuration {
    let ms = u64::try_from(cycle.as_millis()).unwrap_or(u64::MAX) / SCRAPES_PER_CYCLE;
    RawDuration(Duration::from_millis(ms).max(SCRAPE_INTERVAL_MIN))
}
