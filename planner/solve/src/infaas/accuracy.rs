//! Accuracies that parts of a load require. A variant may carry the load that requires its accuracy or less, so the
//! needs are nested: for each required accuracy, the variants that have it carry the load that requires it or more.
//!
//! Fractions of replicas that carry nested needs at the least cost are found greedily: the highest accuracy first,
//! each from the cheapest variants that have it. What is cheapest for a need costs a lower one nothing more.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::search::Piece;
use super::{Architecture, VARIANTS_MAX, Variant};
use crate::InputError;
use crate::input::{distinct, positive, rule, within};

/// Maximum number of accuracies that shares of a load require.
pub const ACCURACIES_MAX: usize = 8;
/// Maximum number of needs of an architecture: of the whole load, and of each accuracy.
const NEEDS_MAX: usize = ACCURACIES_MAX + 1;
/// Amount by which the sum of the shares may exceed 1.
const SUM_ERROR: f64 = 1e-9;

/// Share of a load that requires an accuracy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccuracyShare {
    /// Minimum accuracy of the answers, in percent.
    pub percent: f64,
    /// Share of load and slack, 0 to 1, that requires exactly this accuracy.
    pub share: f64,
}

/// Load that requires an accuracy or a higher one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Need {
    /// Accuracy, in percent.
    percent: f64,
    /// Load, in queries/s; below 0 if more is carried.
    pub(super) qps: f64,
}

impl Need {
    /// Returns words about the variants that may carry it.
    pub(super) fn text(&self) -> String {
        match self.percent > 0.0 {
            true => format!(" of {} % accuracy or more", self.percent),
            false => String::new(),
        }
    }
}

/// Needs of an architecture by rising accuracy; the first is the whole load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Needs {
    each: [Need; NEEDS_MAX],
    count: usize,
}

impl Needs {
    fn of(architecture: &Architecture) -> Needs {
        let all = architecture.load_qps + architecture.slack_qps;
        let mut shares = architecture.accuracies.clone();
        shares.retain(|one| one.share > 0.0);
        shares.sort_by(|a, b| b.percent.total_cmp(&a.percent));
        let mut nested: Vec<Need> = Vec::with_capacity(NEEDS_MAX);
        let mut sum = 0.0;
        for AccuracyShare { percent, share } in shares {
            sum += share;
            let qps = all * f64::min(sum, 1.0);
            nested.push(Need { percent, qps });
        }
        let mut needs = Needs {
            each: [Need::default(); NEEDS_MAX],
            count: nested.len() + 1,
        };
        let whole = Need {
            percent: 0.0,
            qps: all,
        };
        let rising = std::iter::once(whole).chain(nested.into_iter().rev());
        for (need, of) in needs.each.iter_mut().zip(rising) {
            *need = of;
        }
        needs
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Need> {
        self.each.iter().take(self.count)
    }

    /// The whole load.
    pub(super) fn total(&self) -> f64 {
        self.each.first().map_or(0.0, |need| need.qps)
    }

    /// Whether a part of the load requires an accuracy.
    pub(super) fn are_nested(&self) -> bool {
        self.count > 1
    }

    /// Number of needs, from the first on, that a variant is accurate enough for.
    pub(super) fn rank(&self, variant: &Variant) -> usize {
        let accuracy = variant.accuracy_percent.unwrap_or_default();
        // The whole load requires none.
        let further = self.iter().skip(1);
        1 + further.filter(|need| need.percent <= accuracy).count()
    }

    /// Returns the needs, each that many times.
    pub(super) fn times(mut self, by: f64) -> Needs {
        for need in self.each.iter_mut().take(self.count) {
            need.qps *= by;
        }
        self
    }

    /// Returns the needs that are left if a variant of that rank carries `qps`.
    pub(super) fn less(mut self, qps: f64, rank: usize) -> Needs {
        for need in self.each.iter_mut().take(rank) {
            need.qps -= qps;
        }
        self
    }

    pub(super) fn are_met(&self) -> bool {
        self.iter().all(|need| need.qps <= 0.0)
    }

    /// Load that variants of that rank must carry if there are no others; `None` if they cannot carry it all.
    pub(super) fn of_rank(&self, rank: usize) -> Option<f64> {
        let beyond = self.iter().skip(rank);
        let qps = |need: &Need| need.qps;
        let carried = beyond.map(qps).all(|qps| qps <= 0.0);
        carried.then(|| self.iter().take(rank).map(qps).fold(0.0, f64::max))
    }

    /// Returns the load by the accuracy that it requires exactly.
    pub(super) fn shares(&self) -> Shares {
        let next = self.iter().skip(1).map(|need| need.qps).chain([0.0]);
        let each = self.iter().zip(next);
        Shares(each.map(|(need, next)| need.qps - next).collect())
    }

    /// Returns the least cost of carrying the needs with fractions of the pieces of the levels from `first` on, and
    /// the load of `first` in it. Pieces are ordered by cost per query/s; `whole` are the needs before anything was
    /// carried.
    pub(super) fn fraction(self, pieces: &[Piece], first: usize, whole: &Needs) -> (f64, f64) {
        let mut left = self;
        let (mut cost, mut own) = (0.0, 0.0);
        // Parts that are taken already.
        let mut taken = [0.0; 2 * VARIANTS_MAX];
        let error = 1e-12 * whole.total().abs();
        for place in (0..self.count).rev() {
            let each = pieces.iter().zip(&mut taken);
            for (piece, taken) in each.filter(|(piece, _)| piece.level >= first) {
                if piece.rank <= place {
                    continue;
                }
                let need = left.each.get(place).map_or(0.0, |need| need.qps);
                let rest = 1.0 - *taken;
                let part = if piece.cost < 0.0 {
                    rest
                } else if need > 0.0 {
                    (need / piece.load).min(rest)
                } else {
                    break;
                };
                *taken += part;
                cost += part * piece.cost;
                left = left.less(part * piece.load, piece.rank);
                if piece.level == first {
                    own += part * piece.load;
                }
            }
            // The last piece may leave a rounding error.
            if left.each.get(place).is_some_and(|need| need.qps > error) {
                return (f64::INFINITY, own);
            }
        }
        (cost, own)
    }
}

/// Load that is not carried yet, by the accuracy that it requires exactly, rising.
#[derive(Debug, Clone)]
pub(super) struct Shares(Vec<f64>);

impl Shares {
    /// Load that a variant of that rank may carry.
    pub(super) fn open(&self, rank: usize) -> f64 {
        self.0.iter().take(rank).sum()
    }

    /// Takes out load that a variant of that rank carries, the highest accuracy first.
    pub(super) fn carry(&mut self, mut qps: f64, rank: usize) {
        for open in self.0.iter_mut().take(rank).rev() {
            let part = open.min(qps);
            *open -= part;
            qps -= part;
        }
    }
}

impl Architecture {
    /// Load and slack, by the accuracy that parts of them require.
    pub(super) fn needs(&self) -> Needs {
        Needs::of(self)
    }

    /// Checks the shares that require an accuracy.
    pub(super) fn check_accuracies(&self, path: &str) -> Result<(), InputError> {
        let shares = &self.accuracies;
        if shares.is_empty() {
            return Ok(());
        }
        let path = format!("{path}.accuracies");
        within(&path, shares.len(), 1, ACCURACIES_MAX, "accuracies")?;
        for (index, one) in shares.iter().enumerate() {
            positive(format!("{path}[{index}].percent"), one.percent, 100.0, "%")?;
            within(format!("{path}[{index}].share"), one.share, 0.0, 1.0, "")?;
        }
        let percents: Vec<String> = shares.iter().map(|one| one.percent.to_string()).collect();
        distinct(percents.iter().map(String::as_str), |index| {
            format!("{path}[{index}].percent")
        })?;
        let sum: f64 = shares.iter().map(|one| one.share).sum();
        let right = "shares whose sum is at most 1";
        rule(sum <= 1.0 + SUM_ERROR, path, sum.to_string(), right)?;
        let unknown = |variant: &&Variant| variant.accuracy_percent.is_none();
        if let Some(variant) = self.variants.iter().find(unknown) {
            let right = "given, as a share of the load requires an accuracy";
            let path = format!("{}.accuracy_percent", variant.name);
            rule(false, path, "nothing".to_owned(), right)?;
        }
        Ok(())
    }
}
