//! Controller of one service. It runs until the resource changes or is deleted: it runs control cycles while this planner
//! leads, and otherwise serves the plans of the resource's status.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::backends::{Backends, Proxies};
use super::conditions::{Refusal, WatchNotes};
use super::ownership::Name;
use super::supervise::{UnexpectedEnd, supervise};
use super::writer::Writer;
use super::{Shared, conditions, standby};
use crate::app::run_cycles;
use crate::distribution::Publisher;
use crate::http::Leader;
use crate::registry::ServiceHandle;
use crate::service::Service;
use crate::shared_budget::Seat;
use crate::spec::resource::{SloService, SloServiceStatus};
use crate::specification::{Specification, SpecificationSource};
use crate::state::StateFile;
use crate::telemetry::status::CycleReport;
use weir_api::Plan;

/// Interval at which a standby reads the status, and a new leader checks that the pods have been listed.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Time for which the pods may be unknown before the status shows why.
const UNKNOWN_SHOWN_AFTER: Duration = Duration::from_secs(2);

/// A running controller.
pub(super) struct ServiceController {
    /// Service that it controls.
    pub(super) service: Service,
    /// Generation of the resource that the service was read from.
    pub(super) generation: i64,
    /// Uid of the resource.
    pub(super) uid: String,
    stop: watch::Sender<bool>,
    refusal: watch::Sender<Option<Refusal>>,
    may_write: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl ServiceController {
    /// Starts the controller of a service as it was read from that generation of the resource. `refusal`: the current
    /// generation, if that one is refused.
    pub(super) fn start(
        shared: &Arc<Shared>,
        name: &Name,
        resource: &SloService,
        service: Service,
        generation: i64,
        refusal: Option<Refusal>,
    ) -> prometheus::Result<ServiceController> {
        let (stop, stopped) = watch::channel(false);
        let (refusal, refusals) = watch::channel(refusal);
        let handle = match shared.services.get(&service.name) {
            Some(before) => before.with_service(service.clone(), shared.clock)?,
            None => ServiceHandle::new(service.clone(), shared.clock)?,
        };
        let specification =
            Specification::new(resource.spec.clone(), SpecificationSource::Resource);
        let handle = handle.with_specification(specification);
        shared.services.insert(Arc::new(handle));
        shared.budgets.insert(&service);
        let may_write = Arc::new(AtomicBool::new(true));
        let task = ServiceTask {
            shared: Arc::clone(shared),
            name: name.clone(),
            service: service.clone(),
            generation,
            reference: resource.object_ref(&()),
            stop: stopped,
            refusals,
            may_write: Arc::clone(&may_write),
        };
        Ok(ServiceController {
            service,
            generation,
            uid: resource.uid().unwrap_or_default(),
            stop,
            refusal,
            may_write,
            task: tokio::spawn(task.run_supervised()),
        })
    }

    /// Whether it acts for that generation, read as this service.
    pub(super) fn acts_for(&self, generation: i64, service: &Service) -> bool {
        self.generation == generation && self.service == *service
    }

    /// Sets the refused generation that the status shows; returns whether it changed.
    pub(super) fn set_refusal(&self, refusal: Option<&Refusal>) -> bool {
        self.refusal.send_if_modified(|before| {
            let new = before.as_ref() != refusal;
            if new {
                *before = refusal.cloned();
            }
            new
        })
    }

    /// Forbids any further change of pods, even within the running cycle.
    pub(super) fn forbid_writes(&self) {
        self.may_write.store(false, Ordering::Relaxed);
    }

    /// Lets the running cycle finish, and no other start.
    pub(super) async fn end(self) {
        self.stop.send_replace(true);
        // A cycle that panicked has ended too.
        let _ = self.task.await;
    }
}

#[derive(Clone)]
struct ServiceTask {
    shared: Arc<Shared>,
    name: Name,
    service: Service,
    generation: i64,
    reference: k8s_openapi::api::core::v1::ObjectReference,
    stop: watch::Receiver<bool>,
    refusals: watch::Receiver<Option<Refusal>>,
    may_write: Arc<AtomicBool>,
}

impl ServiceTask {
    /// Runs until it is stopped, or the operator is dropped. An unexpected end is reported, and it starts anew; too many
    /// of them end the process.
    async fn run_supervised(self) {
        let ended = supervise(
            || self.clone().run(),
            self.stop.clone(),
            |end| self.report(end),
        );
        let mut lifetime = self.shared.lifetime.clone();
        let ended = tokio::select! {
            ended = ended => ended,
            // Nothing is ever sent.
            _ = lifetime.changed() => return,
        };
        if let Err(why) = ended {
            let name = &self.name;
            let why = format!("the controller of {name} ended again and again: {why}");
            self.shared.fatal.send_replace(Some(why));
        }
    }

    /// Logs and counts an unexpected end, and writes it to the status.
    async fn report(&self, end: UnexpectedEnd) {
        let UnexpectedEnd { why, count, pause } = end;
        let message = format!(
            "its controller has ended unexpectedly ({count} times of late), and starts anew in {pause:?}: {why}"
        );
        tracing::error!("{}: {message}", self.name);
        if let Some(handle) = self.handle() {
            handle.metrics.record_controller_restart();
        }
        if self.shared.candidate.leads() {
            let before = self.status().unwrap_or_default();
            let (generation, now) = (self.generation, self.shared.timestamp());
            let status = conditions::controller_failed_status(&message, generation, &before, now);
            self.writer().write(&before, &status).await;
        }
    }

    fn writer(&self) -> Writer {
        let (client, recorder) = (&self.shared.client, self.shared.recorder.clone());
        Writer::new(client, &self.name, self.reference.clone(), recorder)
    }

    async fn run(self) {
        let mut leader = self.shared.candidate.leader();
        let mut before = leader.borrow_and_update().clone();
        loop {
            if before == Leader::Us {
                self.renew_slot_allocation();
            }
            let mut stop = self.stop.clone();
            let now = tokio::select! {
                biased;
                // A planner that no longer leads stops at once, even in the middle of a cycle.
                now = leader_change(&mut leader) => now,
                () = self.run_as(&before) => return,
                _ = stop.wait_for(|stop| *stop), if before != Leader::Us => return,
            };
            before = now;
        }
    }

    /// Restarts the slot allocation if it began before this planner's term: another planner may have allocated
    /// slots since.
    fn renew_slot_allocation(&self) {
        let Some(handle) = self.handle() else { return };
        let since = self.shared.candidate.term_since();
        if since.is_none_or(|since| handle.publishers.began_at() >= since) {
            return;
        }
        let new = ServiceHandle::new(self.service.clone(), self.shared.clock);
        if let Ok(new) = new {
            self.shared
                .services
                .insert(Arc::new(new.continue_from(&handle)));
        }
    }

    fn handle(&self) -> Option<Arc<ServiceHandle>> {
        self.shared.services.get(&self.service.name)
    }

    /// Runs as leader or standby; returns only when the service ends, after a cycle.
    async fn run_as(&self, leader: &Leader) {
        let Some(handle) = self.handle() else { return };
        let run = async {
            match leader {
                Leader::Us => self.lead().await,
                Leader::At(_) | Leader::Nobody => loop {
                    self.serve_last_plan();
                    sleep(CHECK_INTERVAL).await;
                },
            }
        };
        tokio::select! {
            () = run => {}
            () = handle.publishers.run_ticks(self.shared.clock) => {}
        }
    }

    /// Publishes the plans of the resource's status.
    fn serve_last_plan(&self) {
        let (Some(handle), Some(status)) = (self.handle(), self.status()) else {
            return;
        };
        let Some(drafts) = standby::drafts(&self.service, &status) else {
            return;
        };
        let now = self.shared.clock.now();
        if let Err(error) = handle.publishers.publish(drafts, now) {
            tracing::warn!("the plan in the status of {}: {error}", self.name);
        }
    }

    fn status(&self) -> Option<SloServiceStatus> {
        let resource = self.shared.resource(&self.name)?;
        Some(resource.status.clone().unwrap_or_default())
    }

    async fn lead(&self) {
        let may_write = Arc::clone(&self.may_write);
        let backends = self.shared.backends(&self.name, &self.service, may_write);
        let proxies = self.shared.proxies(&self.name, &self.service);
        let before = self.status().unwrap_or_default();
        let (statuses, receiver) = watch::channel(before.clone());
        let writer = self.writer();
        let refusals = self.refusals.clone();
        let (generation, mode) = (self.generation, self.service.mode);
        let overlay = |refusal: &Refusal, status: &_, before: &_| {
            let now = self.shared.timestamp();
            conditions::refused_edit_status(refusal, generation, mode, status, before, now)
        };
        let plans = async {
            if self.until_known(&backends, &statuses).await {
                let (backends, proxies) = (&backends, &proxies);
                self.run_control_loop(backends, proxies, statuses).await;
            }
        };
        tokio::select! {
            () = plans => {}
            () = writer.follow(receiver, refusals, before, overlay) => {}
        }
    }

    /// Waits until the pods are listed: before that, the actual allocation is unknown. Serves the last plan meanwhile.
    /// Returns false if the controller is stopped first.
    async fn until_known(
        &self,
        backends: &Backends,
        statuses: &watch::Sender<SloServiceStatus>,
    ) -> bool {
        let began = Instant::now();
        while let Err(why) = backends.are_known().await {
            self.serve_last_plan();
            if began.elapsed() >= UNKNOWN_SHOWN_AFTER {
                let (generation, now) = (self.generation, self.shared.timestamp());
                statuses.send_modify(|status| {
                    *status = conditions::unobserved_status(&why, generation, status, now);
                });
            }
            sleep(CHECK_INTERVAL).await;
            if *self.stop.borrow() {
                return false;
            }
        }
        true
    }

    async fn run_control_loop(
        &self,
        backends: &Backends,
        proxies: &Proxies,
        statuses: watch::Sender<SloServiceStatus>,
    ) {
        let Some(handle) = self.handle() else { return };
        let on_report = |report: &CycleReport| {
            let newest = |stage: &Publisher| Some(stage.newest()?.plan.clone());
            let plans: Vec<Plan> = handle.publishers.all().filter_map(newest).collect();
            let now = Timestamp::from_millisecond(i64::try_from(report.at_ms).unwrap_or(0));
            let now = now.unwrap_or_default();
            let notes = WatchNotes {
                proxies: proxies.failure(),
                stale: backends.stale().or_else(|| proxies.stale()),
            };
            let report = &backends.with_writer_blockers(&self.service, report);
            statuses.send_modify(|status| {
                let generation = self.generation;
                *status = conditions::planned_status(
                    &self.service,
                    report,
                    &plans,
                    generation,
                    &notes,
                    status,
                    now,
                );
            });
        };
        let (clock, stop) = (self.shared.clock, self.stop.clone());
        let folder = self.shared.state.as_deref();
        // One planner at a time leads, and the names of services are unique.
        let state = folder.map(|folder| StateFile::new(folder, &self.service.name));
        let seat = self.seat().await;
        let ports = (proxies, backends);
        let keeps = (state, seat, self.shared.traces.clone());
        run_cycles(&handle, clock, ports, keeps, stop, on_report).await;
    }

    /// Returns the place in the shared budget in the current term, once it is known; `None` for a budget of its own.
    async fn seat(&self) -> Option<Seat> {
        self.service.shared.as_ref()?;
        loop {
            if let Some(term) = self.shared.candidate.term_since() {
                return self.shared.budgets.seat(&self.service, term);
            }
            // Between two renewals of the Lease; a planner that no longer leads ends this wait.
            sleep(CHECK_INTERVAL).await;
        }
    }
}

/// Waits for a change and returns the new leader.
async fn leader_change(leader: &mut watch::Receiver<Leader>) -> Leader {
    if leader.changed().await.is_err() {
        // The sender is gone: the planner is shutting down.
        std::future::pending::<()>().await;
    }
    leader.borrow_and_update().clone()
}

#[cfg(test)]
mod tests;
