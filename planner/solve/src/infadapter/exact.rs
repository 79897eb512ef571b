//! Exact label-setting algorithm for InfAdapter's problem, without a solver.
//!
//! Variants are decided from the most accurate on. A label holds the cores and the load (1 = the whole
//! demand) that the decided variants leave, and their value. The most accurate are filled first, so
//! each takes the lesser of its capacity and the load left. A label is discarded if
//!
//! - its value plus the bound ([`Bound`]) of the undecided variants does not reach the incumbent, or
//! - the cores left cannot carry the load left ([`CapacityBound`]), or
//! - another label has at least as many cores and at most as much load left, and at least the same
//!   value even if the most accurate undecided variant served the difference in load.
//!
//! The longest loading time is not a sum. So there is one search for each loading time that may be the
//! longest.

use super::capacity::{CapacityBound, max};
use super::dual::{Bound, Remaining};
use super::item::Item;
use super::labels::{Label, Place, cores, undominated};
use super::{Allocation, Problem, greedy};
use crate::{Outcome, TOLERANCE, TimeLimit};

use step::Step;

mod step;

/// Labels expanded between two readings of the clock.
const CLOCK_INTERVAL: usize = 64;
/// Labels of the scouting search (a beam).
const SCOUTS: usize = 32;
/// Labels of a layer are bundled by the cores they leave, and each bundle has its own bound. There are
/// about at most this many bundles, and none has fewer labels than the minimum.
const BUNDLES_MAX: usize = 8;
const BUNDLE_MIN: usize = 64;
/// Minimum number of labels for which a separate bound is worth its cost.
const BOUND_MIN: usize = 16;

/// Solves `problem`.
pub fn solve(problem: &Problem, time_limit: &TimeLimit<'_>) -> Outcome<Allocation> {
    let best = greedy::start(problem, problem.in_force.as_deref());
    let mut search = Search {
        problem,
        time_limit,
        core_cost: problem.core_cost(),
        best,
    };
    let Some(mut levels) = search.levels() else {
        let most = search.objective_max();
        return search.out_of_time(most).checked(problem);
    };
    levels.sort_by(|a, b| b.bound.total_cmp(&a.bound));
    for level in &levels {
        if !search.can_improve(level.bound) {
            break;
        }
        if search.run(level).is_none() {
            return search.out_of_time(level.bound).checked(problem);
        }
    }
    match search.best {
        Some(best) => Outcome::Optimal(best),
        None => overloaded(problem, time_limit),
    }
    .checked(problem)
}

/// Problem with a limit on the longest loading time.
struct Level {
    /// Cost of that loading time.
    loading: f64,
    items: Vec<Item>,
    root: Bound,
    /// Upper bound of the objective.
    bound: f64,
}

struct Search<'a> {
    problem: &'a Problem,
    time_limit: &'a TimeLimit<'a>,
    core_cost: f64,
    best: Option<Allocation>,
}

impl Search<'_> {
    /// Upper bound of any objective: the most accurate answers, at no cost.
    fn objective_max(&self) -> f64 {
        let accuracies = self.problem.variants.iter().map(|v| v.accuracy);
        self.problem.weights.alpha * accuracies.fold(0.0, f64::max)
    }

    /// Creates one level for each loading time with which the demand can be carried; `None` if time is
    /// over before the last.
    fn levels(&self) -> Option<Vec<Level>> {
        let costs = self.problem.variants.iter();
        let mut costs: Vec<f64> = costs.map(|v| self.problem.loading_cost(v)).collect();
        costs.push(0.0);
        costs.sort_by(f64::total_cmp);
        costs.dedup();
        let mut levels = Vec::with_capacity(costs.len());
        for cost in costs {
            if self.time_limit.is_over() {
                return None;
            }
            levels.extend(self.level(cost));
        }
        Some(levels)
    }

    fn level(&self, loading: f64) -> Option<Level> {
        let problem = self.problem;
        let each = problem.variants.iter().enumerate();
        let mut items: Vec<Item> = each
            .map(|(index, variant)| {
                let unloaded = problem.loading_cost(variant) > loading;
                Item::new(problem, index, variant, unloaded)
            })
            .collect();
        if items.iter().any(|item| item.options.is_empty()) {
            return None;
        }
        items.sort_by(|a, b| b.value.total_cmp(&a.value));
        let all = Remaining {
            cores: problem.budget,
            load: 1.0,
        };
        let root = Bound::tightest(&items, self.core_cost, 0, all, all);
        let bound = root.at(0, f64::from(problem.budget), 1.0) - loading;
        Some(Level {
            loading,
            items,
            root,
            bound,
        })
    }

    /// Whether a solution with that bound could equal or exceed the incumbent.
    fn can_improve(&self, bound: f64) -> bool {
        let Some(best) = &self.best else { return true };
        bound >= best.objective - TOLERANCE * (1.0 + best.objective.abs())
    }

    /// Searches one level; `None` if time is over before its end.
    fn run(&mut self, level: &Level) -> Option<()> {
        let tails = CapacityBound::of_tails(&level.items);
        let all = Label {
            cores: self.problem.budget,
            load: 1.0,
            value: 0.0,
            bound: level.bound,
            from: 0,
            got: 0,
        };
        let mut layers = vec![vec![all]];
        for decided in 0..level.items.len() {
            self.scout(level, &tails, &mut layers)?;
            let labels: Vec<Place> = layers.last()?.iter().copied().enumerate().collect();
            let mut next = Vec::new();
            for bundle in labels.chunks((labels.len() / BUNDLES_MAX).max(BUNDLE_MIN)) {
                let bounds = self.bounds(level, decided, bundle);
                let step = Step::new(self, level, decided, &bounds, &tails)?;
                next.extend(self.expand(&step, bundle)?);
            }
            layers.push(self.undominated(level, decided + 1, next));
        }
        self.update_best_from(&level.items, &layers);
        Some(())
    }

    /// Runs ahead from the most promising labels of the last layer, to find a good incumbent for
    /// comparison. `None` if time is over.
    fn scout(
        &mut self,
        level: &Level,
        tails: &[CapacityBound],
        layers: &mut Vec<Vec<Label>>,
    ) -> Option<()> {
        let here = layers.len();
        if here > 1 && layers.last()?.len() < SCOUTS {
            return Some(());
        }
        for decided in here - 1..level.items.len() {
            let labels: Vec<Place> = layers.last()?.iter().copied().enumerate().collect();
            // The best label for each range of cores: the overall best ones are too similar.
            let bundles = labels.chunks(labels.len().div_ceil(SCOUTS).max(1));
            let best = bundles.filter_map(|bundle| {
                let each = bundle.iter().copied();
                each.max_by(|a, b| a.1.bound.total_cmp(&b.1.bound))
            });
            let labels: Vec<Place> = best.collect();
            let bounds = self.bounds(level, decided, &labels);
            let step = Step::new(self, level, decided, &bounds, tails)?;
            let next = self.expand(&step, &labels)?;
            layers.push(self.undominated(level, decided + 1, next));
        }
        self.update_best_from(&level.items, layers);
        layers.truncate(here);
        Some(())
    }

    /// Returns the root's bound and, for enough labels, a bound for the resources that these labels
    /// leave, tight for the most promising one.
    fn bounds(&self, level: &Level, decided: usize, labels: &[Place]) -> Vec<Bound> {
        let mut bounds = vec![level.root.clone()];
        let best = labels.iter().max_by(|a, b| a.1.bound.total_cmp(&b.1.bound));
        let cores = labels.iter().map(|(_, label)| label.cores).max();
        if let (Some((_, best)), Some(cores)) = (best, cores)
            && labels.len() >= BOUND_MIN
        {
            let loads = labels.iter().map(|(_, label)| label.load);
            let most = Remaining {
                cores,
                load: loads.fold(0.0, f64::max),
            };
            let at = Remaining {
                cores: best.cores,
                load: best.load,
            };
            let items = &level.items;
            bounds.push(Bound::tightest(items, self.core_cost, decided, most, at));
        }
        bounds
    }

    /// Expands the labels by all choices of the next variant; `None` if time is over.
    fn expand(&self, step: &Step<'_>, labels: &[Place]) -> Option<Vec<Label>> {
        let bounds = step.bounds.iter();
        let losses: Vec<_> = bounds
            .map(|bound| (bound, bound.losses(step.decided, step.item)))
            .collect();
        let mut next = Vec::new();
        for (nth, (from, label)) in labels.iter().enumerate() {
            if nth % CLOCK_INTERVAL == 0 && self.time_limit.is_over() {
                return None;
            }
            let cores = f64::from(label.cores);
            let value = |bound: &Bound| {
                label.value + bound.at(step.decided, cores, label.load) - step.loading
            };
            let tightest = losses
                .iter()
                .min_by(|a, b| value(a.0).total_cmp(&value(b.0)));
            let (bound, losses) = tightest?;
            let value = value(bound);
            for (loss, option) in losses {
                if !self.can_improve(value - loss) {
                    break;
                }
                let child = step.child((*from, label), *option);
                next.extend(child.filter(|child| self.can_improve(child.bound)));
            }
        }
        Some(next)
    }

    fn undominated(&self, level: &Level, decided: usize, labels: Vec<Label>) -> Vec<Label> {
        // Value of load to the next variant; 0 after the last.
        let to_come = level.items.get(decided).map_or(0.0, |item| item.value);
        undominated(labels, to_come, self.problem.budget)
    }

    fn update_best_from(&mut self, items: &[Item], layers: &[Vec<Label>]) {
        for label in 0..layers.last().map_or(0, Vec::len) {
            self.update_best(cores(items, layers, label));
        }
    }

    /// Makes these cores the incumbent if they are better, or equally good and fewer.
    fn update_best(&mut self, cores: Vec<u32>) {
        let Some(new) = self.problem.allocation(&cores) else {
            return;
        };
        let Some(best) = &self.best else {
            self.best = Some(new);
            return;
        };
        let tie = TOLERANCE * (1.0 + best.objective.abs());
        let used = |allocation: &Allocation| allocation.cores.iter().sum::<u32>();
        let better = new.objective > best.objective + tie;
        let as_good = new.objective >= best.objective - tie;
        if better || (as_good && used(&new) < used(best)) {
            self.best = Some(new);
        }
    }

    fn out_of_time(self, bound: f64) -> Outcome<Allocation> {
        match self.best {
            Some(best) => {
                let gap = (bound - best.objective).max(0.0);
                Outcome::Good { best, gap }
            }
            None => Outcome::OutOfTime {
                why: "no cores that carry the demand were found in time".to_owned(),
                best: None,
            },
        }
    }
}

/// Result if the demand exceeds all capacity: the greatest capacity, with shares in proportion.
pub(super) fn overloaded(problem: &Problem, time_limit: &TimeLimit<'_>) -> Outcome<Allocation> {
    let best_effort = max(problem, time_limit);
    let (demand, budget) = (problem.demand_rps, problem.cores(problem.budget));
    let why = match &best_effort {
        Some(allocation) => {
            let capacity: f64 = problem.capacities(&allocation.cores).iter().sum();
            let used = problem.cores(allocation.cores.iter().sum());
            // The allocation has the fewest cores of those with that capacity.
            let bound = match used < budget {
                true => format!(
                    "{used} cores can carry, the most that the variants can use of {budget}"
                ),
                false => format!("{budget} cores can carry"),
            };
            format!("a demand of {demand:.1} requests/s exceeds the {capacity:.1} that {bound}")
        }
        None if time_limit.is_over() => format!(
            "a demand of {demand:.1} requests/s exceeds what {budget} cores can carry; how much that is was \
             not found in time"
        ),
        None => format!(
            "no variant can answer in time with {budget} cores, let alone {demand:.1} requests/s"
        ),
    };
    Outcome::Infeasible { why, best_effort }
}
