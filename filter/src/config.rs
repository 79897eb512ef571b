//! Plugin configuration → checked [`Config`]. Unknown or missing keys and values out of range are
//! refused with the key's path; what gets through is true from then on.

use std::time::Duration;

use serde::Deserialize;
use weir_api::plan::{FORMAT, HOUR_MS, PlanError, is_cluster, is_name};
use weir_api::{Plan, Revision, Share, VariantPlan};

use crate::deadline;

/// Most requests one worker may be told to hold.
pub const HELD_MAX: u32 = 100_000;
/// Longest shared key.
pub const KEY_MAX: usize = 256;

/// How many requests a worker holds where the configuration says nothing: at Envoy's own 27 KB for
/// a held HTTP/1.1 request about 110 MB.
const HELD_DEFAULT: u32 = 4096;

/// What the filter was told, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The service whose plans it obeys.
    pub service: String,
    /// What clients may say of their deadlines.
    pub deadline: deadline::Policy,
    /// Most requests a worker holds.
    pub held_max: usize,
    /// Where plans come from.
    pub planner: Option<Planner>,
    /// The plan to go by until a planner has spoken.
    pub static_plan: Option<Plan>,
    /// What holds when the last plan is too old, or there is none.
    pub on_stale: OnStale,
}

/// Where plans come from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planner {
    /// The Envoy cluster of the planner.
    pub cluster: String,
    /// The `:authority` of the poll.
    #[serde(default = "authority")]
    pub authority: String,
    /// The shared key.
    pub key: String,
}

/// What holds when the last plan is older than it says it may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnStale {
    /// Go on by the last plan; by Envoy's own routes where there never was one.
    #[default]
    Keep,
    /// Go by the static plan.
    Static,
    /// Refuse every request with `no-plan`.
    Refuse,
}

/// Why a plugin configuration is none.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum ConfigError {
    #[error("plugin configuration: {path}: {what}")]
    Shape { path: String, what: String },
    #[error("plugin configuration: {path}: {value} must be {right}")]
    Value {
        path: &'static str,
        value: String,
        right: String,
    },
    #[error("plugin configuration: plan: {0}")]
    Plan(#[from] PlanError),
    #[error(
        "plugin configuration: it needs a `planner` (cluster, key), a static `plan` (variants), or both"
    )]
    NoPlan,
    #[error("plugin configuration: on_stale: 'static' needs a static `plan`")]
    NothingStatic,
}

impl Config {
    /// Reads the plugin configuration, which Envoy hands over as JSON.
    ///
    /// # Errors
    /// The first thing wrong, with its path and what would be right.
    pub fn parse(json: &[u8]) -> Result<Config, ConfigError> {
        let mut reader = serde_json::Deserializer::from_slice(json);
        let raw: RawConfig = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let path = error.path().to_string();
            let path = if path == "." {
                "(top level)".to_owned()
            } else {
                path
            };
            ConfigError::Shape {
                path,
                what: error.into_inner().to_string(),
            }
        })?;
        raw.check()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConfig {
    service: String,
    #[serde(default)]
    deadline: RawDeadline,
    #[serde(default)]
    queue: RawQueue,
    planner: Option<Planner>,
    plan: Option<RawPlan>,
    #[serde(default)]
    on_stale: OnStale,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawDeadline {
    default_ms: u64,
    least_ms: u64,
    greatest_ms: u64,
    greatest_age_ms: u64,
    skew_allowance_ms: u64,
    reserve_ms: u64,
    trust_deadline: bool,
}

impl Default for RawDeadline {
    fn default() -> RawDeadline {
        RawDeadline {
            default_ms: 1000,
            least_ms: 10,
            greatest_ms: 60_000,
            // Longer than any sane upload, shorter than the minutes that phone clocks are off by.
            greatest_age_ms: 30_000,
            // What NTP keeps honest machines within, with room.
            skew_allowance_ms: 50,
            reserve_ms: 0,
            trust_deadline: false,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawQueue {
    held_max: u32,
}

impl Default for RawQueue {
    fn default() -> RawQueue {
        RawQueue {
            held_max: HELD_DEFAULT,
        }
    }
}

/// A plan as a person writes it: variants only, or a whole one copied from the planner's answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlan {
    variants: Vec<RawVariant>,
    #[serde(default)]
    format: Option<u32>,
    #[serde(default)]
    service: Option<String>,
    #[serde(default, rename = "revision")]
    _revision: Option<u64>,
    #[serde(default, rename = "published_ms")]
    _published_ms: Option<u64>,
    #[serde(default, rename = "max_age_ms")]
    _max_age_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawVariant {
    name: String,
    cluster: String,
    share: f64,
    slots: u32,
    #[serde(default)]
    batch: Option<u32>,
    #[serde(default)]
    service_ms: f64,
    #[serde(default)]
    accuracy: f64,
}

fn authority() -> String {
    "weir-planner".to_owned()
}

fn wrong(path: &'static str, value: impl ToString, right: impl Into<String>) -> ConfigError {
    ConfigError::Value {
        path,
        value: value.to_string(),
        right: right.into(),
    }
}

impl RawConfig {
    fn check(self) -> Result<Config, ConfigError> {
        if !is_name(&self.service) {
            let right = "1 to 63 of a-z, 0-9 and single dashes inside";
            return Err(wrong("service", format!("'{}'", self.service), right));
        }
        if !(1..=HELD_MAX).contains(&self.queue.held_max) {
            return Err(wrong(
                "queue.held_max",
                self.queue.held_max,
                format!("1 to {HELD_MAX}"),
            ));
        }
        if let Some(planner) = &self.planner {
            planner.check()?;
        }
        let static_plan = self
            .plan
            .map(|plan| plan.check(&self.service))
            .transpose()?;
        if static_plan.is_none() && self.on_stale == OnStale::Static {
            return Err(ConfigError::NothingStatic);
        }
        if static_plan.is_none() && self.planner.is_none() {
            return Err(ConfigError::NoPlan);
        }
        Ok(Config {
            service: self.service,
            deadline: self.deadline.check()?,
            held_max: self.queue.held_max as usize,
            planner: self.planner,
            static_plan,
            on_stale: self.on_stale,
        })
    }
}

impl RawDeadline {
    fn check(&self) -> Result<deadline::Policy, ConfigError> {
        let hour = format!("1 to {HOUR_MS}");
        for (path, value) in [
            ("deadline.default_ms", self.default_ms),
            ("deadline.least_ms", self.least_ms),
            ("deadline.greatest_ms", self.greatest_ms),
        ] {
            if !(1..=HOUR_MS).contains(&value) {
                return Err(wrong(path, value, hour.clone()));
            }
        }
        if self.least_ms > self.greatest_ms {
            let right = format!("at most deadline.greatest_ms ({})", self.greatest_ms);
            return Err(wrong("deadline.least_ms", self.least_ms, right));
        }
        if !(self.least_ms..=self.greatest_ms).contains(&self.default_ms) {
            let right = format!(
                "least_ms to greatest_ms ({} to {})",
                self.least_ms, self.greatest_ms
            );
            return Err(wrong("deadline.default_ms", self.default_ms, right));
        }
        for (path, value) in [
            ("deadline.greatest_age_ms", self.greatest_age_ms),
            ("deadline.skew_allowance_ms", self.skew_allowance_ms),
        ] {
            if value > HOUR_MS {
                return Err(wrong(path, value, format!("0 to {HOUR_MS}")));
            }
        }
        if self.reserve_ms >= self.greatest_ms {
            let right = format!("less than deadline.greatest_ms ({})", self.greatest_ms);
            return Err(wrong("deadline.reserve_ms", self.reserve_ms, right));
        }
        let ms = Duration::from_millis;
        Ok(deadline::Policy {
            default: ms(self.default_ms),
            least: ms(self.least_ms),
            greatest: ms(self.greatest_ms),
            greatest_age: ms(self.greatest_age_ms),
            skew_allowance: ms(self.skew_allowance_ms),
            reserve: ms(self.reserve_ms),
            trust_deadline: self.trust_deadline,
        })
    }
}

impl Planner {
    fn check(&self) -> Result<(), ConfigError> {
        for (path, value) in [
            ("planner.cluster", &self.cluster),
            ("planner.authority", &self.authority),
        ] {
            if !is_cluster(value) {
                let right = "1 to 256 printable ASCII characters without spaces";
                return Err(wrong(path, format!("'{value}'"), right));
            }
        }
        let printable = self.key.bytes().all(|b| b.is_ascii_graphic());
        if !printable || !(1..=KEY_MAX).contains(&self.key.len()) {
            let right = format!("1 to {KEY_MAX} printable ASCII characters without spaces");
            return Err(wrong("planner.key", "(not shown)", right));
        }
        Ok(())
    }
}

impl RawPlan {
    fn check(self, service: &str) -> Result<Plan, ConfigError> {
        if let Some(other) = self.service.filter(|other| other != service) {
            let right = format!("'{service}', as `service` says, or left out");
            return Err(wrong("plan.service", format!("'{other}'"), right));
        }
        let plan = Plan {
            format: self.format.unwrap_or(FORMAT),
            service: service.to_owned(),
            // The least revision: any plan of a planner is newer.
            revision: Revision(1),
            published_ms: 0,
            max_age_ms: HOUR_MS,
            variants: self
                .variants
                .into_iter()
                .map(RawVariant::into_plan)
                .collect(),
        };
        plan.check()?;
        Ok(plan)
    }
}

impl RawVariant {
    fn into_plan(self) -> VariantPlan {
        VariantPlan {
            name: self.name,
            cluster: self.cluster,
            share: Share(self.share),
            slots: self.slots,
            batch: self.batch.unwrap_or(1),
            service_ms: self.service_ms,
            accuracy: self.accuracy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#""plan":{"variants":[{"name":"a","cluster":"a","share":1,"slots":2}]}"#;

    #[track_caller]
    fn refused(json: &str, message: &str) {
        let error = Config::parse(json.as_bytes())
            .expect_err(message)
            .to_string();
        assert!(error.contains(message), "'{error}' lacks '{message}'");
    }

    #[test]
    fn the_shortest_configurations() {
        let config = Config::parse(format!(r#"{{"service":"demo",{PLAN}}}"#).as_bytes()).unwrap();
        assert_eq!(config.deadline.default, Duration::from_secs(1));
        assert_eq!(config.static_plan.unwrap().revision, Revision(1));
        let json = r#"{"service":"demo","planner":{"cluster":"planner","key":"k"}}"#;
        let planner = Config::parse(json.as_bytes()).unwrap().planner.unwrap();
        assert_eq!(planner.authority, "weir-planner");
    }

    #[test]
    fn a_plan_copied_from_the_planner_is_taken_as_the_static_one() {
        let json = r#"{"service":"demo","plan":{"format":1,"service":"demo","revision":1790000000000,
            "published_ms":1790000000000,"max_age_ms":60000,
            "variants":[{"name":"a","cluster":"a","share":1.0,"slots":2,"batch":1,"service_ms":3.5,"accuracy":70}]}}"#;
        let plan = Config::parse(json.as_bytes()).unwrap().static_plan.unwrap();
        assert_eq!(plan.revision, Revision(1), "any plan of a planner is newer");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_path() {
        refused("", "(top level): EOF");
        refused("{}", "missing field `service`");
        refused(r#"{"service":"demo"}"#, "needs a `planner`");
        refused(
            r#"{"service":"Demo","planner":{"cluster":"p","key":"k"}}"#,
            "service: 'Demo' must be",
        );
        refused(
            &format!(r#"{{"service":"demo",{PLAN},"slo":5}}"#),
            "unknown field `slo`, expected one of",
        );
        refused(
            &format!(r#"{{"service":"demo",{PLAN},"deadline":{{"least":5}}}}"#),
            "deadline.least: unknown field `least`",
        );
        refused(
            &format!(r#"{{"service":"demo",{PLAN},"deadline":{{"least_ms":"5"}}}}"#),
            "deadline.least_ms: invalid type",
        );
        refused(
            &format!(r#"{{"service":"demo",{PLAN},"deadline":{{"least_ms":0}}}}"#),
            "deadline.least_ms: 0 must be 1 to",
        );
        refused(
            &format!(
                r#"{{"service":"demo",{PLAN},"deadline":{{"least_ms":5000,"greatest_ms":10}}}}"#
            ),
            "deadline.least_ms: 5000 must be at most",
        );
        refused(
            &format!(r#"{{"service":"demo",{PLAN},"deadline":{{"default_ms":5}}}}"#),
            "deadline.default_ms: 5 must be least_ms to",
        );
        refused(
            &format!(r#"{{"service":"demo",{PLAN},"deadline":{{"reserve_ms":60000}}}}"#),
            "deadline.reserve_ms: 60000 must be less",
        );
        refused(
            &format!(r#"{{"service":"demo",{PLAN},"queue":{{"held_max":0}}}}"#),
            "queue.held_max: 0 must be 1 to",
        );
        refused(
            &format!(r#"{{"service":"demo",{PLAN},"on_stale":"panic"}}"#),
            "on_stale: unknown variant `panic`",
        );
        refused(
            r#"{"service":"demo","on_stale":"static","planner":{"cluster":"p","key":"k"}}"#,
            "'static' needs",
        );
        refused(
            r#"{"service":"demo","planner":{"cluster":"p"}}"#,
            "planner: missing field `key`",
        );
        refused(
            r#"{"service":"demo","planner":{"cluster":"p","key":""}}"#,
            "planner.key: (not shown) must be",
        );
        refused(
            r#"{"service":"demo","plan":{"variants":[{"name":"a","cluster":"a","share":1}]}}"#,
            "plan.variants[0]: missing field `slots`",
        );
        refused(
            r#"{"service":"demo","plan":{"variants":[{"name":"a","cluster":"a","share":0,"slots":1}]}}"#,
            "plan: variants[].share: they sum to 0",
        );
        refused(
            r#"{"service":"demo","plan":{"service":"other","variants":[]}}"#,
            "plan.service: 'other' must be 'demo'",
        );
    }
}
