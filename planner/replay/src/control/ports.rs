//! Ports of the planner's cycle on simulated proxies, backends and filters. Anything that takes time is
//! a future that is ready at its simulated time. Nothing sleeps or reads a clock.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use weir_api::{Cores, Plan, PlanError, Revision};

use super::kubelet::{Kubelet, Requested};
use crate::nanos;
use weir_planner::backends::{Actuate, ActuateError, NotReplaced};
use weir_planner::capacity::{Actual, Resize};
use weir_planner::clock::Now;
use weir_planner::control_loop::Solver;
use weir_planner::distribution::{Publish, Publishers, Receipt};
use weir_planner::forecast::Forecast;
use weir_planner::observe::{Counts, Observe, Scrape, ScrapeError};
use weir_planner::plan::Draft;
use weir_planner::policy::decide;
use weir_planner::profile::Correction;
use weir_planner::service::{Decision, Inputs, Service};

/// Maximum number of cached decisions; beyond it they are computed again.
const MEMO_MAX: usize = 100_000;

/// Cache key of a decision for one service: its budget, the actual state, the inputs, and what a cycle changes of the
/// variants.
type Problem = (u32, Vec<Actual>, Option<InputKey>, Vec<VariantInputs>);

/// Numbers bit for bit; `None` for those that are not known.
type InputKey = Vec<Option<u64>>;

/// Maximum cores (of a variant whose nodes are full), readiness time and correction.
type VariantInputs = (u32, Duration, Correction);

/// Returns the key of the inputs that the policy decides by. It names every field, so that none is forgotten.
fn input_key(inputs: Inputs) -> InputKey {
    let Inputs {
        forecast,
        left_ms,
        accuracies,
    } = inputs;
    let Forecast {
        demand,
        present,
        mean,
        average,
        growth,
        extrapolated,
        arriving,
        rises,
        window_full,
        lasted,
    } = forecast;
    let yes = |it: bool| it.then_some(1.0);
    let rates = [
        demand,
        present,
        mean,
        average,
        growth,
        extrapolated,
        arriving,
    ];
    let mut key = Vec::from(rates.map(|rate| Some(rate.0)));
    key.extend([yes(rises), yes(window_full), left_ms]);
    key.push(lasted.map(|lasted| lasted.0));
    let required = accuracies.unwrap_or_default();
    let shares = required.shares();
    key.extend(shares.flat_map(|(percent, share)| [Some(percent), Some(share)]));
    let bits = key.into_iter().map(|value| value.map(f64::to_bits));
    bits.collect()
}

/// Name of a proxy. Names sort in proxy order, so that float sums over them are reproducible to the bit.
fn name(proxy: usize) -> Arc<str> {
    format!("proxy-{proxy:03}").into()
}

/// Simulated ports of the planner.
pub(crate) struct SimulatedPorts {
    state: Mutex<PortState>,
    publishers: Publishers,
    memo: Mutex<HashMap<Problem, Decision>>,
    /// Name of each proxy.
    names: Vec<Arc<str>>,
    resize_timeout: Duration,
}

/// State shared by the simulation and the planner's cycle.
pub(crate) struct PortState {
    /// Simulated time.
    pub(crate) now: Duration,
    /// Counters of each proxy; `None` while it cannot be scraped.
    pub(crate) counted: Vec<Option<Counts>>,
    /// Simulated backends.
    pub(crate) kubelet: Kubelet,
    /// Plan revision of each proxy, stage by stage.
    pub(crate) taken: Vec<Revision>,
    /// Newest revision of each stage's plan.
    newest: Vec<Revision>,
    /// Plans published since the simulation last took them, each with its stage.
    pub(crate) plans: Vec<(u16, Plan)>,
    /// Time at which the waiting cycle is to be polled again.
    pub(crate) wake_at: Option<Duration>,
}

impl PortState {
    /// Whether each proxy has the newest plan of its stage.
    fn is_adopted(&self) -> bool {
        let each = self.taken.len() / self.newest.len().max(1);
        let mut stages = self.taken.chunks(each.max(1)).zip(&self.newest);
        stages.all(|(taken, newest)| taken.iter().all(|taken| taken >= newest))
    }
}

impl SimulatedPorts {
    pub(crate) fn new(service: &Service, kubelet: Kubelet, proxies: usize) -> SimulatedPorts {
        SimulatedPorts {
            state: Mutex::new(PortState {
                now: Duration::ZERO,
                counted: vec![Some(Counts::default()); proxies],
                kubelet,
                taken: vec![Revision(0); proxies],
                newest: vec![Revision(0); service.stages.len()],
                plans: Vec::new(),
                wake_at: None,
            }),
            publishers: Publishers::new(service),
            memo: Mutex::new(HashMap::new()),
            names: (0..proxies).map(name).collect(),
            resize_timeout: service.resize_timeout,
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, PortState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `ready` returns a value, polled as simulated time advances; at the latest until `until`.
    fn when<T>(
        &self,
        until: Duration,
        mut ready: impl FnMut(&PortState) -> Option<T>,
        late: T,
    ) -> impl Future<Output = T> {
        let mut late = Some(late);
        poll_fn(move |_| {
            let mut state = self.state();
            if let Some(answer) = ready(&state) {
                return Poll::Ready(answer);
            }
            match late.take_if(|_| state.now >= until) {
                Some(late) => Poll::Ready(late),
                None => {
                    state.wake_at = Some(state.wake_at.map_or(until, |at| at.min(until)));
                    Poll::Pending
                }
            }
        })
    }
}

impl Observe for SimulatedPorts {
    async fn scrape(&self) -> Vec<Scrape> {
        let state = self.state();
        let scrape = |(counted, name): (&Option<Counts>, &Arc<str>)| Scrape {
            from: Arc::clone(name),
            at: state.now,
            counts: counted.clone().ok_or(ScrapeError::Status(503)),
        };
        let proxies = state.counted.iter().zip(&self.names);
        proxies.map(scrape).collect()
    }
}

impl Actuate for SimulatedPorts {
    async fn actual(&self) -> Vec<Option<Result<Actual, ActuateError>>> {
        let state = self.state();
        let variants = 0..state.kubelet.confirmed().len();
        let actual = |variant| Some(Ok(state.kubelet.actual(variant)));
        variants.map(actual).collect()
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<Actual, ActuateError>> {
        let mut answers = Vec::with_capacity(changes.len());
        let (begin, requested): (Duration, Vec<Result<Requested, ActuateError>>) = {
            let mut state = self.state();
            let now = state.now;
            let request = |change: &Resize| state.kubelet.resize(nanos(now), change);
            (now, changes.iter().map(request).collect())
        };
        let limit = begin + self.resize_timeout;
        for (change, requested) in changes.iter().zip(requested) {
            let Requested { at, blocked } = match requested {
                Ok(requested) => requested,
                Err(refusal) => {
                    answers.push(Err(refusal));
                    continue;
                }
            };
            let ready = Duration::from_nanos(at);
            // All resizes run at the same time, so a later one has probably been confirmed by now.
            let confirmed = |state: &PortState| (state.now >= ready).then_some(true);
            let in_time = self.when(ready.min(limit), confirmed, ready <= limit).await;
            answers.push(match blocked {
                _ if !in_time => Err(ActuateError::Timeout(self.resize_timeout)),
                Some(error) => Err(error),
                None => self.state().kubelet.resized(change),
            });
        }
        answers
    }

    async fn tell(&self, batches: &[Option<u32>]) -> Vec<Option<Result<u32, ActuateError>>> {
        let mut state = self.state();
        let each = batches.iter().enumerate();
        let send = |(variant, batch): (usize, &Option<u32>)| {
            let batch = state.kubelet.send_batch(variant, (*batch)?)?;
            Some(Ok(batch))
        };
        each.map(send).collect()
    }

    fn retire(&self, _: usize, _: Cores) -> Option<Result<Actual, NotReplaced>> {
        None
    }

    async fn replace(&self, _: usize) -> Result<Actual, ActuateError> {
        Err(ActuateError::NoAddress)
    }
}

impl Publish for SimulatedPorts {
    fn publish(&self, drafts: Vec<Draft>, now: Now) -> Result<Receipt, PlanError> {
        let receipt = self.publishers.publish(drafts, now)?;
        let mut state = self.state();
        for (stage, publisher) in (0..).zip(self.publishers.all()) {
            let Some(newest) = publisher.newest() else {
                continue;
            };
            let known = state.newest.get_mut(usize::from(stage));
            if let Some(known) = known.filter(|known| **known != newest.plan.revision) {
                *known = newest.plan.revision;
                state.plans.push((stage, newest.plan.clone()));
            }
        }
        Ok(receipt)
    }

    async fn wait_adopted(&self, _: Revision, within: Duration) -> bool {
        let until = self.state().now + within;
        let all = move |state: &PortState| state.is_adopted().then_some(true);
        self.when(until, all, false).await
    }

    async fn wait_drained(&self, takes: Duration) {
        let until = self.state().now + takes;
        self.when(until, |_| None, ()).await;
    }
}

impl Solver for SimulatedPorts {
    async fn decide(
        &self,
        service: &Arc<Service>,
        actual: Vec<Actual>,
        inputs: Option<Inputs>,
    ) -> Decision {
        let each = service.variants.iter();
        let learnt =
            each.map(|variant| (variant.max, variant.readiness, variant.profile.correction));
        let problem = (
            service.budget,
            actual,
            inputs.map(input_key),
            learnt.collect(),
        );
        let mut memo = self.memo.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(decision) = memo.get(&problem) {
            return decision.clone();
        }
        let decision = decide(service, &problem.1, inputs);
        if memo.len() < MEMO_MAX {
            memo.insert(problem, decision.clone());
        }
        decision
    }
}

#[cfg(test)]
mod tests;
