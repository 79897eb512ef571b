//! The optimum is compared with exhaustive search, and with HiGHS on large problems.

mod accuracy;
mod baseline;
mod exhaustive;
mod limits;
mod outcomes;
mod random;
mod refusals;

use std::time::Duration;

use super::*;
use crate::{Outcome, TimeLimit};

/// Solves without a time limit.
fn solved(problem: &Problem) -> Outcome<Plan> {
    let clock = || Duration::ZERO;
    solve(problem, &TimeLimit::new(Duration::from_secs(1), &clock))
}

fn resource(name: &str, available: f64) -> Resource {
    let name = name.to_owned();
    Resource { name, available }
}

/// Creates a variant from the columns of the papers' tables: cost, queries/s, seconds to load,
/// replicas.
fn variant(name: &str, resource: &str, columns: (f64, f64, f64, u32)) -> Variant {
    let (cost, sustains_qps, loading_s, replicas) = columns;
    Variant {
        name: name.to_owned(),
        resource: resource.to_owned(),
        takes: None,
        cost,
        sustains_qps,
        latency_ms: 10.0,
        accuracy_percent: None,
        loading_s,
        replicas,
    }
}

fn architecture(name: &str, load_qps: f64, variants: Vec<Variant>) -> Architecture {
    Architecture {
        name: name.to_owned(),
        load_qps,
        slack_qps: 0.0,
        slo_ms: None,
        accuracies: Vec::new(),
        variants,
    }
}
