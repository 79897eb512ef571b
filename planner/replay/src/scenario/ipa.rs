//! Controls of IPA's paper: their rules, predictors, and the services that they can play.

use serde::{Deserialize, Serialize};
use weir_planner::service::{Replicas, Service, Variant};

use super::Control;
use super::raw::{ControlName, RawContender};
use super::refused::ScenarioError;

/// Maximum number of combinations of variants and batches that a decision tries.
const COMBINATIONS_MAX: u64 = 2_000_000;

/// Rule of IPA's decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpaRule {
    /// Equation 10.
    Paper,
    /// The published program, with the flaw of its model.
    Code,
    /// RIM: the published program with the replicas of the start.
    Rim,
}

/// Accuracy of a pipeline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IpaAccuracy {
    /// Product of the stages' accuracies, PAS.
    #[default]
    Product,
    /// Sum of the ranks of the stages' accuracies, PAS′.
    RankSum,
    /// Product of these ranks, as in most runs of the published program.
    RankProduct,
}

/// Predictor of IPA's load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IpaPredictor {
    /// The greatest rate of the last 10 s.
    #[default]
    Reactive,
    /// The service's `demand.forecaster`.
    Forecaster,
    /// The greatest rate of the next 20 s.
    Known,
}

impl IpaAccuracy {
    /// Name in scenarios.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            IpaAccuracy::Product => "product",
            IpaAccuracy::RankSum => "rank-sum",
            IpaAccuracy::RankProduct => "rank-product",
        }
    }
}

impl IpaPredictor {
    /// Name in scenarios.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            IpaPredictor::Reactive => "reactive",
            IpaPredictor::Forecaster => "forecaster",
            IpaPredictor::Known => "known",
        }
    }
}

/// Settings that differ from the defaults, as a part of a name.
pub(super) fn label(accuracy: IpaAccuracy, predictor: IpaPredictor) -> String {
    let mut label = String::new();
    if accuracy != IpaAccuracy::default() {
        label = format!("-{}", accuracy.name());
    }
    if predictor != IpaPredictor::default() {
        label += &format!("-{}", predictor.name());
    }
    label
}

/// Refuses the keys of IPA's controls at `path` for another one.
pub(super) fn refuse_keys(path: &str, raw: &RawContender) -> Result<(), ScenarioError> {
    use ControlName::{IpaCode, IpaPaper, Rim};
    if matches!(raw.control, IpaPaper | IpaCode | Rim) {
        return Ok(());
    }
    let predictor = raw.predictor.map(|one| ("predictor", one.name()));
    let accuracy = raw.accuracy.map(|one| ("accuracy", one.name()));
    match predictor.or(accuracy) {
        None => Ok(()),
        Some((key, value)) => {
            let right = "left out, unless control is ipa-paper, ipa-code or rim";
            Err(ScenarioError::value(format!("{path}.{key}"), value, right))
        }
    }
}

/// Checks the control of that rule at `path`.
pub(super) fn control(
    path: &str,
    raw: &RawContender,
    service: &Service,
    rule: IpaRule,
) -> Result<Control, ScenarioError> {
    let at = |key: &str| format!("{path}.{key}");
    let control = Control::Ipa {
        rule,
        accuracy: raw.accuracy.unwrap_or_default(),
        predictor: raw.predictor.unwrap_or_default(),
    };
    if raw.predictor == Some(IpaPredictor::Forecaster) && service.demand.ahead.is_none() {
        let right = "reactive or known, or with service.demand.forecaster";
        return Err(ScenarioError::value(at("predictor"), "forecaster", right));
    }
    let mut variants = service.variants.iter();
    if let Some(single) = variants.find(|variant| variant.replicas == Replicas::ONE) {
        let right = format!(
            "a control that changes the cores of servers, or variant {} with replicas: this one starts and ends them",
            single.name
        );
        return Err(ScenarioError::value(at("control"), control.name(), right));
    }
    let tried = combinations(service);
    if tried > COMBINATIONS_MAX {
        let value = format!("{tried} combinations of variants and batches");
        let right = format!("at most {COMBINATIONS_MAX} with this control: it tries them all");
        return Err(ScenarioError::value("service.stages", value, right));
    }
    Ok(control)
}

/// Number of combinations of variants and batches of all stages.
fn combinations(service: &Service) -> u64 {
    let of_stage = |variants: &[Variant]| -> u64 {
        let batches = variants
            .iter()
            .map(|variant| u64::from(variant.profile.batch));
        batches.sum()
    };
    let stages = service.stages.iter().map(|stage| stage.variants.clone());
    let stages = stages.map(|variants| service.variants.get(variants).map_or(0, of_stage));
    stages.fold(1, u64::saturating_mul)
}
