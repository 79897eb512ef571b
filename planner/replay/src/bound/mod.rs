//! What nobody could have beaten: the most on-time answers that servers allow to someone who knows
//! every request in advance, and the least core-seconds that a given number of them costs.
//!
//! Pure algorithms on times. Nothing here dispatches, plans or knows a contender; servers are taken
//! as they were meant to be, so crashes, slowness, readiness and lost messages only widen the
//! distance to the bound. The hops between proxy and servers count as they are where servers are equally
//! far, and as the shortest there is where not. Where the optimum is not found the type says so: a [`Kind::Upper`] bound is
//! proven never to be below it, and no more.
//!
//! - [`moore_hodgson`]: one slot, everything there from the start; exact
//! - [`ordered`]: any number of alike slots, requests due in the order of their release; exact
//! - [`fluid`]: everything else; an upper bound
//! - [`cores`]: a lower bound on core-seconds
//!
//! Without release order even one slot with equal service times is out of reach at this size: the
//! known exact algorithms take O(n⁵) steps (Chrobak, Dürr, Jawor, Kowalik, Kurowski 2006) or more.

pub mod cores;
pub mod fluid;
pub mod moore_hodgson;
pub mod ordered;
pub mod servers;

use std::time::Duration;

use serde::Serialize;

use super::request::{Play, Request};
use super::scenario::Scenario;
pub use cores::{Least, LeastKind, least_core_seconds};
pub use servers::{Lanes, Servers, Step};

/// The most requests that could have been on time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// How many.
    pub on_time: u64,
    /// What the number is.
    pub kind: Kind,
    /// The algorithm.
    pub method: &'static str,
    /// Why this algorithm, and what the number leaves out.
    pub why: String,
}

/// What a bound on on-time answers is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The optimum itself.
    Exact,
    /// Proven never to be below the optimum.
    Upper,
    /// The same for mean service times: luck may beat it by a little.
    Estimate,
}

/// One request as a bound sees it: work that may start and must end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// When it is at the proxy.
    pub release: Duration,
    /// When its answer must leave the proxy.
    pub due: Duration,
    /// Least accuracy of the answer, percent.
    pub min_accuracy: f64,
}

impl Window {
    /// The window of a request.
    #[must_use]
    pub fn of(request: &Request) -> Window {
        Window {
            release: request.arrives,
            due: request.due(),
            min_accuracy: request.min_accuracy,
        }
    }

    /// How long there is for it; zero where it is due before it is there.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.due.saturating_sub(self.release)
    }
}

/// The bound for every contender, in the plays' order: each with the cores it had.
#[must_use]
pub fn of_plays(scenario: &Scenario, requests: &[Request], plays: &[Play]) -> Vec<Bound> {
    let windows: Vec<Window> = requests.iter().map(Window::of).collect();
    let mut known: Vec<(Servers, Bound)> = Vec::new();
    let mut bounds = Vec::with_capacity(plays.len());
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

/// The most requests that could be on time on those servers.
#[must_use]
pub fn most_on_time(windows: &[Window], servers: &Servers) -> Bound {
    let mut feasible: Vec<Window> = windows.to_vec();
    feasible.retain(|window| {
        let fastest = servers.fastest(window.min_accuracy);
        window.due >= window.release && fastest.is_some_and(|fastest| window.length() >= fastest)
    });
    for window in &mut feasible {
        // What is left at the servers: whichever answers, it is no nearer than that.
        let hop = servers.shortest_hop(window.min_accuracy);
        window.release += hop;
        window.due = window.due.saturating_sub(hop);
    }
    // In this order, ties by due: whether dues follow releases is then plain to see.
    feasible.sort_by_key(|window| (window.release, window.due));
    exact(&feasible, servers).unwrap_or_else(|why_not| upper(&feasible, servers, why_not))
}

/// The optimum, or why it is not to be had.
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
