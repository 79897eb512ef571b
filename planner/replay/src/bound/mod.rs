//! Clairvoyant bounds: the maximum number of on-time answers with every request known in advance, and
//! the minimum core-seconds for a given number of them.
//!
//! Pure algorithms on times, without dispatching, planning or contenders. Servers are taken as
//! configured, so crashes, slowdowns, readiness times and lost messages only widen the distance to the
//! bound. Hops between proxy and servers count exactly if all servers have the same, and otherwise as
//! the shortest. The type says if the optimum is not found: a [`Kind::Upper`] bound is only proven
//! never to be below it.
//!
//! - [`moore_hodgson`]: one slot, all requests present from the start; exact
//! - [`ordered`]: any number of identical slots, requests due in release order; exact
//! - [`fluid`]: everything else; an upper bound
//! - `pipeline`: an upper bound of a pipeline, the least of its stages'
//! - [`cores`]: a lower bound on core-seconds, and on their cost
//! - [`objective`]: an upper bound on a policy's objective, and on the mean accuracy
//!
//! Without release order even one slot with equal service times is infeasible at this size: the
//! known exact algorithms take O(n⁵) steps (Chrobak, Dürr, Jawor, Kowalik, Kurowski 2006) or more.

pub mod cores;
pub mod fluid;
mod limited;
pub mod moore_hodgson;
pub mod objective;
mod options;
pub mod ordered;
mod pipeline;
pub mod servers;
mod work;

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::request::{Play, Request};
use super::scenario::Scenario;
pub use cores::{MinCoreSeconds, MinKind, min_core_seconds, min_cost};
pub use objective::{Weights, max_objective};
pub use servers::{BatchTime, Lanes, Servers, Step};
pub use work::Machine;

/// Bound on the number of on-time requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Bound {
    /// Number of on-time requests.
    pub on_time: u64,
    /// Meaning of the number.
    pub kind: Kind,
    /// Name of the algorithm.
    pub method: &'static str,
    /// Reason for this algorithm, and effects that the number ignores.
    pub why: String,
}

/// Meaning of a bound on on-time answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "BoundKind")]
pub enum Kind {
    /// The optimum.
    Exact,
    /// Proven never to be below the optimum.
    Upper,
    /// Upper bound for mean service times; random times may beat it slightly.
    Estimate,
}

/// Execution window of a request: work that may start at `release` and must end by `due`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Time at which the request is at the proxy.
    pub release: Duration,
    /// Time by which its answer must leave the proxy.
    pub due: Duration,
    /// Minimum accuracy of the answer, percent.
    pub min_accuracy: f64,
}

impl Window {
    /// Creates the window of a request.
    #[must_use]
    pub fn of(request: &Request) -> Window {
        Window {
            release: request.arrives,
            due: request.due(),
            min_accuracy: request.min_accuracy,
        }
    }

    /// Length of the window; zero if it is due before its release.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.due.saturating_sub(self.release)
    }
}

/// Returns the bound of each play, in order, with the cores that the contender had.
#[must_use]
pub fn of_plays(scenario: &Scenario, requests: &[Request], plays: &[Play]) -> Vec<Bound> {
    let windows: Vec<Window> = requests.iter().map(Window::of).collect();
    let mut known: Vec<(Servers, Bound)> = Vec::new();
    let mut bounds = Vec::with_capacity(plays.len());
    if scenario.stages().nth(1).is_some() {
        let bound = |play| pipeline::most_on_time(scenario, &windows, play);
        return plays.iter().map(bound).collect();
    }
    for play in plays {
        let servers = Servers::played(scenario, play);
        // Contenders with the same cores have the same bound.
        if let Some((_, bound)) = known.iter().find(|(other, _)| *other == servers) {
            bounds.push(bound.clone());
            continue;
        }
        let bound = most_on_time(&windows, &servers);
        bounds.push(bound.clone());
        known.push((servers, bound));
    }
    bounds
}

/// Returns the bound on the number of on-time requests on those servers.
#[must_use]
pub fn most_on_time(windows: &[Window], servers: &Servers) -> Bound {
    let mut feasible: Vec<Window> = windows.to_vec();
    feasible.retain(|window| {
        let fastest = servers.fastest(window.min_accuracy);
        window.due >= window.release && fastest.is_some_and(|fastest| window.length() >= fastest)
    });
    for window in &mut feasible {
        // Time that is left at the servers: any server that answers is at least this far away.
        let hop = servers.shortest_hop(window.min_accuracy);
        window.release += hop;
        window.due = window.due.saturating_sub(hop);
    }
    // By release, then due, so that one pass shows whether dues follow releases.
    feasible.sort_by_key(|window| (window.release, window.due));
    exact(&feasible, servers).unwrap_or_else(|why_not| upper(&feasible, servers, why_not))
}

/// Returns the optimum, or the reason why no exact algorithm applies.
fn exact(windows: &[Window], servers: &Servers) -> Result<Bound, &'static str> {
    let (slots, service) = servers.alike()?;
    let (method, on_time, why) = if windows.windows(2).all(is_same_release) && slots == 1 {
        let jobs: Vec<moore_hodgson::Job> = windows
            .iter()
            .map(|window| moore_hodgson::Job {
                service,
                due: window.length(),
            })
            .collect();
        let why = "one slot, every request there from the start";
        (
            "Moore–Hodgson",
            moore_hodgson::most_on_time(&jobs),
            why.to_owned(),
        )
    } else if windows.windows(2).all(is_agreeable) {
        let why = format!("{slots} alike slots, requests due in the order of their arrival");
        (
            "first come, first served with refusal",
            ordered::most_on_time(windows, slots, service),
            why,
        )
    } else {
        return Err("requests are not due in the order of their arrival");
    };
    Ok(Bound {
        on_time,
        kind: Kind::Exact,
        method,
        why,
    })
}

fn upper(windows: &[Window], servers: &Servers, why_not: &str) -> Bound {
    let (kind, but) = match servers.blur() {
        None => (Kind::Upper, String::new()),
        Some(blur) => (Kind::Estimate, format!("; {blur}")),
    };
    Bound {
        on_time: fluid::most_on_time(windows, servers),
        kind,
        method: "fluid relaxation",
        why: format!("{why_not}: all slots' work is pooled and may be divided at will{but}"),
    }
}

fn is_same_release(pair: &[Window]) -> bool {
    matches!(pair, [a, b] if a.release == b.release)
}

fn is_agreeable(pair: &[Window]) -> bool {
    matches!(pair, [a, b] if a.release <= b.release && a.due <= b.due)
}

#[cfg(test)]
mod brute;
#[cfg(test)]
mod tests;
