//! Selection of the variant that answers a request (INFaaS, Algorithm 1), over the variants' life cycle.
//!
//! A request names an architecture, or an application by its minimum accuracy, and a latency objective.
//! Among the *Active* variants that meet both, the cheapest serves; of equal cost the slowest that still
//! fits (as in the published program, to keep the fast ones for requests that need them), then the one with
//! the lowest utilisation, then the first. If none is Active, an *Inactive* variant whose latency fits is
//! loaded: the one with the least sum of loading time and latency; ties go to the cheapest, then to the
//! first. *Overloaded* and *Interfered* variants are never selected, not even as a last resort: they
//! recover by getting no new requests, and scaling helps in the meantime. This is our reading; the
//! published program also skips them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ratio of measured to profiled latency from which a variant counts as interfered with.
const INTERFERED_FROM: f64 = 1.2;

/// Life-cycle state of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// No replica is loaded.
    Inactive,
    /// It runs as profiled.
    Active,
    /// It has at least as much load as it sustains.
    Overloaded,
    /// It is slower than profiled, though not by its own load: other workloads interfere.
    Interfered,
}

/// Observation of a variant in one cycle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Whether a replica is ready.
    pub loaded: bool,
    /// Load in queries/s.
    pub load_qps: f64,
    /// Queries/s at which its replicas together are saturated.
    pub saturation_qps: f64,
    /// Measured latency, in ms; none if nothing was answered.
    pub measured_ms: Option<f64>,
    /// Profiled latency, in ms.
    pub profiled_ms: f64,
}

impl State {
    /// Returns the state after an observation. Load takes precedence over latency: an overloaded variant is
    /// slow for that reason. A variant that is no longer loaded is Inactive.
    #[must_use]
    pub fn next(self, seen: &Observation) -> State {
        let interfered = |ms: f64| ms > INTERFERED_FROM * seen.profiled_ms;
        match self {
            _ if !seen.loaded => State::Inactive,
            // Just loaded: the measurement is from before.
            State::Inactive => State::Active,
            _ if seen.load_qps >= seen.saturation_qps => State::Overloaded,
            _ if seen.measured_ms.is_some_and(interfered) => State::Interfered,
            State::Active | State::Overloaded | State::Interfered => State::Active,
        }
    }
}

/// Variant in the form that the selection uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate<'a> {
    /// Architecture.
    pub architecture: &'a str,
    /// Life-cycle state.
    pub state: State,
    /// Cost of a replica.
    pub cost: f64,
    /// Latency of an answer, in ms.
    pub latency_ms: f64,
    /// Accuracy of the answers, in percent.
    pub accuracy_percent: f64,
    /// Seconds to load it.
    pub loading_s: f64,
    /// Load as a fraction of the sustained rate.
    pub load_share: f64,
}

/// Requirement of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Requirement<'a> {
    /// Any variant of this architecture.
    Architecture(&'a str),
    /// Any of the application's architectures, with at least this accuracy in percent.
    Accuracy(f64),
}

/// Selected variant; the numbers are indexes into the list of candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// This variant serves the request.
    Serve(usize),
    /// No running variant may serve; this variant is to be loaded.
    Load(usize),
    /// No variant can serve.
    Refuse(RefusalReason),
}

/// Reason why no variant can serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// No variant is of the architecture, or accurate enough.
    NoSuchVariant,
    /// All such variants are slower than the objective.
    TooSlow,
    /// All variants in time are overloaded or interfered with.
    Busy,
}

impl RefusalReason {
    /// Label for answers and metrics.
    pub fn label(self) -> &'static str {
        match self {
            RefusalReason::NoSuchVariant => "no-such-variant",
            RefusalReason::TooSlow => "too-slow",
            RefusalReason::Busy => "busy",
        }
    }
}

/// Selects for one request; `slo_ms` is its time for the answer.
pub fn select(
    candidates: &[Candidate<'_>],
    requirement: Requirement<'_>,
    slo_ms: f64,
) -> Selection {
    let required = |candidate: &Candidate<'_>| match requirement {
        Requirement::Architecture(name) => candidate.architecture == name,
        Requirement::Accuracy(percent) => candidate.accuracy_percent >= percent,
    };
    let all = || candidates.iter().enumerate().filter(|(_, c)| required(c));
    let in_time = || all().filter(|(_, candidate)| candidate.latency_ms <= slo_ms);
    let with = |state: State| in_time().filter(move |(_, candidate)| candidate.state == state);

    let active = with(State::Active).min_by(|(_, a), (_, b)| {
        let cost = a.cost.total_cmp(&b.cost);
        let slowest = b.latency_ms.total_cmp(&a.latency_ms);
        cost.then(slowest)
            .then(a.load_share.total_cmp(&b.load_share))
    });
    if let Some((index, _)) = active {
        return Selection::Serve(index);
    }
    let ready_ms = |candidate: &Candidate<'_>| candidate.loading_s * 1000.0 + candidate.latency_ms;
    let inactive = with(State::Inactive).min_by(|(_, a), (_, b)| {
        let soonest = ready_ms(a).total_cmp(&ready_ms(b));
        soonest.then(a.cost.total_cmp(&b.cost))
    });
    match inactive {
        Some((index, _)) => Selection::Load(index),
        None if in_time().next().is_some() => Selection::Refuse(RefusalReason::Busy),
        None if all().next().is_some() => Selection::Refuse(RefusalReason::TooSlow),
        None => Selection::Refuse(RefusalReason::NoSuchVariant),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::{Active, Inactive, Interfered, Overloaded};

    #[test]
    fn next_state_follows_the_observation() {
        // State, loaded, load of 100, measured latency of 10 ms → next state.
        for (state, loaded, load_qps, measured_ms, next) in [
            (Inactive, false, 0.0, None, Inactive),
            (Inactive, true, 150.0, Some(50.0), Active),
            (Active, true, 99.0, None, Active),
            (Active, true, 99.0, Some(12.0), Active),
            (Active, true, 100.0, None, Overloaded),
            (Active, true, 99.0, Some(12.1), Interfered),
            (Active, true, 100.0, Some(50.0), Overloaded),
            (Active, false, 50.0, None, Inactive),
            (Overloaded, true, 100.0, None, Overloaded),
            (Overloaded, true, 99.0, None, Active),
            (Overloaded, true, 99.0, Some(13.0), Interfered),
            (Overloaded, false, 200.0, None, Inactive),
            (Interfered, true, 50.0, Some(12.1), Interfered),
            (Interfered, true, 50.0, Some(11.0), Active),
            (Interfered, true, 120.0, Some(50.0), Overloaded),
            (Interfered, false, 50.0, Some(50.0), Inactive),
        ] {
            let seen = Observation {
                loaded,
                load_qps,
                saturation_qps: 100.0,
                measured_ms,
                profiled_ms: 10.0,
            };
            assert_eq!(state.next(&seen), next, "{state:?} {seen:?}");
        }
    }

    /// All but the last are of `a`; cost, latency, accuracy, loading, utilisation.
    fn candidates(states: [State; 5]) -> [Candidate<'static>; 5] {
        let figures = [
            ("a", 1.0, 80.0, 70.0, 2.0, 0.9),
            ("a", 1.0, 90.0, 71.0, 3.0, 0.9),
            ("a", 1.0, 90.0, 72.0, 1.0, 0.5),
            ("a", 8.0, 10.0, 76.0, 20.0, 0.1),
            ("b", 2.0, 40.0, 80.0, 9.0, 0.2),
        ];
        std::array::from_fn(|index| {
            let (architecture, cost, latency_ms, accuracy_percent, loading_s, load_share) =
                figures[index];
            Candidate {
                architecture,
                state: states[index],
                cost,
                latency_ms,
                accuracy_percent,
                loading_s,
                load_share,
            }
        })
    }

    #[test]
    fn selection_follows_the_rules() {
        use Selection::{Load, Refuse, Serve};
        let a = Requirement::Architecture("a");
        let percent = Requirement::Accuracy;
        for (states, requirement, slo_ms, selection) in [
            // Among equal costs the slowest, then the least loaded.
            ([Active; 5], a, 100.0, Serve(2)),
            ([Active; 5], a, 89.0, Serve(0)),
            ([Active; 5], a, 50.0, Serve(3)),
            ([Active; 5], a, 9.0, Refuse(RefusalReason::TooSlow)),
            (
                [Active; 5],
                Requirement::Architecture("c"),
                100.0,
                Refuse(RefusalReason::NoSuchVariant),
            ),
            ([Active; 5], percent(71.0), 100.0, Serve(2)),
            ([Active; 5], percent(73.0), 100.0, Serve(4)),
            ([Active; 5], percent(73.0), 20.0, Serve(3)),
            (
                [Active; 5],
                percent(81.0),
                100.0,
                Refuse(RefusalReason::NoSuchVariant),
            ),
            (
                [Active, Active, Overloaded, Active, Active],
                a,
                100.0,
                Serve(1),
            ),
            (
                [Interfered, Overloaded, Interfered, Active, Active],
                a,
                100.0,
                Serve(3),
            ),
            // A running variant goes before a cheaper one that does not run.
            (
                [Inactive, Inactive, Inactive, Active, Active],
                a,
                100.0,
                Serve(3),
            ),
            ([Inactive; 5], a, 100.0, Load(2)),
            ([Inactive; 5], a, 85.0, Load(0)),
            (
                [Overloaded, Inactive, Interfered, Inactive, Active],
                a,
                100.0,
                Load(1),
            ),
            (
                [Overloaded, Interfered, Interfered, Overloaded, Active],
                a,
                100.0,
                Refuse(RefusalReason::Busy),
            ),
            (
                [Overloaded; 5],
                percent(73.0),
                5.0,
                Refuse(RefusalReason::TooSlow),
            ),
        ] {
            let found = select(&candidates(states), requirement, slo_ms);
            assert_eq!(found, selection, "{states:?} {requirement:?} {slo_ms}");
        }
        let mut same = candidates([Active; 5]);
        same[1] = Candidate {
            load_share: 0.5,
            ..same[1]
        };
        assert_eq!(select(&same, a, 100.0), Serve(1), "the first of equals");
        assert_eq!(select(&[], a, 100.0), Refuse(RefusalReason::NoSuchVariant));
    }
}
