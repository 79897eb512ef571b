//! Plugin configuration as written, and its rules.

use crate::time::Span;
use serde::Deserialize;
use weir_api::plan::{FORMAT, HOUR_MS, SLOTS_MAX, is_name};
use weir_api::{Plan, Revision, Share, VariantPlan};

use super::body::RawBody;
use super::classes::{RawClass, RawClasses};
use super::deadline::RawDeadline;
use super::error::wrong;
use super::health::{self, RawHealth};
use super::matching::RawMatch;
use super::planner::RawPlanner;
use super::protocol::{RawBypass, RawStreams};
use super::skew::RawSkew;
use super::{BATCH_WAIT_MAX_MS, Config, ConfigError, OnStale, REQUESTS_MAX, RETRIES_MAX, Role};
use crate::coordination::Scope;
use crate::request::wire::CLAIMS_MAX;
use crate::waiting::class::{Claim, Classes};

/// Default of the number of requests that a worker holds: about 110 MB, at Envoy's 27 KB for a held
/// HTTP/1.1 request.
const REQUESTS_DEFAULT: u32 = 4096;
/// Default of the largest concurrency limit beyond the planned slots: two batches of 32.
const CONCURRENCY_MAX_DEFAULT: u32 = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    service: String,
    #[serde(default, rename = "match")]
    matches: RawMatch,
    #[serde(default)]
    role: Role,
    variant: Option<String>,
    #[serde(default)]
    bypass: RawBypass,
    #[serde(default)]
    streams: RawStreams,
    #[serde(default)]
    body: RawBody,
    #[serde(default)]
    deadline: RawDeadline,
    #[serde(default)]
    skew: RawSkew,
    classes: Option<Vec<RawClass>>,
    default_class: Option<String>,
    max_skips: Option<u32>,
    #[serde(default)]
    queue: RawQueue,
    #[serde(default)]
    max_retries: u8,
    health: Option<RawHealth>,
    failover: Option<String>,
    planner: Option<RawPlanner>,
    plan: Option<RawPlan>,
    #[serde(default)]
    on_stale: OnStale,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawQueue {
    max_requests: u32,
    scope: Scope,
    batch_wait_ms: Option<u64>,
    concurrency_max: u32,
    correct: bool,
    overlap: bool,
}

impl Default for RawQueue {
    fn default() -> RawQueue {
        RawQueue {
            max_requests: REQUESTS_DEFAULT,
            scope: Scope::default(),
            batch_wait_ms: None,
            concurrency_max: CONCURRENCY_MAX_DEFAULT,
            correct: true,
            overlap: true,
        }
    }
}

/// Plan in the configuration: variants only, or a whole one copied from the planner's answer.
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
    #[serde(default)]
    downstream_ms: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawVariant {
    name: String,
    cluster: String,
    grpc_cluster: Option<String>,
    model: Option<String>,
    path: Option<String>,
    share: f64,
    slots: u32,
    #[serde(default)]
    batch: Option<u32>,
    #[serde(default)]
    replicas: Option<u32>,
    #[serde(default)]
    cancels: bool,
    #[serde(default)]
    service_ms: f64,
    #[serde(default)]
    service_min_ms: f64,
    #[serde(default)]
    accuracy: f64,
}

impl RawConfig {
    /// Adds the planner that all services share, whose keys the service's own replace.
    pub(super) fn with_planner(mut self, shared: Option<&RawPlanner>) -> RawConfig {
        if let Some(shared) = shared.cloned() {
            self.planner = Some(self.planner.unwrap_or_default().or(shared));
        }
        self
    }

    pub(super) fn check(self) -> Result<Config, ConfigError> {
        if !is_name(&self.service) {
            let right = "1 to 63 of a-z, 0-9 and single dashes inside";
            return Err(wrong("service", format!("'{}'", self.service), right));
        }
        let batch_wait = self.queue.check(self.role)?;
        if self.max_retries > RETRIES_MAX {
            let right = format!("0 to {RETRIES_MAX}");
            return Err(wrong("max_retries", self.max_retries, right));
        }
        let planner = self.planner.map(RawPlanner::check).transpose()?;
        let static_plan = self
            .plan
            .map(|plan| plan.check(&self.service))
            .transpose()?;
        if static_plan.is_none() && self.on_stale == OnStale::Static {
            let right = "'keep' or 'refuse' where there is no static `plan`";
            return Err(wrong("on_stale", "'static'", right));
        }
        if static_plan.is_none() && planner.is_none() {
            let right = "given (cluster, key), unless there is a static `plan` (variants)";
            return Err(wrong("planner", "(left out)", right));
        }
        check_variant(self.variant.as_deref(), self.role, static_plan.as_ref())?;
        let skew = self.skew.check()?;
        let classes = RawClasses {
            classes: self.classes,
            default_class: self.default_class,
            max_skips: self.max_skips,
        };
        let classes = classes.check()?;
        let (deadline, budget_headers) = self.deadline.check(skew.delay_allowance)?;
        let claim_headers = claim_headers(&classes, skew.policy.source_header.as_deref())?;
        Ok(Config {
            service: self.service,
            matches: self.matches.check()?,
            role: self.role,
            variant: self.variant,
            bypass: self.bypass.check()?,
            streams: self.streams.check()?,
            body: self.body.check()?,
            deadline,
            budget_headers,
            claim_headers,
            classes,
            skew: skew.policy,
            max_requests: self.queue.max_requests as usize,
            scope: self.queue.scope,
            batch_wait,
            concurrency_max: self.queue.concurrency_max,
            correct: self.queue.correct,
            max_retries: self.max_retries,
            health: health::check(self.health, self.role)?,
            failover: health::check_failover(self.failover, self.role)?,
            overlap: self.queue.overlap,
            planner,
            static_plan,
            on_stale: self.on_stale,
        })
    }
}

/// Headers that prove classes, and the one that names the client.
fn claim_headers(classes: &Classes, source: Option<&str>) -> Result<Vec<String>, ConfigError> {
    let proofs = classes.iter().filter_map(|(_, class)| class.claim.as_ref());
    let mut headers: Vec<String> = Vec::new();
    for header in proofs.filter_map(Claim::header).chain(source) {
        if !headers.iter().any(|known| known == header) {
            headers.push(header.to_owned());
        }
    }
    if headers.len() > CLAIMS_MAX {
        let right =
            format!("at most {CLAIMS_MAX} different headers, `skew.source_header` included");
        return Err(wrong("classes[].claim.header", headers.len(), right));
    }
    Ok(headers)
}

/// Checks that only a gate has a variant of its own, and that its static plan contains it.
fn check_variant(
    variant: Option<&str>,
    role: Role,
    static_plan: Option<&Plan>,
) -> Result<(), ConfigError> {
    let Some(name) = variant else {
        return Ok(());
    };
    let value = format!("'{name}'");
    if role != Role::Gate {
        let right = format!(
            "left out where `role` is '{}': only a gate has one",
            role.label()
        );
        return Err(wrong("variant", value, right));
    }
    if !is_name(name) {
        let right = "1 to 63 of a-z, 0-9 and single dashes inside";
        return Err(wrong("variant", value, right));
    }
    let known = |plan: &Plan| plan.variants.iter().any(|variant| variant.name == name);
    if !static_plan.is_none_or(known) {
        return Err(wrong("variant", value, "one of those in `plan.variants`"));
    }
    Ok(())
}

impl RawQueue {
    /// Checks the queue's limits; returns the maximum batch window.
    fn check(&self, role: Role) -> Result<Option<Span>, ConfigError> {
        if !(1..=REQUESTS_MAX).contains(&self.max_requests) {
            let right = format!("1 to {REQUESTS_MAX}");
            return Err(wrong("queue.max_requests", self.max_requests, right));
        }
        if self.concurrency_max > SLOTS_MAX {
            let right = format!("0 to {SLOTS_MAX}");
            return Err(wrong("queue.concurrency_max", self.concurrency_max, right));
        }
        let Some(ms) = self.batch_wait_ms else {
            return Ok(None);
        };
        if ms > BATCH_WAIT_MAX_MS {
            let right = format!("0 to {BATCH_WAIT_MAX_MS}");
            return Err(wrong("queue.batch_wait_ms", ms, right));
        }
        if role == Role::Router {
            let right = "left out where `role` is 'router': gates make the batches";
            return Err(wrong("queue.batch_wait_ms", ms, right));
        }
        Ok(Some(Span::from_millis(ms)))
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
            // The lowest revision: any plan of a planner is newer.
            revision: Revision(1),
            published_ms: 0,
            max_age_ms: HOUR_MS,
            downstream_ms: self.downstream_ms,
            variants: self
                .variants
                .into_iter()
                .map(RawVariant::into_plan)
                .collect(),
        };
        match plan.check() {
            Ok(()) => Ok(plan),
            Err(error) => Err(ConfigError::Plan {
                path: "plan".to_owned(),
                error,
            }),
        }
    }
}

impl RawVariant {
    fn into_plan(self) -> VariantPlan {
        VariantPlan {
            name: self.name,
            cluster: self.cluster,
            grpc_cluster: self.grpc_cluster,
            model: self.model,
            path: self.path,
            share: Share(self.share),
            slots: self.slots,
            batch: self.batch.unwrap_or(1),
            replicas: self.replicas.unwrap_or(1),
            cancels: self.cancels,
            service_ms: self.service_ms,
            service_min_ms: self.service_min_ms,
            accuracy: self.accuracy,
            groups: Vec::new(),
        }
    }
}
