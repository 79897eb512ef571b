//! Alternatives to a decision: the same problem solved with one step of cores less or more, and the target before under
//! the present demand. For people who ask why; never part of a cycle.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use weir_api::Cores;

use super::decide;
use crate::capacity::{Actual, Allocation, Target};
use crate::service::{Decision, Inputs, Service, SolveStatus};

/// Maximum time of one solve for an alternative.
pub const ALTERNATIVE_TIME_MAX: Duration = Duration::from_millis(100);

/// State that a decision was made in.
#[derive(Debug, Clone)]
pub struct DecisionBasis {
    /// Start of the cycle, Unix time in ms.
    pub at_ms: u64,
    /// The service as it could be had then.
    pub service: std::sync::Arc<Service>,
    /// Actual capacity.
    pub actual: Vec<Actual>,
    /// Demand.
    pub inputs: Option<Inputs>,
    /// Target of the decision.
    pub targets: Vec<Target>,
    /// Target of the decision before; empty if that was the first.
    pub before: Vec<Target>,
}

/// A solution that was considered and passed over, or that another budget would have.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Alternative {
    /// Name of the solution: `optimum`, `target before`, `one step less` or `one step more`.
    pub solution: &'static str,
    /// Its cores; `null` if they are not known.
    pub cores: Option<Cores>,
    /// Its objective; `null` if it does not carry the demand.
    pub objective: Option<f64>,
    /// Reason why it was passed over.
    pub why: String,
}

impl DecisionBasis {
    /// Solves for the alternatives; at most three solves of [`ALTERNATIVE_TIME_MAX`] each.
    pub fn alternatives(&self) -> Vec<Alternative> {
        let mut alternatives = Vec::new();
        let Some(inputs) = self.inputs else {
            return alternatives;
        };
        let is_new = !self.before.is_empty() && self.before != self.targets;
        if is_new {
            alternatives.push(self.before(inputs));
        }
        let ready = self.actual.iter().map(|one| one.ready);
        let targets = self.targets.iter().zip(ready);
        let used: Cores = targets.map(|(target, ready)| target.cores(ready)).sum();
        let (step, budget) = (self.service.step, self.service.budget);
        let used = used.count(step);
        if used > 1 {
            let decision = self.with_budget(used - 1, inputs);
            let why = match decision.optimum {
                Some(_) => "the best with one step of cores less",
                None => "one step of cores less does not carry the demand",
            };
            alternatives.push(self.alternative("one step less", &decision, why.to_owned()));
        }
        if used >= budget {
            let decision = self.with_budget(budget.saturating_add(1), inputs);
            let why = "the best with one step more than budget.cores allows".to_owned();
            alternatives.push(self.alternative("one step more", &decision, why));
        }
        alternatives
    }

    /// The target before, under the present demand: as if it were actual, and nothing need change.
    fn before(&self, inputs: Inputs) -> Alternative {
        let as_actual =
            |target: &Target| Actual::certain(Allocation::new(target.replicas, target.each));
        let before: Vec<Actual> = self.before.iter().map(as_actual).collect();
        let mut inputs = inputs;
        // Without a full window every policy keeps what carries the demand.
        inputs.forecast.window_full = false;
        let decision = decide(&self.limited(self.service.budget), &before, Some(inputs));
        let cores: Cores = before.iter().map(|one| one.ready.cores()).sum();
        let stays = decision.targets == self.before && decision.status != SolveStatus::Infeasible;
        let (objective, why) = match decision.objective.filter(|_| stays) {
            Some(objective) => (Some(objective), "the target of the decision before"),
            None => (
                None,
                "the target of the decision before does not carry the demand, or breaks a limit",
            ),
        };
        Alternative {
            solution: "target before",
            cores: Some(cores),
            objective,
            why: why.to_owned(),
        }
    }

    fn with_budget(&self, steps: u32, inputs: Inputs) -> Decision {
        decide(&self.limited(steps), &self.actual, Some(inputs))
    }

    /// The service with that budget and little time to solve.
    fn limited(&self, budget: u32) -> Service {
        let mut service = Service::clone(&self.service);
        // Policy infadapter weighs the used part of the budget; a core weighs the same in both.
        service.objective.beta *= f64::from(budget) / f64::from(service.budget.max(1));
        service.budget = budget;
        service.solver_limit = service.solver_limit.min(ALTERNATIVE_TIME_MAX);
        // The best of it is of interest, not what is kept for its sake.
        service.objective.tolerance = 0.0;
        service
    }

    fn alternative(&self, solution: &'static str, decision: &Decision, why: String) -> Alternative {
        let ready = self.actual.iter().map(|one| one.ready);
        let targets = decision.targets.iter().zip(ready);
        let cores = targets.map(|(target, ready)| target.cores(ready)).sum();
        let is_best = decision.optimum.is_some() && !decision.kept;
        Alternative {
            solution,
            cores: is_best.then_some(cores),
            objective: decision.optimum,
            why,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_api::Rps;

    use super::*;
    use crate::spec::tests::service;

    fn basis(before: &[u32], demand_rps: f64) -> DecisionBasis {
        let cores = |cores: &[u32]| -> Vec<Actual> {
            let each = cores.iter();
            each.map(|n| Actual::certain(Allocation::one(Cores::whole(*n))))
                .collect()
        };
        let (service, actual) = (service(8), cores(before));
        let inputs = Some(Inputs::steady(Rps(demand_rps)));
        DecisionBasis {
            at_ms: 1,
            targets: decide(&service, &actual, inputs).targets,
            service: Arc::new(service),
            inputs,
            before: cores(before).iter().map(|one| one.target()).collect(),
            actual,
        }
    }

    fn solutions(basis: &DecisionBasis) -> Vec<(&'static str, bool)> {
        let all = basis.alternatives();
        all.iter()
            .map(|one| (one.solution, one.objective.is_some()))
            .collect()
    }

    /// a: 0.8·(20·n − 2), 70 %, 1 to 8 cores; b: 0.8·(10·n − 2), 80 %, 0 to 4 cores; budget 8.
    #[test]
    fn target_before_and_one_step_less_or_more_have_their_objectives() {
        // The demand fell: four cores would carry it too.
        let fell = basis(&[2, 2], 6.0);
        let expected = [("target before", true), ("one step less", true)];
        assert_eq!(solutions(&fell), expected);
        let chosen = decide(&fell.service, &fell.actual, fell.inputs);
        let alternatives = fell.alternatives();
        for alternative in &alternatives {
            assert!(alternative.objective < chosen.optimum, "{alternative:?}");
        }
        assert_eq!(alternatives[0].cores, Some(Cores::whole(4)));
        assert_eq!(alternatives[1].cores, Some(Cores::whole(1)));
        // It rose beyond the target before, and up to the budget.
        let rose = basis(&[1, 1], 100.0);
        let expected = [
            ("target before", false),
            ("one step less", true),
            ("one step more", true),
        ];
        assert_eq!(solutions(&rose), expected);
        let tight = basis(&[1, 4], 124.0);
        let mut expected = expected;
        expected[1].1 = false;
        assert_eq!(solutions(&tight), expected, "{:?}", tight.alternatives());
        let unknown = DecisionBasis {
            inputs: None,
            ..fell
        };
        assert_eq!(unknown.alternatives(), []);
    }
}
