//! Experiment file as written: shape and defaults.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Changes of a scenario: the path of each value, such as `service.variants.resnet18.cores.initial`, and the value.
pub(crate) type Changes = BTreeMap<String, Value>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawExperiment {
    pub(crate) name: String,
    /// Title of its section; the name if missing.
    pub(crate) title: Option<String>,
    #[serde(default)]
    pub(crate) paper: String,
    #[serde(default)]
    pub(crate) figures: String,
    #[serde(default)]
    pub(crate) question: String,
    /// Scenario of `weir replay`, of one service or several, without contenders.
    pub(crate) scenario: Value,
    #[serde(default)]
    pub(crate) inputs: Vec<RawInput>,
    #[serde(default = "seeds")]
    pub(crate) seeds: Vec<u64>,
    pub(crate) cases: Vec<RawCase>,
    pub(crate) rows: Vec<RawRow>,
    pub(crate) columns: Vec<Column>,
    #[serde(default)]
    pub(crate) published: Vec<Published>,
    #[serde(default)]
    pub(crate) claims: Vec<Claim>,
    #[serde(default)]
    pub(crate) coverage: Vec<Figure>,
    #[serde(default)]
    pub(crate) remarks: Vec<String>,
}

/// File of the folder of inputs, and its use.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawInput {
    pub(crate) file: String,
    /// Cases that use it; all if missing.
    pub(crate) cases: Option<Vec<String>>,
    /// Changes with the file; `$FILE` in a text is its path.
    pub(crate) set: Changes,
    /// Description of what is played without the file.
    pub(crate) substitute: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCase {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) set: Changes,
    /// Further changes for single rows, by their names.
    #[serde(default)]
    pub(crate) rows: BTreeMap<String, Changes>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRow {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Data plane and control plane, as in a scenario.
    pub(crate) contender: Value,
    #[serde(default)]
    pub(crate) set: Changes,
}

/// Kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Baseline of the paper.
    Baseline,
    /// The paper's own policy, as published.
    Published,
    /// Weir.
    Weir,
    /// Weir's planner with the load known in advance.
    Clairvoyant,
}

impl Kind {
    /// Name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Baseline => "baseline",
            Kind::Published => "as published",
            Kind::Weir => "Weir",
            Kind::Clairvoyant => "clairvoyant",
        }
    }
}

/// Measured quantity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Column {
    /// Requests that were not answered on time, percent of all sent.
    LostPercent,
    /// Actual cores, mean over the load's length.
    MeanCores,
    /// Price of the actual cores, mean over the load's length.
    MeanCost,
    /// Accuracy of the answers, mean, percent.
    Accuracy,
    /// The most accurate variant's accuracy less that of the answers, percentage points.
    AccuracyLoss,
    /// Objective of the service's policy with the accuracy of the answers and the mean cores.
    Objective,
    /// 99th percentile of the latency as the client sees it, ms.
    P99Ms,
    /// Published plans.
    Plans,
    /// Answers on time of the class with this name, percent of its requests.
    OnTimePercent(String),
}

impl Column {
    /// Heading in tables, with the unit.
    #[must_use]
    pub fn heading(&self) -> Cow<'static, str> {
        let heading = match self {
            Column::LostPercent => "lost %",
            Column::MeanCores => "mean cores",
            Column::MeanCost => "mean cost",
            Column::Accuracy => "accuracy %",
            Column::AccuracyLoss => "accuracy loss, points",
            Column::Objective => "objective",
            Column::P99Ms => "p99 ms",
            Column::Plans => "plans",
            Column::OnTimePercent(class) => return format!("on time %, {class}").into(),
        };
        heading.into()
    }

    /// Whether it has a value for several services together.
    pub(crate) fn is_of_several(&self) -> bool {
        use Column::{LostPercent, MeanCores, MeanCost, Plans};
        matches!(self, LostPercent | MeanCores | MeanCost | Plans)
    }

    /// Whether a smaller value is better.
    #[must_use]
    pub fn smaller_is_better(&self) -> bool {
        !matches!(
            self,
            Column::Accuracy | Column::Objective | Column::OnTimePercent(_)
        )
    }
}

/// Value that the paper gives.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Published {
    pub(crate) row: String,
    pub(crate) case: String,
    pub(crate) column: Column,
    pub(crate) value: f64,
    /// Place of the value: a figure, a section, a file of the published program.
    pub(crate) source: Option<String>,
    /// Reason for a distance.
    pub(crate) why: Option<String>,
}

/// Statement of the paper about two rows: the ratio of their values.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    /// The statement in its words.
    pub(crate) text: String,
    /// Its place in the paper.
    pub(crate) source: String,
    pub(crate) case: String,
    pub(crate) column: Column,
    /// Row whose value is divided.
    pub(crate) row: String,
    /// Row whose value divides.
    pub(crate) to: String,
    /// Ratio by the paper.
    pub(crate) ratio: f64,
    /// Reason for a distance.
    pub(crate) why: Option<String>,
}

/// Figure or table of the paper, and what plays it again.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its number.
    pub figure: String,
    /// Content.
    pub shows: String,
    /// Rows or commands that play it.
    pub played: Option<String>,
    /// Reason why nothing does.
    pub missing: Option<String>,
}

fn seeds() -> Vec<u64> {
    vec![1]
}
