//! One service in one VM: the engine, its events, and the execution of its verdicts.

use std::cell::RefCell;
use std::rc::Rc;

use proxy_wasm::types::Bytes;
use weir_api::Revision;
use weir_api::metrics::Metric;

use crate::config::Config;
use crate::coordination::TIMEOUTS;
use crate::engine::{Answer, Engine, IncomingRequest, StreamId, Tags};
use crate::plan;
use crate::request::body::BodyChunk;
use crate::shared_plan::SharedPlan;
use crate::shell::{ActionBudget, Phase, Shell};
use crate::stats::{Label, Sample};
use crate::time::{Mono, Now, Span};
use crate::variant::VariantId;
use crate::verdict::{BodyVerdict, OwnModel, Verdict};

use super::body_events::BodyEvents;
use super::call;
use super::messages::{Messages, Renamed};
use super::meter::Meter;
use super::poll::{Poll, PollResult};
use super::probe::Probes;
use super::shared::{self, Plans, Queue, Shared};
use super::source;
use super::timer::{TICK_MAX, TICK_MIN, Timer};

mod callbacks;

pub(super) use callbacks::{
    on_call_answer, on_end, on_notification, on_response_exceeds_buffer, on_tick,
};

/// Time after a request's deadline for which Envoy's timer may end it. It is due within a millisecond; Envoy runs timers in
/// the order in which they are due.
const HOST_TIMER: Span = Span::from_millis(5);

/// Actions on other streams that callbacks of this VM may still queue.
pub(super) static ACTIONS: ActionBudget = ActionBudget::new();

/// Shared by the root and its streams; never borrowed across a call that can call back.
pub(super) type Handle = Rc<RefCell<Service>>;

pub(super) struct Service {
    root: u32,
    shell: Shell,
    meter: Meter,
    plans: Plans,
    poll: Option<Poll>,
    probes: Probes,
    polls: bool,
    process: u64,
    workers: u32,
    renew_at: Mono,
    tick_at: Mono,
    timer: Rc<Timer>,
    /// Queue of notifications by other VMs.
    queue: Queue,
    samples: Vec<Sample>,
    body_events: BodyEvents,
    messages: Messages,
    /// Header in which a trusted proxy names the client.
    source_header: Option<String>,
}

impl Service {
    pub(super) fn new(root: u32, config: Config, timer: Rc<Timer>, now: Now) -> Service {
        let incarnation = shared::incarnation();
        let planner = config.planner.clone();
        let poll = planner.map(|planner| Poll::new(planner, &config));
        let queue = Queue::default();
        let key = shared::slot_table_key(&config.service, config.role);
        let group_key = shared::group_table_key(&config.service, config.role);
        let store = Box::new(Shared::new(key, group_key, queue.clone()));
        let source_header = config.skew.source_header.clone();
        let mut service = Service {
            root,
            source_header,
            plans: Plans::new(&config),
            shell: Shell::new(Engine::new(config, store, incarnation).with_host_timer(HOST_TIMER)),
            meter: Meter::default(),
            poll,
            probes: Probes::default(),
            polls: false,
            process: 0,
            workers: 0,
            renew_at: Mono(0),
            tick_at: Mono(0),
            timer,
            queue,
            samples: Vec::new(),
            body_events: BodyEvents::default(),
            messages: Messages::default(),
        };
        // A VM that replaces a trapped one adopts the plan of the others.
        service.adopt_shared_plan(now);
        service
    }

    pub(super) fn on_request(
        &mut self,
        stream: StreamId,
        incoming: &IncomingRequest<'_>,
        now: Now,
    ) -> Verdict {
        self.keep_lease(now);
        let verdict = self.shell.on_request(stream, incoming, now);
        if incoming.body_follows && verdict == Verdict::Park {
            self.body_events.watch(stream);
        }
        self.after(stream, Some(&verdict), now);
        verdict
    }

    /// Whether to wait for the body of the current request, which has these headers.
    pub(super) fn expects_body(&mut self, headers: &[(String, Bytes)]) -> bool {
        self.body_events.expects(headers)
    }

    /// Detects that Envoy does not deliver bodies, and stops waiting for them.
    fn detect_body_events(&mut self, now: Now) {
        if self.body_events.detect_missing(self.root) {
            let mut verdicts = Vec::new();
            self.shell.engine.stop_receiving(now, &mut verdicts);
            self.shell.put(verdicts);
        }
    }

    /// Follow-up of a verdict on the current stream, in its own callback.
    fn after(&mut self, stream: StreamId, verdict: Option<&Verdict>, now: Now) {
        self.report();
        let parked = verdict == Some(&Verdict::Park);
        // A request sent upstream must be ended at its deadline, which may be before the next tick.
        let sooner = self
            .shell
            .engine
            .next_timer()
            .is_some_and(|at| at < self.tick_at);
        if (parked || sooner || self.shell.has_verdicts()) && self.schedule_tick(now.mono) {
            // The timer belongs to the root; the following calls concern this stream again. Otherwise the
            // stream would be forwarded, or refused, in the root's context, which the host lacks and the SDK
            // traps on.
            call::set_context(stream);
        }
    }

    /// Holds an incomplete body of `bytes` so far; returns whether nothing else is to be done.
    pub(super) fn hold_body(&mut self, stream: StreamId, bytes: usize) -> bool {
        let holds = self.shell.engine.hold_body(stream, bytes as u64);
        if holds {
            self.body_events.mark_delivered();
        }
        holds
    }

    /// Source of the current request, hashed.
    pub(super) fn source(&self) -> Option<u64> {
        source::body_source(self.source_header.as_deref())
    }

    /// Handles a chunk of a request's body.
    pub(super) fn on_body(
        &mut self,
        stream: StreamId,
        phase: Phase,
        received: BodyChunk,
        now: Now,
    ) -> BodyVerdict {
        let header = self.source_header.as_deref();
        let mut turned = false;
        let source = |of| {
            turned |= of != stream;
            call::set_context(of).then(|| source::body_source(header))?
        };
        let verdict = self.shell.on_body(stream, phase, received, source, now);
        if turned {
            call::set_context(stream);
        }
        let decided = match &verdict {
            BodyVerdict::Decided(decided) => Some(decided),
            BodyVerdict::Follows | BodyVerdict::Unknown => None,
        };
        if decided.is_some() {
            self.body_events.mark_delivered();
        }
        self.after(stream, decided, now);
        verdict
    }

    /// Begins to rename the model in the body of the current request, which is sent to this variant; `follows`: more of
    /// the body follows. Returns whether what has come of it may go on.
    pub(super) fn begin_messages(
        &mut self,
        stream: StreamId,
        variant: VariantId,
        model: Option<&OwnModel>,
        follows: bool,
    ) -> bool {
        let renamed = model.map(|model| self.messages.begin(stream, variant, model, follows));
        renamed.is_none_or(|renamed| self.count_unnamed(renamed))
    }

    /// Renames the model in a chunk of a body that follows its request; returns whether it may go on.
    pub(super) fn pass_body(&mut self, stream: StreamId, size: usize, complete: bool) -> bool {
        let renamed = self.messages.on_body(stream, size, complete);
        self.count_unnamed(renamed)
    }

    fn count_unnamed(&mut self, renamed: Renamed) -> bool {
        if let Some((variant, count)) = renamed.unnamed {
            let (metric, label) = (Metric::MessagesUnnamed, Label::Variant(variant));
            self.shell.engine.stats.by(metric, label, i64::from(count));
        }
        !renamed.waits
    }

    /// Forgets a stream that has ended.
    pub(super) fn forget_messages(&mut self, stream: StreamId) {
        self.messages.forget(stream);
    }

    pub(super) fn on_answer(&mut self, stream: StreamId, answer: Answer, now: Now) -> Option<Tags> {
        self.shell.on_answer(stream, answer, now)
    }

    pub(super) fn on_first_byte(&mut self, stream: StreamId, now: Now) {
        self.shell.on_first_byte(stream, now);
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.shell.engine
    }

    pub(super) fn shell(&self) -> &Shell {
        &self.shell
    }

    /// Renews the lease if it is due. A burst can delay the timer for longer than a lease.
    fn keep_lease(&mut self, now: Now) {
        if self.renew_at <= now.mono {
            self.renew(now);
        }
    }

    fn renew(&mut self, now: Now) {
        self.renew_at = now.mono + TIMEOUTS.renewal;
        // `None` if the table is full or contended: the membership stays as it was.
        if let Some(membership) = self.shell.engine.renew(true, now.mono) {
            self.process = membership.process;
            self.polls = membership.polls;
            self.workers = membership.workers;
        }
    }

    fn poll_planner(&mut self, now: Now) {
        let Some(poll) = self.poll.as_mut().filter(|_| self.polls) else {
            return;
        };
        let after = self.shell.engine.source().revision();
        if !poll.send(after, self.process, self.workers, now.mono) {
            self.shell
                .engine
                .stats
                .count(Metric::PlanPollsFailed, Label::None);
        }
    }

    /// Sends the due probes, if that is this VM's task.
    fn probe(&mut self, now: Now) {
        for probe in self.shell.engine.probes(now.mono) {
            let path = self.shell.engine.config().health.path.as_deref();
            if !self.probes.send(&probe, path.unwrap_or("/")) {
                log::debug!("weir: there is no cluster '{}'", probe.cluster);
            }
        }
    }

    /// Handles the answer to a call: a probe's, or the planner's.
    fn on_call_answer(&mut self, token: u32, now: Now) {
        match self.probes.on_answer(token) {
            Some((variant, probed)) => {
                let mut verdicts = Vec::new();
                let engine = &mut self.shell.engine;
                engine.on_probe(variant, probed, now, &mut verdicts);
                self.shell.put(verdicts);
            }
            None => self.on_poll_answer(token, now),
        }
    }

    fn on_poll_answer(&mut self, token: u32, now: Now) {
        let Some(poll) = &mut self.poll else { return };
        match poll.on_answer(token, now.mono) {
            None | Some(PollResult::Nothing) => {}
            Some(PollResult::Unreachable) => {
                self.shell
                    .engine
                    .stats
                    .count(Metric::PlanPollsFailed, Label::None);
            }
            Some(PollResult::NoSlots(after)) => self.share(after, None, now.mono),
            Some(PollResult::Plan(bytes)) => {
                let engine = &mut self.shell.engine;
                match plan::read(&bytes, &engine.config().service, engine.source().revision()) {
                    Ok(plan) => self.share(plan.revision, Some(&bytes), now.mono),
                    Err(refused) => {
                        log::warn!("weir: plan refused, the old one stays: {refused}");
                        engine.stats.count(Metric::PlansRefused, Label::None);
                        poll.refused(now.mono);
                    }
                }
            }
        }
    }

    /// Shares an answer of the planner with the other VMs, unless another poller was faster.
    fn share(&mut self, revision: Revision, plan: Option<&[u8]>, now: Mono) {
        let update = SharedPlan {
            received: now,
            revision,
            plan,
        };
        if self.plans.put(update) {
            self.shell.engine.notify_others(now);
        }
    }

    fn adopt_shared_plan(&mut self, now: Now) {
        let news = self.plans.news();
        let Some(update) = news.as_deref().and_then(SharedPlan::read) else {
            return;
        };
        // Counts of variants whose ids the plan may reuse are flushed under their present names.
        self.report();
        let engine = &mut self.shell.engine;
        let mut verdicts = Vec::new();
        match update.plan {
            None => engine.on_no_slots(now, &mut verdicts),
            // Checked when fetched, and again because any program may write shared data.
            Some(bytes) => {
                match plan::read(bytes, &engine.config().service, engine.source().revision()) {
                    Ok(plan) => engine.on_plan(&plan, update.received, now, &mut verdicts),
                    Err(refused) if refused.is_in_force() => {}
                    Err(refused) => {
                        log::warn!("weir: shared plan refused, the old one stays: {refused}");
                        engine.stats.count(Metric::PlansRefused, Label::None);
                    }
                }
            }
        }
        self.shell.put(verdicts);
    }

    /// Schedules the next tick for the engine; returns whether that changed the context to the root.
    fn schedule_tick(&mut self, now: Mono) -> bool {
        let wake = self.shell.next_wake(now).unwrap_or(now + TICK_MAX);
        let period = wake.since(now).clamp(TICK_MIN, TICK_MAX);
        let late = self.tick_at <= now;
        let sooner = late || now + period + TICK_MIN < self.tick_at;
        if !sooner {
            return false;
        }
        self.tick_at = now + period;
        self.timer.fire_by(self.tick_at, now)
    }

    /// Whether its tick is due at `now`.
    pub(super) fn is_due(&self, now: Mono) -> bool {
        self.tick_at <= now + TICK_MIN
    }

    /// Makes the root's timer, which has fired for another service, fire for this one too.
    pub(super) fn rearm(&self, now: Mono) {
        self.timer.fire_by(self.tick_at, now);
    }

    /// Whether the answer to this call is for it.
    pub(super) fn expects_call(&self, token: u32) -> bool {
        self.probes.expects(token) || self.poll.as_ref().is_some_and(|poll| poll.expects(token))
    }

    /// Whether messages in this queue are for it.
    pub(super) fn owns_queue(&self, queue: u32) -> bool {
        self.queue.get() == Some(queue)
    }

    fn report(&mut self) {
        self.shell.engine.stats.swap(&mut self.samples);
        for sample in &self.samples {
            self.meter.take(&self.shell.engine, *sample);
        }
    }
}
