//! The rules of the baselines, and what each decides.

use std::time::Duration;

use weir_api::Cores;
use weir_solve::latency_model::Latency;

use super::hpa::{self, Hpa, Pods};
use super::infaas::{Heuristic, Removals, sm_plus};
use super::infadapter::{Decisions, Problem};
use super::per_second::PerSecond;
use super::sponge::{self, Instance};
use super::unit::Unit;
use super::vpa::{self, Vpa};
use super::vpa_plus::VpaPlus;
use super::{Observation, Usage};
use weir_planner::service::Service;

/// Cycle of the rules that count seconds.
const SECOND: Duration = Duration::from_secs(1);

/// Rule of a baseline, with its state.
pub(crate) enum Rule {
    /// Kubernetes' HorizontalPodAutoscaler; a pod is a replica, or one step of cores.
    Hpa(Vec<Hpa>, Meter),
    /// Kubernetes' VerticalPodAutoscaler; a variant is one pod, resized in place.
    Vpa(Vec<Vpa>, Meter),
    /// InfAdapter's VPA+, on the variant with that index.
    VpaPlus(usize, VpaPlus),
    /// InfAdapter's MS+.
    MsPlus(Decisions),
    /// InfAdapter as published.
    Infadapter(Decisions),
    /// SM+: each variant is a group of replicas by itself.
    SmPlus(Removals, PerSecond),
    /// INFaaS' heuristic.
    Infaas(Heuristic, PerSecond),
    /// FA2 as Sponge's program has it, on the variant with that index.
    Fa2(usize, PerSecond),
    /// Sponge's Algorithm 1 as the paper means it, on the variant with that index.
    SpongePaper(usize, PerSecond),
    /// Sponge as its program has it, on the variant with that index.
    SpongeCode(usize, PerSecond),
}

/// Way in which cores change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The server is resized.
    InPlace,
    /// Replicas are added, which load, and removed.
    Replicas,
    /// New servers take over when all of them are ready.
    Replacement,
}

/// Outcome of a cycle.
#[derive(Debug, Clone)]
pub(super) struct Decision {
    /// Steps of each variant; `None` leaves them.
    pub(super) steps: Vec<Option<u32>>,
    pub(super) change: Change,
    /// Shares of the variants; `None` leaves them.
    pub(super) shares: Option<Vec<f64>>,
    /// Variant and its batch; `None` leaves them.
    pub(super) batch: Option<(usize, u32)>,
}

/// State at the beginning of a cycle.
#[derive(Debug, Clone, Copy)]
pub(super) struct State<'a> {
    pub(super) now: Duration,
    pub(super) service: &'a Service,
    /// Units in which the cores of each variant change.
    pub(super) units: &'a [Unit],
    /// Ready cores of each variant.
    pub(super) confirmed: &'a [Cores],
    /// Target cores of each variant.
    pub(super) target: &'a [Cores],
    /// Whether a change is pending.
    pub(super) changing: bool,
}

/// Counters of the last cycle.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    before: Vec<Usage>,
}

impl Meter {
    /// Mean cores in use since the last call; `None` for a variant that had none.
    fn used(&mut self, usage: Vec<Usage>, period: Duration) -> Vec<Option<f64>> {
        self.before.resize(usage.len(), Usage::default());
        let each = usage.iter().zip(&self.before);
        let used = each.map(|(now, before)| {
            let used = now.busy_core_seconds - before.busy_core_seconds;
            let had = now.core_seconds - before.core_seconds;
            (had > 0.0).then_some(used / period.as_secs_f64())
        });
        let used = used.collect();
        self.before = usage;
        used
    }
}

impl Decision {
    fn steps(steps: Vec<Option<u32>>, change: Change) -> Decision {
        Decision {
            steps,
            change,
            shares: None,
            batch: None,
        }
    }
}

impl Rule {
    /// The HPA, for that many variants.
    pub(crate) fn hpa(variants: usize) -> Rule {
        Rule::Hpa(vec![Hpa::default(); variants], Meter::default())
    }

    /// The VPA, for that many variants.
    pub(crate) fn vpa(variants: usize) -> Rule {
        Rule::Vpa(vec![Vpa::default(); variants], Meter::default())
    }

    pub(super) fn period(&self) -> Duration {
        match self {
            Rule::Hpa(..) => hpa::PERIOD,
            Rule::Vpa(..) => vpa::PERIOD,
            _ => SECOND,
        }
    }

    pub(super) fn needs_waiting(&self) -> bool {
        matches!(self, Rule::SpongePaper(..) | Rule::SpongeCode(..))
    }

    /// Decides; `None` leaves all as it is.
    pub(super) fn decide(&mut self, state: &State<'_>, seen: Observation) -> Option<Decision> {
        match self {
            Rule::Hpa(each, meter) => {
                let used = meter.used(seen.usage, hpa::PERIOD);
                let steps = each.iter_mut().zip(used).enumerate();
                let steps = steps.map(|(index, (hpa, used))| horizontal(hpa, state, index, used?));
                Some(Decision::steps(steps.collect(), Change::Replicas))
            }
            Rule::Vpa(each, meter) => {
                let used = meter.used(seen.usage, vpa::PERIOD);
                let steps = each.iter_mut().zip(used).enumerate();
                let steps = steps.map(|(index, (vpa, used))| vertical(vpa, state, index, used?));
                Some(Decision::steps(steps.collect(), Change::InPlace))
            }
            Rule::VpaPlus(index, vpa) => {
                let busy = seen.usage.get(*index)?.busy_core_seconds;
                let has = state.target.get(*index)?.as_f64();
                let max = state.service.variants.get(*index)?;
                let max = max.cores(max.max).as_f64();
                let cores = vpa.update(state.now, busy, has, max)?;
                let steps = (cores / state.service.step.as_f64()).floor() as u32;
                let only = only(state, *index, steps);
                Some(Decision::steps(only, Change::Replacement))
            }
            Rule::MsPlus(decisions) | Rule::Infadapter(decisions) => {
                decisions.observe(seen.arrivals);
                if state.changing {
                    return None;
                }
                let problem = Problem::new(state.service);
                let current = state
                    .target
                    .iter()
                    .map(|cores| cores.count(state.service.step));
                let current: Vec<u32> = current.collect();
                let load = decisions.due(state.now, problem.capacity(&current))?;
                let chosen = match self {
                    Rule::MsPlus(_) => problem.model_switching(load, &current),
                    _ => problem.infadapter(load, &current),
                };
                Some(Decision {
                    shares: Some(chosen.shares),
                    ..Decision::steps(
                        chosen.steps.into_iter().map(Some).collect(),
                        Change::Replacement,
                    )
                })
            }
            Rule::SmPlus(removals, seconds) => {
                seconds.observe(seen.arrivals);
                let load_rps = seconds.maxima(1, 1).last().copied()?;
                let steps = sm_plus(state, removals, load_rps);
                Some(Decision::steps(steps, Change::Replicas))
            }
            Rule::Infaas(heuristic, seconds) => {
                seconds.observe(seen.arrivals);
                let load_rps = seconds.maxima(1, 1).last().copied()?;
                let steps = heuristic.decide(state, load_rps)?;
                Some(Decision::steps(steps, Change::Replicas))
            }
            Rule::Fa2(index, seconds) => {
                seconds.observe(seen.arrivals);
                instance(state, *index, seconds.mean(), Change::Replicas, sponge::fa2)
            }
            Rule::SpongePaper(index, seconds) => {
                seconds.observe(seen.arrivals);
                let rate = seconds.maxima(1, 1).last().copied()?;
                instance(state, *index, rate, Change::InPlace, |instance| {
                    sponge::as_published(instance, seen.waiting)
                })
            }
            Rule::SpongeCode(index, seconds) => {
                seconds.observe(seen.arrivals);
                instance(state, *index, seconds.mean(), Change::InPlace, |instance| {
                    sponge::as_programmed(instance, seen.network_ms)
                })
            }
        }
    }
}

fn horizontal(hpa: &mut Hpa, state: &State<'_>, index: usize, used: f64) -> Option<u32> {
    let unit = state.units.get(index)?;
    let spec = state.target.get(index)?.count(unit.cores);
    // It does not scale from zero.
    let pods = Pods {
        spec: Some(spec).filter(|pods| *pods > 0)?,
        ready: state.confirmed.get(index)?.count(unit.cores).min(spec),
        used: used / unit.cores.as_f64(),
        min: unit.min.max(1),
        max: unit.max,
    };
    Some(hpa.desired(state.now, pods))
}

fn vertical(vpa: &mut Vpa, state: &State<'_>, index: usize, used: f64) -> Option<u32> {
    let variant = state.service.variants.get(index)?;
    let request = *state.target.get(index)?;
    let bounds = (
        variant.cores(variant.min.max(1)),
        variant.cores(variant.max),
    );
    let cores = vpa.update(state.now, used, request, bounds)?;
    // Cores come in steps.
    Some(cores.millis().div_ceil(state.service.step.millis().max(1)))
}

/// Steps of that variant alone.
fn only(state: &State<'_>, index: usize, steps: u32) -> Vec<Option<u32>> {
    let count = state.service.variants.len();
    (0..count)
        .map(|one| (one == index).then_some(steps))
        .collect()
}

/// Decision about one instance, or about instances of one core, with a batch.
fn instance(
    state: &State<'_>,
    index: usize,
    rate_rps: f64,
    change: Change,
    choose: impl FnOnce(&Instance<'_>) -> Option<sponge::Choice>,
) -> Option<Decision> {
    let (service, unit) = (state.service, state.units.get(index)?);
    let variant = service.variants.get(index)?;
    let latency: Latency = variant.profile.latency.model.into();
    let instance = Instance {
        latency: &latency,
        cores_max: unit.cores.times(unit.max).as_f64().floor() as u32,
        batch_max: variant.profile.batch,
        rate_rps,
        slo_ms: service.slo.as_secs_f64() * 1e3,
    };
    let (cores, batch) = choose(&instance)?;
    let steps = Cores::whole(cores).count(unit.cores);
    Some(Decision {
        batch: Some((index, batch)),
        ..Decision::steps(only(state, index, steps), change)
    })
}
