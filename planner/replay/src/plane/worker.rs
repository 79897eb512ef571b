//! Worker of a proxy: the real engine with the timer and the call order of the filter's host shell.
//! It makes no decision that the shell does not make.

use std::collections::BTreeMap;
use std::rc::Rc;

use weir_api::Plan;
use weir_filter::config::Config;
use weir_filter::coordination::{InPlace, Notification, TIMEOUTS};
use weir_filter::engine::{Answer, End, Engine, IncomingRequest, StreamId};
use weir_filter::health::{HealthSignal, ProbeResult};
use weir_filter::request::body::BodyChunk;
use weir_filter::routing::group_report::GroupId;
use weir_filter::stats::Sample;
use weir_filter::time::{Mono, Now, Span, Wall};
use weir_filter::variant::VariantKey;
use weir_filter::verdict::{Refusal, Verdict};

use super::Tally;
use crate::EPOCH_MS;

/// Minimum time between ticks, as in the shell: Envoy's timers count in ms.
const TICK_MIN: Span = Span::from_millis(1);
/// Maximum time between ticks, as in the shell.
const TICK_MOST: Span = TIMEOUTS.renewal;

/// One ms, in ns.
const MS: u64 = 1_000_000;

/// Worker of a proxy.
pub(crate) struct Worker {
    /// Stage of its proxy.
    pub(crate) stage: u16,
    /// Index of its proxy, over all stages.
    pub(crate) proxy: u32,
    /// Decision logic of the filter.
    pub(crate) engine: Engine,
    /// Fault: drop the next tick or notification.
    pub(crate) loses_wake: bool,
    /// Its row in the proxy's slot table, by which other workers notify it.
    pub(crate) entry: Option<usize>,
    store: InPlace,
    incarnation: u64,
    renew_at: u64,
    tick_at: u64,
    owed: Vec<(StreamId, Refusal)>,
    samples: Vec<Sample>,
}

impl Worker {
    /// Creates worker `index` of a proxy; the workers of a proxy share `store`.
    pub(crate) fn new(
        (stage, proxy): (u16, u32),
        config: Config,
        store: InPlace,
        index: u32,
    ) -> Worker {
        let incarnation = u64::from(index) + 1;
        Worker {
            stage,
            proxy,
            engine: Engine::new(config, Box::new(store.clone()), incarnation),
            loses_wake: false,
            entry: None,
            store,
            incarnation,
            renew_at: 0,
            tick_at: 0,
            owed: Vec::new(),
            samples: Vec::new(),
        }
    }

    /// Registers in the slot table, as if it had served requests before the scenario began.
    pub(crate) fn meet(&mut self) {
        self.engine.serve(Mono(0));
        self.note_entry();
    }

    /// Clears the slot table: the proxy's process restarts.
    pub(crate) fn forget_slot_table(&self) {
        self.store.clear();
    }

    /// Slots that the proxy's slot table counts as taken, by variant key.
    #[cfg(test)]
    pub(crate) fn taken_in_slot_table(&self, now: u64) -> Vec<(VariantKey, u32)> {
        let slot_table = self.store.slots();
        let columns = slot_table.columns.iter().enumerate();
        columns
            .map(|(at, column)| (column.key, slot_table.taken(at, Mono(now))))
            .collect()
    }

    /// Takes the pending notifications, the row and reason of each; returns its proxy.
    pub(crate) fn take_notifications_out(&mut self, into: &mut Vec<(usize, Notification)>) -> u32 {
        self.note_entry();
        self.store.swap_notifications(into);
        // Plans reach the workers separately in the simulation.
        into.retain(|(_, why)| *why != Notification::Plan);
        self.proxy
    }

    /// Restarts the VM: nothing queued, nothing in flight, the static plan.
    pub(crate) fn restart(&mut self) {
        const NEXT_START: u64 = 1 << 32;
        self.incarnation += NEXT_START;
        let config = self.engine.config().clone();
        self.engine = Engine::new(config, Box::new(self.store.clone()), self.incarnation);
        (self.entry, self.renew_at) = (None, 0);
        self.owed.clear();
        self.tick_at = 0;
    }

    /// Handles the arrival of a request's head. Adds the engine's counts to its proxy's. `verdicts` takes those on requests
    /// evicted to make room.
    pub(crate) fn on_request(
        &mut self,
        stream: StreamId,
        request: &IncomingRequest<'_>,
        now: u64,
        counted: &mut Tally,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> Verdict {
        let verdict = (self.engine).on_request(stream, request, clocks(now), verdicts);
        self.report();
        self.count_into(counted);
        verdict
    }

    /// Handles the arrival of a part of a request's body.
    pub(crate) fn on_body(
        &mut self,
        stream: StreamId,
        received: BodyChunk,
        now: u64,
        counted: &mut Tally,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> Option<Verdict> {
        let verdict = self
            .engine
            .on_body(stream, received, |_| None, clocks(now), verdicts)
            .decided();
        self.report();
        self.count_into(counted);
        verdict
    }

    /// Handles an answer that is complete and passed on.
    pub(crate) fn on_answer(
        &mut self,
        stream: StreamId,
        sign: HealthSignal,
        now: u64,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        let answer = Answer {
            failed: sign != HealthSignal::Served,
            sign: Some(sign),
            ..Answer::default()
        };
        let tags = self.engine.on_answer(stream, answer, clocks(now));
        debug_assert!(
            tags.is_some(),
            "an answer to a request that is not in flight"
        );
        self.on_end(stream, End::Answered, now, verdicts);
    }

    /// Handles an answer whose client reads slowly, once the proxy's buffer is full.
    pub(crate) fn on_bulk(
        &mut self,
        stream: StreamId,
        now: u64,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        let answer = Answer {
            sign: Some(HealthSignal::Served),
            ..Answer::default()
        };
        let _ = self.engine.on_answer(stream, answer, clocks(now));
        self.engine
            .on_response_exceeds_buffer(stream, clocks(now), verdicts);
        self.report();
    }

    /// Handles the end of a stream and dispatches waiting requests. Rejections wait for the next tick, as in
    /// the shell.
    pub(crate) fn on_end(
        &mut self,
        stream: StreamId,
        end: End,
        now: u64,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        self.engine.on_end(stream, end, clocks(now), verdicts);
        self.report();
    }

    /// Defers the rejection of a queued request to the next tick.
    pub(crate) fn owe(&mut self, stream: StreamId, refusal: Refusal) {
        self.owed.push((stream, refusal));
    }

    /// Handles the timer, if `now` is the time it was last set for.
    pub(crate) fn on_tick(&mut self, now: u64, verdicts: &mut Vec<(StreamId, Verdict)>) -> bool {
        if self.tick_at != now {
            return false;
        }
        self.tick_at = 0;
        if std::mem::take(&mut self.loses_wake) {
            return true;
        }
        if self.renew_at <= now {
            self.renew(now);
        }
        let owed = self.owed.drain(..);
        verdicts.extend(owed.map(|(stream, refusal)| (stream, Verdict::Reject(refusal))));
        self.engine.release(clocks(now), verdicts);
        self.report();
        true
    }

    /// Handles a notification from another worker.
    pub(crate) fn on_notification(&mut self, now: u64, verdicts: &mut Vec<(StreamId, Verdict)>) {
        if !std::mem::take(&mut self.loses_wake) {
            self.engine.release(clocks(now), verdicts);
            self.report();
        }
    }

    /// Handles a notification that a variant has started or stopped failing.
    pub(crate) fn on_news(&mut self, now: u64, verdicts: &mut Vec<(StreamId, Verdict)>) {
        if !std::mem::take(&mut self.loses_wake) {
            self.renew(now);
            self.engine.release(clocks(now), verdicts);
            self.report();
        }
    }

    /// Returns the variants to probe now.
    pub(crate) fn probes(&mut self, now: u64) -> Vec<VariantKey> {
        let probes = self.engine.probes(Mono(now)).into_iter();
        probes.map(|probe| probe.variant).collect()
    }

    /// Handles the result of a probe; no answer counts as failure.
    pub(crate) fn on_probe(
        &mut self,
        variant: VariantKey,
        probed: ProbeResult,
        now: u64,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        // Simulated requests are not those of gRPC.
        let probed_for = (variant, false);
        self.engine
            .on_probe(probed_for, probed, clocks(now), verdicts);
        self.report();
    }

    /// Reports for each variant whether it is failing, as the proxy's statistics do.
    pub(crate) fn report_failing(&self, failing: &mut BTreeMap<String, bool>) {
        for (name, fails) in self.engine.health() {
            failing.insert(name.to_string(), fails);
        }
    }

    /// Applies a plan; ignores one that is not newer.
    pub(crate) fn on_plan(
        &mut self,
        plan: &Rc<Plan>,
        now: u64,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        if plan.revision <= self.engine.source().revision() {
            return;
        }
        self.engine.on_plan(plan, Mono(now), clocks(now), verdicts);
        self.engine.release(clocks(now), verdicts);
        self.report();
    }

    /// Returns the next time of the timer, if it has changed.
    pub(crate) fn arm(&mut self, now: u64) -> Option<u64> {
        let (min, most) = (TICK_MIN.as_nanos(), TICK_MOST.as_nanos());
        let late = self.tick_at <= now;
        // No wake of the engine can set a timer this near any sooner.
        if !late && self.tick_at <= now + 2 * min {
            return None;
        }
        let wake = if self.owed.is_empty() {
            self.engine.next_wake(Mono(now))
        } else {
            Some(Mono(now))
        };
        let period = wake.map_or(most, |wake| wake.0.saturating_sub(now).clamp(min, most));
        // Envoy's timers count whole ms.
        let period = period / MS * MS;
        if late || now + period + min < self.tick_at {
            self.tick_at = now + period;
            return Some(self.tick_at);
        }
        None
    }

    /// Sets the timer to its longest period.
    pub(crate) fn start(&mut self, now: u64) -> u64 {
        self.tick_at = now + TICK_MOST.as_nanos();
        self.tick_at
    }

    fn renew(&mut self, now: u64) {
        self.renew_at = now + TIMEOUTS.renewal.as_nanos();
        self.engine.renew(true, Mono(now));
    }

    fn note_entry(&mut self) {
        self.entry = self.store.take_claimed_row().or(self.entry);
    }

    fn report(&mut self) {
        self.engine.stats.swap(&mut self.samples);
    }

    /// Adds the engine's counts of the latest call to its proxy's.
    pub(crate) fn count_into(&mut self, counted: &mut Tally) {
        let name = |id| self.engine.variant_name(id);
        let group = |id: GroupId| id.name(&self.engine.config().classes);
        counted.add(&self.samples, name, group);
        self.samples.clear();
    }
}

fn clocks(now: u64) -> Now {
    Now {
        mono: Mono(now),
        wall: Wall(EPOCH_MS * 1_000_000 + now),
    }
}
