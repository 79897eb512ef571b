//! One Envoy with the listeners of all ways to the same servers.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use serde_json::{Value, json};
use weir_bed::envoy::{Bootstrap, Careful, Envoy};
use weir_bed::load::Target;

use super::super::system::weights;
use super::server::Server;
use super::user::Made;

const WORKERS: u32 = 2;

/// Kinds of ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Ways {
    /// The filter with the plan of the measured profiles.
    Weir,
    /// The filter with one slot for each server.
    OneSlot,
    /// Weights alone.
    Plain,
    /// Every circuit breaker.
    Careful,
}

/// Way of a request to the servers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Way {
    /// Through the filter, with the plan that follows from the measured profiles.
    Weir,
    /// Through the filter, with a plan of one slot for each server: nothing is known of its batches.
    OneSlot,
    /// Weights by capacity and nothing else.
    Plain,
    /// Weighted least-request, a route timeout of the objective, and a circuit breaker of this part of what the servers
    /// answer within the objective.
    Careful(f64),
}

impl Way {
    /// All ways of these kinds, with these circuit breakers.
    pub(super) fn of(kinds: &[Ways], breakers: &[f64]) -> Vec<Way> {
        let of = |kind: &Ways| match kind {
            Ways::Weir => vec![Way::Weir],
            Ways::OneSlot => vec![Way::OneSlot],
            Ways::Plain => vec![Way::Plain],
            Ways::Careful => breakers
                .iter()
                .map(|factor| Way::Careful(*factor))
                .collect(),
        };
        kinds.iter().flat_map(of).collect()
    }

    /// Name in tables.
    pub(super) fn name(self) -> String {
        match self {
            Way::Weir => "weir".to_owned(),
            Way::OneSlot => "weir, one slot".to_owned(),
            Way::Plain => "plain".to_owned(),
            Way::Careful(factor) => format!("careful {factor}"),
        }
    }

    fn listener(self) -> String {
        match self {
            Way::OneSlot => "beside".to_owned(),
            _ => self.name(),
        }
    }
}

/// Starts Envoy before the servers, which answer so many requests/s.
pub(super) async fn start(
    servers: &[Server],
    made: &Made,
    rates_rps: &[f64],
    (slo, breakers): (Duration, &[f64]),
) -> Result<Envoy> {
    let weights = weights(rates_rps);
    let plain: Vec<(&str, Vec<SocketAddr>)> = servers
        .iter()
        .map(|server| (server.name, vec![server.address]))
        .collect();
    let mut bootstrap = Bootstrap::read(&made.bootstrap)?
        .beside(&one_slot(servers, made, rates_rps, slo))
        .plain(&plain)
        .plain_weights(&weights);
    for server in servers {
        bootstrap = bootstrap.backend(server.name, server.address);
    }
    let addresses = servers.iter().map(|server| server.address);
    let hosts: Vec<(SocketAddr, u32)> = addresses.zip(weights).collect();
    for factor in breakers {
        let at_once = rates_rps.iter().sum::<f64>() * slo.as_secs_f64() * factor;
        let at_once = at_once.round().max(1.0) as u32;
        let careful = Careful {
            hosts: hosts.clone(),
            timeout: slo,
            max_requests: at_once,
            max_pending_requests: at_once,
        };
        bootstrap = bootstrap.careful(&Way::Careful(*factor).listener(), careful);
    }
    Envoy::start(&bootstrap, WORKERS).await
}

/// Returns the filter's configuration with one slot for each server.
fn one_slot(servers: &[Server], made: &Made, rates_rps: &[f64], slo: Duration) -> Value {
    let slo_ms = slo.as_millis();
    let total: f64 = rates_rps.iter().sum();
    let each = servers.iter().zip(&made.profiles).zip(rates_rps);
    let variant = |((server, profile), rate): ((&Server, &_), &f64)| {
        let profile: &super::super::profile::Profile = profile;
        json!({
            "name": server.name,
            "cluster": server.name,
            "share": rate / total,
            "slots": 1,
            "service_ms": profile.service_ms(1.0),
        })
    };
    json!({
        "service": "one-slot",
        "deadline": { "default_ms": slo_ms, "max_ms": 10 * slo_ms },
        "plan": { "variants": each.map(variant).collect::<Vec<_>>() },
    })
}

/// Returns the target of requests by that way.
pub(super) fn target(envoy: &Envoy, way: Way, path: &str) -> Result<Target> {
    let listener = envoy.listener(&way.listener())?;
    Ok(Target {
        name: way.name(),
        url: format!("http://{listener}{path}"),
        then: Vec::new(),
        headers: Vec::new(),
    })
}
