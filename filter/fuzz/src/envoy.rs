//! Emulation of Envoy's side of the filter: callbacks, paused streams, and actions on other streams that run when a
//! callback has returned, each nested in the one before.

mod answers;

use std::collections::{BTreeMap, VecDeque};

use weir_api::{Plan, Revision};
use weir_filter::config::Config;
use weir_filter::coordination::Memory;
use weir_filter::engine::{End, Engine, IncomingRequest, StreamId};
use weir_filter::request::body::BodyChunk;
use weir_filter::request::wire::Wire;
use weir_filter::shell::{ACTIONS_MAX, ActionBudget, Kinds, Phase, Shell};
use weir_filter::time::{Mono, Now, Wall};
use weir_filter::verdict::{Dispatch, Verdict};

/// Time that an answer which has begun has at least, from the request's headers on: `deadline.finish_ms`.
const FINISH_MS: u64 = 10_000;

/// Where a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Its headers, and its body so far, are held.
    Paused,
    /// It was sent on.
    Upstream,
    /// Its answer has begun.
    Answering,
    /// It has its answer.
    Answered,
}

/// Stream of the emulation.
#[derive(Debug)]
pub struct Stream {
    phase: Phase,
    /// Time of its headers, ms.
    came_ms: u64,
    /// Whether the headers of its answer are held until the first byte.
    awaits_byte: bool,
    /// Where it is.
    pub place: Place,
    /// Bytes of its body so far.
    pub bytes: u64,
    /// Whether its body is complete.
    pub complete: bool,
}

/// Action that runs when the callback has returned.
#[derive(Debug)]
enum Action {
    Resume(StreamId),
    Refuse(StreamId, &'static str),
}

/// Envoy with one worker.
#[derive(Debug)]
pub struct Envoy {
    /// The filter.
    pub shell: Shell,
    budget: ActionBudget,
    /// Streams that have not ended.
    pub streams: BTreeMap<StreamId, Stream>,
    actions: VecDeque<Action>,
    /// Callbacks that have not returned.
    depth: usize,
    /// The most at once.
    pub deepest: usize,
    /// Answers by Envoy itself, in their order, with the reason.
    pub local: Vec<(StreamId, &'static str)>,
    /// Whether no cluster exists: what is sent on is answered at once, within the action.
    pub clusters_missing: bool,
    last: StreamId,
    /// Time, ms.
    pub now_ms: u64,
}

impl Envoy {
    /// Starts it with the filter's configuration.
    ///
    /// # Panics
    ///
    /// The configuration is not valid.
    #[must_use]
    pub fn new(json: &str) -> Envoy {
        let config = Config::parse(json.as_bytes()).expect("a valid configuration");
        let engine = Engine::new(config, Box::new(Memory::default()), 1);
        Envoy {
            shell: Shell::new(engine),
            budget: ActionBudget::new(),
            streams: BTreeMap::new(),
            actions: VecDeque::new(),
            depth: 0,
            deepest: 0,
            local: Vec::new(),
            clusters_missing: false,
            last: 0,
            now_ms: 1,
        }
    }

    /// Its clocks.
    #[must_use]
    pub fn now(&self) -> Now {
        Now {
            mono: Mono(self.now_ms * 1_000_000),
            wall: Wall((1_790_000_000_000 + self.now_ms) * 1_000_000),
        }
    }

    /// Calls the filter; then runs what it has queued. The filter's calls within that are nested.
    fn call(&mut self, callback: impl FnOnce(&mut Envoy)) {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        callback(self);
        while let Some(action) = self.actions.pop_front() {
            match action {
                Action::Resume(stream) => self.send_on(stream),
                Action::Refuse(stream, reason) => self.answer_locally(stream, reason),
            }
        }
        self.depth -= 1;
    }

    fn carry_out(&mut self, kinds: Kinds) {
        while let Some((stream, verdict)) = self.shell.next(kinds, &self.budget) {
            if !self.streams.contains_key(&stream) {
                self.shell.on_end(stream, End::Unsent, self.now());
                continue;
            }
            self.actions.push_back(match verdict {
                Verdict::Reject(refusal) => Action::Refuse(stream, refusal.reason.label()),
                Verdict::Forward(dispatch) => self.forward(stream, &dispatch),
                Verdict::Pass => Action::Resume(stream),
                Verdict::PassTo(_) | Verdict::Park => panic!("no verdict on a held request"),
            });
        }
    }

    fn forward(&self, stream: StreamId, dispatch: &Dispatch) -> Action {
        let complete = self.streams[&stream].complete;
        assert_eq!(
            dispatch.body_follows, !complete,
            "{stream}: what follows of the body"
        );
        Action::Resume(stream)
    }

    /// Releases the headers of a stream.
    fn send_on(&mut self, id: StreamId) {
        let stream = self.streams.get_mut(&id).expect("it has not ended");
        assert_eq!(stream.place, Place::Paused, "{id} is sent on");
        if self.clusters_missing {
            return self.answer_locally(id, "no-cluster");
        }
        stream.place = Place::Upstream;
    }

    /// Answers a stream, and tells the filter, as Envoy does for each local reply.
    fn answer_locally(&mut self, id: StreamId, reason: &'static str) {
        let stream = self.streams.get_mut(&id).expect("it has not ended");
        // One upstream is answered at its deadline.
        assert_ne!(stream.place, Place::Answered, "{id} is answered: {reason}");
        // One whose answer has begun is cut off when that has taken too long.
        assert!(
            stream.place != Place::Answering || self.now_ms >= stream.came_ms + FINISH_MS,
            "{id} is cut off: {reason}"
        );
        stream.place = Place::Answered;
        self.local.push((id, reason));
        self.call(|envoy| envoy.end(id, End::Unreachable));
    }

    /// The filter hears of the end of a stream.
    fn end(&mut self, id: StreamId, end: End) {
        let now = self.now();
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if std::mem::take(&mut stream.phase) == Phase::Open {
            self.shell.on_end(id, end, now);
            self.carry_out(Kinds::Sent);
        }
    }

    /// A new request's headers.
    pub fn request(&mut self, headers: &[(&str, &str)], body_follows: bool) -> StreamId {
        self.last += 1;
        let id = self.last;
        let bytes = headers
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()));
        let incoming = IncomingRequest {
            body_follows,
            ..Wire::pick(bytes).into()
        };
        let stream = Stream {
            phase: Phase::Passing,
            came_ms: self.now_ms,
            awaits_byte: false,
            place: Place::Paused,
            bytes: 0,
            complete: !body_follows,
        };
        self.streams.insert(id, stream);
        self.budget.refill();
        let mut goes_on = false;
        self.call(|envoy| {
            let verdict = envoy.shell.on_request(id, &incoming, envoy.now());
            goes_on = envoy.decided(id, &verdict);
        });
        if goes_on {
            self.send_on(id);
        }
        id
    }

    /// Carries out a verdict in the stream's own callback; returns whether it goes on.
    fn decided(&mut self, id: StreamId, verdict: &Verdict) -> bool {
        let stream = self.streams.get_mut(&id).expect("its own callback");
        stream.phase = Phase::after(verdict);
        match verdict {
            Verdict::Reject(refusal) => {
                self.actions
                    .push_back(Action::Refuse(id, refusal.reason.label()));
                false
            }
            Verdict::Park => false,
            Verdict::Pass | Verdict::PassTo(_) | Verdict::Forward(_) => true,
        }
    }

    /// More of a request's body.
    pub fn body(&mut self, id: StreamId, more: u64, complete: bool) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.complete || stream.place == Place::Answered {
            return;
        }
        stream.bytes += more;
        stream.complete = complete;
        let (bytes, phase) = (stream.bytes, stream.phase);
        let (mut goes_on, mut decided) = (false, false);
        self.call(|envoy| {
            let now = envoy.now();
            let received = BodyChunk { bytes, complete };
            if phase == Phase::Open && !complete && envoy.shell.engine.hold_body(id, bytes) {
                return;
            }
            use weir_filter::verdict::BodyVerdict::{Decided, Follows, Unknown};
            goes_on = match envoy.shell.on_body(id, phase, received, |_| None, now) {
                Decided(verdict) => {
                    decided = true;
                    envoy.decided(id, &verdict)
                }
                Follows => true,
                Unknown => false,
            };
        });
        // What a filter lets through releases all that was held before it.
        if goes_on && self.streams[&id].place == Place::Paused {
            assert!(decided, "{id}: its body releases what nobody has sent");
            self.send_on(id);
        }
    }

    /// The client disconnects.
    pub fn disconnect(&mut self, id: StreamId) {
        self.call(|envoy| envoy.end(id, End::Disconnected));
        self.streams.remove(&id);
    }

    /// Spends all actions that a callback may queue, except so many.
    pub fn spend_actions(&mut self, except: u32) {
        (except..ACTIONS_MAX).for_each(|_| self.budget.spend());
    }

    /// A tick of the root.
    pub fn tick(&mut self) {
        self.tick_with(ACTIONS_MAX);
    }

    /// A tick of the root in which other services have left so many actions.
    pub fn tick_with(&mut self, left: u32) {
        self.budget.refill();
        self.spend_actions(left);
        self.call(|envoy| {
            envoy.shell.release(envoy.now());
            envoy.carry_out(Kinds::All);
        });
    }

    /// Ticks for as long as the filter asks for one at once; returns how many there were.
    pub fn drain(&mut self) -> usize {
        let mut ticks = 0;
        while ticks == 0 || self.shell.has_verdicts() {
            self.tick();
            ticks += 1;
            assert!(ticks < 100_000, "it never drains");
        }
        ticks
    }

    /// The planner's answer; `None`: no slots for this proxy.
    pub fn plan(&mut self, plan: Option<&Plan>) {
        self.budget.refill();
        self.call(|envoy| {
            let (now, mut verdicts) = (envoy.now(), Vec::new());
            match plan {
                Some(plan) => envoy
                    .shell
                    .engine
                    .on_plan(plan, now.mono, now, &mut verdicts),
                None => envoy.shell.engine.on_no_slots(now, &mut verdicts),
            }
            envoy.shell.put(verdicts);
            envoy.carry_out(Kinds::All);
        });
    }

    /// Streams at this place.
    pub fn at(&self, place: Place) -> Vec<StreamId> {
        let streams = self.streams.iter();
        let found = streams.filter(|(_, stream)| stream.place == place);
        found.map(|(id, _)| *id).collect()
    }
}

/// Reads a planner's plan for the service `demo`.
pub fn plan(revision: u64, variants: &str) -> Plan {
    let json = format!(
        r#"{{"format":1,"service":"demo","revision":{revision},"max_age_ms":60000,"variants":[{variants}]}}"#
    );
    weir_filter::plan::read(json.as_bytes(), "demo", Revision(0)).expect("a valid plan")
}
