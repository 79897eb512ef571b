//! Plugin configuration → checked [`Config`]. Unknown or missing keys and values out of range are refused
//! with the key's path; a [`Config`] is always valid.

use crate::time::Span;
use serde::Deserialize;
use weir_api::{Plan, json};

use crate::coordination::Scope;
use crate::request::body::Limits;
use crate::request::deadline::Policy as DeadlinePolicy;
use crate::request::matching::Match;
use crate::request::protocol::{Bypass, Streams};
use crate::waiting::class::Classes;

mod body;
mod classes;
mod deadline;
mod error;
mod health;
mod matching;
mod planner;
mod protocol;
mod raw;
mod renamed;
mod services;
mod skew;

pub use error::ConfigError;

/// Maximum number of services behind one filter. A worker compares a request with all of them at worst.
pub const SERVICES_MAX: usize = 64;
/// Maximum of the configurable number of requests that a worker holds.
pub const REQUESTS_MAX: u32 = 100_000;
/// Maximum length of the shared key.
pub const KEY_MAX: usize = 256;
/// Maximum of the configurable batch window, ms: longer than any request's default deadline, and within the
/// limit of one hour for all spans.
pub const BATCH_WAIT_MAX_MS: u64 = 60_000;

/// Maximum of the configurable number of Envoy's retries: each is another execution, which no slot counts.
pub const RETRIES_MAX: u8 = 3;

/// Checked configuration of the filter for one service.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Service whose plans apply.
    pub service: String,
    /// Requests that are the service's; all others pass untouched.
    pub matches: Match,
    /// Role of the filter.
    pub role: Role,
    /// The only variant behind this gate; `None`: all of them.
    pub variant: Option<String>,
    /// Requests that pass through untouched.
    pub bypass: Bypass,
    /// Paths of streams.
    pub streams: Streams,
    /// Limits on the bytes of held bodies.
    pub body: Limits,
    /// Bounds of clients' deadlines.
    pub deadline: DeadlinePolicy,
    /// Estimation of clients' clock offsets.
    pub skew: Skew,
    /// Classes of requests.
    pub classes: Classes,
    /// Additional headers to extract (for [`Wire::pick_with`](crate::request::wire::Wire::pick_with)): those
    /// that prove classes, and last the one that names the client.
    pub claim_headers: Vec<String>,
    /// Headers with budgets that are not known to the filter by themselves, in the order of the configuration.
    pub budget_headers: Vec<String>,
    /// Maximum number of requests that a worker holds.
    pub max_requests: usize,
    /// Workers that queue together.
    pub scope: Scope,
    /// Maximum batch window; `None`: until the latest start of the earliest deadline.
    pub batch_wait: Option<Span>,
    /// Largest concurrency limit that is found for a variant beyond its planned slots; 0: the planned slots hold.
    pub concurrency_max: u32,
    /// Whether predictions are corrected by measurements.
    pub correct: bool,
    /// Maximum number of Envoy's retries, whatever its route says; 0: none.
    pub max_retries: u8,
    /// Rules for avoiding failing variants, and for trying them again.
    pub health: crate::health::Policy,
    /// Suffix that a variant's cluster name gets in the name of its failover cluster, which sends to other
    /// variants if a connection is refused; `None`: there are no such clusters.
    pub failover: Option<String>,
    /// Whether the next request is sent before a lane is free, so that the lane does not idle.
    pub overlap: bool,
    /// Source of plans.
    pub planner: Option<Planner>,
    /// Plan that applies until the first plan of a planner.
    pub static_plan: Option<Plan>,
    /// Behaviour without a plan, or when the last plan is too old.
    pub on_stale: OnStale,
}

/// Role of a filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Combined: reads deadlines, chooses variants and grants slots.
    #[default]
    Both,
    /// Reads deadlines and chooses variants; gates behind it grant the slots.
    Router,
    /// Stands before servers and grants slots to requests routed to them.
    Gate,
}

impl Role {
    /// Label in configuration, polls and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Role::Both => "both",
            Role::Router => "router",
            Role::Gate => "gate",
        }
    }
}

/// Estimation of clients' clock offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skew {
    /// Whether a source's offset is estimated.
    pub estimate: bool,
    /// Header in which a trusted proxy names the client; `None`: the peer address identifies it.
    pub source_header: Option<String>,
}

/// Source of plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planner {
    /// Envoy cluster of the planner.
    pub cluster: String,
    /// `:authority` of the poll.
    pub authority: String,
    /// Shared key.
    pub key: String,
}

/// Behaviour when the last plan is older than its maximum age.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnStale {
    /// Keep the last plan; pass through by Envoy's own routes if there never was one.
    #[default]
    Keep,
    /// Use the static plan.
    Static,
    /// Refuse every request with `no-plan`.
    Refuse,
}

impl Config {
    /// Index in [`Config::claim_headers`] of the header that names the client.
    #[must_use]
    pub fn source_header(&self) -> Option<usize> {
        let header = self.skew.source_header.as_ref()?;
        self.claim_headers.iter().position(|claim| claim == header)
    }

    /// Parses the plugin configuration of one service, which Envoy passes as JSON.
    ///
    /// # Errors
    /// The first error, with its path and what would be right.
    pub fn parse(json: &[u8]) -> Result<Config, ConfigError> {
        let raw: raw::RawConfig = json::read(json).map_err(renamed::name_new_key)?;
        raw.check()
    }

    /// Parses the plugin configuration of one service or several (`services`). A request belongs to the first
    /// that matches it.
    ///
    /// # Errors
    /// The first error, with its path and what would be right.
    pub fn parse_services(json: &[u8]) -> Result<Vec<Config>, ConfigError> {
        if !services::lists_services(json) {
            return Ok(vec![Config::parse(json)?]);
        }
        let raw: services::RawServices = json::read(json).map_err(renamed::name_new_key)?;
        raw.check()
    }
}

#[cfg(test)]
mod tests;
