//! Status of a resource from the report of a cycle: pure. Conditions and their reasons are closed lists;
//! details for people are in the messages.

mod profile;
mod service_times;
mod shared_budget;
mod unplanned;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use weir_api::Plan;

use crate::backends::{Blocker, Reason};
use crate::service::SolveStatus;
use crate::service::{Mode, Service};
use crate::spec::RawDuration;
use crate::spec::resource::{ConditionType, PlannedVariant, SloServiceStatus, StagePlan};
use crate::telemetry::status::{CycleReport, VariantReport};

pub use unplanned::{
    controller_failed_status, refused_edit_status, refused_status, unobserved_status,
};

/// Maximum length of a condition's message, in characters; the API allows 32,768.
pub const MESSAGE_MAX: usize = 1024;

/// Reason of a refused resource: a variant's profile is missing or invalid.
pub const NO_PROFILE: &str = "NoProfile";
/// Reason of the conditions of a refused resource of which no generation acts.
pub const NOT_ACTING: &str = "NotActing";

/// Status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known whether it holds.
    Unknown,
}

impl ConditionStatus {
    /// Returns the value of the field `status`.
    pub const fn label(self) -> &'static str {
        match self {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> ConditionStatus {
        match holds {
            true => ConditionStatus::True,
            false => ConditionStatus::False,
        }
    }
}

/// Value of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionValue {
    /// Type of the condition.
    pub about: ConditionType,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Reason, one word of a closed list.
    pub reason: &'static str,
    /// Message, one sentence.
    pub message: String,
}

impl ConditionValue {
    fn new(
        about: ConditionType,
        status: impl Into<ConditionStatus>,
        reason: &'static str,
        message: impl Into<String>,
    ) -> ConditionValue {
        let message = message.into();
        ConditionValue {
            about,
            status: status.into(),
            reason,
            message: message.chars().take(MESSAGE_MAX).collect(),
        }
    }

    fn holds(&self) -> bool {
        self.status == ConditionStatus::True
    }
}

/// Generation of a resource that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The refused generation.
    pub generation: i64,
    /// Reason in one word, from the closed list of condition `Accepted`.
    pub reason: &'static str,
    /// Reason in a sentence: field, value and what would be right.
    pub why: String,
}

/// State of the watches, as far as a person must know of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchNotes {
    /// Reason why the proxies' pods are not known.
    pub proxies: Option<String>,
    /// Reason why the state of pods or workloads may be outdated.
    pub stale: Option<String>,
}

/// Returns the status of a service after a cycle.
pub fn planned_status(
    service: &Service,
    report: &CycleReport,
    plans: &[Plan],
    generation: i64,
    notes: &WatchNotes,
    before: &SloServiceStatus,
    now: Timestamp,
) -> SloServiceStatus {
    let plan = plan_condition(report);
    let cores = cores_condition(service, report);
    let values = [
        accepted_condition(),
        profile::condition(service),
        ready_condition(service, report, &plan, &cores),
        plan,
        cores,
        health_condition(report, notes),
    ];
    let cores = report.variants.values().map(|one| one.cores_actual);
    SloServiceStatus {
        observed_generation: Some(generation),
        conditions: conditions(&values, generation, before, now),
        why: report.why.chars().take(MESSAGE_MAX).collect(),
        demand_rps: report.demand_rps.map(|rate| round(rate.0)),
        cores: Some(cores.map(|cores| cores.as_f64()).sum()),
        shared_budget: report.shared_budget.as_ref().map(Into::into),
        plans: plans.iter().map(|plan| stage(plan, report)).collect(),
        planned_at: Some(Time(now)),
    }
}

fn accepted_condition() -> ConditionValue {
    let message = "the resource is gone by";
    ConditionValue::new(ConditionType::Accepted, true, "Valid", message)
}

/// Returns the new conditions; those not in `values` keep their previous value.
fn conditions(
    values: &[ConditionValue],
    generation: i64,
    before: &SloServiceStatus,
    now: Timestamp,
) -> Vec<Condition> {
    let new = |about: ConditionType| match values.iter().find(|value| value.about == about) {
        Some(value) => Some(condition(value, generation, before, now)),
        None => find(before, about).cloned(),
    };
    ConditionType::ALL.into_iter().filter_map(new).collect()
}

/// Returns a condition; its transition time is the previous one unless its status has changed.
fn condition(
    value: &ConditionValue,
    generation: i64,
    before: &SloServiceStatus,
    now: Timestamp,
) -> Condition {
    let status = value.status.label();
    let since = find(before, value.about).filter(|condition| condition.status == status);
    Condition {
        type_: value.about.label().to_owned(),
        status: status.to_owned(),
        reason: value.reason.to_owned(),
        message: value.message.clone(),
        observed_generation: Some(generation),
        last_transition_time: since.map_or(Time(now), |condition| {
            condition.last_transition_time.clone()
        }),
    }
}

fn find(status: &SloServiceStatus, about: ConditionType) -> Option<&Condition> {
    let mut all = status.conditions.iter();
    all.find(|condition| condition.type_ == about.label())
}

fn plan_condition(report: &CycleReport) -> ConditionValue {
    let (holds, reason) = match (report.revision, report.outcome) {
        (None, _) => (false, "NoPlan"),
        (_, SolveStatus::NoDemand) => (true, "NoDemand"),
        (_, SolveStatus::NoProfile) => (true, "NoProfile"),
        (_, SolveStatus::Optimal) if report.kept => (true, "Kept"),
        (_, SolveStatus::Optimal) => (true, "Optimal"),
        (_, SolveStatus::Good) => (true, "Good"),
        (_, SolveStatus::Infeasible) => (true, "DemandAboveCapacity"),
        (_, SolveStatus::OutOfTime) => (true, "OutOfTime"),
    };
    let message = match holds {
        true => report.why.clone(),
        false => format!("no variant has a core that serves: {}", report.why),
    };
    ConditionValue::new(ConditionType::Planned, holds, reason, message)
}

fn cores_condition(service: &Service, report: &CycleReport) -> ConditionValue {
    let condition = |holds: bool, reason, message: String| {
        ConditionValue::new(ConditionType::Actuated, holds, reason, message)
    };
    let have = |desired: fn(&VariantReport) -> String| -> String {
        let each = report.variants.iter();
        let each: Vec<String> = each
            .map(|(name, one)| format!("{name} {}", desired(one)))
            .collect();
        each.join(", ")
    };
    if service.mode == Mode::Advisory {
        let target_cores = have(|one| one.cores_target.to_string());
        let message = format!("mode advisory changes nothing; cores would be: {target_cores}");
        return condition(false, "Advisory", message);
    }
    if let Some((name, blocked)) = gravest_blocker(report) {
        return condition(
            false,
            blocked.reason.label(),
            format!("{name}: {}", blocked.why),
        );
    }
    let differs = |one: &VariantReport| {
        one.cores_target != one.cores_actual || one.replicas_target != one.replicas_ready
    };
    if report.variants.values().any(differs) {
        let state = have(|one| {
            let (has, wants) = (one.cores_actual, one.cores_target);
            let (ready, replicas) = (one.replicas_ready, one.replicas_target);
            format!("{has} of {wants} cores, {ready} of {replicas} replicas")
        });
        return condition(false, "Resizing", state);
    }
    let message = format!("cores: {}", have(|one| one.cores_actual.to_string()));
    condition(true, "InForce", message)
}

/// Whether a plan is in force and, in mode active, its cores are actual or under way; otherwise the reason of the
/// first of these conditions that does not hold.
fn ready_condition(
    service: &Service,
    report: &CycleReport,
    plan: &ConditionValue,
    cores: &ConditionValue,
) -> ConditionValue {
    let is_blocked =
        gravest_blocker(report).is_some_and(|(_, blocked)| !is_under_way(blocked.reason));
    let unheld = match service.mode {
        _ if !plan.holds() => Some(plan),
        Mode::Active if !cores.holds() && is_blocked => Some(cores),
        Mode::Active | Mode::Advisory => None,
    };
    let (reason, message) = unheld.map_or(("Serving", "a plan is in force"), |one| {
        (one.reason, one.message.as_str())
    });
    ConditionValue::new(ConditionType::Ready, unheld.is_none(), reason, message)
}

/// Whether the planner or the kubelet goes on by itself.
fn is_under_way(reason: Reason) -> bool {
    match reason {
        Reason::Protected | Reason::Replacing | Reason::Waiting | Reason::Unknown => true,
        Reason::ConflictingWriter
        | Reason::Deferred
        | Reason::Infeasible
        | Reason::Unschedulable
        | Reason::Forbidden
        | Reason::NoWorkload
        | Reason::NotObserved
        | Reason::NotResizable
        | Reason::NotReconfigured
        | Reason::Refused => false,
    }
}

fn health_condition(report: &CycleReport, notes: &WatchNotes) -> ConditionValue {
    let condition = |reason, message: String| {
        ConditionValue::new(ConditionType::Degraded, true, reason, message)
    };
    if let Some((name, blocked)) = gravest_blocker(report) {
        match blocked.reason {
            Reason::ConflictingWriter => {
                return condition("ConflictingWriter", format!("{name}: {}", blocked.why));
            }
            Reason::Deferred | Reason::Infeasible | Reason::Unschedulable => {
                let message = format!(
                    "no node has capacity for the target of {name}: add nodes, or lower budget.cores; {}",
                    blocked.why
                );
                return condition("NodesFull", message);
            }
            Reason::Forbidden
            | Reason::NotObserved
            | Reason::NoWorkload
            | Reason::NotResizable
            | Reason::NotReconfigured
            | Reason::Refused => {
                return condition(blocked.reason.label(), format!("{name}: {}", blocked.why));
            }
            Reason::Protected | Reason::Replacing | Reason::Waiting | Reason::Unknown => {}
        }
    }
    let (answered, lost) = (report.scrapes_answered, report.scrapes_failed);
    let without_weir = report.proxies_without_weir;
    match (answered, lost) {
        (_, 0) if without_weir > 0 => {
            let message = format!(
                "{without_weir} of {} proxies answer without any metric of Weir",
                answered + without_weir
            );
            return condition("ProxiesWithoutWeir", message);
        }
        (0, 0) => {
            let why = "there is no proxy whose statistics could be scraped: check proxies.pods";
            let why = notes.proxies.clone().unwrap_or_else(|| why.to_owned());
            return condition("NoProxies", why);
        }
        (_, 0) => {}
        _ => {
            let all = answered + lost + without_weir;
            let message = format!("{lost} of {all} proxies did not answer with statistics of Weir");
            return condition("ProxiesLost", message);
        }
    }
    if let Some(stale) = &notes.stale {
        return condition("NotObserved", stale.clone());
    }
    match report.outcome {
        SolveStatus::Infeasible => condition("DemandAboveCapacity", report.why.clone()),
        SolveStatus::OutOfTime => condition("SolverOutOfTime", report.why.clone()),
        SolveStatus::NoDemand
        | SolveStatus::NoProfile
        | SolveStatus::Optimal
        | SolveStatus::Good => match service_times::degraded(report) {
            Some((reason, message)) => condition(reason, message),
            None => ConditionValue::new(ConditionType::Degraded, false, "AsExpected", ""),
        },
    }
}

/// Returns the gravest blocker, with its variant.
fn gravest_blocker(report: &CycleReport) -> Option<(&str, &Blocker)> {
    let all = report.variants.iter();
    let all = all.filter_map(|(name, one)| Some((name.as_str(), one.blocker.as_ref()?)));
    all.min_by_key(|(_, blocked)| blocked.reason)
}

fn stage(plan: &Plan, report: &CycleReport) -> StagePlan {
    let variant = |part: &weir_api::VariantPlan| {
        let reported = report.variants.get(&part.name);
        PlannedVariant {
            name: part.name.clone(),
            share: part.share.0,
            slots: part.slots,
            batch: part.batch,
            service_time: RawDuration::from_ms(round(part.service_ms)),
            replicas: reported.map_or(0, |reported| reported.replicas_ready),
            cores: reported.map_or(0.0, |reported| reported.cores_actual.as_f64()),
        }
    };
    StagePlan {
        stage: plan.service.clone(),
        revision: plan.revision.0,
        downstream_time: RawDuration::from_ms(round(plan.downstream_ms)),
        variants: plan.variants.iter().map(variant).collect(),
    }
}

/// Rounds to three decimals, for people.
fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests;
