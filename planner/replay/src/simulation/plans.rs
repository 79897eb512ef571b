//! Distribution of plans from a control plane to every worker, and the current plan.

use std::rc::Rc;
use std::time::Duration;

use weir_api::Plan;

use super::Simulation;
use super::event_queue::Event;
use super::stages::StageSpan;
use super::witness::Witness;
use crate::control::ControlPlane;
use crate::nanos;
use crate::plane::{DataPlane, circumstances};
use weir_planner::distribution::slot_allocation::{Role, divide};
use weir_planner::service::Variant;

impl<W: Witness> Simulation<'_, W> {
    /// Sends plans to every worker of their stages.
    pub(super) fn publish(&mut self, plans: impl IntoIterator<Item = (u16, Plan)>) {
        let at = self.now + nanos(self.scenario.proxies.plan_delay);
        for (stage, mut plan) in plans {
            circumstances(self.contender.plane, &mut plan.variants);
            let mut of_stage = self.plans.iter().rev().filter(|(known, _)| *known == stage);
            let renews = of_stage.next().is_some_and(|(_, last)| {
                last.variants == plan.variants && last.downstream_ms == plan.downstream_ms
            });
            if !renews {
                self.plans_at.push(Duration::from_nanos(self.now));
            }
            let number = self.plans.len() as u32;
            self.plans.push((stage, Rc::new(plan)));
            let Some(StageSpan {
                workers, proxies, ..
            }) = self.stages.get(usize::from(stage)).cloned()
            else {
                continue;
            };
            let mut reached = self.loses_plan.clone();
            for loses in proxies {
                if let Some(loses) = self.loses_plan.get_mut(loses as usize) {
                    *loses = false;
                }
            }
            for worker in workers {
                let proxy = self.proxy_of(worker);
                if reached.get_mut(proxy).is_some_and(|loses| !*loses) {
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

    /// Lets a restarted worker fetch the newest plan of its stage.
    pub(crate) fn fetch_plan(&mut self, worker: u32) {
        let at = self.now + nanos(self.scenario.proxies.plan_delay);
        let stage = self.stage_of(self.proxy_of(worker)) as u16;
        if let Some(newest) = self.plans.iter().rposition(|(known, _)| *known == stage) {
            let plan = newest as u32;
            self.event_queue
                .add(at, Event::PlanArrival { worker, plan });
        }
    }

    /// Handles the arrival of a plan at a worker.
    pub(super) fn take_plan(&mut self, worker: u32, plan: u32) {
        let Some((stage, plan)) = self.plans.get(plan as usize).cloned() else {
            return;
        };
        let proxy = self.proxy_of(worker);
        let Some(part) = self.part_of(&plan, stage, proxy) else {
            return;
        };
        let follows = match &mut self.plane {
            DataPlane::Weir(_) => true,
            DataPlane::Fifo(stages) => {
                let variants = self.stages.get(usize::from(stage));
                let variants = variants.map_or(0..0, |span| span.variants.clone());
                let known = self.scenario.service.variants.get(variants);
                let known = known.unwrap_or_default();
                let share = |name: &str| plan.variants.iter().find(|part| part.name == name);
                let shares = known
                    .iter()
                    .map(|one| share(&one.name).map_or(0.0, |part| part.share.0));
                let fifo = stages.get_mut(usize::from(stage));
                let shares = shares.collect::<Vec<f64>>();
                fifo.is_some_and(|fifo| fifo.follow(&shares, capacity_rps(&plan, known)))
            }
        };
        if follows {
            self.see_shares(&plan);
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

    /// Slot allocation of a proxy from a plan of its stage; `None` if there are fewer slots than proxies.
    fn part_of(&self, plan: &Rc<Plan>, stage: u16, proxy: usize) -> Option<Rc<Plan>> {
        let proxies = &self.stages.get(usize::from(stage))?.proxies;
        if proxies.len() == 1 || matches!(self.plane, DataPlane::Fifo(_)) {
            return Some(Rc::clone(plan));
        }
        let parts = divide(plan, &vec![Role::Both; proxies.len()]);
        let part = parts.into_iter().nth(proxy - proxies.start as usize)?;
        part.ok().map(Rc::new)
    }

    /// Shares of the static plans that the workers start with.
    pub(super) fn see_static_shares(&mut self) {
        let DataPlane::Weir(workers) = &self.plane else {
            return;
        };
        let first = |span: &StageSpan| workers.get(span.workers.start as usize);
        let firsts = self.stages.iter().filter_map(first);
        let plans = firsts.filter_map(|worker| worker.engine.config().static_plan.clone());
        for plan in plans.collect::<Vec<Plan>>() {
            self.see_shares(&plan);
        }
    }

    /// Takes in the shares of a plan; those of other stages stay.
    fn see_shares(&mut self, plan: &Plan) {
        let variants = &self.scenario.service.variants;
        self.shares.resize(variants.len(), 0.0);
        let single = self.stages.len() == 1;
        for (share, variant) in self.shares.iter_mut().zip(variants) {
            let part = plan.variants.iter().find(|part| part.name == variant.name);
            match part {
                Some(part) => *share = part.share.0,
                None if single => *share = 0.0,
                None => {}
            }
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

/// Mean rate that the slots of a plan answer.
fn capacity_rps(plan: &Plan, variants: &[Variant]) -> f64 {
    let capacity = |variant: &Variant| {
        let part = plan
            .variants
            .iter()
            .find(|part| part.name == variant.name)?;
        let mean_ms = part.service_ms / variant.profile.latency.tail;
        (mean_ms > 0.0).then(|| f64::from(part.slots) * 1e3 / mean_ms)
    };
    variants.iter().filter_map(capacity).sum()
}
