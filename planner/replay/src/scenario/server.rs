//! Servers as they really are: the planner's profile with the scenario's overrides.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::Value;
use weir_api::Cores;
use weir_api::plan::{BATCH_MAX, SLOTS_MAX};
use weir_sim::network::ROUND_TRIP_MAX;
use weir_sim::server::{Latency, NOISE_SIGMA_MAX, Parallelism};

use super::raw::RawServer;
use super::refused::{ScenarioError, millis, seconds, within};
use super::{Contender, Control, Server, throughput};
use weir_planner::service::{Replicas, Service, Variant};

/// The 99 % quantile of the standard normal distribution.
const Z_99: f64 = 2.326;
/// Maximum readiness time, resize delay and batch window of a server, in seconds.
const DELAY_MAX_S: f64 = 3600.0;

/// Returns one server for each variant, in the service's order.
pub(super) fn servers(
    service: &Service,
    raw: &BTreeMap<String, RawServer>,
) -> Result<Vec<Server>, ScenarioError> {
    let names: Vec<&str> = service.variants.iter().map(|v| v.name.as_str()).collect();
    if let Some(unknown) = raw.keys().find(|name| !names.contains(&name.as_str())) {
        let right = format!("a variant of the service: {}", names.join(", "));
        return Err(ScenarioError::value(
            format!("servers.{unknown}"),
            unknown,
            right,
        ));
    }
    let as_profiled = RawServer::default();
    let server =
        |variant: &Variant| server(variant, raw.get(&variant.name).unwrap_or(&as_profiled));
    service.variants.iter().map(server).collect()
}

impl Server {
    /// One-way latency between the proxy and the server.
    #[must_use]
    pub fn hop(&self) -> Duration {
        self.round_trip / 2
    }

    /// Number of servers at the start.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.replicas.unwrap_or(1)
    }

    /// Throughput of full batches on the initial cores of all replicas, requests/s.
    #[must_use]
    pub fn capacity_rps(&self) -> f64 {
        f64::from(self.count()) * self.capacity_of_one_rps()
    }

    fn capacity_of_one_rps(&self) -> f64 {
        let at_once = f64::from(self.parallelism.at_once(self.cores));
        let each = self.parallelism.cores_each(self.cores);
        let ms = self.latency.ms(self.batch_max, each);
        if at_once > 0.0 && ms > 0.0 {
            at_once * f64::from(self.batch_max) * 1000.0 / ms
        } else {
            0.0
        }
    }
}

fn server(variant: &Variant, raw: &RawServer) -> Result<Server, ScenarioError> {
    let at = |key: &str| format!("servers.{}.{key}", variant.name);
    let delay = |key: &str, ms: f64| millis(at(key), ms, DELAY_MAX_S * 1e3);
    let profile = &variant.profile;
    let parallelism = match &raw.parallelism {
        Some(written) => parallelism(&at("parallelism"), written)?,
        None if variant.has_profile() => profile.parallelism,
        None => Parallelism::Fixed(NonZeroU32::MIN),
    };
    let batch_max = raw.batch_max.unwrap_or(variant.batch_max);
    let batch_max = within(at("batch_max"), batch_max, 1..=BATCH_MAX, "requests")?;
    let latency = latency(variant, raw, parallelism, batch_max)?;
    let sigma = match raw.noise_sigma {
        Some(sigma) => sigma,
        None => sigma_of(profile.latency.tail).ok_or_else(|| {
            let complaint = format!(
                "missing; no log-normal noise up to {NOISE_SIGMA_MAX} has the profile's tail of {}, so say it here",
                profile.latency.tail
            );
            ScenarioError::about(at("noise_sigma"), complaint)
        })?,
    };
    let readiness_s = raw.readiness_s.unwrap_or(variant.readiness.as_secs_f64());
    Ok(Server {
        name: variant.name.clone(),
        latency,
        parallelism,
        batch_max,
        batch_delay: match raw.batch_delay_ms {
            Some(ms) => delay("batch_delay_ms", ms)?,
            None => variant.batch_delay,
        },
        batch_window: raw.batch_window,
        noise_sigma: within(at("noise_sigma"), sigma, 0.0..=NOISE_SIGMA_MAX, "")?,
        readiness: seconds(at("readiness_s"), readiness_s, 0.0..=DELAY_MAX_S)?,
        resize_delay: delay("resize_delay_ms", raw.resize_delay_ms.unwrap_or(0.0))?,
        round_trip: millis(
            at("round_trip_ms"),
            raw.round_trip_ms.unwrap_or(0.0),
            ROUND_TRIP_MAX.as_secs_f64() * 1e3,
        )?,
        cores: variant.initial.each().as_f64(),
        replicas: (variant.replicas != Replicas::ONE).then(|| variant.initial.replicas()),
    })
}

/// Returns the latency model as given, measured, or profiled; it is defined for all batches of the server.
fn latency(
    variant: &Variant,
    raw: &RawServer,
    parallelism: Parallelism,
    batch_max: u32,
) -> Result<Latency, ScenarioError> {
    let at = |key: &str| format!("servers.{}.{key}", variant.name);
    let latency = match (&raw.latency, &raw.throughput) {
        (Some(_), Some(_)) => {
            let right = "left out, or latency: each determines the other";
            return Err(ScenarioError::value(at("throughput"), "given", right));
        }
        (Some(latency), None) => latency.0.clone(),
        (None, Some(rates)) => {
            let initial = variant.initial.each().as_f64();
            let table = throughput::table(&at("throughput"), rates, parallelism, initial)?;
            Latency::Table(table)
        }
        (None, None) if variant.has_profile() => variant.profile.latency.model.into(),
        (None, None) => {
            let name = &variant.name;
            let right = format!(
                "given, because variant {name} has no profile; or `weir profile FILE {name}=URL` writes one for \
                 `profile: {{file: {name}.profile.yaml}}`"
            );
            return Err(ScenarioError::value(at("latency"), "missing", right));
        }
    };
    latency
        .check(&at("latency"))
        .map_err(|refused| ScenarioError::value(&refused.field, &refused.value, &refused.right))?;
    match &latency {
        Latency::Table(table) if batch_max > table.batch_max() => {
            let from = match raw.batch_max {
                Some(_) => "",
                None => " (the profile's batch)",
            };
            let value = format!("{batch_max}{from}");
            let right = format!("1 to {}: no larger batch is measured", table.batch_max());
            Err(ScenarioError::value(at("batch_max"), value, right))
        }
        // Its item_ms may be negative.
        Latency::Quadratic(_) => {
            let mut batches = 1..=batch_max;
            match batches.find(|batch| latency.ms(*batch, 1.0) <= 0.0) {
                Some(batch) => {
                    let value = format!("{} ms for a batch of {batch}", latency.ms(batch, 1.0));
                    let right = "more than 0 ms for every batch up to batch_max";
                    Err(ScenarioError::value(at("latency"), value, right))
                }
                None => Ok(latency),
            }
        }
        _ => Ok(latency),
    }
}

/// Refuses measurements on more cores than a contender may give: with fewer cores than measured the latency is
/// unknown, and an invented one would decide the replay.
pub(super) fn check_cores(
    service: &Service,
    raw: &BTreeMap<String, RawServer>,
    servers: &[Server],
    contenders: &[Contender],
) -> Result<(), ScenarioError> {
    for (index, server) in servers.iter().enumerate() {
        let Latency::Table(table) = &server.latency else {
            continue;
        };
        let known = |each: f64| table.ms(server.batch_max, each).is_finite();
        let Some((cores, why)) = fewest_cores(service, index, contenders) else {
            continue;
        };
        let cores = cores.as_f64();
        let each = server.parallelism.cores_each(cores);
        if known(each) {
            continue;
        }
        let measured = table.cores().iter().find(|each| known(**each));
        let measured = measured.copied().unwrap_or(f64::INFINITY);
        let of_server = raw
            .get(&server.name)
            .is_some_and(|raw| raw.throughput.is_some());
        let (key, measured, cores, whose) = match server.parallelism {
            Parallelism::Fixed(n) if of_server => {
                ("throughput", measured * f64::from(n.get()), cores, "")
            }
            _ if of_server => ("throughput", measured, each, " of each execution"),
            _ => ("latency", measured, each, " of each execution"),
        };
        return Err(ScenarioError::value(
            format!("servers.{}.{key}", server.name),
            format!(
                "measured on {measured} cores{whose} or more for batches of {}",
                server.batch_max
            ),
            format!("measured on {cores} too: {why}"),
        ));
    }
    Ok(())
}

/// Refuses control planes that plan by profiles for variants that have none.
pub(super) fn check_profiles(
    service: &Service,
    contenders: &[Contender],
) -> Result<(), ScenarioError> {
    let mut each = service.variants.iter();
    let Some(without) = each.find(|variant| !variant.has_profile()) else {
        return Ok(());
    };
    let plans = |contender: &&Contender| {
        !matches!(
            contender.control,
            Control::Planner | Control::Static | Control::StaticAt { .. }
        )
    };
    match contenders.iter().find(plans) {
        None => Ok(()),
        Some(contender) => {
            let right = format!(
                "one with control planner or static: variant {} has no profile to plan by",
                without.name
            );
            let label = contender.label(service);
            Err(ScenarioError::value("contenders", label, right))
        }
    }
}

/// Fewest cores above 0 that a contender may give a variant, with the reason; `None` if it never has any.
fn fewest_cores(
    service: &Service,
    index: usize,
    contenders: &[Contender],
) -> Option<(Cores, String)> {
    let variant = service.variants.get(index)?;
    let given = contenders.iter().filter_map(|contender| {
        let min = match contender.control {
            Control::Static => return None,
            Control::StaticAt { variant, .. } if variant != index => return None,
            Control::StaticAt { cores, .. } => cores.count(service.step),
            one => match one.variant() {
                Some(only) if only != index => return None,
                _ => variant.min,
            },
        };
        let why = format!(
            "{} may give that (service.variants[{index}].cores.min: {})",
            contender.label(service),
            variant.cores(variant.min)
        );
        Some((variant.cores(min.max(1)), why))
    });
    let initial = variant.initial.each();
    let initial =
        (initial > Cores::ZERO).then(|| (initial, "the server starts with that".to_owned()));
    initial
        .into_iter()
        .chain(given)
        .min_by_key(|(cores, _)| *cores)
}

/// σ of the log-normal factor of mean 1 whose 99th percentile is `tail`: the smaller solution of
/// exp(z·σ − σ²/2) = tail.
fn sigma_of(tail: f64) -> Option<f64> {
    let root = Z_99 * Z_99 - 2.0 * libm::log(tail);
    let sigma = Z_99 - root.max(0.0).sqrt();
    (root >= 0.0 && sigma <= NOISE_SIGMA_MAX).then_some(sigma.max(0.0))
}

fn parallelism(path: &str, written: &Value) -> Result<Parallelism, ScenarioError> {
    if written.as_str() == Some("per-core") {
        return Ok(Parallelism::PerCore);
    }
    let batches = written.as_u64().and_then(|n| u32::try_from(n).ok());
    let fixed = batches
        .filter(|batches| *batches <= SLOTS_MAX)
        .and_then(NonZeroU32::new);
    let right = format!("per-core, or 1 to {SLOTS_MAX} batches at once");
    fixed
        .map(Parallelism::Fixed)
        .ok_or_else(|| ScenarioError::value(path, written, right))
}

#[cfg(test)]
mod tests {
    use super::sigma_of;

    #[test]
    fn noise_has_the_profiles_tail() {
        for (tail, sigma) in [(1.0, 0.0), (1.2556, 0.1), (6.2, 0.9995), (7.2, 1.1164)] {
            assert!((sigma_of(tail).unwrap() - sigma).abs() < 1e-3, "{tail}");
        }
        assert!(sigma_of(14.1).is_some());
        assert_eq!(sigma_of(14.3), None);
        assert_eq!(sigma_of(100.0), None);
    }
}
