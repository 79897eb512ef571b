//! Part of a budget that several services share: the planner takes it for its budget, and states its demand for cores.

use std::sync::Arc;
use std::time::Duration;

use weir_api::{Cores, Rps};

use super::{Planner, RISE};
use crate::capacity::Actual;
use crate::service::{Inputs, Replicas, Service};

impl Planner {
    /// Sets the budget to a part of that of `whole`, the service as it was read, in steps. A core keeps its weight. If
    /// the part is another one than before, the next tick runs a cycle.
    pub fn set_budget(&mut self, whole: &Service, steps: u32) {
        if self.service.budget == steps {
            return;
        }
        limit(Arc::make_mut(&mut self.service), whole, steps);
        self.due = Duration::ZERO;
    }

    /// Cores reserved by all variants, pending changes included; `None` until this planner has observed each of them.
    pub fn reserved(&self) -> Option<Cores> {
        self.rollout.reserved()
    }

    /// Problem by which the demand for cores is computed ([`crate::policy::core_demand`]): the service with the budget
    /// of `whole`, the actual state, and the inputs. `None` while the demand is unknown.
    pub fn core_problem(&self, whole: &Service) -> Option<(Arc<Service>, Vec<Actual>, Inputs)> {
        let inputs = self.inputs()?;
        let mut service = Service::clone(&self.service);
        limit(&mut service, whole, whole.budget);
        let service = self.attainable_of(&Arc::new(service));
        Some((service, self.rollout.actual.clone(), inputs))
    }
}

/// Times at which the demand for cores is computed: once a cycle, and when the rate has risen.
#[derive(Debug, Clone, Copy, Default)]
pub struct CoreDemandTimes {
    latest: Option<(Duration, Rps)>,
}

impl CoreDemandTimes {
    /// Whether the demand is to be computed at `at` for a service with that `cycle`. If so, this is the latest time.
    pub fn is_due(&mut self, at: Duration, cycle: Duration, rate: Rps) -> bool {
        let is_due = self
            .latest
            .is_none_or(|(latest, before)| at >= latest + cycle || rate.0 > before.0 * RISE);
        if is_due {
            self.latest = Some((at, rate));
        }
        is_due
    }
}

/// Limits a service to `steps` of the budget of `whole`.
fn limit(service: &mut Service, whole: &Service, steps: u32) {
    service.budget = steps;
    // The cost is relative to the budget; a core must cost as much as before.
    let part = f64::from(steps) / f64::from(whole.budget.max(1));
    service.objective.beta = whole.objective.beta * part;
    for (variant, whole) in service.variants.iter_mut().zip(&whole.variants) {
        // The number of replicas follows from the budget, their cores do not.
        if whole.replicas == Replicas::ONE {
            variant.max = whole.max.min(steps.max(whole.min).max(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::Allocation;
    use crate::policy::decide;
    use crate::spec::tests::service;

    #[test]
    fn core_costs_as_much_in_a_part_as_in_the_whole_budget() {
        let whole = service(8);
        let actual = [2, 2].map(|cores| Actual::certain(Allocation::one(Cores::whole(cores))));
        let cores = |service: &Service, demand_rps: f64| {
            let decision = decide(service, &actual, Some(Inputs::steady(Rps(demand_rps))));
            (
                decision.targets,
                decision.optimum.map(|value| (value * 1e9).round()),
            )
        };
        for demand_rps in [6.0, 28.0] {
            let expected = cores(&whole, demand_rps);
            for steps in 5..=8 {
                let mut part = whole.clone();
                limit(&mut part, &whole, steps);
                assert_eq!(cores(&part, demand_rps), expected, "{demand_rps}, {steps}");
                assert!(part.variants.iter().all(|one| one.max <= steps));
                limit(&mut part, &whole, whole.budget);
                assert_eq!(part, whole);
            }
        }
    }

    #[test]
    fn another_budget_is_a_reason_for_a_cycle() {
        let whole = service(8);
        let mut planner = Planner::new(Arc::new(whole.clone()));
        planner.due = Duration::from_secs(9);
        planner.set_budget(&whole, 8);
        assert_eq!(planner.due, Duration::from_secs(9));
        planner.set_budget(&whole, 5);
        assert_eq!((planner.due, planner.service.budget), (Duration::ZERO, 5));
        assert_eq!(planner.core_problem(&whole), None);
        assert_eq!(planner.reserved(), None);
    }

    #[test]
    fn demand_is_computed_once_a_cycle_and_for_a_higher_rate() {
        let mut times = CoreDemandTimes::default();
        let cycle = Duration::from_secs(1);
        for (at_ms, rate, expected) in [
            (0, 100.0, true),
            (250, 101.0, false),
            (500, 103.0, true),
            (750, 90.0, false),
            (1250, 90.0, false),
            (1500, 90.0, true),
        ] {
            let at = Duration::from_millis(at_ms);
            assert_eq!(times.is_due(at, cycle, Rps(rate)), expected, "{at_ms} ms");
        }
    }
}
