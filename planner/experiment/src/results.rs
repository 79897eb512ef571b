//! Results of an experiment: means over the seeds, the paper's values beside them, and the clairvoyant bounds.

use serde::Serialize;
use weir_replay::bound::{self, Weights, max_objective};
use weir_replay::report::Summary;
use weir_replay::request::{Play, Request};
use weir_replay::scenario::Scenario;

use crate::experiment::Experiment;
use crate::play::{Played, accuracy_loss, mean_cores};
use crate::raw::{Claim, Column, Kind};

/// Results of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Results {
    /// Name of the experiment.
    pub name: String,
    /// Names of the columns.
    pub columns: Vec<Column>,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Results of the cases.
    pub cases: Vec<CaseResults>,
    /// Distances to the paper's values.
    pub distances: Vec<Distance>,
    /// Statements of the paper about two rows, beside the played ratios.
    pub claims: Vec<ClaimResult>,
}

/// Results of a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseResults {
    /// Name of the case.
    pub name: String,
    /// Inputs that were played.
    pub inputs: Vec<String>,
    /// Rows, in the order of the file.
    pub rows: Vec<RowResults>,
    /// Clairvoyant bounds; `None` without a row of Weir.
    pub bounds: Option<Bounds>,
}

/// Results of a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowResults {
    /// Name of the row.
    pub name: String,
    /// Kind of the row.
    pub kind: Kind,
    /// Cell of each column; `None` if there was no value.
    pub cells: Vec<Option<Cell>>,
}

/// Value over the seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cell {
    /// Mean.
    pub mean: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

/// Bounds that nobody could beat. All but the first are for as many on time as Weir's, and only of columns that the
/// experiment has; `None` if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Bounds {
    /// Requests that nobody could have answered on time with the cores of the rows, percent.
    pub lost_percent: f64,
    /// Fewest mean cores.
    pub mean_cores: Option<f64>,
    /// Least mean cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_cost: Option<f64>,
    /// Greatest mean accuracy within the budget, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// The most accurate variant's accuracy less that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy_loss: Option<f64>,
    /// Greatest objective within the budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<f64>,
}

/// Distance of a value to the paper's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Distance {
    /// Case.
    pub case: String,
    /// Row.
    pub row: String,
    /// Column.
    pub column: Column,
    /// The paper's value.
    pub published: f64,
    /// Value of the play.
    pub played: f64,
    /// Difference, percent of the paper's value.
    pub percent: f64,
    /// Place of the paper's value.
    pub source: Option<String>,
    /// Reason, from the experiment file.
    pub why: Option<String>,
}

/// Ratio of two rows by the paper and as played.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClaimResult {
    /// The statement.
    pub text: String,
    /// Its place in the paper.
    pub source: String,
    /// Case.
    pub case: String,
    /// Column.
    pub column: Column,
    /// Row whose value is divided.
    pub row: String,
    /// Row whose value divides.
    pub to: String,
    /// Ratio by the paper.
    pub published: f64,
    /// Ratio as played; `None` where a value is missing or divides by 0.
    pub played: Option<f64>,
    /// Difference, percent of the paper's ratio.
    pub percent: Option<f64>,
    /// Reason, from the experiment file.
    pub why: Option<String>,
}

impl ClaimResult {
    /// Whether the distance is so large, or unknown, that it needs a reason, and has none.
    #[must_use]
    pub fn lacks_reason(&self) -> bool {
        let near = self
            .percent
            .is_some_and(|percent| percent.abs() <= DISTANCE_MAX);
        !near && self.why.is_none()
    }
}

/// Distance beyond which a reason must be given, percent.
const DISTANCE_MAX: f64 = 15.0;

impl Distance {
    /// Whether the distance is so large that it needs a reason, and has none.
    #[must_use]
    pub fn lacks_reason(&self) -> bool {
        self.percent.abs() > DISTANCE_MAX && self.why.is_none()
    }
}

impl Bounds {
    pub(crate) fn of(
        columns: &[Column],
        scenario: &Scenario,
        requests: &[Request],
        play: &Play,
        summary: &Summary,
    ) -> Option<Bounds> {
        let bound = summary.bound.as_ref()?;
        let on_time = 100.0 * bound.bound.on_time as f64 / summary.sent.max(1) as f64;
        let mean = |core_seconds| mean_cores(scenario, core_seconds);
        let best = |weights| max_objective(scenario, requests, play, summary.on_time, weights);
        let has = |column| columns.contains(&column).then_some(());
        let min_cost = |()| bound::min_cost(scenario, requests, play, summary.on_time);
        let is_accuracy = has(Column::Accuracy).or(has(Column::AccuracyLoss));
        let accuracy = is_accuracy.and_then(|()| best(Weights::ACCURACY));
        let weights = has(Column::Objective).and_then(|()| Weights::of(&scenario.service));
        Some(Bounds {
            lost_percent: 100.0 - on_time,
            mean_cores: summary
                .min_core_seconds
                .as_ref()
                .map(|min| mean(min.core_seconds)),
            mean_cost: has(Column::MeanCost).and_then(min_cost).map(mean),
            accuracy,
            accuracy_loss: accuracy.map(|accuracy| accuracy_loss(scenario, accuracy)),
            objective: weights.and_then(best),
        })
    }

    /// Bound of a column; `None` if it has none.
    #[must_use]
    pub fn of_column(&self, column: &Column) -> Option<f64> {
        match column {
            Column::LostPercent => Some(self.lost_percent),
            Column::MeanCores => self.mean_cores,
            Column::MeanCost => self.mean_cost,
            Column::Accuracy => self.accuracy,
            Column::AccuracyLoss => self.accuracy_loss,
            Column::Objective => self.objective,
            Column::P99Ms | Column::Plans | Column::OnTimePercent(_) => None,
        }
    }
}

impl Cell {
    fn of(values: &[f64]) -> Option<Cell> {
        if values.is_empty() {
            return None;
        }
        let fold = |start, choose: fn(f64, f64) -> f64| values.iter().copied().fold(start, choose);
        Some(Cell {
            mean: rounded(values.iter().sum::<f64>() / values.len() as f64),
            min: rounded(fold(f64::INFINITY, f64::min)),
            max: rounded(fold(f64::NEG_INFINITY, f64::max)),
        })
    }
}

impl Results {
    /// Puts plays together, which are ordered by case, row and seed.
    pub(crate) fn new(experiment: &Experiment, played: &[Played]) -> Results {
        let seeds = experiment.seeds.len().max(1);
        let mut rows = played.chunks(seeds);
        let mut cases = Vec::with_capacity(experiment.cases.len());
        for case in &experiment.cases {
            let mut of_case = Vec::with_capacity(experiment.rows.len());
            let mut bounds = Vec::new();
            for (row, plays) in experiment.rows.iter().zip(rows.by_ref()) {
                let cell = |column: usize| {
                    let values = plays.iter().map(|play| *play.values.get(column)?);
                    Cell::of(&values.flatten().collect::<Vec<f64>>())
                };
                of_case.push(RowResults {
                    name: row.name.clone(),
                    kind: row.kind,
                    cells: (0..experiment.columns.len()).map(cell).collect(),
                });
                bounds.extend(mean_bounds(plays).map(|bounds| (row.kind, bounds)));
            }
            cases.push(CaseResults {
                name: case.name.clone(),
                inputs: case.inputs.clone(),
                rows: of_case,
                bounds: together(&bounds),
            });
        }
        let mut results = Results {
            name: experiment.name.clone(),
            columns: experiment.columns.clone(),
            seeds: experiment.seeds.clone(),
            cases,
            distances: Vec::new(),
            claims: Vec::new(),
        };
        results.distances = results.distances_to(experiment);
        let claims = experiment.claims.iter();
        results.claims = claims.map(|claim| results.ratio(claim)).collect();
        results
    }

    /// Returns the cell of a row, by names.
    #[must_use]
    pub fn cell(&self, case: &str, row: &str, column: &Column) -> Option<Cell> {
        let case = self.cases.iter().find(|one| one.name == case)?;
        let row = case.rows.iter().find(|one| one.name == row)?;
        let at = self.columns.iter().position(|one| one == column)?;
        *row.cells.get(at)?
    }

    fn distances_to(&self, experiment: &Experiment) -> Vec<Distance> {
        let distance = |published: &crate::raw::Published| {
            let cell = self.cell(&published.case, &published.row, &published.column)?;
            let percent = 100.0 * (cell.mean - published.value) / published.value;
            Some(Distance {
                case: published.case.clone(),
                row: published.row.clone(),
                column: published.column.clone(),
                published: published.value,
                played: cell.mean,
                percent: rounded(percent),
                source: published.source.clone(),
                why: published.why.clone(),
            })
        };
        experiment.published.iter().filter_map(distance).collect()
    }

    fn ratio(&self, claim: &Claim) -> ClaimResult {
        let value = |row: &str| Some(self.cell(&claim.case, row, &claim.column)?.mean);
        let divisor = value(&claim.to).filter(|value| *value != 0.0);
        let played = value(&claim.row).zip(divisor).map(|(value, to)| value / to);
        let percent = played.map(|played| 100.0 * (played - claim.ratio) / claim.ratio);
        ClaimResult {
            text: claim.text.clone(),
            source: claim.source.clone(),
            case: claim.case.clone(),
            column: claim.column.clone(),
            row: claim.row.clone(),
            to: claim.to.clone(),
            published: claim.ratio,
            played: played.map(rounded),
            percent: percent.map(rounded),
            why: claim.why.clone(),
        }
    }
}

fn mean_bounds(plays: &[Played]) -> Option<Bounds> {
    let bounds: Vec<Bounds> = plays.iter().filter_map(|play| play.bounds).collect();
    let mean = |of: fn(&Bounds) -> Option<f64>| {
        let values: Option<Vec<f64>> = bounds.iter().map(of).collect();
        Some(Cell::of(&values?)?.mean)
    };
    Some(Bounds {
        lost_percent: mean(|one| Some(one.lost_percent))?,
        mean_cores: mean(|one| one.mean_cores),
        mean_cost: mean(|one| one.mean_cost),
        accuracy: mean(|one| one.accuracy),
        accuracy_loss: mean(|one| one.accuracy_loss),
        objective: mean(|one| one.objective),
    })
}

/// Bounds of a case: the fewest lost with the cores of any row, and the others for as many on time as Weir's.
fn together(bounds: &[(Kind, Bounds)]) -> Option<Bounds> {
    let lost = bounds.iter().map(|(_, bounds)| bounds.lost_percent);
    let lost_percent = lost.reduce(f64::min)?;
    let of_weir = bounds.iter().find(|(kind, _)| *kind == Kind::Weir);
    let of_weir = of_weir.map(|(_, bounds)| *bounds).unwrap_or_default();
    Some(Bounds {
        lost_percent,
        ..of_weir
    })
}

/// Rounds to a thousandth, which hides differences between machines.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
