//! Report of a replay for people and programs: a table, JSON, and a self-contained HTML file.
//!
//! All three are made of the same [`Summary`]s, whose numbers are rounded once, to a thousandth. Figures
//! have a limited number of points (`POINTS_MAX` of `series`), however long the replay was. No clock, script
//! or external resource is used: equal plays give equal bytes.

#[cfg(feature = "files")]
mod files;
mod shared;
mod stages;
mod summary;

use schemars::JsonSchema;
use serde::Serialize;

use super::bound::{self, Bound, MinCoreSeconds};
use super::request::{Play, Request};
use super::scenario::Scenario;
#[cfg(feature = "files")]
pub use files::{FILES, check};
pub use shared::{OfBudget, OfPart, OfService, SharedReport};
pub use stages::OfStage;
pub use summary::{Summary, Yardstick, mean_cost};

/// Error of a report.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum ReportError {
    #[error("{path}: {source}")]
    File {
        path: String,
        source: std::io::Error,
    },
    #[error("{path}: {found} is not of a report; name a new folder or an earlier report's")]
    Foreign { path: String, found: String },
    #[error("{path}: this is no folder that could be made or replaced; name one by its own name")]
    Nameless { path: String },
    #[error("{contender}: {outcomes} outcomes of {requests} requests; every request ends once")]
    Books {
        contender: String,
        outcomes: usize,
        requests: usize,
    },
    #[error("{plays} plays and {yardsticks} yardsticks; there must be one for each play")]
    Yardsticks { plays: usize, yardsticks: usize },
    #[cfg(feature = "files")]
    #[error("a figure cannot be drawn: {0}")]
    Drawing(#[from] weir_draw::DrawError),
    #[error("a number cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Report of a replay.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report {
    scenario: ScenarioInfo,
    contenders: Vec<Summary>,
    #[cfg(feature = "files")]
    #[serde(skip)]
    figures: Vec<files::Figure>,
}

/// Description of the scenario.
#[derive(Debug, Serialize, JsonSchema)]
struct ScenarioInfo {
    name: String,
    seed: u64,
    length_s: f64,
    requests: u64,
    offered_rps: f64,
    variants: Vec<String>,
    proxies: u32,
    workers: u32,
    faults: usize,
}

/// Bounds of every play, in order: the maximum on-time requests with its cores, and the minimum
/// core-seconds for its number of on-time requests.
#[must_use]
pub fn yardsticks(
    scenario: &Scenario,
    requests: &[Request],
    plays: &[Play],
) -> Vec<(Bound, Option<MinCoreSeconds>)> {
    let bounds = bound::of_plays(scenario, requests, plays);
    let min = |play: &Play| {
        let on_time = summary::on_time(scenario, requests, play);
        bound::min_core_seconds(scenario, requests, play, on_time)
    };
    bounds.into_iter().zip(plays.iter().map(min)).collect()
}

impl Report {
    /// Summarizes the plays and draws the figures. `yardsticks` has the bounds of all plays, or is empty.
    ///
    /// # Errors
    /// A play does not have one outcome for each request, or `yardsticks` has another length than the plays.
    pub fn new(
        scenario: &Scenario,
        requests: &[Request],
        plays: &[Play],
        yardsticks: &[(Bound, Option<MinCoreSeconds>)],
    ) -> Result<Report, ReportError> {
        if !yardsticks.is_empty() && yardsticks.len() != plays.len() {
            return Err(ReportError::Yardsticks {
                plays: plays.len(),
                yardsticks: yardsticks.len(),
            });
        }
        let mut contenders = Vec::with_capacity(plays.len());
        for (index, play) in plays.iter().enumerate() {
            let yardstick = yardsticks.get(index);
            contenders.push(Summary::of(scenario, requests, play, yardstick)?);
        }
        let length_s = scenario.length.as_secs_f64();
        let stated = ScenarioInfo {
            name: scenario.name.clone(),
            seed: scenario.seed,
            length_s: summary::rounded(length_s),
            requests: requests.len() as u64,
            offered_rps: summary::rounded(requests.len() as f64 / length_s.max(1e-9)),
            variants: scenario
                .variants
                .iter()
                .map(|server| server.name.clone())
                .collect(),
            proxies: scenario.proxies.count,
            workers: scenario.proxies.workers,
            faults: scenario.faults.len(),
        };
        Ok(Report {
            scenario: stated,
            #[cfg(feature = "files")]
            figures: files::draw(scenario, requests, plays, &contenders)?,
            contenders,
        })
    }

    /// Summaries of the contenders, in the plays' order.
    #[must_use]
    pub fn contenders(&self) -> &[Summary] {
        &self.contenders
    }

    /// JSON for programs: keys always in the same order, fractions to a thousandth.
    ///
    /// # Errors
    /// None for a report made by [`Report::new`].
    pub fn json(&self) -> Result<String, ReportError> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

#[cfg(test)]
pub(crate) mod tests;
