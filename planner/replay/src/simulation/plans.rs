//! Distribution of plans from a control plane to every worker, and the current plan.

use std::rc::Rc;
use std::time::Duration;

use weir_api::Plan;

use super::Simulation;
use super::event_queue::Event;
use super::witness::Witness;
use crate::control::ControlPlane;
use crate::nanos;
use crate::plane::{DataPlane, circumstances};
use weir_planner::distribution::slot_allocation::{Role, divide};

impl<W: Witness> Simulation<'_, W> {
    /// Sends plans to every worker.
    pub(super) fn publish(&mut self, plans: impl IntoIterator<Item = Plan>) {
        let at = self.now + nanos(self.scenario.proxies.plan_delay);
        for mut plan in plans {
            circumstances(self.contender.plane, &mut plan.variants);
            let renews = self.plans.last().is_some_and(|last| {
                last.variants == plan.variants && last.downstream_ms == plan.downstream_ms
            });
            if !renews {
                self.plans_at.push(Duration::from_nanos(self.now));
            }
            let number = self.plans.len() as u32;
            self.plans.push(Rc::new(plan));
            let mut reached = self
                .loses_plan
                .iter()
                .map(|loses| !loses)
                .collect::<Vec<bool>>();
            self.loses_plan.fill(false);
            for worker in 0..self.worker_count() {
                let proxy = self.proxy_of(worker);
                if reached.get_mut(proxy).is_some_and(|reached| *reached) {
                    self.event_queue.add(
                        at,
                        Event::PlanArrival {
                            worker,
                            plan: number,
                        },
                    );
                }
            }
        }
    }

    /// Lets a restarted worker fetch the newest plan.
    pub(crate) fn fetch_plan(&mut self, worker: u32) {
        let at = self.now + nanos(self.scenario.proxies.plan_delay);
        if let Some(newest) = (self.plans.len() as u32).checked_sub(1) {
            self.event_queue.add(
                at,
                Event::PlanArrival {
                    worker,
                    plan: newest,
                },
            );
        }
    }

    /// Handles the arrival of a plan at a worker.
    pub(super) fn take_plan(&mut self, worker: u32, plan: u32) {
        let Some(plan) = self.plans.get(plan as usize).cloned() else {
            return;
        };
        let proxy = self.proxy_of(worker);
        let Some(part) = self.part_of(&plan, proxy) else {
            return;
        };
        let shares = self.shares_of(&plan);
        if self.plane.follow(&shares) {
            self.shares = shares;
        }
        self.tell(worker, |worker, now, verdicts| {
            worker.on_plan(&part, now, verdicts)
        });
        self.carry_out_verdicts(worker, false);
        self.arm(worker);
        if let ControlPlane::Planner(driver) = &mut self.control {
            if let Some(taken) = driver.ports.state().taken.get_mut(proxy) {
                *taken = (*taken).max(plan.revision);
            }
            self.continue_cycle();
        }
    }

    /// Slot allocation of a proxy from a plan; `None` if there are fewer slots than proxies.
    fn part_of(&self, plan: &Rc<Plan>, proxy: usize) -> Option<Rc<Plan>> {
        let proxies = self.counted.len();
        if proxies == 1 || matches!(self.plane, DataPlane::Fifo(_)) {
            return Some(Rc::clone(plan));
        }
        let parts = divide(plan, &vec![Role::Both; proxies]);
        let part = parts.into_iter().nth(proxy)?;
        part.ok().map(Rc::new)
    }

    /// Shares of the static plan that every worker starts with.
    pub(super) fn static_shares(&self) -> Vec<f64> {
        let DataPlane::Weir(workers) = &self.plane else {
            return Vec::new();
        };
        let plan = workers
            .first()
            .and_then(|worker| worker.engine.config().static_plan.as_ref());
        plan.map(|plan| self.shares_of(plan)).unwrap_or_default()
    }

    fn shares_of(&self, plan: &Plan) -> Vec<f64> {
        let share = |name: &str| {
            let part = plan.variants.iter().find(|part| part.name == name);
            part.map_or(0.0, |part| part.share.0)
        };
        let names = self.scenario.service.variants.iter();
        names.map(|variant| share(&variant.name)).collect()
    }

    /// Number of workers that receive plans; without Weir each proxy counts as one.
    fn worker_count(&self) -> u32 {
        match &self.plane {
            DataPlane::Weir(workers) => workers.len() as u32,
            DataPlane::Fifo(_) => self.counted.len() as u32,
        }
    }

    pub(crate) fn proxy_of(&self, worker: u32) -> usize {
        match &self.plane {
            DataPlane::Weir(workers) => workers
                .get(worker as usize)
                .map_or(0, |worker| worker.proxy as usize),
            DataPlane::Fifo(_) => worker as usize,
        }
    }
}
