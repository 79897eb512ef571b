//! Event dispatch, cycles of the control plane, and the spread of plans and changes of cores.

use std::time::Duration;

use weir_api::Cores;

use super::agenda::What;
use super::site::Job;
use super::witness::Witness;
use super::{World, nanos};
use crate::control::{Change, ControlPlane, Use};
use crate::plane::{DataPlane, Tally};
use crate::request::{Resize, Second};
use weir_planner::observe::Counts;

const SECOND_NS: u64 = 1_000_000_000;

impl<W: Witness> World<'_, W> {
    pub(super) fn begin(&mut self) {
        for (fault, begins) in (0..).zip(&self.scenario.faults) {
            self.agenda.add(nanos(begins.at), What::Begin { fault });
        }
        match &mut self.plane {
            DataPlane::Weir(workers) => {
                for (index, worker) in (0..).zip(workers) {
                    let at = worker.start(0);
                    self.agenda.add(at, What::Tick { worker: index });
                }
            }
            DataPlane::Fifo(fifo) => self.shares = fifo.weights().to_vec(),
        }
        if self.shares.is_empty() {
            self.shares = self.static_shares();
        }
        if self.control.period(self.scenario).is_some() {
            self.agenda.add(0, What::Turn);
        }
        if !self.scenario.length.is_zero() {
            self.agenda
                .add(SECOND_NS.min(nanos(self.scenario.length)), What::Second);
        }
    }

    pub(super) fn happen(&mut self, what: What) {
        match what {
            What::Again { request } => self.arrive_again(request),
            What::Body {
                request,
                attempt,
                piece,
            } => self.receive(request, attempt, piece),
            What::Whole { request, attempt } => self.pass_on(request, attempt),
            What::Limit { request, attempt } => self.limit(request, attempt),
            What::Leave { request, attempt } => self.leave(request, attempt),
            What::Broken { request, attempt } => self.broken(request, attempt),
            What::Erred { request, attempt } => self.erred(request, attempt),
            What::Reach {
                request,
                attempt,
                variant,
            } => self.reach(request, attempt, variant),
            What::Answer {
                request,
                attempt,
                variant,
            } => self.answer(Job { request, attempt }, variant),
            What::Rest { request, attempt } => self.answer_rest(request, attempt),
            What::Server { variant } => self.serve(variant),
            What::Tick { worker } => self.tick(worker),
            What::Ring { worker } => self.ring(worker),
            What::News { worker } => self.news(worker),
            What::Probed { worker, variant } => self.probed(worker, variant),
            What::Plan { worker, plan } => self.take_plan(worker, plan),
            What::Turn => self.turn(),
            What::TurnOn => self.turn_on(),
            What::Resized { variant, ticket } => self.resized(variant, ticket),
            What::Ready { variant, ticket } => self.ready(variant, ticket),
            What::Begin { fault } => self.fault_begins(fault),
            What::Over { fault } => self.fault_is_over(fault),
            What::Second => self.second(),
        }
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    fn turn(&mut self) {
        let now = self.now;
        if let Some(period) = self.control.period(self.scenario) {
            self.agenda.add(now + nanos(period).max(1), What::Turn);
        }
        let time = self.time();
        match &mut self.control {
            ControlPlane::Static => {}
            ControlPlane::Planner(_) if now < self.outage_until => {}
            ControlPlane::Planner(steering) => {
                let lost = now < self.scrapes_lost_until;
                let counted = |counted: &Tally| (!lost).then(|| counted.counts());
                let mut counted: Vec<Option<Counts>> = self.counted.iter().map(counted).collect();
                if let DataPlane::Weir(workers) = &self.plane {
                    for worker in workers {
                        let proxy = counted.get_mut(worker.proxy as usize);
                        if let Some(counts) = proxy.and_then(Option::as_mut) {
                            worker.say_failing(&mut counts.failing);
                        }
                    }
                }
                steering.desk.board().counted = counted;
                steering.begin(time);
                self.turn_on();
            }
            ControlPlane::Scaler(scaler) => {
                let counters = |site: &super::Site| Use {
                    core_seconds: site.core_seconds(time),
                    busy_core_seconds: site.busy_core_seconds(time),
                };
                let counters: Vec<Use> = self.sites.iter().map(counters).collect();
                scaler.turn(now, &counters);
                let plan = scaler.plan(time);
                self.start_changes();
                self.publish(plan);
            }
        }
    }

    /// Polls the running cycle, if there is one.
    pub(super) fn turn_on(&mut self) {
        let time = self.time();
        let ControlPlane::Planner(steering) = &mut self.control else {
            return;
        };
        let wake_at = steering.go_on(time);
        let plans = std::mem::take(&mut steering.desk.board().plans);
        self.start_changes();
        self.publish(plans);
        if let Some(at) = wake_at {
            self.agenda.add(nanos(at).max(self.now), What::TurnOn);
        }
    }

    fn start_changes(&mut self) {
        let changes = self.control.with_kubelet(|kubelet| kubelet.take_started());
        for Change {
            variant,
            ticket,
            in_force_at,
            ..
        } in changes.unwrap_or_default()
        {
            self.agenda
                .add(in_force_at, What::Resized { variant, ticket });
        }
    }

    fn resized(&mut self, variant: u16, ticket: u32) {
        let pending = self
            .control
            .with_kubelet(|kubelet| kubelet.pending(variant, ticket))
            .flatten();
        let (Some(change), time) = (pending, self.time()) else {
            return;
        };
        let usable = change.ready_at <= self.now;
        if let Some(site) = self.sites.get_mut(usize::from(variant)) {
            site.resize(time, change.cores, usable);
            self.resizes.push(Resize {
                at: time,
                variant,
                cores: change.cores.as_f64(),
            });
        }
        self.wake_site(variant);
        if usable {
            self.ready(variant, ticket);
        } else {
            self.agenda
                .add(change.ready_at, What::Ready { variant, ticket });
        }
    }

    fn ready(&mut self, variant: u16, ticket: u32) {
        let confirmed = self.control.with_kubelet(|kubelet| {
            let change = kubelet.pending(variant, ticket)?;
            kubelet.confirm(change);
            Some(change)
        });
        if confirmed.flatten().is_none() {
            return;
        }
        let time = self.time();
        if let Some(site) = self.sites.get_mut(usize::from(variant)) {
            site.use_cores(time);
        }
        self.wake_site(variant);
        let plan = match &mut self.control {
            ControlPlane::Scaler(scaler) => scaler.plan(time),
            _ => None,
        };
        self.publish(plan);
    }

    fn second(&mut self) {
        let length = nanos(self.scenario.length);
        let cores = |cores: &[Cores]| {
            cores
                .iter()
                .map(|cores| cores.as_f64())
                .collect::<Vec<f64>>()
        };
        let actuated: Vec<Cores> = self.sites.iter().map(|site| site.cores).collect();
        let mut second = Second {
            demand_rps: None,
            cores_asked: cores(&actuated),
            cores_actuated: cores(&actuated),
            shares: self.shares.clone(),
        };
        match &self.control {
            ControlPlane::Static => {}
            ControlPlane::Scaler(scaler) => second.cores_asked = cores(&scaler.wanted),
            ControlPlane::Planner(steering) => {
                if let Some(report) = &steering.report {
                    second.demand_rps = report.demand_rps.map(|demand| demand.0);
                    let asked = self.scenario.service.variants.iter().map(|variant| {
                        report
                            .variants
                            .get(&variant.name)
                            .map_or(0.0, |part| part.cores_asked.as_f64())
                    });
                    second.cores_asked = asked.collect();
                }
            }
        }
        self.seconds.push(second);
        self.witness.second(self.seconds.len() as u64);
        if self.now >= length {
            let time = self.time();
            self.core_seconds = self.sites.iter().map(|site| site.core_seconds(time)).sum();
        } else {
            self.agenda
                .add((self.now + SECOND_NS).min(length), What::Second);
        }
    }
}
