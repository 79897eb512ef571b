//! Plays of an experiment, on several threads.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_replay::bound::Weights;
use weir_replay::input::requests;
use weir_replay::report::{self, Summary};
use weir_replay::request::Play;
use weir_replay::scenario::{self, Overrides, Scenario};
use weir_replay::simulation;

use crate::experiment::Experiment;
use crate::raw::{Column, Kind};
use crate::results::{Bounds, Results};

/// Play that has begun or ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Plays that have ended.
    pub ended: usize,
    /// All plays.
    pub all: usize,
    /// Case, row and seed of the play that ended last.
    pub last: String,
}

/// Values of one play.
#[derive(Debug, Clone)]
pub struct Played {
    /// Value of each column; `None` where there was no answer.
    pub(crate) values: Vec<Option<f64>>,
    /// Clairvoyant bounds, for some kinds of rows.
    pub(crate) bounds: Option<Bounds>,
}

/// Row of a case with a seed.
#[derive(Debug, Clone, Copy)]
struct Job {
    case: usize,
    row: usize,
    seed: u64,
}

impl Experiment {
    /// Plays all rows of all cases with all seeds on that many threads. Calls `tell` after each play.
    ///
    /// # Errors
    /// A scenario that cannot be played.
    pub fn play(
        &self,
        threads: usize,
        tell: &(impl Fn(Progress) + Sync),
    ) -> anyhow::Result<Results> {
        let mut jobs = Vec::new();
        for case in 0..self.cases.len() {
            for row in 0..self.rows.len() {
                jobs.extend(self.seeds.iter().map(|seed| Job {
                    case,
                    row,
                    seed: *seed,
                }));
            }
        }
        let next = AtomicUsize::new(0);
        let ended = AtomicUsize::new(0);
        let played: Mutex<Vec<Option<anyhow::Result<Played>>>> =
            Mutex::new(jobs.iter().map(|_| None).collect());
        let work = || {
            while let Some((index, job)) = take(&jobs, &next) {
                let result = self.play_one(*job);
                let failed = result.is_err();
                let mut played = played.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(place) = played.get_mut(index) {
                    *place = Some(result);
                }
                drop(played);
                if failed {
                    // The others are not begun.
                    next.store(jobs.len(), Ordering::Relaxed);
                    return;
                }
                tell(Progress {
                    ended: ended.fetch_add(1, Ordering::Relaxed) + 1,
                    all: jobs.len(),
                    last: self.description(*job),
                });
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.max(1) {
                scope.spawn(work);
            }
            work();
        });
        let played = played.into_inner().unwrap_or_else(PoisonError::into_inner);
        let played: Vec<Played> = played.into_iter().flatten().collect::<Result<_, _>>()?;
        Ok(Results::new(self, &played))
    }

    fn description(&self, job: Job) -> String {
        let case = self.cases.get(job.case).map_or("", |case| &case.name);
        let row = self.rows.get(job.row).map_or("", |row| &row.name);
        format!("{}: {case}, {row}, seed {}", self.name, job.seed)
    }

    fn play_one(&self, job: Job) -> anyhow::Result<Played> {
        let case = self.cases.get(job.case);
        let text = case.and_then(|case| case.scenarios.get(job.row));
        let overrides = Overrides {
            seed: Some(job.seed),
            ..Overrides::default()
        };
        let text = text.map_or("", String::as_str);
        let (scenario, sending) = scenario::read_text(text, &self.folder, overrides)?;
        let requests = requests(scenario.seed, &sending);
        drop(sending);
        let Some(contender) = scenario.contenders.first() else {
            anyhow::bail!("{}: no contender", self.description(job));
        };
        let play = simulation::play(&scenario, &requests, *contender, scenario.seed)?;
        let plays = [play];
        let kind = self.rows.get(job.row).map(|row| row.kind);
        let is_bounded = matches!(kind, Some(Kind::Weir | Kind::Clairvoyant));
        let yardstick = is_bounded
            .then(|| report::yardsticks(&scenario, &requests, &plays).pop())
            .flatten();
        let [play] = &plays;
        let summary = Summary::of(&scenario, &requests, play, yardstick.as_ref())?;
        let values = self.columns.iter();
        Ok(Played {
            values: values
                .map(|column| column.of(&scenario, &summary, play))
                .collect(),
            bounds: Bounds::of(&self.columns, &scenario, &requests, play, &summary),
        })
    }
}

/// Takes the next job, with its index.
fn take<'a>(jobs: &'a [Job], next: &AtomicUsize) -> Option<(usize, &'a Job)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    Some((index, jobs.get(index)?))
}

impl Column {
    /// Value of a play; `None` where there was no answer.
    fn of(&self, scenario: &Scenario, summary: &Summary, play: &Play) -> Option<f64> {
        match self {
            Column::LostPercent => Some(100.0 - summary.on_time_percent),
            Column::MeanCores => Some(mean_cores(scenario, summary.core_seconds)),
            Column::MeanCost => Some(report::mean_cost(scenario, play)),
            Column::Accuracy => summary.mean_accuracy,
            Column::AccuracyLoss => Some(accuracy_loss(scenario, summary.mean_accuracy?)),
            Column::Objective => {
                let cores = mean_cores(scenario, summary.core_seconds);
                Some(Weights::of(&scenario.service)?.value(summary.mean_accuracy?, cores))
            }
            Column::P99Ms => summary.p99_ms,
            Column::Plans => Some(summary.plans as f64),
            Column::OnTimePercent(name) => {
                let class = summary.classes.iter().find(|class| class.name == *name)?;
                (class.sent > 0).then_some(class.on_time_percent)
            }
        }
    }
}

/// Most accurate variant's accuracy less another, percentage points.
pub(crate) fn accuracy_loss(scenario: &Scenario, accuracy: f64) -> f64 {
    let accuracies = scenario.service.variants.iter().map(|known| known.accuracy);
    accuracies.fold(0.0, f64::max) - accuracy
}

/// Mean over the length of the load of core-seconds or their cost.
pub(crate) fn mean_cores(scenario: &Scenario, core_seconds: f64) -> f64 {
    core_seconds / scenario.length.as_secs_f64().max(1.0)
}
