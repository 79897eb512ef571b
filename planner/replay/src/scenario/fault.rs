//! Scheduled faults, and random faults drawn from the seed.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use weir_planner::service::Service;

use super::raw::{RawFault, What};
use super::refused::{ScenarioError, seconds, within};
use super::{Fault, FaultKind, Proxies, ReplicaChoice, ResizeFault, Server};
use crate::input::seed::{Draw, rng};

/// Maximum number of faults of a scenario.
const FAULTS_MAX: usize = 1000;
/// Maximum duration of a fault, in seconds.
const LASTS_MAX_S: f64 = 3600.0;
/// Maximum slowdown of a server or a resize, in percent of its normal time.
const PERCENT_MAX: u32 = 10_000;

/// Parts of the scenario that faults can affect.
pub(super) struct FaultTargets<'a> {
    pub(super) length: Duration,
    pub(super) service: &'a Service,
    pub(super) variants: &'a [Server],
    pub(super) proxies: &'a Proxies,
    pub(super) seed: u64,
}

/// Returns all faults by time; faults at the same time keep the file's order.
pub(super) fn faults(
    raw: &[RawFault],
    targets: &FaultTargets<'_>,
) -> Result<Vec<Fault>, ScenarioError> {
    let mut faults = Vec::new();
    let mut rng = rng(targets.seed, Draw::Faults);
    for (index, raw) in raw.iter().enumerate() {
        let at = format!("faults[{index}]");
        match raw.random {
            Some(count) => {
                let given = GivenKeys::of(raw);
                given.only(&at, "random", &[])?;
                let most = u32::try_from(FAULTS_MAX).unwrap_or(u32::MAX);
                let count = within(format!("{at}.random"), count, 1..=most, "faults")?;
                faults.extend((0..count).map(|_| targets.drawn(&mut rng)));
            }
            None => faults.push(targets.scheduled(&at, raw, &mut rng)?),
        }
        within(
            "faults",
            faults.len(),
            0..=FAULTS_MAX,
            "faults, drawn ones included",
        )?;
    }
    faults.sort_by_key(|fault| fault.at);
    Ok(faults)
}

/// Keys given for a fault.
struct GivenKeys(Vec<&'static str>);

impl GivenKeys {
    fn of(raw: &RawFault) -> GivenKeys {
        let keys = [
            ("at_s", raw.at_s.is_some()),
            ("what", raw.what.is_some()),
            ("variant", raw.variant.is_some()),
            ("replica", raw.replica.is_some()),
            ("proxy", raw.proxy.is_some()),
            ("worker", raw.worker.is_some()),
            ("lasts_s", raw.lasts_s.is_some()),
            ("percent", raw.percent.is_some()),
        ];
        let given = keys.iter().filter(|(_, given)| *given);
        GivenKeys(given.map(|(key, _)| *key).collect())
    }

    /// Refuses a key that does not apply to the fault.
    fn only(&self, at: &str, what: &str, keys: &[&str]) -> Result<(), ScenarioError> {
        let Some(other) = self.0.iter().find(|key| !keys.contains(key)) else {
            return Ok(());
        };
        let takes = if keys.is_empty() {
            "nothing else".to_owned()
        } else {
            keys.join(", ")
        };
        let right = format!("left out: {what} takes {takes}");
        Err(ScenarioError::value(
            format!("{at}.{other}"),
            "given",
            right,
        ))
    }
}

impl FaultTargets<'_> {
    /// Number of proxies of all stages; those of the first stage come first.
    fn proxies(&self) -> u32 {
        self.proxies.count * self.service.stages.len() as u32
    }

    fn scheduled(
        &self,
        at: &str,
        raw: &RawFault,
        rng: &mut ChaCha8Rng,
    ) -> Result<Fault, ScenarioError> {
        let missing = |key: &str| ScenarioError::value(format!("{at}.{key}"), "missing", "given");
        let when = raw.at_s.ok_or_else(|| missing("at_s"))?;
        let length_s = self.length.as_secs_f64();
        let when = seconds(format!("{at}.at_s"), when, 0.0..=length_s)?;
        let what = raw.what.ok_or_else(|| missing("what"))?;
        let lasts = || {
            let lasts = raw.lasts_s.ok_or_else(|| missing("lasts_s"))?;
            seconds(format!("{at}.lasts_s"), lasts, 0.001..=LASTS_MAX_S)
        };
        let proxy = || {
            let proxy = raw.proxy.unwrap_or(0);
            let last = self.proxies() - 1;
            within(
                format!("{at}.proxy"),
                proxy,
                0..=last,
                "(they count from 0)",
            )
        };
        let worker = || {
            let worker = raw.worker.unwrap_or(0);
            let last = self.proxies.workers - 1;
            within(
                format!("{at}.worker"),
                worker,
                0..=last,
                "(they count from 0)",
            )
        };
        let variant = || {
            let name = raw.variant.as_ref().ok_or_else(|| missing("variant"))?;
            let known = self.variants.iter().position(|server| server.name == *name);
            known.ok_or_else(|| {
                let names: Vec<&str> = self.variants.iter().map(|v| v.name.as_str()).collect();
                let right = format!("a variant of the service: {}", names.join(", "));
                ScenarioError::value(format!("{at}.variant"), name, right)
            })
        };
        let percent = || {
            let percent = raw.percent.ok_or_else(|| missing("percent"))?;
            let unit = "% of its time";
            within(format!("{at}.percent"), percent, 100..=PERCENT_MAX, unit)
        };
        let any_variant = || raw.variant.as_ref().map(|_| variant()).transpose();
        let resizes = |fault| -> Result<FaultKind, ScenarioError> {
            Ok(FaultKind::Resize {
                fault,
                variant: any_variant()?,
                lasts: lasts()?,
            })
        };
        let (kind, keys): (_, &[&str]) = match what {
            What::ProxyRestart => (FaultKind::ProxyRestart { proxy: proxy()? }, &["proxy"]),
            What::WorkerTrap => {
                let (proxy, worker) = (proxy()?, worker()?);
                (
                    FaultKind::WorkerTrap { proxy, worker },
                    &["proxy", "worker"],
                )
            }
            What::PlannerOutage => (FaultKind::PlannerOutage { lasts: lasts()? }, &["lasts_s"]),
            What::ScrapeLoss => (FaultKind::ScrapeLoss { lasts: lasts()? }, &["lasts_s"]),
            What::ServerCrash => {
                let (variant, lasts) = (variant()?, lasts()?);
                let kind = match &raw.replica {
                    Some(written) => FaultKind::ReplicaCrash {
                        variant,
                        replica: self.replica(at, written, variant, rng)?,
                        lasts,
                    },
                    None => FaultKind::ServerCrash { variant, lasts },
                };
                (kind, &["variant", "replica", "lasts_s"])
            }
            What::ServerErrors => {
                let (variant, lasts) = (variant()?, lasts()?);
                (
                    FaultKind::ServerErrors { variant, lasts },
                    &["variant", "lasts_s"],
                )
            }
            What::ServerSlow => {
                let (variant, lasts) = (variant()?, lasts()?);
                let percent = percent()?;
                let kind = FaultKind::ServerSlow {
                    variant,
                    percent,
                    lasts,
                };
                (kind, &["variant", "percent", "lasts_s"])
            }
            What::LostNotification => {
                let (proxy, worker) = (proxy()?, worker()?);
                (
                    FaultKind::LostNotification { proxy, worker },
                    &["proxy", "worker"],
                )
            }
            What::LostPlan => (FaultKind::LostPlan { proxy: proxy()? }, &["proxy"]),
            What::ResizeInterrupted => {
                let variant = any_variant()?;
                (FaultKind::ResizeInterrupted { variant }, &["variant"])
            }
            What::ResizeLate => {
                let fault = ResizeFault::Late {
                    percent: percent()?,
                };
                (resizes(fault)?, &["variant", "percent", "lasts_s"])
            }
            What::ResizeRefused => (resizes(ResizeFault::Refused)?, &["variant", "lasts_s"]),
            What::ResizeInfeasible => (resizes(ResizeFault::Infeasible)?, &["variant", "lasts_s"]),
            What::ResizeDeferred => (resizes(ResizeFault::Deferred)?, &["variant", "lasts_s"]),
        };
        let keys: Vec<&str> = ["at_s", "what"].iter().chain(keys).copied().collect();
        GivenKeys::of(raw).only(at, "this fault", &keys)?;
        Ok(Fault {
            at: when,
            what: kind,
        })
    }

    fn replica(
        &self,
        at: &str,
        written: &Value,
        variant: usize,
        rng: &mut ChaCha8Rng,
    ) -> Result<ReplicaChoice, ScenarioError> {
        let path = format!("{at}.replica");
        let known = self.service.variants.get(variant);
        let max = known.map_or(1, |known| known.replicas.max);
        if self
            .variants
            .get(variant)
            .is_none_or(|server| server.replicas.is_none())
        {
            let right = "left out: the variant is one server (service.variants[].replicas)";
            return Err(ScenarioError::value(path, written, right));
        }
        if written.as_str() == Some("random") {
            return Ok(ReplicaChoice::Random(rng.random()));
        }
        let place = written.as_u64().and_then(|place| u32::try_from(place).ok());
        let place = place.filter(|place| *place < max);
        let right = format!(
            "random, or 0 to {} (replicas.max less 1)",
            max.saturating_sub(1)
        );
        let choice = place.map(ReplicaChoice::Place);
        choice.ok_or_else(|| ScenarioError::value(path, written, right))
    }

    /// Random fault, except server errors and those of resizes that are not refused or deferred, at any whole ms; lasts 1 to 10 s if it has a duration.
    fn drawn(&self, rng: &mut ChaCha8Rng) -> Fault {
        let length_ms = u64::try_from(self.length.as_millis()).unwrap_or(u64::MAX);
        let at = Duration::from_millis(rng.random_range(0..=length_ms));
        let lasts = Duration::from_millis(rng.random_range(1000..=10_000));
        let proxy = rng.random_range(0..self.proxies());
        let worker = rng.random_range(0..self.proxies.workers);
        let variant = rng.random_range(0..self.variants.len());
        let percent = rng.random_range(200..=1000);
        let what = match rng.random_range(0..10u8) {
            0 => FaultKind::ProxyRestart { proxy },
            1 => FaultKind::WorkerTrap { proxy, worker },
            2 => FaultKind::PlannerOutage { lasts },
            3 => FaultKind::ScrapeLoss { lasts },
            4 => FaultKind::ServerCrash { variant, lasts },
            5 => FaultKind::ServerSlow {
                variant,
                percent,
                lasts,
            },
            6 => FaultKind::LostNotification { proxy, worker },
            7 => FaultKind::LostPlan { proxy },
            place => FaultKind::Resize {
                fault: match place {
                    8 => ResizeFault::Refused,
                    _ => ResizeFault::Deferred,
                },
                variant: None,
                lasts,
            },
        };
        Fault { at, what }
    }
}
