//! Writing of statuses and events to the API: only changes, rate limited, and never delaying a cycle.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::conditions::Refusal;
use super::ownership::Name;
use crate::spec::resource::{ConditionType, SloService, SloServiceStatus};

/// Field manager of the planner's writes.
pub const MANAGER: &str = "weir-planner";
/// Minimum interval between two writes of a status whose conditions or plans changed.
pub const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Minimum interval between two writes of the rest: demand and reasons.
pub const RENEW_EVERY: Duration = Duration::from_secs(10);
/// Timeout of one write.
const WRITE_MAX: Duration = Duration::from_secs(5);

/// Writer for one resource.
pub(super) struct Writer {
    api: Api<SloService>,
    name: Name,
    reference: ObjectReference,
    recorder: Recorder,
}

impl Writer {
    pub(super) fn new(
        client: &kube::Client,
        name: &Name,
        reference: ObjectReference,
        recorder: Recorder,
    ) -> Writer {
        Writer {
            api: Api::namespaced(client.clone(), &name.namespace),
            name: name.clone(),
            reference,
            recorder,
        }
    }

    /// Writes each received status that differs from `written`, at most every [`WRITE_EVERY`]; never returns. A change
    /// of `refusals` is written at once. `overlay` adds the refusal to a status, given the status as last written.
    pub(super) async fn follow(
        &self,
        mut statuses: watch::Receiver<SloServiceStatus>,
        mut refusals: watch::Receiver<Option<Refusal>>,
        mut written: SloServiceStatus,
        overlay: impl Fn(&Refusal, &SloServiceStatus, &SloServiceStatus) -> SloServiceStatus,
    ) {
        let mut renewed: Option<Instant> = None;
        loop {
            let mut new = statuses.borrow_and_update().clone();
            if let Some(refusal) = &*refusals.borrow_and_update() {
                new = overlay(refusal, &new, &written);
            }
            let is_old = renewed.is_none_or(|at| at.elapsed() >= RENEW_EVERY);
            let due = is_urgent(&written, &new) || is_old;
            if due && new.observed_generation.is_some() && self.write(&written, &new).await {
                written = new;
                renewed = Some(Instant::now());
            }
            let mut refused = refusals.clone();
            tokio::select! {
                Ok(()) = refused.changed() => continue,
                () = sleep(WRITE_EVERY) => {}
            }
            tokio::select! {
                Ok(()) = refused.changed() => {}
                changed = statuses.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }

    /// Writes a status and the events for its changes; returns whether the API accepted it.
    pub(super) async fn write(&self, before: &SloServiceStatus, new: &SloServiceStatus) -> bool {
        let body = json!({
            "apiVersion": "weir.dev/v1alpha1", "kind": "SloService",
            "metadata": { "name": self.name.name }, "status": new,
        });
        let params = PatchParams::apply(MANAGER).force();
        let apply = Patch::Apply(&body);
        let written = self.api.patch_status(&self.name.name, &params, &apply);
        match timeout(WRITE_MAX, written).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!("status of {}: {error}", self.name);
                return false;
            }
            Err(_) => {
                tracing::warn!("status of {}: no answer within {WRITE_MAX:?}", self.name);
                return false;
            }
        }
        for event in events(before, new) {
            let published = self.recorder.publish(&event, &self.reference);
            if let Ok(Err(error)) = timeout(WRITE_MAX, published).await {
                tracing::warn!("event about {}: {error}", self.name);
            }
        }
        true
    }
}

/// Whether the change should be written soon: a standby, or a person waiting for a condition, needs it.
fn is_urgent(before: &SloServiceStatus, new: &SloServiceStatus) -> bool {
    let conditions = |status: &SloServiceStatus| -> Vec<(String, String, String)> {
        let all = status.conditions.iter();
        all.map(|c| (c.type_.clone(), c.status.clone(), c.reason.clone()))
            .collect()
    };
    let plans = |status: &SloServiceStatus| {
        let mut plans = status.plans.clone();
        for plan in &mut plans {
            plan.revision = 0;
        }
        plans
    };
    before.observed_generation != new.observed_generation
        || conditions(before) != conditions(new)
        || plans(before) != plans(new)
}

/// Returns the events for changes that concern people: refusals, degradation and recovery. Successful
/// resizes yield none.
fn events(before: &SloServiceStatus, new: &SloServiceStatus) -> Vec<Event> {
    let find = |status: &SloServiceStatus, about: ConditionType| {
        let mut all = status.conditions.iter();
        all.find(|condition| condition.type_ == about.label() && condition.status != "Unknown")
            .map(|c| (c.status == "True", c.reason.clone(), c.message.clone()))
    };
    let mut events = Vec::new();
    for about in [
        ConditionType::Accepted,
        ConditionType::Planned,
        ConditionType::Degraded,
    ] {
        // What is unknown is no news: `Accepted` says why.
        let Some((holds, reason, message)) = find(new, about) else {
            continue;
        };
        let old = find(before, about);
        let well = holds != (about == ConditionType::Degraded);
        let was_well = old
            .as_ref()
            .is_none_or(|(holds, ..)| *holds != (about == ConditionType::Degraded));
        let same = old.is_some_and(|(_, old, _)| old == reason);
        if same || (well && was_well) {
            continue;
        }
        let (type_, reason) = match well {
            false => (EventType::Warning, reason),
            true => (
                EventType::Normal,
                format!("{}Again", about.recovery_label()),
            ),
        };
        events.push(Event {
            type_,
            reason,
            note: Some(message).filter(|note| !note.is_empty()),
            action: "Plan".to_owned(),
            secondary: None,
        });
    }
    events
}

impl ConditionType {
    /// Returns the event's reason once the condition is healthy again.
    fn recovery_label(self) -> &'static str {
        match self {
            ConditionType::Degraded => "Well",
            other => other.label(),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn status(conditions: &[(&str, bool, &str)]) -> SloServiceStatus {
        let condition = |(about, holds, reason): &(&str, bool, &str)| Condition {
            type_: (*about).to_owned(),
            status: if *holds { "True" } else { "False" }.to_owned(),
            reason: (*reason).to_owned(),
            message: format!("because {reason}"),
            observed_generation: Some(1),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        };
        SloServiceStatus {
            conditions: conditions.iter().map(condition).collect(),
            ..SloServiceStatus::default()
        }
    }

    #[test]
    fn only_degradation_and_recovery_yield_events() {
        let none = status(&[]);
        let well = status(&[
            ("Accepted", true, "Valid"),
            ("Degraded", false, "AsExpected"),
        ]);
        let full = status(&[("Accepted", true, "Valid"), ("Degraded", true, "NodesFull")]);
        let lost = status(&[
            ("Accepted", true, "Valid"),
            ("Degraded", true, "ProxiesLost"),
        ]);
        let wrong = status(&[("Accepted", false, "Invalid")]);
        let table: &[(&SloServiceStatus, &SloServiceStatus, &[&str])] = &[
            (&none, &well, &[]),
            (&well, &well, &[]),
            (&well, &full, &["NodesFull"]),
            (&full, &full, &[]),
            (&full, &lost, &["ProxiesLost"]),
            (&lost, &well, &["WellAgain"]),
            (&none, &wrong, &["Invalid"]),
            (&wrong, &well, &["AcceptedAgain"]),
        ];
        for (before, new, expected) in table {
            let events = events(before, new);
            let reasons: Vec<&str> = events.iter().map(|event| event.reason.as_str()).collect();
            assert_eq!(reasons, *expected, "{before:?} → {new:?}");
            assert_eq!(is_urgent(before, new), before.conditions != new.conditions);
        }
    }
}
