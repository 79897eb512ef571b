//! Reason and best effort if neither programme has a solution.

use super::choices::Choice;
use super::front::fastest;
use super::join::plan;
use super::{Phase, Plan, Problem};
use crate::{TOLERANCE, TimeLimit};

/// Bisection steps of the search for the load that can be carried: to the last bit of a double.
const HALVINGS: u32 = 60;

/// Describes for each programme the limit that is exceeded.
pub(super) fn why(problem: &Problem, time_limit: &TimeLimit<'_>) -> String {
    let horizontal = reason(problem, Phase::Horizontal, &time_limit.part(0.5));
    let vertical = reason(problem, Phase::Vertical, time_limit);
    format!("vertically, {vertical}; horizontally, {horizontal}")
}

fn reason(problem: &Problem, phase: Phase, time_limit: &TimeLimit<'_>) -> String {
    let (load, budget) = (problem.load_rps, problem.budget_cores);
    for stage in &problem.stages {
        if phase == Phase::Vertical && stage.running.instances == 0 {
            return format!("nothing runs at stage '{}'", stage.name);
        }
        let (instances, cores) = match phase {
            Phase::Vertical => (stage.running.instances, stage.cores_max),
            Phase::Horizontal => (stage.instances_max, problem.horizontal_cores),
        };
        let carried = (1..=stage.batch_max).map(|batch| {
            f64::from(instances) * stage.latency.throughput_rps(batch, f64::from(cores))
        });
        let carried = carried.fold(0.0, f64::max);
        if carried < load * (1.0 - TOLERANCE) {
            let name = &stage.name;
            return format!(
                "a load of {load:.1} requests/s exceeds the {carried:.1} that stage '{name}' carries with {instances} instances of {cores} cores"
            );
        }
    }
    let Some(stages) = problem.choices(phase, load, time_limit) else {
        return "there was no time to say why".to_owned();
    };
    let cores: u64 = cheapest_each(&stages)
        .iter()
        .map(|choice| u64::from(choice.cost))
        .sum();
    if cores > u64::from(budget) {
        return format!(
            "a load of {load:.1} requests/s takes {cores} cores, more than the budget of {budget}"
        );
    }
    let slo = problem.slo_ms;
    match fastest(problem, &stages, time_limit) {
        Some(choices) => {
            let ms: f64 = choices.iter().map(|choice| choice.ms).sum();
            format!(
                "the least latency within {budget} cores is {ms:.1} ms, above the SLO of {slo:.1} ms"
            )
        }
        None => format!("the latency within {budget} cores is above the SLO of {slo:.1} ms"),
    }
}

/// Returns the best effort that the module documentation defines.
pub(super) fn best_effort(problem: &Problem, time_limit: &TimeLimit<'_>) -> Option<Plan> {
    let horizontal = max_load(problem, Phase::Horizontal, &time_limit.part(0.5));
    let vertical = max_load(problem, Phase::Vertical, time_limit);
    let horizontal_first = match (&vertical, &horizontal) {
        (Some(vertical), Some(horizontal)) => {
            let (less, more) = (vertical.0, horizontal.0);
            let alike = (less - more).abs() <= TOLERANCE * less.max(more);
            let ms = |choices: &[Choice]| choices.iter().map(|choice| choice.ms).sum::<f64>();
            let quicker = ms(&horizontal.1) < ms(&vertical.1) * (1.0 - TOLERANCE);
            if alike { quicker } else { more > less }
        }
        (None, _) => true,
        (Some(_), None) => false,
    };
    if horizontal_first {
        let scaling = horizontal.map(|(_, choices)| problem.scaling(&choices));
        plan(problem, None, scaling)
    } else {
        let scaling = vertical.map(|(_, choices)| problem.scaling(&choices));
        plan(problem, scaling, None)
    }
}

/// Returns the greatest load that can be carried, and the choices for it.
fn max_load(
    problem: &Problem,
    phase: Phase,
    time_limit: &TimeLimit<'_>,
) -> Option<(f64, Vec<Choice>)> {
    let carried = |rps: f64| {
        let stages = problem.choices(phase, rps, time_limit)?;
        let cheapest = cheapest_each(&stages);
        let cores: u64 = cheapest.iter().map(|choice| u64::from(choice.cost)).sum();
        let fits = cheapest.len() == stages.len() && cores <= u64::from(problem.budget_cores);
        fits.then_some((stages, cheapest))
    };
    let load = problem.load_rps;
    let (rps, (stages, cheapest)) = match carried(load) {
        Some(found) => (load, found),
        None => {
            let (mut low, mut high) = (0.0, load);
            for _ in 0..HALVINGS {
                let middle = low + (high - low) / 2.0;
                match carried(middle) {
                    Some(_) => low = middle,
                    None => high = middle,
                }
            }
            // The real capacity is that of the narrowest stage, and may exceed the load searched
            // for.
            let narrowest = |choices: &[Choice]| choices.iter().map(|c| c.rps).fold(load, f64::min);
            let rps = narrowest(&carried(low)?.1);
            (rps, carried(rps)?)
        }
    };
    let fastest = fastest(problem, &stages, time_limit);
    Some((rps, fastest.unwrap_or(cheapest)))
}

/// The choice of least cost (then latency) of each stage; stages without choices are left out.
fn cheapest_each(stages: &[Vec<Choice>]) -> Vec<Choice> {
    let cheaper = |a: &&Choice, b: &&Choice| a.cost.cmp(&b.cost).then(a.ms.total_cmp(&b.ms));
    let each = stages
        .iter()
        .filter_map(|choices| choices.iter().min_by(cheaper));
    each.copied().collect()
}
