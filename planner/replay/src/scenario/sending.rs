//! Clients, classes and network of a scenario.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use weir_api::plan::{HOUR_MS, NAME_MAX, is_name};
use weir_sim::network::{Network, ROUND_TRIP_MAX};

use super::raw::{RawClass, RawClients, RawNetwork, RawSkew, RawSlow};
use super::refused::{ScenarioError, millis, within};
use crate::input::seed::{Draw, seed};
use crate::input::{BYTES_MAX, Class, Clients, Clocks, Slow, Spread};
use weir_planner::service::Service;

/// Maximum number of classes.
pub(super) const CLASSES_MAX: usize = 16;
/// Maximum number of retries of a client.
pub(super) const RETRIES_MAX: u8 = 10;
/// Maximum clock offset: a day.
const SKEW_MAX_MS: f64 = 86_400_000.0;
/// Class of all requests if the scenario names none.
const CLASS: &str = "default";
/// Length of a synthetic link beyond the last sending time, before it repeats.
const MARGIN_S: u64 = 60;

pub(super) fn clients(raw: &RawClients, service: &Service) -> Result<Clients, ScenarioError> {
    let budget = match raw.slo_ms {
        Some(slo_ms) => budget("clients.slo_ms", slo_ms)?,
        None => service.slo,
    };
    let timeout = raw.timeout_ms.map(|timeout_ms| {
        within("clients.timeout_ms", timeout_ms, 1..=HOUR_MS, "ms").map(Duration::from_millis)
    });
    Ok(Clients {
        budget,
        timeout: timeout.transpose()?,
        retries: within("clients.retries", raw.retries, 0..=RETRIES_MAX, "times")?,
        clocks: clocks(&raw.skew_ms)?,
        slow_uploads: slow("clients.slow_uploads", raw.slow_uploads.as_ref())?,
        slow_readers: slow("clients.slow_readers", raw.slow_readers.as_ref())?,
    })
}

fn slow(path: &str, raw: Option<&RawSlow>) -> Result<Slow, ScenarioError> {
    let Some(raw) = raw else {
        return Ok(Slow::NOBODY);
    };
    let rate = format!("{path}.bytes_per_s");
    Ok(Slow {
        share: within(format!("{path}.share"), raw.share, 0.0..=1.0, "")?,
        bytes_per_s: within(rate, raw.bytes_per_s, 0.1..=1e12, "bytes/s")?,
    })
}

fn budget(path: &str, slo_ms: u64) -> Result<Duration, ScenarioError> {
    within(path, slo_ms, 1..=HOUR_MS, "ms").map(Duration::from_millis)
}

fn clocks(raw: &RawSkew) -> Result<Clocks, ScenarioError> {
    const AT: &str = "clients.skew_ms";
    let off = |key: &str, ms| within(format!("{AT}.{key}"), ms, 0.0..=SKEW_MAX_MS, "ms");
    let spread = match (raw.normal, raw.uniform) {
        (Some(_), Some(_)) => {
            let right = "one of normal and uniform";
            return Err(ScenarioError::value(AT, "normal and uniform", right));
        }
        (Some(sigma), None) => Spread::Normal(off("normal", sigma)?),
        (None, Some(most)) => Spread::Uniform(off("uniform", most)?),
        (None, None) => Spread::Uniform(0.0),
    };
    let (far_off_ms, far_off_share) = match (raw.far_off, raw.far_off_share) {
        (Some(far), Some(share)) => {
            let path = format!("{AT}.far_off_share");
            (off("far_off", far)?, within(path, share, 0.0..=1.0, "")?)
        }
        (None, None) => (0.0, 0.0),
        _ => {
            let right = "both of far_off (ms) and far_off_share, or neither";
            return Err(ScenarioError::value(AT, "one of them", right));
        }
    };
    Ok(Clocks {
        spread,
        far_off_ms,
        far_off_share,
    })
}

pub(super) fn classes(raw: &[RawClass]) -> Result<Vec<Class>, ScenarioError> {
    within("classes", raw.len(), 0..=CLASSES_MAX, "of them")?;
    if raw.is_empty() {
        return Ok(vec![Class {
            name: CLASS.to_owned(),
            share: 1.0,
            budget: None,
            min_accuracy: 0.0,
        }]);
    }
    let mut names = BTreeSet::new();
    let mut classes = Vec::with_capacity(raw.len());
    for (index, raw) in raw.iter().enumerate() {
        let at = |key: &str| format!("classes[{index}].{key}");
        if !is_name(&raw.name) {
            let right = format!("1 to {NAME_MAX} of a-z, 0-9 and single dashes inside");
            return Err(ScenarioError::value(at("name"), &raw.name, right));
        }
        if !names.insert(&raw.name) {
            let right = "another name: this one stands twice";
            return Err(ScenarioError::value(at("name"), &raw.name, right));
        }
        let slo = raw.slo_ms.map(|slo_ms| budget(&at("slo_ms"), slo_ms));
        classes.push(Class {
            name: raw.name.clone(),
            share: within(at("share"), raw.share, 0.0..=1e6, "")?,
            budget: slo.transpose()?,
            min_accuracy: within(at("min_accuracy"), raw.min_accuracy, 0.0..=100.0, "percent")?,
        });
    }
    if classes.iter().map(|class| class.share).sum::<f64>() <= 0.0 {
        let right = "above 0 for one class at least";
        return Err(ScenarioError::value("classes", "every share 0", right));
    }
    Ok(classes)
}

/// Checks the size of a payload.
pub(super) fn bytes(path: &str, bytes: u64) -> Result<u64, ScenarioError> {
    within(path, bytes, 0..=BYTES_MAX, "bytes")
}

/// Creates the link for a run of that many seconds.
pub(super) fn network(
    raw: &RawNetwork,
    folder: &Path,
    length_s: u64,
    scenario_seed: u64,
) -> Result<Network, ScenarioError> {
    match raw {
        RawNetwork::None => Ok(Network::none()),
        RawNetwork::FourG => {
            let seconds = (length_s + MARGIN_S) as usize;
            Network::synthetic_4g(seed(scenario_seed, Draw::Link), seconds)
                .map_err(|error| ScenarioError::about("network", format!("{error:#}")))
        }
        RawNetwork::Constant(link) => {
            let path = "network.constant.bytes_per_s";
            let bytes_per_s = within(path, link.bytes_per_s, 1.0..=1e12, "bytes/s")?;
            let path = "network.constant.round_trip_ms";
            let most = ROUND_TRIP_MAX.as_secs_f64() * 1e3;
            let round_trip = millis(path, link.round_trip_ms, most)?;
            Ok(Network::constant(bytes_per_s, round_trip))
        }
        RawNetwork::File(log) => {
            let path = "network.file.path";
            let network = Network::from_file(&folder.join(&log.path))
                .map_err(|error| ScenarioError::about(path, format!("{error:#}")))?;
            let measured = network.length().as_secs_f64();
            if measured < length_s as f64 && !log.again {
                let complaint = format!(
                    "{} measures {measured} s, the load lasts {length_s} s: \
                     shorten length_s, or say `loop: true` in network.file",
                    log.path
                );
                return Err(ScenarioError::about(path, complaint));
            }
            Ok(network)
        }
    }
}
