//! Event dispatch, cycles of the control plane, and the spread of plans and changes of cores.

use std::time::Duration;

use weir_api::Cores;

use super::Simulation;
use super::event_queue::Event;
use super::fleet::NO_SERVER;
use super::server::Job;
use super::witness::Witness;
use crate::control::{Change, ControlPlane};
use crate::nanos;
use crate::plane::{DataPlane, Fifo, Tally};
use crate::request::Second;
use weir_planner::observe::Counts;

const SECOND_NS: u64 = 1_000_000_000;

impl<W: Witness> Simulation<'_, W> {
    pub(super) fn begin(&mut self) {
        for (fault, begins) in (0..).zip(&self.scenario.faults) {
            self.event_queue
                .add(nanos(begins.at), Event::FaultBegin { fault });
        }
        match &mut self.plane {
            DataPlane::Weir(workers) => {
                for (index, worker) in (0..).zip(workers) {
                    let at = worker.start(0);
                    self.event_queue.add(at, Event::Tick { worker: index });
                }
            }
            DataPlane::Fifo(stages) => {
                let weights = stages.iter().flat_map(Fifo::weights);
                self.shares = weights.copied().collect();
            }
        }
        self.see_static_shares();
        if self.control.period(self.scenario).is_some() {
            self.event_queue.add(0, Event::Cycle);
        }
        if !self.scenario.length.is_zero() {
            self.event_queue
                .add(SECOND_NS.min(nanos(self.scenario.length)), Event::SecondEnd);
        }
    }

    pub(super) fn handle(&mut self, event: Event) {
        match event {
            Event::Retry { request } => self.retry(request),
            Event::BodyPiece {
                request,
                attempt,
                piece,
            } => self.receive(request, attempt, piece),
            Event::RequestComplete { request, attempt } => self.forward_complete(request, attempt),
            Event::TimeLimit { request, attempt } => self.limit(request, attempt),
            Event::Disconnect { request, attempt } => self.leave(request, attempt),
            Event::ConnectionFailed { request, attempt } => self.broken(request, attempt),
            Event::ServerError { request, attempt } => self.server_error(request, attempt),
            Event::ServerArrival {
                request,
                attempt,
                server,
            } => self.reach(request, attempt, server),
            Event::Answer {
                request,
                attempt,
                variant,
            } => self.answer(Job { request, attempt }, variant),
            Event::AnswerEnd { request, attempt } => self.answer_rest(request, attempt),
            Event::ServerWake { server } => self.serve(server),
            Event::Tick { worker } => self.tick(worker),
            Event::Notify { worker } => self.notify(worker),
            Event::FailureNotice { worker } => self.news(worker),
            Event::ProbeResult { worker, variant } => self.probed(worker, variant),
            Event::PlanArrival { worker, plan } => self.take_plan(worker, plan),
            Event::Cycle => self.begin_cycle(),
            Event::ContinueCycle => self.continue_cycle(),
            Event::CoresChanged { variant, ticket } => self.resized(variant, ticket),
            Event::CoresReady { variant, ticket } => self.ready(variant, ticket),
            Event::ServerRestart { server } => self.restart_server(server),
            Event::ReplicaDue { variant, server } => self.replica_due(variant, server),
            Event::ReplicaKilled { server } => self.kill(server),
            Event::CrashNotice { server } => self.notice_crash(server),
            Event::ReplicaRecovered { server } => self.recover(server),
            Event::FaultBegin { fault } => self.fault_begins(fault),
            Event::FaultEnd { fault } => self.fault_ends(fault),
            Event::SecondEnd => self.second(),
        }
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    fn begin_cycle(&mut self) {
        let now = self.now;
        if let Some(period) = self.control.period(self.scenario) {
            self.event_queue
                .add(now + nanos(period).max(1), Event::Cycle);
        }
        let time = self.time();
        match &mut self.control {
            ControlPlane::Static => {}
            ControlPlane::Planner(_) if now < self.outage_until => {}
            ControlPlane::Planner(driver) => {
                let lost = now < self.scrapes_lost_until;
                let counted = |counted: &Tally| (!lost).then(|| counted.counts());
                let mut counted: Vec<Option<Counts>> = self.counted.iter().map(counted).collect();
                // Demand is what arrives at the first stage.
                let entry = self.stages.first().map_or(0, |span| span.proxies.len());
                for counts in counted.iter_mut().skip(entry).flatten() {
                    counts.arrivals = 0.0;
                    counts.slack.clear();
                }
                if let DataPlane::Weir(workers) = &self.plane {
                    for worker in workers {
                        let proxy = counted.get_mut(worker.proxy as usize);
                        if let Some(counts) = proxy.and_then(Option::as_mut) {
                            worker.report_failing(&mut counts.failing);
                        }
                    }
                }
                driver.ports.state().counted = counted;
                driver.begin(time);
                self.continue_cycle();
            }
            ControlPlane::Baseline(baseline) => {
                let with_waiting = baseline.needs_waiting();
                self.run_baseline(with_waiting);
            }
            ControlPlane::Ipa(_) => self.run_ipa(),
        }
    }

    /// Runs the cycle of a baseline.
    fn run_baseline(&mut self, with_waiting: bool) {
        let (now, time) = (self.now, self.time());
        let seen = self.observation(with_waiting);
        let ControlPlane::Baseline(baseline) = &mut self.control else {
            return;
        };
        baseline.run_cycle(now, seen);
        let (plans, batch) = (baseline.plans(time), baseline.batch);
        if let Some((index, batch)) = batch
            && let Some(server) = self.only_server(index as u16)
            && !self.is_replicated(index as u16)
            && let Some(server) = self.simulated_servers.get_mut(server as usize)
        {
            server.set_batch(time, batch);
        }
        self.start_changes();
        self.publish(plans);
    }

    /// Publishes the plans of a baseline whose ready cores have changed.
    pub(super) fn publish_baseline(&mut self) {
        let time = self.time();
        if let ControlPlane::Baseline(baseline) = &mut self.control {
            let plans = baseline.plans(time);
            self.publish(plans);
        }
    }

    /// Polls the running cycle, if there is one.
    pub(super) fn continue_cycle(&mut self) {
        let time = self.time();
        let ControlPlane::Planner(driver) = &mut self.control else {
            return;
        };
        let wake_at = driver.resume(time);
        let plans = std::mem::take(&mut driver.ports.state().plans);
        self.start_changes();
        self.publish(plans);
        if let Some(at) = wake_at {
            self.event_queue
                .add(nanos(at).max(self.now), Event::ContinueCycle);
        }
    }

    pub(super) fn start_changes(&mut self) {
        let changes = self.control.with_kubelet(|kubelet| kubelet.take_started());
        for Change {
            variant,
            ticket,
            in_force_at,
            ..
        } in changes.unwrap_or_default()
        {
            self.event_queue
                .add(in_force_at, Event::CoresChanged { variant, ticket });
        }
        self.start_replicas();
        self.send_batches();
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
        let Some(server) = self.only_server(variant) else {
            return;
        };
        if let Some(known) = self.simulated_servers.get_mut(server as usize) {
            known.resize(time, change.cores, usable);
        }
        self.record_cores(variant);
        self.wake_server(server);
        if usable {
            self.ready(variant, ticket);
        } else {
            self.event_queue
                .add(change.ready_at, Event::CoresReady { variant, ticket });
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
        let server = self.only_server(variant).unwrap_or(NO_SERVER);
        if let Some(known) = self.simulated_servers.get_mut(server as usize) {
            known.use_cores(time);
        }
        self.wake_server(server);
        self.publish_baseline();
    }

    fn second(&mut self) {
        let length = nanos(self.scenario.length);
        let cores = |cores: &[Cores]| {
            cores
                .iter()
                .map(|cores| cores.as_f64())
                .collect::<Vec<f64>>()
        };
        let actuated: Vec<Cores> = self.actual_cores().collect();
        let mut second = Second {
            demand_rps: None,
            cores_target: cores(&actuated),
            cores_actual: cores(&actuated),
            shares: self.shares.clone(),
            service_times: Vec::new(),
        };
        match &self.control {
            ControlPlane::Static => {}
            ControlPlane::Baseline(baseline) => second.cores_target = cores(&baseline.target),
            ControlPlane::Ipa(driver) => second.cores_target = cores(&driver.target),
            ControlPlane::Planner(driver) => {
                if let Some(report) = &driver.report {
                    second.demand_rps = report.demand_rps.map(|demand| demand.0);
                    let targets = self.scenario.service.variants.iter().map(|variant| {
                        report
                            .variants
                            .get(&variant.name)
                            .map_or(0.0, |part| part.cores_target.as_f64())
                    });
                    second.cores_target = targets.collect();
                    let each = self.scenario.service.variants.iter();
                    let each = each.filter_map(|variant| report.variants.get(&variant.name));
                    second.service_times = each.map(|one| one.service_time).collect();
                }
            }
        }
        self.seconds.push(second);
        self.witness.second(self.seconds.len() as u64);
        if self.now >= length {
            let time = self.time();
            self.core_seconds = self
                .simulated_servers
                .iter()
                .map(|server| server.core_seconds(time))
                .sum();
            for server in &self.simulated_servers {
                let of_variant = self
                    .variant_core_seconds
                    .get_mut(usize::from(server.variant));
                if let Some(core_seconds) = of_variant {
                    *core_seconds += server.core_seconds(time);
                }
            }
        } else {
            self.event_queue
                .add((self.now + SECOND_NS).min(length), Event::SecondEnd);
        }
    }
}
