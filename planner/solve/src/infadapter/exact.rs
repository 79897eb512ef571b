//! InfAdapter's problem to the optimum, without a solver.
//!
//! Variants are decided from the most accurate on; a label is what the first of them leave: cores, load
//! (1 = the whole demand) and what they are worth so far. The most accurate are filled first, so each
//! takes the lesser of its capacity and the load that is left. A label goes when
//!
//! - even the bound ([`Bound`]) of what may still come does not reach the best found, or
//! - what is left cannot carry its load ([`Reach`]), or
//! - another has no fewer cores and no more load left, and is worth as much even if the difference in
//!   load were served by the most accurate variant to come.
//!
//! The longest loading is not a sum; so there is one search for each loading that may be the longest.

use super::capacity::{Reach, greatest};
use super::dual::{Bound, Left};
use super::hull::{Corner, upper};
use super::labels::{Label, Place, cores, undominated};
use super::{Allocation, Candidate, Choice, Problem, greedy};
use crate::{Outcome, Patience, TOLERANCE};

/// Labels expanded between two looks at the clock.
const LOOK_EVERY: usize = 64;
/// Labels that scout ahead.
const SCOUTS: usize = 32;
/// Labels of a layer are bundled by the cores they leave, and each bundle has a bound of its own: not
/// more than so many bundles, and none smaller than that.
const BUNDLES_MAX: usize = 8;
const BUNDLE_MIN: usize = 64;
/// Fewer labels are expanded sooner than a bound is made for them.
const BOUND_MIN: usize = 16;
/// Load that is left by rounding alone.
const NOTHING: f64 = 1e-9;

/// A variant as the search sees it.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Its place in the problem.
    pub(super) index: usize,
    /// What the whole demand is worth if it serves it.
    pub(super) worth: f64,
    /// Cores and the load they carry, both rising.
    pub(super) options: Vec<(u32, f64)>,
    /// The concave hull of the options.
    pub(super) hull: Vec<Corner>,
}

impl Item {
    fn new(problem: &Problem, index: usize, variant: &Candidate, unloaded: bool) -> Item {
        let allowed = |option: &&Choice| !unloaded || option.cores == 0;
        let mut options: Vec<(u32, f64)> = Vec::new();
        for option in variant.options.iter().filter(allowed) {
            let load = (option.capacity_rps / problem.demand_rps).clamp(0.0, 1.0);
            // More cores that carry no more only cost.
            if options.last().is_none_or(|last| load > last.1) {
                options.push((option.cores, load));
            }
        }
        let corners = options.iter().map(|(cores, load)| Corner {
            cores: f64::from(*cores),
            load: *load,
        });
        Item {
            index,
            worth: problem.worth(variant.accuracy),
            hull: upper(corners),
            options,
        }
    }
}

/// Solves `problem`.
pub fn solve(problem: &Problem, patience: &Patience<'_>) -> Outcome<Allocation> {
    let best = greedy::start(problem, problem.in_force.as_deref());
    let mut search = Search {
        problem,
        patience,
        core_cost: problem.core_cost(),
        best,
    };
    let Some(mut levels) = search.levels() else {
        let most = search.most();
        return search.out_of_time(most).checked(problem);
    };
    levels.sort_by(|a, b| b.bound.total_cmp(&a.bound));
    for level in &levels {
        if !search.worthwhile(level.bound) {
            break;
        }
        if search.run(level).is_none() {
            return search.out_of_time(level.bound).checked(problem);
        }
    }
    match search.best {
        Some(best) => Outcome::Optimal(best),
        None => overloaded(problem, patience),
    }
    .checked(problem)
}

/// The problem with one loading as the longest that may be.
struct Level {
    /// What that loading costs.
    loading: f64,
    items: Vec<Item>,
    root: Bound,
    /// On the objective.
    bound: f64,
}

struct Search<'a> {
    problem: &'a Problem,
    patience: &'a Patience<'a>,
    core_cost: f64,
    best: Option<Allocation>,
}

impl Search<'_> {
    /// What no objective exceeds: the most accurate answers, for nothing.
    fn most(&self) -> f64 {
        let accuracies = self.problem.variants.iter().map(|v| v.accuracy);
        self.problem.weights.alpha * accuracies.fold(0.0, f64::max)
    }

    /// One for each loading, where it can carry the demand at all; `None` when time is over before the
    /// last.
    fn levels(&self) -> Option<Vec<Level>> {
        let costs = self.problem.variants.iter();
        let mut costs: Vec<f64> = costs.map(|v| self.problem.loading_cost(v)).collect();
        costs.push(0.0);
        costs.sort_by(f64::total_cmp);
        costs.dedup();
        let mut levels = Vec::with_capacity(costs.len());
        for cost in costs {
            if self.patience.is_over() {
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
        items.sort_by(|a, b| b.worth.total_cmp(&a.worth));
        let all = Left {
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

    /// Whether something with that bound could be better than the best, or as good.
    fn worthwhile(&self, bound: f64) -> bool {
        let Some(best) = &self.best else { return true };
        bound >= best.objective - TOLERANCE * (1.0 + best.objective.abs())
    }

    /// Searches one level; `None` when time is over before its end.
    fn run(&mut self, level: &Level) -> Option<()> {
        let tails = Reach::of_tails(&level.items);
        let all = Label {
            cores: self.problem.budget,
            load: 1.0,
            worth: 0.0,
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
        self.offer_all(&level.items, &layers);
        Some(())
    }

    /// Goes ahead with the few most promising labels of the last layer, to find something good to
    /// compare with. `None` when time is over.
    fn scout(
        &mut self,
        level: &Level,
        tails: &[Reach],
        layers: &mut Vec<Vec<Label>>,
    ) -> Option<()> {
        let here = layers.len();
        if here > 1 && layers.last()?.len() < SCOUTS {
            return Some(());
        }
        for decided in here - 1..level.items.len() {
            let labels: Vec<Place> = layers.last()?.iter().copied().enumerate().collect();
            // The best of each number of cores: what is best at first sight is all alike.
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
        self.offer_all(&level.items, layers);
        layers.truncate(here);
        Some(())
    }

    /// The root's bound and, where it is worth its while, one that counts with what those labels leave,
    /// tight at the most promising.
    fn bounds(&self, level: &Level, decided: usize, labels: &[Place]) -> Vec<Bound> {
        let mut bounds = vec![level.root.clone()];
        let best = labels.iter().max_by(|a, b| a.1.bound.total_cmp(&b.1.bound));
        let cores = labels.iter().map(|(_, label)| label.cores).max();
        if let (Some((_, best)), Some(cores)) = (best, cores)
            && labels.len() >= BOUND_MIN
        {
            let loads = labels.iter().map(|(_, label)| label.load);
            let most = Left {
                cores,
                load: loads.fold(0.0, f64::max),
            };
            let at = Left {
                cores: best.cores,
                load: best.load,
            };
            let items = &level.items;
            bounds.push(Bound::tightest(items, self.core_cost, decided, most, at));
        }
        bounds
    }

    /// All that those labels may become with the next variant; `None` when time is over.
    fn expand(&self, step: &Step<'_>, labels: &[Place]) -> Option<Vec<Label>> {
        let bounds = step.bounds.iter();
        let losses: Vec<_> = bounds
            .map(|bound| (bound, bound.losses(step.decided, step.item)))
            .collect();
        let mut next = Vec::new();
        for (nth, (from, label)) in labels.iter().enumerate() {
            if nth % LOOK_EVERY == 0 && self.patience.is_over() {
                return None;
            }
            let cores = f64::from(label.cores);
            let value = |bound: &Bound| {
                label.worth + bound.at(step.decided, cores, label.load) - step.loading
            };
            let tightest = losses
                .iter()
                .min_by(|a, b| value(a.0).total_cmp(&value(b.0)));
            let (bound, losses) = tightest?;
            let value = value(bound);
            for (loss, option) in losses {
                if !self.worthwhile(value - loss) {
                    break;
                }
                let child = step.child((*from, label), *option);
                next.extend(child.filter(|child| self.worthwhile(child.bound)));
            }
        }
        Some(next)
    }

    fn undominated(&self, level: &Level, decided: usize, labels: Vec<Label>) -> Vec<Label> {
        // What load is worth to the next variant; nothing after the last.
        let to_come = level.items.get(decided).map_or(0.0, |item| item.worth);
        undominated(labels, to_come, self.problem.budget)
    }

    fn offer_all(&mut self, items: &[Item], layers: &[Vec<Label>]) {
        for label in 0..layers.last().map_or(0, Vec::len) {
            self.offer(cores(items, layers, label));
        }
    }

    /// Takes those cores for the best if they are better, or as good and fewer.
    fn offer(&mut self, cores: Vec<u32>) {
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

/// One variant to decide.
struct Step<'a> {
    item: &'a Item,
    bounds: &'a [Bound],
    /// What the variants after it can carry.
    reach: &'a Reach,
    /// Variants decided before it.
    decided: usize,
    core_cost: f64,
    loading: f64,
}

impl<'a> Step<'a> {
    fn new(
        search: &Search<'_>,
        level: &'a Level,
        decided: usize,
        bounds: &'a [Bound],
        tails: &'a [Reach],
    ) -> Option<Step<'a>> {
        Some(Step {
            item: level.items.get(decided)?,
            bounds,
            reach: tails.get(decided + 1)?,
            decided,
            core_cost: search.core_cost,
            loading: level.loading,
        })
    }

    /// What becomes of a label with that choice; `None` if that cannot carry the demand.
    fn child(&self, (from, label): (usize, &Label), option: usize) -> Option<Label> {
        let (got, carried) = *self.item.options.get(option)?;
        let cores = label.cores.checked_sub(got)?;
        let served = carried.min(label.load);
        let load = label.load - served;
        let worth = label.worth + self.item.worth * served - self.core_cost * f64::from(got);
        let left = f64::from(cores);
        if load > self.reach.at(left) + NOTHING {
            return None;
        }
        let bounds = self.bounds.iter();
        let above = bounds.map(|bound| bound.at(self.decided + 1, left, load));
        Some(Label {
            cores,
            load,
            worth,
            bound: worth + above.fold(f64::INFINITY, f64::min) - self.loading,
            from: u32::try_from(from).unwrap_or(u32::MAX),
            got,
        })
    }
}

/// The demand is above all capacity: the most there is, shared out in proportion.
pub(super) fn overloaded(problem: &Problem, patience: &Patience<'_>) -> Outcome<Allocation> {
    let best_effort = greatest(problem, patience);
    let (demand, budget) = (problem.demand_rps, problem.budget);
    let why = match &best_effort {
        Some(allocation) => {
            let capacity: f64 = problem.capacities(&allocation.cores).iter().sum();
            format!(
                "a demand of {demand:.1} requests/s exceeds the {capacity:.1} that {budget} cores can carry"
            )
        }
        None if patience.is_over() => format!(
            "a demand of {demand:.1} requests/s exceeds what {budget} cores can carry; how much that is was \
             not found in time"
        ),
        None => format!(
            "no variant can answer in time with {budget} cores, let alone {demand:.1} requests/s"
        ),
    };
    Outcome::Infeasible { why, best_effort }
}
