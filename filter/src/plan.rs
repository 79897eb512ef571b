//! The plan in force: a newer valid plan replaces it, any other is refused, and a stale one is handled as
//! configured.

use weir_api::plan::BYTES_MAX;
use weir_api::{Plan, PlanError, Revision, json};

use crate::config::OnStale;
use crate::time::{Mono, Span};

/// Reason why bytes were refused as a plan.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum PlanRefused {
    #[error("{0} bytes; a plan has at most {BYTES_MAX}")]
    Size(usize),
    #[error(transparent)]
    Shape(#[from] json::Misread),
    #[error(transparent)]
    Rule(#[from] PlanError),
    #[error("service: '{found}' is not ours ('{ours}')")]
    Service { found: String, ours: String },
    #[error("revision: {found} is not newer than {current}")]
    NotNewer { found: Revision, current: Revision },
}

impl PlanRefused {
    /// Whether it is the plan in force. Two VMs may fetch it if the poller is late with its lease; for the
    /// others it is valid, but not new.
    pub fn is_in_force(&self) -> bool {
        matches!(self, PlanRefused::NotNewer { found, current } if found == current)
    }
}

/// Reads a plan and checks that it is for `service`, newer than `current` and valid.
///
/// # Errors
/// The first error.
pub fn read(bytes: &[u8], service: &str, current: Revision) -> Result<Plan, PlanRefused> {
    if bytes.len() > BYTES_MAX {
        return Err(PlanRefused::Size(bytes.len()));
    }
    let plan: Plan = json::read(bytes)?;
    plan.check()?;
    if plan.service != service {
        return Err(PlanRefused::Service {
            found: plan.service,
            ours: service.to_owned(),
        });
    }
    if plan.revision <= current {
        return Err(PlanRefused::NotNewer {
            found: plan.revision,
            current,
        });
    }
    Ok(plan)
}

/// Rule for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The plan in force.
    Plan,
    /// Envoy's own routes, because there never was a plan.
    Pass,
    /// Refusal.
    Refuse,
}

/// Source of the plan in force.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlanSource {
    /// No plan.
    #[default]
    None,
    /// The configuration; it never becomes stale.
    Static,
    /// A planner.
    Planner {
        /// Revision.
        revision: Revision,
        /// Time of receipt.
        received: Mono,
        /// Time from which it is stale.
        stale_at: Mono,
    },
}

impl PlanSource {
    /// Creates the source of a planner's plan received at `received`.
    #[must_use]
    pub fn planner(plan: &Plan, received: Mono) -> PlanSource {
        let stale_at = received + Span::from_millis(plan.max_age_ms);
        PlanSource::Planner {
            revision: plan.revision,
            received,
            stale_at,
        }
    }

    /// Revision that a newer plan must exceed; 0 before the first plan of a planner.
    #[must_use]
    pub fn revision(self) -> Revision {
        match self {
            PlanSource::None | PlanSource::Static => Revision(0),
            PlanSource::Planner { revision, .. } => revision,
        }
    }

    /// Whether the plan in force is stale.
    #[must_use]
    pub fn is_stale(self, now: Mono) -> bool {
        matches!(self, PlanSource::Planner { stale_at, .. } if stale_at <= now)
    }

    /// Rule as of `now`. (A stale plan under `static` is replaced by the engine beforehand.)
    #[must_use]
    pub fn rule(self, on_stale: OnStale, now: Mono) -> Rule {
        match self {
            PlanSource::None if on_stale == OnStale::Refuse => Rule::Refuse,
            PlanSource::None => Rule::Pass,
            PlanSource::Static => Rule::Plan,
            PlanSource::Planner { .. } if on_stale == OnStale::Refuse && self.is_stale(now) => {
                Rule::Refuse
            }
            PlanSource::Planner { .. } => Rule::Plan,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"format":1,"service":"demo","revision":7,"max_age_ms":1000,
        "variants":[{"name":"a","cluster":"a","share":1,"slots":1}]}"#;

    #[track_caller]
    fn refused(json: &str, message: &str) {
        let error = read(json.as_bytes(), "demo", Revision(6))
            .expect_err(message)
            .to_string();
        assert!(error.contains(message), "'{error}' lacks '{message}'");
    }

    #[test]
    fn only_a_newer_valid_plan_of_the_service_is_accepted() {
        assert_eq!(
            read(GOOD.as_bytes(), "demo", Revision(6)).unwrap().revision,
            Revision(7)
        );
        refused("<html>", "expected value");
        refused("{}", "missing field");
        refused(&format!("{GOOD} and more"), "trailing characters");
        refused(
            &GOOD.replace("\"slots\":1", "\"slots\":-1"),
            "variants[0].slots: invalid value",
        );
        refused(&GOOD.replace("\"share\":1", "\"share\":0"), "they sum to 0");
        refused(
            &GOOD.replace("demo", "other"),
            "service: 'other' is not ours",
        );
        refused(&GOOD.replace(":7", ":6"), "revision: 6 is not newer than 6");
        refused(
            &format!("{GOOD}{}", " ".repeat(BYTES_MAX)),
            "a plan has at most",
        );
    }

    #[test]
    fn plan_in_force_is_distinguished_from_older_ones() {
        for (current, in_force) in [(6, None), (7, Some(true)), (8, Some(false))] {
            let refused = read(GOOD.as_bytes(), "demo", Revision(current)).err();
            assert_eq!(
                refused.map(|refused| refused.is_in_force()),
                in_force,
                "{current}"
            );
        }
    }

    #[test]
    fn rule_depends_on_source_age_and_configuration() {
        let plan = read(GOOD.as_bytes(), "demo", Revision(0)).unwrap();
        let source = PlanSource::planner(&plan, Mono(0));
        let (fresh, stale) = (Mono(999_999_999), Mono(1_000_000_000));
        for (source, on_stale, now, rule) in [
            (PlanSource::None, OnStale::Keep, fresh, Rule::Pass),
            (PlanSource::None, OnStale::Refuse, fresh, Rule::Refuse),
            (PlanSource::Static, OnStale::Refuse, stale, Rule::Plan),
            (source, OnStale::Refuse, fresh, Rule::Plan),
            (source, OnStale::Refuse, stale, Rule::Refuse),
            (source, OnStale::Keep, stale, Rule::Plan),
        ] {
            assert_eq!(
                source.rule(on_stale, now),
                rule,
                "{source:?} {on_stale:?} {now:?}"
            );
        }
    }
}
