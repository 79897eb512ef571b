//! One service in one VM: the engine, and what carries its verdicts out and its news in.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use weir_api::metrics::Metric;

use crate::config::Config;
use crate::deadline::Wire;
use crate::engine::{End, Engine, StreamId};
use crate::members::RENEWAL;
use crate::plan;
use crate::stats::{Label, Sample};
use crate::time::{Mono, Now};
use crate::verdict::{Refusal, Verdict};

use super::call;
use super::meter::Meter;
use super::poll::{Brought, Identity, Poll};
use super::shared::Shared;
use super::stream;

/// Least time between ticks: Envoy's timers count in ms.
const TICK_LEAST: Duration = Duration::from_millis(1);
/// Most time between ticks: lost hints are noticed, leases renewed and polls retried by then.
const TICK_MOST: Duration = Duration::from_millis(500);

const _: () = assert!(TICK_MOST.as_millis() <= RENEWAL.as_millis());

/// Shared by the root and its streams; never borrowed across a call that can come back.
pub(super) type Handle = Rc<RefCell<Service>>;

pub(super) struct Service {
    root: u32,
    engine: Engine,
    meter: Meter,
    shared: Shared,
    poll: Option<Poll>,
    polls: bool,
    serving: bool,
    workers: u32,
    renew_at: Mono,
    tick_at: Mono,
    samples: Vec<Sample>,
    /// Refusals of held requests that wait for the next tick: see [`on_end`].
    owed: Vec<(StreamId, Refusal)>,
}

impl Service {
    pub(super) fn new(root: u32, config: Config) -> Service {
        let shared = Shared::new(&config.service);
        let identity = Identity {
            service: &config.service,
            incarnation: shared.incarnation(),
        };
        let poll = config
            .planner
            .clone()
            .map(|planner| Poll::new(planner, &identity));
        call::set_tick(TICK_MOST);
        Service {
            root,
            engine: Engine::new(config),
            meter: Meter::default(),
            shared,
            poll,
            polls: false,
            serving: false,
            workers: 0,
            renew_at: Mono(0),
            tick_at: Mono(0),
            samples: Vec::new(),
            owed: Vec::new(),
        }
    }

    pub(super) fn on_request(&mut self, stream: StreamId, wire: &Wire<'_>, now: Now) -> Verdict {
        if !self.serving {
            self.serving = true;
            self.renew(now);
        }
        let verdict = self.engine.on_request(stream, wire, now);
        self.report();
        if verdict == Verdict::Park {
            self.arm(now.mono);
        }
        verdict
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    fn renew(&mut self, now: Now) {
        self.renew_at = now.mono + RENEWAL;
        // None where the table is full or contended: what we had stays, at first the whole.
        if let Some((standing, workers)) = self.shared.renew(self.serving, now.mono) {
            self.polls = standing.polls;
            self.workers = workers;
            self.engine.set_part(standing.part);
        }
    }

    fn ask_planner(&mut self, now: Now) {
        let Some(poll) = self.poll.as_mut().filter(|_| self.polls) else {
            return;
        };
        if !poll.ask(self.engine.source().revision(), self.workers, now.mono) {
            self.engine
                .stats
                .count(Metric::PlanUnreachable, Label::None);
        }
    }

    fn on_poll_answer(&mut self, token: u32, now: Now) {
        let Some(poll) = &mut self.poll else { return };
        match poll.on_answer(token, now.mono) {
            None | Some(Brought::Nothing) => {}
            Some(Brought::Unreachable) => {
                self.engine
                    .stats
                    .count(Metric::PlanUnreachable, Label::None);
            }
            Some(Brought::Plan(bytes)) => {
                let ours = &self.engine.config().service;
                match plan::read(&bytes, ours, self.engine.source().revision()) {
                    Ok(_) => self.shared.put_plan(&bytes, now.mono),
                    Err(refused) => {
                        log::warn!("weir: plan refused, the old one stays: {refused}");
                        self.engine.stats.count(Metric::PlanRefused, Label::None);
                        poll.refused(now.mono);
                    }
                }
            }
        }
    }

    fn take_plan(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        let Some((received, bytes)) = self.shared.new_plan() else {
            return;
        };
        let ours = &self.engine.config().service;
        // Checked when it was fetched; checked again because shared data is anybody's.
        match plan::read(&bytes, ours, self.engine.source().revision()) {
            Ok(plan) => self.engine.on_plan(&plan, received, now, verdicts),
            Err(refused) => {
                log::warn!("weir: shared plan refused, the old one stays: {refused}");
                self.engine.stats.count(Metric::PlanRefused, Label::None);
            }
        }
    }

    /// Sees to it that a tick comes when the engine has to look again.
    fn arm(&mut self, now: Mono) {
        let idle = now + TICK_MOST;
        let wake = if self.owed.is_empty() {
            self.engine.next_wake().unwrap_or(idle)
        } else {
            now
        };
        let period = wake.since(now).clamp(TICK_LEAST, TICK_MOST);
        let late = self.tick_at <= now;
        if late || now + period + TICK_LEAST < self.tick_at {
            self.tick_at = now + period;
            call::turn_to(self.root);
            call::set_tick(period);
        }
    }

    fn report(&mut self) {
        self.engine.stats.swap(&mut self.samples);
        for sample in &self.samples {
            let variant = match sample.label {
                Label::Variant(id) => self.engine.variant_name(id),
                _ => None,
            };
            self.meter
                .take(&self.engine.config().service, *sample, variant);
        }
    }
}

/// Time has passed.
pub(super) fn on_tick(service: &Handle, now: Now) {
    let mut verdicts = Vec::new();
    {
        let mut service = service.borrow_mut();
        if service.renew_at <= now.mono {
            service.renew(now);
        }
        service.ask_planner(now);
        service.take_plan(now, &mut verdicts);
        let owed = service.owed.drain(..);
        verdicts.extend(owed.map(|(stream, refusal)| (stream, Verdict::Reject(refusal))));
        service.engine.release(now, &mut verdicts);
        service.tick_at = Mono(0);
        service.arm(now.mono);
        service.report();
    }
    obey(service, verdicts, now);
}

/// Another VM has rung: there is a new plan.
pub(super) fn on_ring(service: &Handle, queue: u32, now: Now) {
    call::hear(queue);
    take_plan(service, now);
}

/// An answer to a call of ours.
pub(super) fn on_call_answer(service: &Handle, token: u32, now: Now) {
    service.borrow_mut().on_poll_answer(token, now);
    take_plan(service, now);
}

fn take_plan(service: &Handle, now: Now) {
    let mut verdicts = Vec::new();
    {
        let mut service = service.borrow_mut();
        service.take_plan(now, &mut verdicts);
        service.ask_planner(now);
        service.engine.release(now, &mut verdicts);
        service.arm(now.mono);
        service.report();
    }
    obey(service, verdicts, now);
}

/// A stream has ended; whoever waits for what it leaves goes next.
///
/// Only forwarding may be done here: a local reply to *another* stream makes Envoy stop the current
/// one too (its host stops whatever iteration is under way), which would leave the answer that has
/// just come hanging. Refusals are left to the next tick, a millisecond away.
pub(super) fn on_end(service: &Handle, stream: StreamId, end: End, now: Now) {
    let mut verdicts = Vec::new();
    {
        let mut service = service.borrow_mut();
        service.engine.on_end(stream, end, now);
        if service.engine.can_release() {
            service.engine.release(now, &mut verdicts);
            verdicts.retain(|(stream, verdict)| match verdict {
                Verdict::Reject(refusal) => {
                    service.owed.push((*stream, *refusal));
                    false
                }
                _ => true,
            });
            service.arm(now.mono);
        }
        service.report();
    }
    obey(service, verdicts, now);
}

/// Carries out verdicts on held streams. A stream that is not there any more has left.
fn obey(service: &Handle, verdicts: Vec<(StreamId, Verdict)>, now: Now) {
    for (stream, verdict) in verdicts {
        if call::turn_to(stream) {
            stream::carry_out_held(&verdict);
        } else {
            service.borrow_mut().engine.on_end(stream, End::Gone, now);
        }
    }
}
