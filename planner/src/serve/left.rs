//! Observation of servers that no service has any more: what they hold counts in their shared budget until they are known to
//! hold no cores, or a service has them again. Nothing is changed at them.

use std::sync::Arc;

use weir_api::Cores;

use crate::app::http_backends;
use crate::backends::{Actuate, ActuateError, HttpMemory};
use crate::capacity::Actual;
use crate::catalog::{Claims, LeftServers};
use crate::registry::ServiceRegistry;

/// Status of an answer about a server that does not exist any more.
const NOT_FOUND: u16 = 404;
/// The same, of one that never will again.
const NO_MORE: u16 = 410;

/// Observes such servers until they have left the budget. A server that does not answer counts as at its last answer; until
/// all have answered, all count as at the last cycle of their service.
pub(super) async fn observe(
    mut left: LeftServers,
    registry: Arc<ServiceRegistry>,
    http: reqwest::Client,
    memory: Arc<HttpMemory>,
) {
    let mut latest: Vec<Option<Cores>> = vec![None; left.service.variants.len()];
    loop {
        forget_served(&mut left, &mut latest, &registry);
        let answers = http_backends(&left.service, &http, &memory).actual().await;
        for (latest, answer) in latest.iter_mut().zip(answers) {
            *latest = held(answer).or(*latest);
        }
        let total = latest.iter().copied().sum::<Option<Cores>>();
        if left.place.count(total) {
            tracing::info!(
                "shared budget: {} holds no cores any more",
                left.place.name()
            );
            return;
        }
        tokio::time::sleep(left.service.scrape_interval).await;
    }
}

/// Forgets the servers that a service has again: it counts them itself, and until it knows them no part changes.
fn forget_served(
    left: &mut LeftServers,
    latest: &mut Vec<Option<Cores>>,
    registry: &ServiceRegistry,
) {
    let mut claims = Claims::default();
    for handle in registry.all() {
        // All of them were checked.
        let _ = claims.add(&handle.service, &handle.service.name);
    }
    let is_left: Vec<bool> = left
        .service
        .variants
        .iter()
        .map(|variant| !claims.has(variant))
        .collect();
    let mut kept = is_left.iter();
    left.service
        .variants
        .retain(|_| kept.next().copied().unwrap_or(true));
    let mut kept = is_left.iter();
    latest.retain(|_| kept.next().copied().unwrap_or(true));
}

/// Returns the cores that a server holds, as far as its answer shows it.
fn held(answer: Option<Result<Actual, ActuateError>>) -> Option<Cores> {
    match answer? {
        Ok(actual) => Some(actual.reserved),
        Err(ActuateError::Status(NOT_FOUND | NO_MORE, _)) => Some(Cores::ZERO),
        Err(_) => None,
    }
}
