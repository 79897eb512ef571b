//! Statuses beside those of a cycle: of a refused generation, of pods that are not known, and of a controller that has
//! ended. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

use super::{
    ConditionStatus, ConditionValue, NO_PROFILE, NOT_ACTING, Refusal, accepted_condition,
    condition, conditions,
};
use crate::service::Mode;
use crate::spec::resource::{ConditionType, SloServiceStatus};

/// Returns the status of a resource whose current generation is refused while an earlier one acts: `Accepted` says so,
/// everything else is about the generation that acts. `before` is the status as last written.
pub fn refused_edit_status(
    refusal: &Refusal,
    acting: i64,
    mode: Mode,
    status: &SloServiceStatus,
    before: &SloServiceStatus,
    now: Timestamp,
) -> SloServiceStatus {
    let (refused, mode) = (refusal.generation, mode.label());
    let message = format!(
        "generation {refused} is refused: {}; generation {acting} acts, in mode {mode}",
        refusal.why
    );
    let about = |about| ConditionValue::new(about, false, refusal.reason, message.as_str());
    let mut status = status.clone();
    for (value, generation) in [
        (about(ConditionType::Accepted), refused),
        (about(ConditionType::Ready), acting),
    ] {
        let condition = condition(&value, generation, before, now);
        status.conditions.retain(|one| one.type_ != condition.type_);
        status.conditions.push(condition);
    }
    let order = |one: &Condition| {
        let mut all = ConditionType::ALL.iter();
        all.position(|about| about.label() == one.type_)
    };
    status.conditions.sort_by_key(order);
    status.observed_generation = Some(refused);
    status
}

/// Returns the status of a refused resource of which no generation acts. Its last plans stay, for a planner that takes
/// it up again; `why` says that nobody works by them.
pub fn refused_status(
    refusal: &Refusal,
    before: &SloServiceStatus,
    now: Timestamp,
) -> SloServiceStatus {
    let Refusal {
        generation,
        reason,
        why,
    } = refusal;
    let message = format!("generation {generation} is refused: {why}; no generation acts");
    let is = |about, status| ConditionValue::new(about, status, reason, message.as_str());
    let unknown = |about| {
        let status = ConditionStatus::Unknown;
        ConditionValue::new(about, status, NOT_ACTING, message.as_str())
    };
    let mut values = vec![is(ConditionType::Accepted, ConditionStatus::False)];
    if *reason == NO_PROFILE {
        values.push(is(ConditionType::ProfileReady, ConditionStatus::False));
    }
    values.extend([
        unknown(ConditionType::Planned),
        unknown(ConditionType::Actuated),
        unknown(ConditionType::Degraded),
        is(ConditionType::Ready, ConditionStatus::False),
    ]);
    SloServiceStatus {
        observed_generation: Some(*generation),
        conditions: conditions(&values, *generation, before, now),
        why: format!("no generation acts: generation {generation} is refused"),
        demand_rps: None,
        cores: None,
        shared_budget: None,
        plans: before.plans.clone(),
        planned_at: before.planned_at.clone(),
    }
}

/// Returns the status of a service whose pods are not known, so that nothing is planned; its last plans stay in force.
pub fn unobserved_status(
    why: &str,
    generation: i64,
    before: &SloServiceStatus,
    now: Timestamp,
) -> SloServiceStatus {
    let about = |about, status| ConditionValue::new(about, status, "NotObserved", why);
    let values = [
        accepted_condition(),
        about(ConditionType::Actuated, ConditionStatus::Unknown),
        about(ConditionType::Degraded, ConditionStatus::True),
        about(ConditionType::Ready, ConditionStatus::False),
    ];
    partial(&values, generation, before, now)
}

/// Returns the status of a service whose controller has ended unexpectedly.
pub fn controller_failed_status(
    why: &str,
    generation: i64,
    before: &SloServiceStatus,
    now: Timestamp,
) -> SloServiceStatus {
    let about = |about, status| ConditionValue::new(about, status, "ControllerFailed", why);
    let values = [
        about(ConditionType::Planned, ConditionStatus::Unknown),
        about(ConditionType::Actuated, ConditionStatus::Unknown),
        about(ConditionType::Degraded, ConditionStatus::True),
        about(ConditionType::Ready, ConditionStatus::False),
    ];
    partial(&values, generation, before, now)
}

/// Returns the status with these conditions; the rest stays.
fn partial(
    values: &[ConditionValue],
    generation: i64,
    before: &SloServiceStatus,
    now: Timestamp,
) -> SloServiceStatus {
    SloServiceStatus {
        observed_generation: Some(generation),
        conditions: conditions(values, generation, before, now),
        ..before.clone()
    }
}
