//! Policy themis (arXiv 2407.14843): running replicas first get more cores, which takes effect at once. Once the load
//! has lasted, more replicas with few cores take over, which is cheaper.
//!
//! - A load has lasted when the minimum over the forecast's window is [`LASTING_PART`] of the planned demand. Then
//!   additional replicas start with `horizontalCores`, while the serving ones keep the cores of the vertical plan.
//!   When all are ready, the latter shrink in place.
//! - If the budget does not allow all of them beside the serving ones, as many start as it allows, and the rest later.
//!   If the serving replicas cannot carry the load on any number of cores, they shrink to make room.
//! - Until the load has lasted, the serving replicas get the cores with which they carry the most of it, and others
//!   start in the remaining budget: the predicted load is not there yet, and new replicas have to load.
//! - The actual allocation is kept while it carries the demand in time with at most `tolerance` cores more than needed.
//!   Before the window is full, nothing is removed.
//!
//! The problem counts cores in steps (`budget.step`). Its latency model has the coefficients that cores divide, over the
//! step ([`by_steps`]).
//!
//! The batch follows from the actual cores, as with IPA ([`super::ipa`]).

use weir_api::{Cores, Rps};

use super::ipa::{self, Reserve};
use super::replica::one_at_a_time;
use super::{DEMAND_MIN, Solved, keep, promised, ready, stay, wait_ms};
use crate::capacity::{Actual, Allocation};
use crate::clock::stopwatch;
use crate::forecast::Forecast;
use crate::service::rule::{rule, within};
use crate::service::{
    ConfigError, Decision, Inputs, Needs, Policy, ScaleDown, Service, SolveStatus, Variant,
    VariantShape,
};
use crate::solve::latency_model::{Latency, LatencyModel};
use crate::solve::themis::{self, Input, Phase, Problem, Running, Scaling, StageInput, solve};
use crate::solve::{InputError, Outcome, TimeLimit};

pub use settings::{RawThemis, Themis};
use targets::{start_beside, targets};

/// Part of the demand that must have lasted. Demand is the maximum of some means plus a reserve, the lasting load is
/// their minimum: at 20 requests/s chance alone puts them a fifth apart.
pub(super) const LASTING_PART: f64 = 2.0 / 3.0;
/// Steps of the search for the largest load: to a thousandth of the starting value.
const STEPS: u32 = 10;

impl Policy for Themis {
    fn name(&self) -> &'static str {
        "themis"
    }

    fn variants_max(&self) -> (usize, &'static str) {
        (1, "of each stage, with policy themis")
    }

    fn plans_pipelines(&self) -> bool {
        true
    }

    /// Checks for replicas that execute one batch at a time, and whose number and cores both may change.
    fn check(&self, at: &str, variant: &VariantShape<'_>) -> Result<(), ConfigError> {
        let VariantShape {
            profile,
            step,
            min,
            max,
            replicas,
            ..
        } = *variant;
        one_at_a_time(at, profile, "1, with policy themis")?;
        let unit = "cores, with policy themis";
        let (min_cores, max_cores) = (step.times(min), step.times(max));
        let cores = step..=step.times(themis::CORES_MAX);
        within(format!("{at}.cores.max"), max_cores, cores.clone(), unit)?;
        within(format!("{at}.cores.min"), min_cores, cores, unit)?;
        let right = "1 or more, with policy themis: every stage serves";
        let path = format!("{at}.replicas.min");
        rule(replicas.min > 0, path, replicas.min, right)?;
        let batches = 1..=themis::BATCH_MAX;
        let unit = "requests, with policy themis";
        within(format!("{at}.batch"), profile.batch, batches, unit)?;
        let new = self.horizontal_cores;
        let right = format!("a multiple of budget.step ({step}), as all numbers of cores");
        rule(new.is_multiple(step), "themis.horizontalCores", new, &right)?;
        let path = format!("{at}.cores");
        let right = format!("with themis.horizontalCores ({new}) in between");
        let between = (min_cores..=max_cores).contains(&new);
        rule(between, path, format!("{min_cores} to {max_cores}"), &right)
    }

    fn needs(&self, _service: &Service) -> Needs {
        Needs {
            lasted: true,
            ..Needs::default()
        }
    }

    /// Returns the fewest cores in the current phase, or the actual allocation if there is a reason to keep it.
    fn decide(&self, service: &Service, actual: &[Actual], inputs: Inputs) -> Decision {
        let forecast = inputs.forecast;
        let elapsed = stopwatch();
        let time_limit = TimeLimit::new(service.solver_limit, &elapsed);
        let demand = Rps(forecast.demand.0.max(DEMAND_MIN.0));
        let lasting = forecast
            .lasted
            .is_some_and(|lasted| lasted.0 >= LASTING_PART * forecast.demand.0);
        let requested = input(service, *self, actual, demand, lasting);
        let problem: Result<Problem, InputError> = requested.clone().try_into();
        let outcome = match problem {
            Ok(problem) => solve(&problem, &time_limit),
            Err(refused) => return keep(actual, SolveStatus::Infeasible, refused.to_string()),
        };
        let solved = match Solved::read(outcome) {
            Ok(solved) => solved,
            Err((status, why)) => return keep(actual, status, format!("cores stay: {why}")),
        };
        let step = service.step;
        let mut note = solved.note(|gap| {
            let cores = Cores::try_from(gap * step.as_f64()).unwrap_or_default();
            format!("{cores} cores too many")
        });
        let Solved {
            mut plan, status, ..
        } = solved;
        let mut is_short = false;
        if !lasting
            && plan.vertical.is_none()
            && let Some((vertical, load_rps)) = most_vertically(requested, &time_limit)
        {
            note += &format!(", for {load_rps:.1} vertically until more are loaded");
            (plan.phase, plan.vertical) = (Phase::Vertical, Some(vertical));
            is_short = true;
        }
        let scaling = match plan.phase {
            Phase::Vertical => plan.vertical.as_ref().or(plan.horizontal.as_ref()),
            Phase::Horizontal => plan.horizontal.as_ref().or(plan.vertical.as_ref()),
        };
        let Some(scaling) = scaling else {
            return keep(
                actual,
                status,
                format!("cores stay: nothing was found{note}"),
            );
        };
        let (kept, reason) = kept(service, *self, actual, forecast, scaling, demand);
        let targets = if kept {
            stay(actual)
        } else {
            let mut targets = targets(service, &plan, actual, forecast.window_full);
            if is_short {
                start_beside(service, &plan, actual, &mut targets);
            }
            targets
        };
        let phase = match plan.phase {
            Phase::Vertical => "vertically",
            Phase::Horizontal => "horizontally",
        };
        let why = format!(
            "{:.1} requests/s,{} lasting: {phase}{} in {:.0} ms{note}{reason}",
            demand.0,
            if lasting { "" } else { " not" },
            settings(scaling, step),
            scaling.latency_ms,
        );
        let cores: Cores = actual.iter().map(|one| one.reserved).sum();
        let optimum = -step.times(scaling.cores).as_f64();
        Decision {
            targets,
            status,
            kept,
            why,
            objective: Some(if kept { -cores.as_f64() } else { optimum }),
            optimum: Some(optimum),
        }
    }

    fn chooses_batches(&self) -> bool {
        true
    }

    fn batches(
        &self,
        service: &Service,
        allocations: &[Allocation],
        inputs: Option<Inputs>,
    ) -> Vec<u32> {
        ipa::batches(
            service,
            allocations,
            inputs.map(|inputs| inputs.forecast),
            |_| Reserve::TAIL,
        )
    }

    /// Immediate: replicas are removed to give the others more cores.
    fn scale_down(&self) -> ScaleDown {
        ScaleDown::Immediate
    }

    fn tolerance(&self, _service: &Service) -> f64 {
        self.tolerance
    }
}

/// Returns the vertical plan for the largest load that has one, and that load.
fn most_vertically(requested: Input, time_limit: &TimeLimit<'_>) -> Option<(Scaling, f64)> {
    let (mut low, mut high, mut best) = (0.0, requested.load_rps, None);
    for _ in 0..STEPS {
        let load_rps = f64::midpoint(low, high);
        let less = Input {
            load_rps,
            ..requested.clone()
        };
        let problem: Problem = less.try_into().ok()?;
        let vertical = match solve(&problem, time_limit) {
            Outcome::Optimal(plan) | Outcome::Good { best: plan, .. } => plan.vertical,
            Outcome::Infeasible { .. } | Outcome::OutOfTime { .. } => None,
        };
        match vertical {
            Some(vertical) => (best, low) = (Some((vertical, load_rps)), load_rps),
            None => high = load_rps,
        }
    }
    best
}

/// Returns the reason to keep the actual allocation, if it carries the demand and there is one.
fn kept(
    service: &Service,
    rule: Themis,
    actual: &[Actual],
    forecast: Forecast,
    scaling: &Scaling,
    demand: Rps,
) -> (bool, &'static str) {
    let all_serve = actual.iter().all(|one| one.starting.replicas() == 0);
    let carries = ipa::carrying(service, &ready(actual), demand, Reserve::TAIL).is_some();
    if !all_serve || !carries {
        return (false, "");
    }
    let cores: Cores = actual.iter().map(|one| one.reserved).sum();
    let planned = service.step.times(scaling.cores);
    let apart = cores.max(planned).saturating_sub(cores.min(planned));
    match (forecast.window_full, apart) {
        (_, Cores::ZERO) => (false, ""),
        (false, _) => (true, ", kept: the demand's window has not filled yet"),
        (true, apart) if apart.as_f64() <= rule.tolerance => {
            (true, ", kept: within the tolerance of it")
        }
        (true, _) => (false, ""),
    }
}

fn input(service: &Service, rule: Themis, actual: &[Actual], demand: Rps, lasting: bool) -> Input {
    let stage = |(index, (variant, actual)): (usize, (&Variant, &Actual))| StageInput {
        name: service
            .stages
            .get(index)
            .map_or_else(String::new, |stage| stage.name.clone()),
        latency: Latency::Sponge(by_steps(promised(variant), variant.step)),
        running: Running {
            instances: actual.ready.replicas().min(variant.replicas.max),
            cores: actual
                .ready
                .each()
                .count(variant.step)
                .clamp(1, variant.max),
        },
        cores_max: variant.max,
        batch_max: variant.profile.batch,
        wait_ms: wait_ms(variant),
        instances_max: variant.replicas.max,
    };
    let each = service.variants.iter().zip(actual);
    Input {
        load_rps: demand.0,
        lasting,
        slo_ms: service.latency_max_ms,
        budget_cores: service.budget,
        horizontal_cores: rule.horizontal_cores.count(service.step),
        stages: each.enumerate().map(stage).collect(),
    }
}

/// Model in steps of cores instead of cores.
fn by_steps(model: LatencyModel, step: Cores) -> LatencyModel {
    LatencyModel {
        gamma_ms: model.gamma_ms / step.as_f64(),
        epsilon_ms: model.epsilon_ms / step.as_f64(),
        ..model
    }
}

fn settings(scaling: &Scaling, step: Cores) -> String {
    let each = scaling.stages.iter().map(|stage| {
        let (n, c) = (stage.instances, step.times(stage.cores));
        let (name, b) = (&stage.name, stage.batch);
        format!(" {n} × {c} cores for {name} in batches of {b}")
    });
    each.collect::<Vec<_>>().join(",")
}

mod settings;
mod targets;
#[cfg(test)]
pub(super) mod tests;
