//! Controller of one service. It runs until the resource changes: it runs control cycles while this planner
//! leads, and otherwise serves the plans of the resource's status.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::ownership::Name;
use super::writer::Writer;
use super::{Shared, conditions, standby};
use crate::app::run_cycles;
use crate::backends::Actuate;
use crate::distribution::{Publish, Publisher};
use crate::http::Leader;
use crate::observe::Observe;
use crate::registry::ServiceHandle;
use crate::service::Service;
use crate::spec::resource::{SloService, SloServiceStatus};
use crate::telemetry::status::CycleReport;
use weir_api::Plan;

/// Interval at which a standby reads the status, and a new leader checks that the pods have been listed.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// A running controller.
pub(super) struct ServiceController {
    /// Service that it controls.
    pub(super) service: Service,
    /// Generation of the resource that the service was read from.
    pub(super) generation: i64,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl ServiceController {
    pub(super) fn start(
        shared: &Arc<Shared>,
        name: &Name,
        resource: &SloService,
        service: Service,
    ) -> prometheus::Result<ServiceController> {
        let (stop, stopped) = watch::channel(false);
        let handle = match shared.services.get(&service.name) {
            Some(before) => before.with_service(service.clone(), shared.clock)?,
            None => ServiceHandle::new(service.clone(), shared.clock)?,
        };
        shared.services.insert(Arc::new(handle));
        let generation = resource.metadata.generation.unwrap_or(0);
        let task = ServiceTask {
            shared: Arc::clone(shared),
            name: name.clone(),
            service: service.clone(),
            generation,
            reference: resource.object_ref(&()),
            stop: stopped,
        };
        Ok(ServiceController {
            service,
            generation,
            stop,
            task: tokio::spawn(task.run()),
        })
    }

    /// Lets the running cycle finish, and no other start.
    pub(super) async fn end(self) {
        self.stop.send_replace(true);
        // A cycle that panicked has ended too.
        let _ = self.task.await;
    }
}

struct ServiceTask {
    shared: Arc<Shared>,
    name: Name,
    service: Service,
    generation: i64,
    reference: k8s_openapi::api::core::v1::ObjectReference,
    stop: watch::Receiver<bool>,
}

impl ServiceTask {
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
        let backends = self.shared.backends(&self.name, &self.service);
        let proxies = self.shared.proxies(&self.name, &self.service);
        // Until the pods are listed, the actual allocation is unknown.
        while !backends.are_known().await {
            self.serve_last_plan();
            sleep(CHECK_INTERVAL).await;
            if *self.stop.borrow() {
                return;
            }
        }
        let before = self.status().unwrap_or_default();
        let (statuses, receiver) = watch::channel(before.clone());
        let recorder = self.shared.recorder.clone();
        let writer = Writer::new(
            &self.shared.client,
            &self.name,
            self.reference.clone(),
            recorder,
        );
        tokio::select! {
            () = self.run_control_loop(&backends, &proxies, statuses) => {}
            () = writer.follow(receiver, before) => {}
        }
    }

    async fn run_control_loop(
        &self,
        actuate: &impl Actuate,
        observe: &impl Observe,
        statuses: watch::Sender<SloServiceStatus>,
    ) {
        let Some(handle) = self.handle() else { return };
        let on_report = |report: &CycleReport| {
            let newest = |stage: &Publisher| Some(stage.newest()?.plan.clone());
            let plans: Vec<Plan> = handle.publishers.all().filter_map(newest).collect();
            let now = Timestamp::from_millisecond(i64::try_from(report.at_ms).unwrap_or(0));
            let now = now.unwrap_or_default();
            statuses.send_modify(|status| {
                let generation = self.generation;
                *status = conditions::planned_status(
                    &self.service,
                    report,
                    &plans,
                    generation,
                    status,
                    now,
                );
            });
        };
        let (clock, stop) = (self.shared.clock, self.stop.clone());
        run_cycles(&handle, clock, observe, actuate, stop, on_report).await;
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
