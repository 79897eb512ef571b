//! Configuration of several services behind one filter. A request belongs to the first that matches it.

use serde::Deserialize;
use serde::de::IgnoredAny;
use weir_api::json;

use super::error::wrong;
use super::planner::RawPlanner;
use super::protocol::shown;
use super::raw::RawConfig;
use super::{Config, ConfigError, SERVICES_MAX};

/// Services and the planner that they share.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawServices {
    planner: Option<RawPlanner>,
    services: Vec<RawConfig>,
}

/// Whether a configuration lists services, instead of being one service's.
pub(super) fn lists_services(json: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Form {
        services: Option<IgnoredAny>,
    }
    json::read::<Form>(json).is_ok_and(|form| form.services.is_some())
}

impl RawServices {
    pub(super) fn check(self) -> Result<Vec<Config>, ConfigError> {
        let count = self.services.len();
        if !(1..=SERVICES_MAX).contains(&count) {
            let right = format!("1 to {SERVICES_MAX}");
            return Err(wrong("services", format!("{count} of them"), right));
        }
        let mut configs: Vec<Config> = Vec::with_capacity(count);
        for (index, raw) in self.services.into_iter().enumerate() {
            let at = |error: ConfigError| error.within(&format!("services[{index}]"));
            let config = raw
                .with_planner(self.planner.as_ref())
                .check()
                .map_err(at)?;
            check_beside(&configs, &config).map_err(at)?;
            configs.push(config);
        }
        Ok(configs)
    }
}

/// Checks that a service is no other than those before it, and gets the requests that they leave.
fn check_beside(before: &[Config], config: &Config) -> Result<(), ConfigError> {
    let same = |other: &Config| (&other.service, other.role) == (&config.service, config.role);
    if let Some(index) = before.iter().position(same) {
        let (service, role) = (&config.service, config.role.label());
        let right = format!("given once with role '{role}': services[{index}] is the same");
        return Err(wrong("service", format!("'{service}'"), right));
    }
    let takes_all = |other: &Config| other.matches.covers(&config.matches);
    if let Some(index) = before.iter().position(takes_all) {
        let right = format!(
            "different from that of services[{index}], or listed before it: services[{index}] takes every \
             such request"
        );
        let value = shown(&config.matches.to_string());
        return Err(wrong("match", value, right));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
