//! Report of several services that share a budget: the report of each service, and the cores of all together.

use serde::Serialize;

use super::summary::rounded;
use super::{Report, ReportError, yardsticks};
use crate::request::{Play, Request, SharedPlay};
use crate::scenario::SharedScenario;

/// Report of a replay of several services.
#[derive(Debug, Serialize)]
pub struct SharedReport {
    scenario: SharedInfo,
    services: Vec<OfService>,
    budget: Vec<OfBudget>,
}

/// Description of the scenario.
#[derive(Debug, Serialize)]
struct SharedInfo {
    name: String,
    seed: u64,
    length_s: f64,
    budget_cores: f64,
    services: Vec<String>,
}

/// Report of one service.
#[derive(Debug, Serialize)]
pub struct OfService {
    /// Name.
    pub name: String,
    /// Weight in the division.
    pub weight: f64,
    /// Report as of a scenario with this service alone.
    #[serde(flatten)]
    pub report: Report,
}

/// Cores of all services together under a contender.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfBudget {
    /// Name of the contender.
    pub contender: String,
    /// Requests of all services.
    pub sent: u64,
    /// On-time answers of all services.
    pub on_time: u64,
    /// On-time answers, percent of all sent.
    pub on_time_percent: f64,
    /// Budget.
    pub budget_cores: f64,
    /// Mean of the actual cores over the scenario's length.
    pub cores_mean: f64,
    /// Maximum of the actual cores at the end of a second.
    pub cores_max: f64,
    /// Maximum of the reserved cores at a division, pending changes included.
    pub reserved_max: f64,
    /// Actual cores × seconds.
    pub core_seconds: f64,
    /// Changes of the parts.
    pub divisions: u64,
    /// Part of each service.
    pub parts: Vec<OfPart>,
}

/// Part of a service in the budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfPart {
    /// Name of the service.
    pub service: String,
    /// Minimum.
    pub min_cores: f64,
    /// Mean over the scenario's length.
    pub mean_cores: f64,
    /// Maximum.
    pub max_cores: f64,
}

impl SharedReport {
    /// Summarizes the plays; `requests` are those of each service.
    ///
    /// # Errors
    /// A play does not have one outcome for each request.
    pub fn new(
        shared: &SharedScenario,
        requests: &[Vec<Request>],
        plays: Vec<SharedPlay>,
    ) -> Result<SharedReport, ReportError> {
        let mut of_service: Vec<Vec<Play>> = vec![Vec::new(); shared.services.len()];
        let mut divided = Vec::with_capacity(plays.len());
        for mut play in plays {
            for (all, mut own) in of_service.iter_mut().zip(std::mem::take(&mut play.plays)) {
                own.contender.clone_from(&play.contender);
                all.push(own);
            }
            divided.push(play);
        }
        let mut services = Vec::with_capacity(shared.services.len());
        for ((service, requests), plays) in shared.services.iter().zip(requests).zip(&of_service) {
            let scenario = &service.scenario;
            let yardsticks = yardsticks(scenario, requests, plays);
            services.push(OfService {
                name: service.name.clone(),
                weight: service.weight,
                report: Report::new(scenario, requests, plays, &yardsticks)?,
            });
        }
        let budget = divided.iter().enumerate();
        let budget = budget.map(|(index, play)| {
            let plays = of_service.iter().filter_map(|plays| plays.get(index));
            OfBudget::new(shared, &services, index, (play, plays.collect()))
        });
        Ok(SharedReport {
            scenario: SharedInfo {
                name: shared.name.clone(),
                seed: shared.seed,
                length_s: rounded(shared.length.as_secs_f64()),
                budget_cores: shared.step.times(shared.budget).as_f64(),
                services: shared.services.iter().map(|one| one.name.clone()).collect(),
            },
            budget: budget.collect(),
            services,
        })
    }

    /// Reports of the services, in the scenario's order.
    #[must_use]
    pub fn services(&self) -> &[OfService] {
        &self.services
    }

    /// Cores of all services, in the plays' order.
    #[must_use]
    pub fn budget(&self) -> &[OfBudget] {
        &self.budget
    }

    /// JSON for programs: keys always in the same order, fractions to a thousandth.
    ///
    /// # Errors
    /// None for a report made by [`SharedReport::new`].
    pub fn json(&self) -> Result<String, ReportError> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

impl OfBudget {
    fn new(
        shared: &SharedScenario,
        services: &[OfService],
        index: usize,
        (play, plays): (&SharedPlay, Vec<&Play>),
    ) -> OfBudget {
        let cores = |steps: u32| shared.step.times(steps).as_f64();
        let length_s = shared.length.as_secs_f64().max(f64::MIN_POSITIVE);
        let summaries = services.iter();
        let summaries = summaries.filter_map(|one| one.report.contenders().get(index));
        let sent: u64 = summaries.clone().map(|sum| sum.sent).sum();
        let on_time: u64 = summaries.map(|sum| sum.on_time).sum();
        let seconds = plays.iter().map(|play| play.seconds.len()).max();
        let at_second = |second: usize| -> f64 {
            let each = plays.iter().filter_map(|play| play.seconds.get(second));
            each.flat_map(|state| &state.cores_actual).sum()
        };
        let cores_max = (0..seconds.unwrap_or(0)).map(at_second).fold(0.0, f64::max);
        let core_seconds: f64 = plays.iter().map(|play| play.core_seconds).sum();
        let part =
            |(index, service): (usize, &OfService)| OfPart::new(shared, (index, service), play);
        OfBudget {
            contender: play.contender.clone(),
            sent,
            on_time,
            on_time_percent: rounded(100.0 * on_time as f64 / sent.max(1) as f64),
            budget_cores: cores(shared.budget),
            cores_mean: rounded(core_seconds / length_s),
            cores_max: rounded(cores_max),
            reserved_max: cores(play.reserved_max),
            core_seconds: rounded(core_seconds),
            divisions: play.parts.len().saturating_sub(1) as u64,
            parts: services.iter().enumerate().map(part).collect(),
        }
    }
}

impl OfPart {
    fn new(
        shared: &SharedScenario,
        (index, service): (usize, &OfService),
        play: &SharedPlay,
    ) -> OfPart {
        let within = play.parts.iter().filter(|parts| parts.at < shared.length);
        let steps = within
            .clone()
            .filter_map(|parts| parts.steps.get(index).copied());
        let ends = within.clone().skip(1).map(|parts| parts.at);
        let ends = ends.chain([shared.length]);
        let spans = within
            .zip(ends)
            .map(|(parts, end)| (end - parts.at).as_secs_f64());
        let step_seconds: f64 = steps
            .clone()
            .zip(spans)
            .map(|(steps, s)| f64::from(steps) * s)
            .sum();
        let length_s = shared.length.as_secs_f64().max(f64::MIN_POSITIVE);
        let cores = |steps: u32| shared.step.times(steps).as_f64();
        OfPart {
            service: service.name.clone(),
            min_cores: cores(steps.clone().min().unwrap_or(0)),
            mean_cores: rounded(step_seconds / length_s * shared.step.as_f64()),
            max_cores: cores(steps.max().unwrap_or(0)),
        }
    }
}
