//! Numbers that forecasters have learned of a load over hours and days, for a process that starts anew: the fit of the
//! linear model, the pattern of a season, the calibration of each quantile, and the losses that the choice goes by. The
//! latest seconds are not among them; a forecaster comes to know these by its own.
//!
//! Numbers from outside are checked before any of them is taken over: they are finite, of bounded size, and for the same
//! task.

use serde::{Deserialize, Serialize};

use crate::calibrated::OFFSET_MAX;
use crate::model::Kind;

/// Maximum absolute value of a sum that a fit remembers; four days of pairs make less.
pub const SUM_MAX: f64 = 1e15;
/// Maximum absolute value of a weight of a fit, and of a rise as a logarithm.
pub const WEIGHT_MAX: f64 = 1e6;

/// Numbers that an ensemble has learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Learnt {
    /// Horizon of the forecasts, in seconds.
    pub horizon_s: usize,
    /// Quantile of the forecasts.
    pub quantile: f64,
    /// Length of the season; `None` without one.
    pub season_s: Option<u64>,
    /// Time of the forecasters at which this was learned, in ms: seasons begin at its multiples.
    pub at_ms: u64,
    /// Forecasters.
    pub members: Vec<LearntMember>,
    /// Losses by forecaster, and the one followed.
    pub choice: LearntChoice,
}

/// Numbers that one forecaster has learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearntMember {
    /// The forecaster.
    pub kind: Kind,
    /// Offset of its quantile, as a logarithm.
    pub offset: f64,
    /// Spread of its errors, as a logarithm.
    pub spread: f64,
    /// Outcomes that these were learned from.
    pub outcomes: u64,
    /// Numbers of the model itself.
    pub model: LearntModel,
}

/// Numbers that a model has learned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LearntModel {
    /// None: the model knows only the latest seconds.
    #[default]
    Nothing,
    /// Fits of the linear model, by median and quantile, and the pairs they are of.
    Linear {
        /// Pairs of features and peak so far.
        pairs: u64,
        /// The fits.
        fits: Vec<LearntFit>,
    },
    /// Mean rise of each phase of a season as a logarithm, and the seasons it is of.
    Season(Vec<(f64, f64)>),
}

/// Sums and weights of one fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearntFit {
    /// Weighted products of the features with each other, column by column.
    pub squares: Vec<f64>,
    /// Weighted products of features and target.
    pub products: Vec<f64>,
    /// Weights of the features.
    pub weights: Vec<f64>,
}

/// Losses that the choice remembers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearntChoice {
    /// Index of the forecaster that is followed.
    pub current: usize,
    /// Horizons so far.
    pub horizons: f64,
    /// Horizons since the last change.
    pub since: f64,
    /// Changes so far.
    pub changes: u64,
    /// Losses by forecaster.
    pub members: Vec<LearntLosses>,
}

/// Losses of one forecaster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearntLosses {
    /// Sum of the losses.
    pub losses: f64,
    /// Horizons that they are of.
    pub horizons: f64,
    /// Squares of the differences to each forecaster, and the horizons that they are of.
    pub squares: Vec<(f64, f64)>,
}

/// Reason why learned numbers are not taken over.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum LearntError {
    #[error(
        "learned for a horizon of {horizon_s} s and the quantile {quantile}, and not for {own_horizon_s} s and {own_quantile}"
    )]
    Task {
        horizon_s: usize,
        quantile: f64,
        own_horizon_s: usize,
        own_quantile: f64,
    },
    #[error("learned for another demand.season")]
    Season,
    #[error("{0}: out of range, or not as many as there must be")]
    Value(&'static str),
}

impl Learnt {
    /// Checks all numbers that no model checks itself.
    ///
    /// # Errors
    /// Fails if one is out of range.
    pub(crate) fn check(&self) -> Result<(), LearntError> {
        let is_sum = |value: f64| (0.0..=SUM_MAX).contains(&value);
        for member in &self.members {
            let offset = -OFFSET_MAX..=OFFSET_MAX;
            if !offset.contains(&member.offset) || !(0.0..=1.0).contains(&member.spread) {
                return Err(LearntError::Value("calibration"));
            }
        }
        let choice = &self.choice;
        let count = self.members.len();
        let is_whole = choice.current < count.max(1) && choice.members.len() == count;
        let sums = is_sum(choice.horizons) && is_sum(choice.since);
        let losses = choice.members.iter().all(|one| {
            let squares = one
                .squares
                .iter()
                .all(|(sum, of)| is_sum(*sum) && is_sum(*of));
            one.squares.len() == count && is_sum(one.losses) && is_sum(one.horizons) && squares
        });
        match is_whole && sums && losses {
            true => Ok(()),
            false => Err(LearntError::Value("choice")),
        }
    }
}

/// Whether there are `count` values of at most `max`, either sign.
pub(crate) fn are_within(values: &[f64], count: usize, max: f64) -> bool {
    values.len() == count && values.iter().all(|value| value.abs() <= max)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::ensemble::Ensemble;
    use crate::model::{Season, Settings};
    use crate::task::Task;

    const KINDS: [Kind; 5] = [
        Kind::Last,
        Kind::Maximum,
        Kind::Smoothing,
        Kind::Linear,
        Kind::Seasonal,
    ];

    fn ensemble(season_s: u64, horizon: usize) -> Ensemble {
        let settings = Settings {
            season: Some(Season::new(season_s).unwrap()),
            ..Settings::default()
        };
        Ensemble::new(&KINDS, Task::new(horizon, 0.9).unwrap(), settings)
    }

    /// Rate with a rise in each 10 minutes, and noise.
    fn run(ensemble: &mut Ensemble, rng: &mut ChaCha8Rng, seconds: std::ops::Range<u64>) {
        for at in seconds {
            let rise = if at % 600 >= 400 { 40.0 } else { 0.0 };
            ensemble.observe(at, 20.0 + rise + 10.0 * rng.random::<f64>());
        }
    }

    #[test]
    fn ensemble_that_starts_anew_forecasts_as_the_one_before_it() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut before = ensemble(600, 4);
        run(&mut before, &mut rng, 0..6000);
        let mut beside = anew(&before);
        let mut fresh = ensemble(600, 4);
        // The latest minutes are played again, as from a history.
        let mut again = rng.clone();
        run(&mut before, &mut rng, 6000..6150);
        run(&mut beside, &mut again.clone(), 6000..6150);
        run(&mut fresh, &mut again, 6000..6150);
        let learnt = before.learnt(6_150_000);
        beside.relearn(&learnt).unwrap();
        assert_eq!(beside.learnt(6_150_000), learnt);
        let [known, restored, fresh] =
            [before.forecast(), beside.forecast(), fresh.forecast()].map(|one| one.unwrap().upper);
        assert!(
            (restored / known - 1.0).abs() < 0.02,
            "{restored} for {known}"
        );
        assert_eq!(beside.chosen(), before.chosen());
        assert!(fresh != known);
    }

    /// A new ensemble with what the other one has learned, by way of text.
    fn anew(other: &Ensemble) -> Ensemble {
        let text = serde_json::to_string(&other.learnt(0)).unwrap();
        assert!(text.len() < 64 * 1024, "{}", text.len());
        let mut anew = ensemble(600, 4);
        anew.relearn(&serde_json::from_str(&text).unwrap()).unwrap();
        anew
    }

    #[test]
    fn numbers_of_another_task_or_out_of_range_are_refused() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let mut before = ensemble(600, 4);
        run(&mut before, &mut rng, 0..2000);
        let learnt = before.learnt(0);
        let refused = |learnt: &Learnt, season_s, horizon| {
            let mut anew = ensemble(season_s, horizon);
            let nothing = anew.learnt(0);
            let refused = anew.relearn(learnt).unwrap_err().to_string();
            assert_eq!(anew.learnt(0), nothing, "none of it is taken over");
            refused
        };
        assert!(
            refused(&learnt, 600, 5)
                .starts_with("learned for a horizon of 4 s and the quantile 0.9, and not for 5 s")
        );
        assert_eq!(
            refused(&learnt, 300, 4),
            "learned for another demand.season"
        );
        for (change, expected) in [
            (
                (|one| one.members[0].offset = 3.5) as fn(&mut Learnt),
                "calibration:",
            ),
            (|one| one.members[1].spread = f64::NAN, "calibration:"),
            (|one| one.choice.current = 5, "choice:"),
            (|one| one.choice.members[2].losses = -1.0, "choice:"),
            (|one| one.choice.members[2].squares.clear(), "choice:"),
            (
                |one| one.members[3].model = LearntModel::Season(Vec::new()),
                "linear:",
            ),
            (
                |one| {
                    if let LearntModel::Linear { fits, .. } = &mut one.members[3].model {
                        fits[1].squares[7] = f64::INFINITY;
                    }
                },
                "linear:",
            ),
            (
                |one| {
                    if let LearntModel::Season(rises) = &mut one.members[4].model {
                        rises[7].1 = 8.0;
                    }
                },
                "seasonal:",
            ),
        ] {
            let mut wrong = learnt.clone();
            change(&mut wrong);
            let refused = refused(&wrong, 600, 4);
            assert!(refused.starts_with(expected), "{refused}");
        }
    }

    #[test]
    fn other_forecasters_take_over_their_own_and_choose_anew() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut before = ensemble(600, 4);
        run(&mut before, &mut rng, 0..3000);
        let learnt = before.learnt(0);
        let task = Task::new(4, 0.9).unwrap();
        let mut linear = Ensemble::new(&[Kind::Linear], task, Settings::default());
        linear
            .relearn(&Learnt {
                season_s: None,
                ..learnt.clone()
            })
            .unwrap();
        assert_eq!(linear.learnt(0).members[0], learnt.members[3]);
        assert_eq!(linear.changes(), 0);
    }
}
