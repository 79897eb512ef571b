//! Upper bound on a policy's objective: a · mean accuracy of the answers − c · mean cores, for at least a given number of
//! on-time answers within the budget. With c = 0 and a = 1 it bounds the mean accuracy.
//!
//! The relaxation. N of S requests are on time, each by a fraction of several variants if that is better. A request on
//! variant v occupies cores for its least work w_v ([`super::work`]), somewhere between its release and its due time. The
//! mean of the cores over the load is at least the sum of the work, and the work within a period is at most the
//! budget times its length. (One assumption is needed: a core is paid for until its execution has ended.) Late answers
//! count in the mean accuracy too: the S − N others are taken as answered with the highest accuracy for nothing. Where a
//! contender leaves them unanswered, or has more on time, that raises the bound and never lowers it.
//!
//! The bound. Give a core-second of each period k the price μₖ ≥ 0, and let every request pay the lowest price of the
//! periods that it may be executed in. The N requests that are worth most at these prices, plus Σ μₖ · budget · length,
//! are worth no less than any such fractions (weak duality): they leave out the budget, and pay back what it is worth.
//! So every choice of prices is a bound, and the least of several is taken: for a value λ of one more answer, the price
//! of a period is the lowest at which the requests that arrive in it ask for no more than the budget.
//!
//! A request of a pipeline has one variant in each stage: the product of the accuracies, and the sum of the work. With
//! the other stages given, a stage's choice is worth the more accuracy and the less work, both linearly, so only the
//! upper hull of its variants can be best.
//!
//! The initial cores stay for one resize delay, used or not: as in [`super::cores`], the lower of two bounds counts.

use std::time::Duration;

use weir_planner::policy::{Infadapter, Ipa};
use weir_planner::service::Service;

use super::Window;
use super::work::{Machine, ROUNDING, Worker, by_stage, machines};
use crate::request::{Play, Request};
use crate::scenario::Scenario;

/// Maximum number of periods with a price.
const PERIODS_MAX: usize = 240;
/// Values of one more answer that are tried, relative to the greatest value of an answer.
const ANSWER_VALUES: [f64; 6] = [0.0, 0.25, 1.0, 4.0, 16.0, 64.0];
/// Bisection steps of the search for a price.
const PRICE_STEPS: u32 = 32;

/// Weights of an objective.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// Weight of a percent of the answers' mean accuracy.
    pub accuracy: f64,
    /// Weight of a core of the mean cores.
    pub core: f64,
}

impl Weights {
    /// Mean accuracy alone.
    pub const ACCURACY: Weights = Weights {
        accuracy: 1.0,
        core: 0.0,
    };

    /// Weights of a service's policy: IPA's, and InfAdapter's in percentage points of accuracy, a hundredfold. The terms
    /// of loading and of batches are left out, which are of a decision, not of a time. `None` where the objective has no
    /// accuracy: then it is the mean cores or their cost.
    #[must_use]
    pub fn of(service: &Service) -> Option<Weights> {
        if let Some(ipa) = service.policy.downcast::<Ipa>() {
            return Some(Weights {
                accuracy: ipa.alpha,
                core: ipa.beta,
            });
        }
        let objective = service.objective;
        let is_infadapter = service.policy.downcast::<Infadapter>().is_some();
        is_infadapter.then(|| Weights {
            accuracy: objective.alpha,
            core: 100.0 * objective.beta / service.budget_cores().as_f64(),
        })
    }

    /// Value of a mean accuracy in percent and mean cores.
    #[must_use]
    pub fn value(self, accuracy: f64, cores: f64) -> f64 {
        self.accuracy * accuracy - self.core * cores
    }
}

/// Servers and budget.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pool<'a> {
    pub(super) stages: &'a [&'a [Machine]],
    /// Cores of all together.
    pub(super) budget: f64,
    /// End of the load.
    pub(super) end: Duration,
}

/// Choice of a variant in each stage.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Choice {
    /// Core-seconds.
    work: f64,
    /// Accuracy, percent; then its value.
    worth: f64,
}

/// Request with its choices, and the periods in which it may be executed.
#[derive(Debug, Clone)]
struct Job {
    release: Duration,
    from: usize,
    to: usize,
    choices: Vec<Choice>,
}

/// Returns the bound for at least `on_time` on-time answers of a scenario, from the initial cores of a play; `None` if so
/// many are impossible.
#[must_use]
pub fn max_objective(
    scenario: &Scenario,
    requests: &[Request],
    play: &Play,
    on_time: u64,
    weights: Weights,
) -> Option<f64> {
    let machines = machines(scenario, play);
    let stages = by_stage(scenario, &machines);
    let windows: Vec<Window> = requests.iter().map(Window::of).collect();
    let pool = Pool {
        stages: &stages,
        budget: scenario.service.budget_cores().as_f64(),
        end: scenario.length,
    };
    max(&windows, on_time, pool, weights)
}

/// Returns the bound for at least `on_time` on-time answers; `None` if so many are impossible.
pub(super) fn max(
    windows: &[Window],
    on_time: u64,
    pool: Pool<'_>,
    weights: Weights,
) -> Option<f64> {
    let all = windows.len();
    let on_time = usize::try_from(on_time).ok()?;
    let late = all.checked_sub(on_time)?;
    let each = 1.0 / all.max(1) as f64;
    // As the mean cores of a contender are computed.
    let core_second = weights.core / pool.end.as_secs_f64().max(1.0);
    let periods = Periods::new(pool.end);
    let machines = || pool.stages.iter().copied().flatten();
    let settled = machines().map(|machine| machine.resize_delay).max()?;
    let start: f64 = machines()
        .map(|machine| machine.cores * machine.resize_delay.as_secs_f64())
        .sum();
    let workers = |machines: &&[Machine]| machines.iter().map(Worker::new).collect();
    let stages: Vec<Vec<Worker>> = pool.stages.iter().map(workers).collect();
    let jobs = windows.iter().map(|window| Job {
        release: window.release,
        from: periods.at(window.release),
        to: periods.at(window.due),
        choices: choices(window, &stages, pool.end),
    });
    let jobs: Vec<Job> = jobs.filter(|job| !job.choices.is_empty()).collect();
    if jobs.len() < on_time {
        return None;
    }
    let capacity = periods.lengths().map(|length_s| length_s * pool.budget);
    let capacity: Vec<f64> = capacity.collect();
    // The value of the answers where cores cost from `from` on.
    let value = |from: Duration| {
        let priced = jobs.iter().map(|job| {
            let cost = if job.release >= from {
                core_second
            } else {
                0.0
            };
            let worth = |choice: &Choice| Choice {
                worth: weights.accuracy * choice.worth * each - cost * choice.work,
                ..*choice
            };
            Job {
                choices: job.choices.iter().map(worth).collect(),
                ..*job
            }
        });
        least(&priced.collect::<Vec<Job>>(), on_time, &capacity)
    };
    let without_start = value(Duration::ZERO);
    let with_start = value(settled) - core_second * start;
    let best = |machines: &&[Machine]| {
        let accuracies = machines.iter().map(|machine| machine.accuracy / 100.0);
        accuracies.fold(0.0, f64::max)
    };
    let best = 100.0 * pool.stages.iter().map(best).product::<f64>();
    let of_late = weights.accuracy * best * late as f64 * each;
    let size = weights.accuracy * best + core_second * start;
    Some(without_start.min(with_start) + of_late + size * ROUNDING)
}

/// Choices of a request that can be best, by rising work; none if it cannot be on time.
fn choices(window: &Window, stages: &[Vec<Worker>], end: Duration) -> Vec<Choice> {
    let of_stage = |workers: &Vec<Worker>| {
        let choice = |worker: &Worker| {
            Some(Choice {
                work: worker.core_seconds(window, end)?,
                worth: worker.machine.accuracy,
            })
        };
        hull(workers.iter().filter_map(choice).collect())
    };
    let together = |before: Vec<Choice>, after: Vec<Choice>| {
        let with = |a: Choice| {
            let each = after.iter();
            each.map(move |b| Choice {
                work: a.work + b.work,
                worth: a.worth * b.worth / 100.0,
            })
        };
        hull(before.iter().copied().flat_map(with).collect())
    };
    let each = stages.iter().map(of_stage);
    each.reduce(together).unwrap_or_default()
}

/// Upper hull: the choices of which each is the best at some price of work.
fn hull(mut all: Vec<Choice>) -> Vec<Choice> {
    all.sort_by(|a, b| a.work.total_cmp(&b.work).then(b.worth.total_cmp(&a.worth)));
    let mut kept: Vec<Choice> = Vec::new();
    for next in all {
        if kept.last().is_some_and(|last| next.worth <= last.worth) {
            continue;
        }
        while let [.., before, last] = kept.as_slice() {
            let (rise, run) = (last.worth - before.worth, last.work - before.work);
            if (next.worth - last.worth) * run < rise * (next.work - last.work) {
                break;
            }
            kept.pop();
        }
        kept.push(next);
    }
    kept
}

/// Periods of equal length until the end of the load, and the time after it.
#[derive(Debug, Clone, Copy)]
struct Periods {
    count: usize,
    length_s: f64,
}

impl Periods {
    fn new(end: Duration) -> Periods {
        let end_s = end.as_secs_f64();
        let count = (end_s.ceil() as usize).clamp(1, PERIODS_MAX);
        Periods {
            count,
            length_s: (end_s / count as f64).max(f64::MIN_POSITIVE),
        }
    }

    /// Index of the period at a time; the count after the end.
    fn at(&self, time: Duration) -> usize {
        ((time.as_secs_f64() / self.length_s) as usize).min(self.count)
    }

    fn lengths(&self) -> impl Iterator<Item = f64> {
        std::iter::repeat_n(self.length_s, self.count)
    }
}

/// Least bound on the value of `on_time` of the jobs.
fn least(jobs: &[Job], on_time: usize, capacity: &[f64]) -> f64 {
    let free = vec![0.0; capacity.len()];
    let mut least = value(jobs, on_time, capacity, &free);
    let worths = jobs.iter().flat_map(|job| &job.choices);
    let max_worth = worths.map(|choice| choice.worth.abs()).fold(0.0, f64::max);
    let mut by_period: Vec<Vec<&Job>> = vec![Vec::new(); capacity.len()];
    for job in jobs {
        // What is released after the end is no period's.
        if let Some(period) = by_period.get_mut(job.from) {
            period.push(job);
        }
    }
    for answer in ANSWER_VALUES {
        let each = by_period.iter().zip(capacity);
        let prices = each.map(|(jobs, capacity)| price(jobs, *capacity, answer * max_worth));
        least = least.min(value(
            jobs,
            on_time,
            capacity,
            &prices.collect::<Vec<f64>>(),
        ));
    }
    least
}

/// Value of the `on_time` jobs that are worth most at these prices, with the price of all capacity.
fn value(jobs: &[Job], on_time: usize, capacity: &[f64], prices: &[f64]) -> f64 {
    let price = |job: &Job| {
        let periods = prices.get(job.from..=job.to);
        periods.map_or(0.0, |prices| {
            prices.iter().copied().fold(f64::INFINITY, f64::min)
        })
    };
    let mut each: Vec<f64> = jobs.iter().map(|job| job.best(price(job)).1).collect();
    each.sort_by(|a, b| b.total_cmp(a));
    let jobs: f64 = each.iter().take(on_time).sum();
    let capacity = capacity.iter().zip(prices);
    jobs + capacity
        .map(|(seconds, price)| seconds * price)
        .sum::<f64>()
}

/// Lowest price at which the jobs ask for no more than the capacity, if an answer is worth that much beside its own value.
fn price(jobs: &[&Job], capacity: f64, answer: f64) -> f64 {
    let demanded = |price: f64| -> f64 {
        let each = jobs.iter().map(|job| job.best(price));
        let each = each.filter(|(_, worth)| worth + answer > 0.0);
        each.map(|(work, _)| work).sum()
    };
    if demanded(0.0) <= capacity {
        return 0.0;
    }
    let choices = jobs.iter().flat_map(|job| &job.choices);
    let working = choices.filter(|choice| choice.work > 0.0);
    let most = working.map(|choice| (choice.worth + answer) / choice.work);
    let (mut low, mut high) = (0.0, most.fold(0.0, f64::max));
    for _ in 0..PRICE_STEPS {
        let middle = f64::midpoint(low, high);
        if demanded(middle) <= capacity {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

impl Job {
    /// Work and value of the best choice at a price of a core-second.
    fn best(&self, price: f64) -> (f64, f64) {
        let each = self.choices.iter();
        let each = each.map(|choice| (choice.work, choice.worth - price * choice.work));
        each.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default()
    }
}
