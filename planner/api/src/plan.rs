//! The plan that the planner publishes and every filter follows.
//!
//! [`Plan::check`] is called on both sides: by the planner before it publishes a plan, by the filter
//! before it adopts one. Unknown fields are ignored, so that an older filter works with a newer planner.
//! A change of meaning increments [`FORMAT`].

use serde::{Deserialize, Serialize};

use crate::group::{GROUPS_MAX, GroupTime};
use crate::units::{Revision, Share};

mod groups;

/// Version of the meaning of the fields below; a filter refuses any other.
pub const FORMAT: u32 = 1;
/// Maximum number of variants in one plan.
pub const VARIANTS_MAX: usize = 64;
/// Maximum number of slots of one variant.
pub const SLOTS_MAX: u32 = 100_000;
/// Maximum batch size of one variant.
pub const BATCH_MAX: u32 = 1024;
/// Maximum length of the name of a service or variant.
pub const NAME_MAX: usize = 63;
/// Maximum length of the name of an Envoy cluster.
pub const CLUSTER_MAX: usize = 256;
/// Maximum length of a model's name in a request's path.
pub const MODEL_MAX: usize = 128;
/// Maximum length of a variant's path.
pub const PATH_MAX: usize = 256;
/// Maximum predicted service time, downstream time and age limit: one hour, in ms.
pub const HOUR_MS: u64 = 3_600_000;
/// Maximum deviation of the sum of the shares from 1.
const SHARE_TOLERANCE: f64 = 1e-3;
/// Maximum size of a plan on the wire, in bytes: [`VARIANTS_MAX`] variants, and space for future fields.
pub const BYTES_MAX: usize = 128 * 1024;
/// Maximum number of groups in one plan, over all its variants.
pub const PLAN_GROUPS_MAX: usize = 256;

/// Traffic plan of one service: its variants with their shares of the traffic and their slots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// [`FORMAT`].
    pub format: u32,
    /// Name of the service.
    pub service: String,
    /// Revision of the plan; later plans have greater ones.
    pub revision: Revision,
    /// Time of publication, as Unix time in ms.
    #[serde(default)]
    pub published_ms: u64,
    /// Time for which the filter may use the plan without receiving a newer one, in ms.
    pub max_age_ms: u64,
    /// Predicted downstream time, in ms (a high percentile): the later stages of a pipeline need it, so a
    /// request must be done here that long before its deadline. 0 without later stages.
    #[serde(default)]
    pub downstream_ms: f64,
    /// 1 to [`VARIANTS_MAX`] variants.
    pub variants: Vec<VariantPlan>,
}

/// One variant's part of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VariantPlan {
    /// Public name: lower-case letters, digits and single dashes.
    pub name: String,
    /// Envoy cluster of its servers.
    pub cluster: String,
    /// Envoy cluster of the gRPC port of the same servers, for gRPC requests; without one they go to `cluster`
    /// too. Both share the slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc_cluster: Option<String>,
    /// Name that its servers give the model. In a request's path, or in its gRPC messages, it replaces the name that the
    /// client gave; without one that stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Path at which its servers take requests, other than those of gRPC. It replaces the path of a request, but for the
    /// query; without one that stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Quota: the fraction of the traffic it should get, 0 to 1.
    pub share: Share,
    /// Requests it may execute at the same time, summed over all proxies.
    pub slots: u32,
    /// Requests its server executes together, 1 or more.
    #[serde(default = "one")]
    pub batch: u32,
    /// Servers behind the cluster, 1 or more. With several the proxy chooses one when it sends a request, and sends none
    /// ahead of time. 1 also where servers make batches, which fill better with requests sent ahead.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub replicas: u32,
    /// Predicted time from dispatch to response, in ms (a high percentile); 0 where unknown.
    #[serde(default)]
    pub service_ms: f64,
    /// Shortest possible service time, on the most cores allowed, in ms; 0 where unknown. A request
    /// with less time left does not count as demand for more cores.
    #[serde(default)]
    pub service_min_ms: f64,
    /// Accuracy in percent, 0 to 100.
    #[serde(default)]
    pub accuracy: f64,
    /// Whether its server stops executing requests abandoned by a client or a timeout, so that the slot
    /// is free at once.
    #[serde(default)]
    pub cancels: bool,
    /// Service times by class or by size, where the executions at all proxies tell these apart. A filter that has not
    /// measured enough itself predicts by them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupTime>,
}

const fn one() -> u32 {
    1
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_one(count: &u32) -> bool {
    *count == 1
}

/// Rule broken by an invalid plan; the message names the field and the value.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum PlanError {
    #[error("format: {0} is unknown here; this build reads format {FORMAT}")]
    Format(u32),
    #[error(
        "{field}: '{value}' is not a name: 1 to {NAME_MAX} of a-z, 0-9 and single dashes inside"
    )]
    Name { field: String, value: String },
    #[error("revision: {0} must be 1 to {max}", max = Revision::MAX)]
    Revision(Revision),
    #[error("max_age_ms: {0} must be 1 to {HOUR_MS}")]
    MaxAge(u64),
    #[error("downstream_ms: {0} must be 0 to {HOUR_MS}")]
    Downstream(f64),
    #[error("variants: {0} of them; there must be 1 to {VARIANTS_MAX}")]
    Variants(usize),
    #[error("variants[{0}].name: '{1}' stands twice")]
    Twice(usize, String),
    #[error(
        "variants[{index}].{field}: '{value}' must be 1 to {CLUSTER_MAX} printable ASCII characters without spaces"
    )]
    Cluster {
        index: usize,
        field: &'static str,
        value: String,
    },
    #[error("variants[{index}].model: '{value}' must be {MODEL_RIGHT}")]
    Model { index: usize, value: String },
    #[error("variants[{index}].path: '{value}' must be {PATH_RIGHT}")]
    Path { index: usize, value: String },
    #[error("variants[{index}].{field}: {value} must be {right}")]
    Value {
        index: usize,
        field: &'static str,
        value: f64,
        right: &'static str,
    },
    #[error("variants[{index}].groups: {count} of them; at most {GROUPS_MAX}")]
    Groups { index: usize, count: usize },
    #[error("variants[].groups: {0} of them; at most {PLAN_GROUPS_MAX} in a plan")]
    PlanGroups(usize),
    #[error("variants[{index}].groups[{at}].{field}: {value} must be {right}")]
    Group {
        index: usize,
        at: usize,
        field: &'static str,
        value: String,
        right: &'static str,
    },
    #[error("variants[{0}].slots: a variant with a share needs at least one slot")]
    ShareWithoutSlots(usize),
    #[error(
        "variants[].share: they sum to {0}; they must sum to 1, or to 0 where no variant has a slot"
    )]
    Shares(f64),
}

impl Plan {
    /// Checks that the plan may be published and used.
    ///
    /// # Errors
    /// The first broken rule, with the field's path and value.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.format != FORMAT {
            return Err(PlanError::Format(self.format));
        }
        check_name("service", &self.service)?;
        if self.revision == Revision(0) || self.revision > Revision::MAX {
            return Err(PlanError::Revision(self.revision));
        }
        if !(1..=HOUR_MS).contains(&self.max_age_ms) {
            return Err(PlanError::MaxAge(self.max_age_ms));
        }
        if !(0.0..=HOUR_MS as f64).contains(&self.downstream_ms) {
            return Err(PlanError::Downstream(self.downstream_ms));
        }
        if !(1..=VARIANTS_MAX).contains(&self.variants.len()) {
            return Err(PlanError::Variants(self.variants.len()));
        }
        for (index, variant) in self.variants.iter().enumerate() {
            variant.check(index)?;
            let earlier = self.variants.iter().take(index);
            if earlier.into_iter().any(|other| other.name == variant.name) {
                return Err(PlanError::Twice(index, variant.name.clone()));
            }
        }
        let groups = self
            .variants
            .iter()
            .map(|variant| variant.groups.len())
            .sum();
        if groups > PLAN_GROUPS_MAX {
            return Err(PlanError::PlanGroups(groups));
        }
        let sum: f64 = self.variants.iter().map(|variant| variant.share.0).sum();
        // Without any slot there is no capacity to have a share of.
        let idle = sum == 0.0 && self.variants.iter().all(|variant| variant.slots == 0);
        if !idle && (sum - 1.0).abs() > SHARE_TOLERANCE {
            return Err(PlanError::Shares(sum));
        }
        Ok(())
    }
}

impl VariantPlan {
    fn check(&self, index: usize) -> Result<(), PlanError> {
        check_name(&format!("variants[{index}].name"), &self.name)?;
        for (field, cluster) in [
            ("cluster", Some(&self.cluster)),
            ("grpc_cluster", self.grpc_cluster.as_ref()),
        ] {
            if let Some(value) = cluster.filter(|cluster| !is_cluster(cluster)) {
                let value = value.clone();
                return Err(PlanError::Cluster {
                    index,
                    field,
                    value,
                });
            }
        }
        if let Some(value) = self.model.as_ref().filter(|model| !is_model(model)) {
            let value = value.chars().take(MODEL_MAX + 1).collect();
            return Err(PlanError::Model { index, value });
        }
        if let Some(value) = self.path.as_ref().filter(|path| !is_path(path)) {
            let value = value.chars().take(PATH_MAX + 1).collect();
            return Err(PlanError::Path { index, value });
        }
        let slots = f64::from(self.slots);
        let batch = f64::from(self.batch);
        let replicas = f64::from(self.replicas);
        for (field, value, right, holds) in [
            (
                "share",
                self.share.0,
                "0 to 1",
                (0.0..=1.0).contains(&self.share.0),
            ),
            ("slots", slots, "0 to 100000", self.slots <= SLOTS_MAX),
            (
                "batch",
                batch,
                "1 to 1024",
                (1..=BATCH_MAX).contains(&self.batch),
            ),
            (
                "replicas",
                replicas,
                "1 to 100000",
                (1..=SLOTS_MAX).contains(&self.replicas),
            ),
            (
                "service_ms",
                self.service_ms,
                "0 to 3600000",
                (0.0..=HOUR_MS as f64).contains(&self.service_ms),
            ),
            (
                "service_min_ms",
                self.service_min_ms,
                "0 to 3600000",
                (0.0..=HOUR_MS as f64).contains(&self.service_min_ms),
            ),
            (
                "accuracy",
                self.accuracy,
                "0 to 100 (percent)",
                (0.0..=100.0).contains(&self.accuracy),
            ),
        ] {
            if !holds {
                return Err(PlanError::Value {
                    index,
                    field,
                    value,
                    right,
                });
            }
        }
        if self.share.0 > 0.0 && self.slots == 0 {
            return Err(PlanError::ShareWithoutSlots(index));
        }
        groups::check(index, &self.groups)
    }
}

/// Whether `name` is valid for a service or variant: 1 to [`NAME_MAX`] lower-case letters, digits and
/// dashes, no dash first, last or doubled (so that a metric name can be split into its labels).
pub fn is_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

/// Whether `cluster` is valid as the name of an Envoy cluster (Istio's `outbound|80||svc` included).
pub fn is_cluster(cluster: &str) -> bool {
    (1..=CLUSTER_MAX).contains(&cluster.len()) && cluster.bytes().all(|b| b.is_ascii_graphic())
}

/// Form of a model's name, for messages.
pub const MODEL_RIGHT: &str = "1 to 128 of A-Z, a-z, 0-9, -, _, . and ~, not . or ..";

/// Whether `model` is valid as a model's name in a request's path: 1 to [`MODEL_MAX`] characters that need no
/// escape there, and no step to another folder.
pub fn is_model(model: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    (1..=MODEL_MAX).contains(&model.len())
        && model.bytes().all(plain)
        && !matches!(model, "." | "..")
}

/// Form of a path, for messages.
pub const PATH_RIGHT: &str =
    "1 to 256 printable ASCII characters without spaces, ? and #, from / on, no . or .. as a part";

/// Whether `path` is valid as the path of a variant's servers: 1 to [`PATH_MAX`] characters, without a query, and no step
/// to another folder.
pub fn is_path(path: &str) -> bool {
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'?' | b'#');
    path.len() <= PATH_MAX
        && path.starts_with('/')
        && path.bytes().all(plain)
        && path.split('/').all(|part| !matches!(part, "." | ".."))
}

fn check_name(field: &str, value: &str) -> Result<(), PlanError> {
    if is_name(value) {
        return Ok(());
    }
    Err(PlanError::Name {
        field: field.to_owned(),
        value: value.chars().take(NAME_MAX + 1).collect(),
    })
}

#[cfg(test)]
mod tests;
