//! Plays of an experiment, on several threads.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_replay::bound::{self, Bound, MinCoreSeconds, Weights};
use weir_replay::input::requests;
use weir_replay::report::{self, Summary};
use weir_replay::request::{Play, Request};
use weir_replay::scenario::{self, Overrides, Scenario, ScenarioFile};
use weir_replay::simulation;

use crate::experiment::Experiment;
use crate::raw::{Column, Kind};
use crate::results::{Bounds, Results, rounded};

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
        let kind = self.rows.get(job.row).map(|row| row.kind);
        let is_bounded = matches!(kind, Some(Kind::Weir | Kind::Clairvoyant));
        let no_contender = || anyhow::anyhow!("{}: no contender", self.description(job));
        let services = match scenario::read_any_text(text, &self.folder, overrides)? {
            ScenarioFile::Single(single) => {
                let (scenario, sending) = *single;
                let requests = requests(scenario.seed, &sending);
                drop(sending);
                let contender = scenario.contenders.first().ok_or_else(no_contender)?;
                let play = simulation::play(&scenario, &requests, *contender, scenario.seed)?;
                let bound = is_bounded.then_some(report::yardsticks as BoundsOf);
                vec![OfService::new(
                    scenario,
                    &requests,
                    play,
                    bound,
                    &self.columns,
                )?]
            }
            ScenarioFile::Shared(shared, sendings) => {
                let contender = shared.contenders.first().ok_or_else(no_contender)?;
                let each = shared.services.iter().zip(sendings);
                let requests: Vec<Vec<Request>> = each
                    .map(|(one, sending)| requests(one.scenario.seed, &sending))
                    .collect();
                let played = simulation::play_shared(|_| {}, &shared, &requests, *contender)?;
                let bound = is_bounded.then_some(without_cores as BoundsOf);
                let each = shared.services.into_iter().zip(&requests);
                each.zip(played.plays)
                    .map(|((one, requests), play)| {
                        // Only what is lost has a bound of several together.
                        OfService::new(one.scenario, requests, play, bound, &[])
                    })
                    .collect::<anyhow::Result<_>>()?
            }
        };
        let values = self.columns.iter();
        Ok(Played {
            values: values.map(|column| column.of(&services)).collect(),
            bounds: bounds(&services),
        })
    }
}

/// Bounds of each play, as of [`report::yardsticks`].
type BoundsOf = fn(&Scenario, &[Request], &[Play]) -> Vec<(Bound, Option<MinCoreSeconds>)>;

/// Bounds of the plays of one service among several, for which the fewest cores for as many on time say nothing.
fn without_cores(
    scenario: &Scenario,
    requests: &[Request],
    plays: &[Play],
) -> Vec<(Bound, Option<MinCoreSeconds>)> {
    let bounds = bound::of_plays(scenario, requests, plays).into_iter();
    bounds.map(|bound| (bound, None)).collect()
}

/// Play of one service, summarized.
struct OfService {
    scenario: Scenario,
    play: Play,
    summary: Summary,
    bounds: Option<Bounds>,
}

impl OfService {
    fn new(
        scenario: Scenario,
        requests: &[Request],
        play: Play,
        bound: Option<BoundsOf>,
        columns: &[Column],
    ) -> anyhow::Result<OfService> {
        let plays = [play];
        let yardstick = bound.and_then(|of| of(&scenario, requests, &plays).pop());
        let [play] = plays;
        let summary = Summary::of(&scenario, requests, &play, yardstick.as_ref())?;
        Ok(OfService {
            bounds: Bounds::of(columns, &scenario, requests, &play, &summary),
            scenario,
            play,
            summary,
        })
    }
}

/// Bounds of a service. Of several it is the requests that nobody could have answered on time with the cores that each
/// had; the others are unknown.
fn bounds(services: &[OfService]) -> Option<Bounds> {
    if let [only] = services {
        return only.bounds;
    }
    let (mut lost, mut sent) = (0.0, 0.0);
    for one in services {
        let own = one.summary.sent as f64;
        lost += one.bounds?.lost_percent * own;
        sent += own;
    }
    Some(Bounds {
        lost_percent: lost / f64::max(sent, 1.0),
        ..Bounds::default()
    })
}

/// Takes the next job, with its index.
fn take<'a>(jobs: &'a [Job], next: &AtomicUsize) -> Option<(usize, &'a Job)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    Some((index, jobs.get(index)?))
}

impl Column {
    /// Value of a play: of all services together, or of the only one; `None` where there was no answer.
    fn of(&self, services: &[OfService]) -> Option<f64> {
        let OfService {
            scenario, summary, ..
        } = services.first()?;
        let sum = |of: fn(&OfService) -> f64| Some(services.iter().map(of).sum::<f64>());
        match self {
            Column::LostPercent => {
                let on_time = sum(|one| one.summary.on_time as f64)?;
                let sent = sum(|one| one.summary.sent as f64)?;
                Some(100.0 - rounded(100.0 * on_time / sent.max(1.0)))
            }
            Column::MeanCores => sum(|one| mean_cores(&one.scenario, one.summary.core_seconds)),
            Column::MeanCost => sum(|one| report::mean_cost(&one.scenario, &one.play)),
            Column::Accuracy => summary.mean_accuracy,
            Column::AccuracyLoss => Some(accuracy_loss(scenario, summary.mean_accuracy?)),
            Column::Objective => {
                let cores = mean_cores(scenario, summary.core_seconds);
                Some(Weights::of(&scenario.service)?.value(summary.mean_accuracy?, cores))
            }
            Column::P99Ms => summary.p99_ms,
            Column::Plans => sum(|one| one.summary.plans as f64),
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
