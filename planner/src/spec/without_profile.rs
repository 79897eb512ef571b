//! Variants without a profile: the keys that they may leave out, and the start value that they are planned with until
//! their executions are measured.

use std::num::NonZeroU32;

use super::raw::{RawBudget, RawCores, RawCpu, RawProxies, RawVariant, ServiceSpec};
use super::variant::Frame;
use crate::profile::{Correction, Latency, Origin, Profile};
use crate::service::rule::{refusal, rule};
use crate::service::{ConfigError, Mode};
use crate::solve::latency_model::{LatencyModel, Parallelism};

/// Part of the objective that an execution takes until it is measured. With such a short time nothing is refused before
/// anything is known, and measured times are large multiples of it, which are told apart in small steps.
const START_PART: f64 = 1e-3;
/// Executions at the same time of each replica where the number of proxies is not known beforehand. Each proxy needs one,
/// and the filters find how many more do more.
const START_SLOTS: u32 = 4;
/// Accuracy where no variant has one: less than any minimum that a request demands.
pub(super) const NO_ACCURACY: f64 = 0.0;

/// Cores of a variant that nobody resizes.
const CORES: RawCores = RawCores {
    initial: RawCpu::whole(1),
    min: RawCpu::whole(1),
    max: Some(RawCpu::whole(1)),
};

impl RawVariant {
    /// Cores as given, or one that stays.
    pub fn sizes(&self) -> RawCores {
        self.cores.unwrap_or(CORES)
    }

    /// Largest batch that is written, in the variant or in the profile that has been read.
    pub fn batch_max(&self) -> u32 {
        let of_profile = || self.profile.as_ref().and_then(|reference| reference.batch);
        self.batch.or_else(of_profile).unwrap_or(1)
    }

    /// Whether something is known of its times before it serves.
    pub(super) fn has_profile(&self) -> bool {
        self.latency.is_some() || self.profile.is_some()
    }
}

impl ServiceSpec {
    /// Budget as given, or the initial cores of all replicas.
    pub fn sizes(&self) -> RawBudget {
        let initial = self.all_variants().map(|variant| {
            let cores = variant.sizes().initial.0;
            cores.times(variant.replicas.initial)
        });
        let given = self.budget.clone();
        given.unwrap_or_else(|| RawBudget::of(RawCpu(initial.sum())))
    }

    /// Variants of the service, or of all its stages.
    pub fn all_variants(&self) -> impl Iterator<Item = &RawVariant> {
        let of_stages = self.stages.iter().flatten();
        let of_stages = of_stages.flat_map(|stage| &stage.variants);
        self.variants.iter().flatten().chain(of_stages)
    }
}

/// Refuses a service without a budget in mode active, and one that is to measure its variants and not to plan with it.
pub(super) fn check(spec: &ServiceSpec) -> Result<(), ConfigError> {
    let right = "given in mode active: the cores that all variants may use together";
    let given = spec.budget.is_some() || spec.mode == Mode::Advisory;
    rule(given, "budget", "missing", right)?;
    let Some(without) = spec.all_variants().find(|variant| !variant.has_profile()) else {
        return Ok(());
    };
    let right = format!(
        "left out where a variant has no profile ({}): it is planned with what is measured",
        without.name
    );
    let correct = spec.service_times.correct;
    rule(correct, "serviceTimes.correct", correct, &right)
}

/// Executions at the same time of each replica until they are measured: one for each proxy.
pub(super) fn start_slots(proxies: &RawProxies) -> u32 {
    match u32::try_from(proxies.stats.len()) {
        Ok(0) | Err(_) => START_SLOTS,
        Ok(proxies) => proxies,
    }
}

/// Start value of a variant without a profile.
///
/// # Errors
/// A mode or a policy that needs to know what other cores would do, or a capacity without times.
pub(super) fn start(at: &str, raw: &RawVariant, frame: Frame<'_>) -> Result<Profile, ConfigError> {
    let Frame { mode, policy, .. } = frame;
    let name = policy.name();
    let why = match (mode, policy.needs_profiles()) {
        (_, true) => Some(format!(
            "with policy {name}: it plans by times on other cores"
        )),
        (Mode::Active, _) => {
            Some("in mode active: what other cores would do is planned".to_owned())
        }
        (Mode::Advisory, false) => None,
    };
    if let Some(why) = why {
        let right = format!(
            "given, or profile (where it is), {why}; {}",
            remedy(&raw.name, frame)
        );
        return Err(refusal(format!("{at}.latency"), "missing", &right));
    }
    let right = "left out without latency: the rate is measured in production, as the times are";
    rule(
        raw.capacity.is_none(),
        format!("{at}.capacity"),
        "given",
        right,
    )?;
    Ok(Profile {
        origin: Origin::Start,
        latency: Latency {
            model: LatencyModel::constant(frame.slo_ms * START_PART),
            tail: 1.0,
        },
        parallelism: Parallelism::Fixed(
            NonZeroU32::new(frame.start_slots).unwrap_or(NonZeroU32::MIN),
        ),
        batch: raw.batch_max(),
        fit: None,
        utilisation: policy.derived_utilisation(),
        correction: Correction::NONE,
    })
}

/// Commands that measure a variant.
fn remedy(name: &str, frame: Frame<'_>) -> String {
    let service = frame.service;
    format!(
        "`weir profile` writes one through its endpoint, `weir profile --from-proxy URL --service {service} --variant \
         {name} --cores N` one of its requests in production"
    )
}

/// Cores as given; those of a variant without a profile may be left out.
pub(super) fn cores(at: &str, raw: &RawVariant) -> Result<RawCores, ConfigError> {
    let right = "given, where latency or profile are: these are by cores";
    let known = raw.cores.is_some() || !raw.has_profile();
    rule(known, format!("{at}.cores"), "missing", right)?;
    Ok(raw.sizes())
}

/// Smallest and largest cores in steps that are planned: nothing is known of others than the initial ones without a
/// profile.
pub(super) fn planned_cores(profile: &Profile, initial: u32, written: (u32, u32)) -> (u32, u32) {
    match profile.origin {
        Origin::Given => written,
        Origin::Start => (initial, initial.max(1)),
    }
}

impl RawBudget {
    /// Budget of that many cores.
    fn of(cores: RawCpu) -> RawBudget {
        RawBudget {
            cores,
            step: crate::quantity::cpu::step(),
            resources: std::collections::BTreeMap::new(),
            shared: None,
            weight: None,
        }
    }
}
