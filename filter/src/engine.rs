//! The engine: events of streams go in, verdicts come out.
//!
//! A request is held or in flight until it ends, and every end is reported exactly once. Slots are acquired
//! in the slot table ([`coordination`](crate::coordination)), which all workers of the proxy share. A
//! worker that frees a slot for another worker's request notifies that worker, whose shell then calls
//! [`Engine::release`].

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::rc::Rc;

use weir_api::metrics::Metric;

use crate::config::{Config, Role};
use crate::coordination::{Membership, Notification, Store, Worker};
use crate::health::HealthSignal;
use crate::plan::{PlanSource, Rule};
use crate::reason::Reason;
use crate::request::body::{Ledger, Receiving};
use crate::request::sample_limit::SampleLimit;
use crate::request::skew::Sources;
use crate::routing::router::Router;
use crate::stats::{Label, Stats};
use crate::time::{Mono, Now, Span};
use crate::variant::VariantId;
use crate::verdict::Verdict;

mod admit;
mod completion;
mod demand;
mod dispatch;
mod expiries;
mod explain;
mod forecast;
mod gauges;
mod health;
mod limits;
mod parse;
mod passage;
mod plan_change;
mod ports;
mod publication;
mod receive;
mod refuse;
mod request;
mod response;
mod route;
mod served;
mod silence;
mod slots;
mod timers;
mod uploads;
mod variant;
mod variants;

use completion::LanePosition;
pub use gauges::Gauge;
pub use health::Probe;
use limits::HeldCounts;
use parse::ParseOutcome;
pub use parse::{IncomingRequest, RequiredLookups};
use request::{Flight, RefusalContext, Request, State};
pub use response::{ANSWER_BUFFERED, Answer, Tags};
use timers::Timers;
use variants::Variants;

/// Longest time for which a lost notification goes unnoticed: a worker that holds requests checks the slot
/// table this often.
pub const CHECK_PERIOD: Span = Span::from_millis(10);

/// Identifier of a stream in its VM.
pub type StreamId = u32;

/// End of a request that was sent upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Upstream answered, with any status.
    Answered,
    /// No server could be reached, or it reset before its answer began: nothing is being executed.
    Unreachable,
    /// The server or Envoy aborted: nothing is being executed.
    Failed,
    /// The deadline passed before upstream answered: the server goes on.
    TimedOut,
    /// The client disconnected: the server goes on.
    Disconnected,
    /// The client disconnected before the request could leave: nothing is being executed.
    Unsent,
}

/// State of the filter in one VM.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    source: PlanSource,
    variants: Variants,
    worker: Worker,
    router: Router,
    sources: Sources,
    sample_limit: SampleLimit,
    /// Names of the classes, by id, shared without copying.
    class_names: Vec<Rc<str>>,
    requests: HashMap<StreamId, Request, Hasher>,
    held: HeldCounts,
    receiving: Receiving,
    /// Bytes of bodies held, of requests received and waiting.
    ledger: Ledger,
    /// Times at which an incoming body is checked, and deadlines of requests in flight.
    timers: Timers,
    /// Time for which the host's own timer of a request in flight goes first, after its deadline.
    host_timer: Span,
    /// Serving workers of the proxy, by the slot table.
    workers: u32,
    arrivals: u64,
    /// Time that the later stages of the pipeline need.
    downstream: Span,
    /// Whether this VM probes failing variants: it is the one that reports.
    sends_probes: bool,
    /// Time from which the next report of service times by group is due.
    groups_reported_from: Mono,
    /// Whether a variant has started or stopped failing since waiting requests were last routed.
    health_changed: bool,
    /// Variants that requests were moved to, without an update of the slot table yet.
    dirty_variants: Vec<VariantId>,
    /// Samples since the shell last took them.
    pub stats: Stats,
}

/// Envoy numbers streams, not clients, so the table needs no protection against chosen keys.
type Hasher = BuildHasherDefault<fnv::FnvHasher>;

impl Engine {
    /// Creates an engine with the configuration's static plan, if there is one. It shares `store` with the
    /// proxy's other workers as `incarnation`, which is unique to each start of a VM.
    #[must_use]
    pub fn new(config: Config, store: Box<dyn Store>, incarnation: u64) -> Engine {
        let mut engine = Engine {
            source: PlanSource::None,
            variants: Variants::new(&config.classes, config.failover.as_deref()),
            worker: Worker::new(store, incarnation, config.scope),
            router: Router::default(),
            sources: Sources::default(),
            sample_limit: SampleLimit::default(),
            class_names: config
                .classes
                .iter()
                .map(|(_, class)| Rc::from(class.name.as_str()))
                .collect(),
            requests: HashMap::default(),
            held: HeldCounts::default(),
            receiving: Receiving::default(),
            ledger: Ledger::default(),
            timers: Timers::default(),
            host_timer: Span::ZERO,
            workers: 1,
            arrivals: 0,
            downstream: Span::ZERO,
            sends_probes: false,
            groups_reported_from: Mono(0),
            health_changed: false,
            dirty_variants: Vec::new(),
            stats: Stats::default(),
            config,
        };
        engine.fall_back_to_static();
        engine
    }

    /// Lets the host end requests in flight at their deadlines, by [`Dispatch::begins`](crate::verdict::Dispatch::begins):
    /// this engine ends what that has missed `after` then.
    #[must_use]
    pub fn with_host_timer(mut self, after: Span) -> Engine {
        self.host_timer = after;
        self
    }

    /// Configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Source of the plan in force.
    #[must_use]
    pub fn source(&self) -> PlanSource {
        self.source
    }

    /// Public name of a variant.
    #[must_use]
    pub fn variant_name(&self, variant: VariantId) -> Option<&Rc<str>> {
        self.variants.get(variant).map(|known| &known.name)
    }

    /// Variant with that public name.
    #[must_use]
    pub fn variant(&self, name: &str) -> Option<VariantId> {
        self.variants.named(name)
    }

    /// Handles a new request and returns its verdict. Other requests may be evicted for it; their
    /// verdicts are appended to `verdicts`.
    pub fn on_request(
        &mut self,
        stream: StreamId,
        incoming: &IncomingRequest<'_>,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> Verdict {
        let rule = self.source.rule(self.config.on_stale, now.mono);
        match self.parse_request(incoming, now) {
            ParseOutcome::Bypass(Some(shape)) if rule == Rule::Plan => self.passage(&shape),
            ParseOutcome::Bypass(_) => Verdict::Pass,
            ParseOutcome::Request(request) => match rule {
                Rule::Plan if incoming.body_follows => self.receive(stream, request, now, verdicts),
                Rule::Plan => self.admit(stream, request, now, verdicts),
                Rule::Pass => {
                    self.count_arrival(&request);
                    Verdict::Pass
                }
                Rule::Refuse => {
                    self.count_arrival(&request);
                    self.refuse(Reason::NoPlan, request.refusal_context())
                }
            },
            _ if rule == Rule::Pass => Verdict::Pass,
            ParseOutcome::Refused(_, context) | ParseOutcome::InvalidVariants(_, context)
                if rule == Rule::Refuse =>
            {
                self.refuse(Reason::NoPlan, context)
            }
            ParseOutcome::Refused(reason, context) => self.refuse(reason, context),
            ParseOutcome::InvalidVariants(text, context) => {
                self.refuse_list(&text, context, incoming)
            }
        }
    }

    /// Handles the end of a stream; the next waiting request gets its slot, at once or with the notification that this
    /// worker sends itself. A second report of the same end has no effect.
    pub fn on_end(
        &mut self,
        stream: StreamId,
        end: End,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        let Some(mut request) = self.requests.remove(&stream) else {
            return;
        };
        match request.state {
            State::Receiving { check_at } => {
                self.forget_receiving(stream, &request, check_at);
                self.ledger.release(&mut request.body);
                return self.stats.count(Metric::ClientDisconnects, Label::None);
            }
            State::Held => {
                self.leave_queue(stream, &request);
                self.ledger.release(&mut request.body);
                self.stats.count(Metric::ClientDisconnects, Label::None);
            }
            State::InFlight(flight) => {
                if end == End::Unreachable && !flight.answered {
                    let client = request.client();
                    self.observe(request.variant, client, HealthSignal::Unreachable, now.mono);
                }
                self.note_silence(&request, flight, end, now.mono);
                self.finish_flight(stream, &request, flight, end, now);
            }
        }
        if self.health_changed {
            self.reroute_on_health_change(now, verdicts);
        } else if self.owns_slots() && !self.hands_over_later(request.variant) {
            self.dispatch_variant(request.variant, false, now, verdicts);
        }
    }

    /// Defers the dispatch to a variant of several servers, if requests wait for it, until the notification of this worker
    /// that it sends; returns whether it does. Envoy counts a request at its server until the callbacks of its end have
    /// returned. One dispatched in them would find no server idle, and go to any.
    fn hands_over_later(&mut self, id: VariantId) -> bool {
        let variant = self.variants.get(id);
        let waits = variant.is_some_and(|one| one.replicas > 1 && one.slots.is_waited_for());
        waits && self.worker.notify_self()
    }

    /// Handles a tick or a notification: appends verdicts on held requests.
    pub fn release(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        self.retire_stale_plan(now, verdicts);
        self.reroute_on_health_change(now, verdicts);
        self.expire(now, verdicts);
        self.dispatch_all(now, verdicts);
    }

    /// Ends requests whose time has passed while their bodies were incoming, or in flight.
    fn expire(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        while let Some(stream) = self.timers.pop(now.mono) {
            match self.requests.get(&stream).map(|request| request.state) {
                Some(State::Receiving { .. }) => self.check_receiving(stream, now, verdicts),
                Some(State::InFlight(flight)) if flight.streamed.begun_at.is_some() => {
                    self.reader_expires(stream, now, verdicts);
                }
                Some(State::InFlight(_)) => self.expire_flight(stream, now, verdicts),
                Some(State::Held) | None => debug_assert!(false, "a timer that nobody set"),
            }
        }
    }

    /// Earliest timer of a request that is received or in flight.
    #[must_use]
    pub fn next_timer(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// Latest time for the next call of [`Engine::release`]; `None` if there is nothing to wait for.
    #[must_use]
    pub fn next_wake(&self, now: Mono) -> Option<Mono> {
        if self.health_changed {
            return Some(now);
        }
        let variants = self.variants.iter();
        let wait = self.config.batch_wait;
        let wakes = variants.filter_map(|variant| variant.next_wake(wait, now));
        let timer = self.timers.next().map(|at| at + Span::from_nanos(1));
        wakes.chain(timer).min()
    }

    /// Renews the lease in the slot table; `polls`: this VM can poll the planner. `None` if the table is full
    /// or contended.
    pub fn renew(&mut self, polls: bool, now: Mono) -> Option<Membership> {
        self.worker.set_held(self.held.all + self.receiving.len());
        let (membership, outcome) = self.worker.renew(polls, now);
        self.count(&outcome);
        if let Some(membership) = &membership {
            self.workers = membership.workers;
            self.read_measured(now);
            self.share_group_times(now);
        }
        self.report_groups(now);
        self.variants.update_predictions(now);
        if let Some(membership) = &membership {
            self.sends_probes = membership.reports;
            self.read_health();
            self.gauge(membership, now);
        }
        membership
    }

    /// Renews the lease as a worker that has had requests.
    pub fn serve(&mut self, now: Mono) {
        self.worker.mark_serving();
        self.renew(false, now);
    }

    /// Notifies the proxy's other VMs of a new plan.
    pub fn notify_others(&mut self, now: Mono) {
        self.worker.notify_others(Notification::Plan, now);
    }

    /// Whether this filter grants slots; a router leaves that to the gates.
    fn owns_slots(&self) -> bool {
        self.config.role != Role::Router
    }
}

#[cfg(test)]
mod tests;
