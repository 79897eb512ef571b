//! The ports of a planner's turn on simulated proxies, backends and filters. What takes time is a
//! future that is ready at its time in the world; nothing is slept and no clock is read.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use weir_api::{Cores, Plan, PlanError, Revision};

use super::kubelet::Kubelet;
use crate::world::nanos;
use weir_planner::backends::kubernetes::replace::Kept;
use weir_planner::backends::{Actuate, ActuateError};
use weir_planner::capacity::{Allocation, Goal, InForce, Resize};
use weir_planner::clock::Now;
use weir_planner::control_loop::Solver;
use weir_planner::distribution::{Publish, Publisher, Receipt};
use weir_planner::forecast::Forecast;
use weir_planner::observe::{Counts, Observe, Scrape, ScrapeError};
use weir_planner::plan::Draft;
use weir_planner::policy::{Decision, decide};
use weir_planner::service::Service;

/// Most decisions remembered; above that they are made anew.
const MEMO_MAX: usize = 100_000;

/// All that a decision follows from, for one service: what is in force, the forecast, to the bit, and how long variants
/// take to be ready.
type Problem = (Vec<InForce>, Option<Asked>, Vec<Duration>);

type Asked = (u64, bool, Option<u64>, Option<u64>);

fn asked(forecast: Forecast) -> Asked {
    let left = forecast.left_ms.map(f64::to_bits);
    let lasted = forecast.lasted.map(|lasted| lasted.0.to_bits());
    (forecast.demand.0.to_bits(), forecast.settled, left, lasted)
}

/// A replayed variant is one replica.
fn one(cores: Cores) -> InForce {
    InForce::certain(Allocation::one(cores))
}

/// A proxy's: names have the order of the proxies, and sums over them the same last bit.
fn name(proxy: usize) -> Arc<str> {
    format!("proxy-{proxy:03}").into()
}

/// The ports.
pub(crate) struct Desk {
    board: Mutex<Board>,
    publisher: Publisher,
    memo: Mutex<HashMap<Problem, Decision>>,
    /// By proxy: its name.
    names: Vec<Arc<str>>,
    resize_timeout: Duration,
}

/// What world and turn tell each other.
pub(crate) struct Board {
    /// The time in the world.
    pub(crate) now: Duration,
    /// By proxy; `None` while it cannot be scraped.
    pub(crate) counted: Vec<Option<Counts>>,
    /// The backends.
    pub(crate) kubelet: Kubelet,
    /// By proxy: the plan it has.
    pub(crate) taken: Vec<Revision>,
    /// Plans published since the world last looked.
    pub(crate) plans: Vec<Plan>,
    /// When the turn wants to go on, if it waits.
    pub(crate) wake_at: Option<Duration>,
}

impl Desk {
    pub(crate) fn new(service: &Service, kubelet: Kubelet, proxies: usize) -> Desk {
        Desk {
            board: Mutex::new(Board {
                now: Duration::ZERO,
                counted: vec![Some(Counts::default()); proxies],
                kubelet,
                taken: vec![Revision(0); proxies],
                plans: Vec::new(),
                wake_at: None,
            }),
            publisher: Publisher::new(service),
            memo: Mutex::new(HashMap::new()),
            names: (0..proxies).map(name).collect(),
            resize_timeout: service.resize_timeout,
        }
    }

    pub(crate) fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ready once `ready` has an answer, asked again whenever the world goes on; at `until` at the latest.
    fn when<T>(
        &self,
        until: Duration,
        mut ready: impl FnMut(&Board) -> Option<T>,
        late: T,
    ) -> impl Future<Output = T> {
        let mut late = Some(late);
        poll_fn(move |_| {
            let mut board = self.board();
            if let Some(answer) = ready(&board) {
                return Poll::Ready(answer);
            }
            match late.take_if(|_| board.now >= until) {
                Some(late) => Poll::Ready(late),
                None => {
                    board.wake_at = Some(board.wake_at.map_or(until, |at| at.min(until)));
                    Poll::Pending
                }
            }
        })
    }
}

impl Observe for Desk {
    async fn scrape(&self) -> Vec<Scrape> {
        let board = self.board();
        let scrape = |(counted, name): (&Option<Counts>, &Arc<str>)| Scrape {
            from: Arc::clone(name),
            at: board.now,
            counts: counted.clone().ok_or(ScrapeError::Status(503)),
        };
        let proxies = board.counted.iter().zip(&self.names);
        proxies.map(scrape).collect()
    }
}

impl Actuate for Desk {
    async fn in_force(&self) -> Vec<Option<Result<InForce, ActuateError>>> {
        let board = self.board();
        let known = board.kubelet.known().map(|(confirmed, pending)| {
            let now = one(confirmed);
            Some(Ok(pending.map_or(now, |cores| now.or(Goal::one(cores)))))
        });
        known.collect()
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<InForce, ActuateError>> {
        let mut answers = Vec::with_capacity(changes.len());
        let (begin, ready): (Duration, Vec<Option<u64>>) = {
            let mut board = self.board();
            let now = board.now;
            let ask = |change: &Resize| {
                board
                    .kubelet
                    .ask(nanos(now), change.variant, change.cores())
            };
            (now, changes.iter().map(ask).collect())
        };
        let limit = begin + self.resize_timeout;
        for (change, ready) in changes.iter().zip(ready) {
            let Some(ready) = ready.map(Duration::from_nanos) else {
                answers.push(Err(ActuateError::Status(409, "refused".to_owned())));
                continue;
            };
            // All run at the same time: a later one has most likely been confirmed meanwhile.
            let confirmed = |board: &Board| (board.now >= ready).then_some(true);
            let in_time = self.when(ready.min(limit), confirmed, ready <= limit).await;
            answers.push(if in_time {
                Ok(one(change.cores()))
            } else {
                Err(ActuateError::Timeout(self.resize_timeout))
            });
        }
        answers
    }

    fn retire(&self, _: usize, _: Cores) -> Option<Result<InForce, Kept>> {
        None
    }

    async fn replace(&self, _: usize) -> Result<InForce, ActuateError> {
        Err(ActuateError::NoAddress)
    }
}

impl Publish for Desk {
    fn publish(&self, drafts: Vec<Draft>, now: Now) -> Result<Receipt, PlanError> {
        // A replayed service has one stage.
        let receipt = self
            .publisher
            .publish(drafts.into_iter().next().unwrap_or_default(), now)?;
        if let Some(newest) = self.publisher.newest().filter(|_| receipt.new > 0) {
            self.board().plans.push(newest.plan.clone());
        }
        Ok(receipt)
    }

    async fn wait_adopted(&self, revision: Revision, within: Duration) -> bool {
        let until = self.board().now + within;
        let all = move |board: &Board| {
            board
                .taken
                .iter()
                .all(|taken| *taken >= revision)
                .then_some(true)
        };
        self.when(until, all, false).await
    }

    async fn wait_drained(&self, takes: Duration) {
        let until = self.board().now + takes;
        self.when(until, |_| None, ()).await;
    }
}

impl Solver for Desk {
    async fn decide(
        &self,
        service: &Arc<Service>,
        in_force: Vec<InForce>,
        forecast: Option<Forecast>,
    ) -> Decision {
        let readiness = service.variants.iter().map(|variant| variant.readiness);
        let problem = (in_force, forecast.map(asked), readiness.collect());
        let mut memo = self.memo.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(decision) = memo.get(&problem) {
            return decision.clone();
        }
        let decision = decide(service, &problem.0, forecast);
        if memo.len() < MEMO_MAX {
            memo.insert(problem, decision.clone());
        }
        decision
    }
}
