//! Plugin configuration → checked [`Config`]. Unknown or missing keys and values out of range are
//! refused with the key's path; what gets through is true from then on.

use std::time::Duration;

use serde::Deserialize;
use weir_api::{Plan, json};

use crate::coordination::Scope;
use crate::request::body::Limits;
use crate::request::deadline;
use crate::request::protocol::{Bypass, Streams};
use crate::waiting::class::Classes;

mod body;
mod classes;
mod error;
mod health;
mod protocol;
mod raw;
mod skew;

pub use error::ConfigError;

/// Most requests one worker may be told to hold.
pub const HELD_MAX: u32 = 100_000;
/// Longest shared key.
pub const KEY_MAX: usize = 256;
/// Longest that a batch may be told to be waited for: longer than any request's default deadline, and
/// within the hour that all spans are.
pub const BATCH_WAIT_MAX_MS: u64 = 60_000;

/// Most retries that Envoy may be allowed: each is another execution, which no slot counts.
pub const RETRIES_MAX: u8 = 3;

/// What the filter was told, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The service whose plans it obeys.
    pub service: String,
    /// Which part of the path is its.
    pub role: Role,
    /// The one variant that is served behind this gate; `None`: all of them.
    pub variant: Option<String>,
    /// What is let through untouched.
    pub bypass: Bypass,
    /// Paths of streams.
    pub streams: Streams,
    /// Limits on the bytes of bodies that are held.
    pub body: Limits,
    /// What clients may say of their deadlines.
    pub deadline: deadline::Policy,
    /// How clients' clocks are told from ours.
    pub skew: Skew,
    /// What classes of requests there are.
    pub classes: Classes,
    /// The headers to keep beside the contract's (for [`Wire::pick_with`](deadline::Wire::pick_with)):
    /// the one that names the client last.
    pub claim_headers: Vec<String>,
    /// Most requests a worker holds.
    pub held_max: usize,
    /// Who queues together.
    pub scope: Scope,
    /// Longest that a request waits for company in its batch; `None`: as long as its deadline lets it.
    pub batch_wait: Option<Duration>,
    /// Whether predictions are corrected by what is measured.
    pub correct: bool,
    /// Most times that Envoy may send a request again, whatever its route says; 0: never.
    pub retries_max: u8,
    /// Rules of when failing variants are left, and tried again.
    pub health: crate::health::Policy,
    /// The end of a cluster's name, behind its variant's own cluster, of the one that moves on to others where
    /// a connection is refused; `None`: there are no such clusters.
    pub failover: Option<String>,
    /// Whether the next request is sent before a lane gets free, so that it does not idle.
    pub overlap: bool,
    /// Where plans come from.
    pub planner: Option<Planner>,
    /// The plan to go by until a planner has spoken.
    pub static_plan: Option<Plan>,
    /// What holds when the last plan is too old, or there is none.
    pub on_stale: OnStale,
}

/// Which part of the path is the filter's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// All of it: it reads deadlines, chooses variants and gives slots.
    #[default]
    Both,
    /// It reads deadlines and chooses variants; gates behind it give the slots.
    Router,
    /// It stands before servers and gives slots to what was routed to them.
    Gate,
}

impl Role {
    /// As the configuration, polls and metrics say it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Role::Both => "both",
            Role::Router => "router",
            Role::Gate => "gate",
        }
    }
}

/// How clients' clocks are told from ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skew {
    /// Whether a source's offset is estimated.
    pub estimate: bool,
    /// The header in which a trusted proxy names the client; `None`: the connection's address does.
    pub source_header: Option<String>,
}

/// Where plans come from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planner {
    /// The Envoy cluster of the planner.
    pub cluster: String,
    /// The `:authority` of the poll.
    #[serde(default = "raw::authority")]
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

impl Config {
    /// Where in [`Config::claim_headers`] the one is that names the client.
    #[must_use]
    pub fn source_header(&self) -> Option<usize> {
        let header = self.skew.source_header.as_ref()?;
        self.claim_headers.iter().position(|claim| claim == header)
    }

    /// Reads the plugin configuration, which Envoy hands over as JSON.
    ///
    /// # Errors
    /// The first thing wrong, with its path and what would be right.
    pub fn parse(json: &[u8]) -> Result<Config, ConfigError> {
        let raw: raw::RawConfig = json::read(json)?;
        raw.check()
    }
}

#[cfg(test)]
mod tests;
