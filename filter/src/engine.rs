//! Ties the path together: what the shell tells of a stream goes in, verdicts come out.
//!
//! A request is held or in flight until it ends, and every end is told exactly once. Slots are
//! claimed on the [`board`](crate::coordination), which all workers of the proxy share: whoever frees one that
//! another worker's request should have rings that worker, whose shell then asks for
//! [`Engine::release`].

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::rc::Rc;
use std::time::Duration;

use weir_api::metrics::Metric;

use crate::config::{Config, Role};
use crate::coordination::{Membership, Notification, Store, Worker};
use crate::health::HealthSignal;
use crate::plan::{PlanSource, Rule};
use crate::reason::Reason;
use crate::request::body::{HeldBody, Ledger, Receiving};
use crate::request::deadline::Deadline;
use crate::request::protocol::Shape;
use crate::request::sample_limit::SampleLimit;
use crate::request::skew::Sources;
use crate::routing::router::Router;
use crate::stats::{Label, Stats};
use crate::time::{Mono, Now};
use crate::variant::VariantId;
use crate::verdict::Verdict;
use crate::waiting::class::ClassId;
use crate::waiting::queue::Place;

mod admit;
mod completion;
mod demand;
mod dispatch;
mod forecast;
mod gauges;
mod health;
mod limits;
mod parse;
mod plan_change;
mod receive;
mod refuse;
mod response;
mod route;
mod slots;
mod timers;
mod variant;
mod variants;

use completion::LanePosition;
pub use gauges::Gauge;
pub use health::Probe;
use limits::HeldCounts;
use parse::ParseOutcome;
pub use parse::{IncomingRequest, RequiredLookups};
pub use response::{ANSWER_BUFFERED, Answer, Tags};
use timers::Timers;
use variants::Variants;

/// How long a lost ring can go unnoticed: a worker that holds requests looks at the board this often.
pub const CHECK_PERIOD: Duration = Duration::from_millis(10);

/// A stream, by the number its VM gave it.
pub type StreamId = u32;

/// How a request that was sent upstream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Upstream answered, whatever the status.
    Answered,
    /// No server could be reached, or it reset before its answer began: nothing is being executed.
    Unreachable,
    /// The server broke off, or Envoy did: nothing is being executed.
    Failed,
    /// Its time was up before upstream answered: the server goes on.
    TimedOut,
    /// The client left: the server goes on.
    Gone,
}

/// The filter's state in one VM.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    source: PlanSource,
    variants: Variants,
    worker: Worker,
    router: Router,
    sources: Sources,
    sample_limit: SampleLimit,
    /// The classes' names, by their ids, to be told without copying.
    class_names: Vec<Rc<str>>,
    requests: HashMap<StreamId, Request, Hasher>,
    held: HeldCounts,
    receiving: Receiving,
    /// Bytes of bodies held, of those received and of those that wait.
    ledger: Ledger,
    /// Moments from which a body that is coming comes too late, and at which a flight needs its answer.
    timers: Timers,
    /// Workers of the proxy that serve, as the slot table last said.
    workers: u32,
    arrivals: u64,
    /// What the rest of the pipeline needs after this stage.
    downstream: Duration,
    /// Whether this VM probes what fails: it is the one that reports.
    sends_probes: bool,
    /// Whether a variant has begun or ceased to fail, and who is held has not been routed by that.
    health_changed: bool,
    /// Variants that somebody was moved to, and that the board has not been told of.
    dirty_variants: Vec<VariantId>,
    /// What happened since the shell last looked.
    pub stats: Stats,
}

/// Streams are numbered by Envoy, not by clients: there is nobody to defend the table against.
type Hasher = BuildHasherDefault<fnv::FnvHasher>;

#[derive(Debug, Clone, Copy)]
struct Request {
    deadline: Deadline,
    /// When this stage's answer must leave here: the deadline less what later stages need.
    due: Mono,
    arrived: Now,
    min_accuracy: f64,
    shape: Shape,
    /// Whether the client said when it sent it.
    stamped: bool,
    class: ClassId,
    /// Whether it incoming for another class than it gets.
    class_changed: bool,
    /// The variant that a router has named.
    named: Option<VariantId>,
    /// Counts arrivals, so that equal deadlines keep their order.
    arrival: u64,
    /// Time under way when its headers came, where that was incoming and believed.
    age: Option<Duration>,
    /// The moment of its last byte, or else of its decision.
    complete_at: Mono,
    /// RefusalContext sent it, hashed, where that bounds what is measured of it.
    sender: Option<u64>,
    /// Whether it counts as demand here: no router has counted it.
    counts_as_demand: bool,
    /// Whether its body is still coming.
    uploading: bool,
    /// What is held of its body.
    body: HeldBody,
    variant: VariantId,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Its body is still coming; it is looked at then.
    Receiving {
        check_at: Mono,
    },
    /// It waits for a slot.
    Held,
    InFlight(Flight),
}

#[derive(Debug, Clone, Copy)]
struct Flight {
    /// The moment from which the server could work: dispatch, or the request's last byte.
    sent: Mono,
    /// Its number among those sent to its variant's lanes, and when it should begin to be executed.
    lane: LanePosition,
    /// The plan's service time then.
    planned: Duration,
    /// Whether upstream's answer is an error, which says nothing of its service time.
    failed: bool,
    /// Whether upstream's answer has begun.
    answered: bool,
    /// Whether it still has its slot.
    owns_slot: bool,
}

/// Whom a refusal is for.
#[derive(Debug, Clone, Copy)]
struct RefusalContext {
    class: ClassId,
    grpc: bool,
    /// Where it was to be served; `None` before it is routed.
    variant: Option<VariantId>,
}

impl Request {
    fn refusal_context(&self) -> RefusalContext {
        RefusalContext {
            class: self.class,
            grpc: self.shape.grpc,
            variant: Some(self.variant),
        }
    }

    /// Its place in its variant's waiting room.
    fn place(&self) -> Place {
        Place {
            deadline: self.due,
            arrival: self.arrival,
        }
    }
}

impl Engine {
    /// An engine that goes by the configuration's static plan, if there is one. It meets the proxy's
    /// other workers in `store` as `incarnation`, which no other VM's start has.
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
            workers: 1,
            arrivals: 0,
            downstream: Duration::ZERO,
            sends_probes: false,
            health_changed: false,
            dirty_variants: Vec::new(),
            stats: Stats::default(),
            config,
        };
        engine.fall_back_to_static();
        engine
    }

    /// What it was configured with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where the plan in force came from.
    #[must_use]
    pub fn source(&self) -> PlanSource {
        self.source
    }

    /// The public name of a variant.
    #[must_use]
    pub fn variant_name(&self, variant: VariantId) -> Option<&Rc<str>> {
        self.variants.get(variant).map(|known| &known.name)
    }

    /// The variant of that public name.
    #[must_use]
    pub fn variant(&self, name: &str) -> Option<VariantId> {
        self.variants.named(name)
    }

    /// A request has arrived. OtherWorkers may have to make room for it: their verdicts are told beside.
    pub fn on_request(
        &mut self,
        stream: StreamId,
        incoming: &IncomingRequest<'_>,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> Verdict {
        let rule = self.source.rule(self.config.on_stale, now.mono);
        match (self.parse_request(incoming, now), rule) {
            (ParseOutcome::Bypass, _) | (ParseOutcome::Refused(..), Rule::Pass) => Verdict::Pass,
            (ParseOutcome::Request(request), Rule::Pass) => {
                self.count_arrival(&request);
                Verdict::Pass
            }
            (ParseOutcome::Refused(_, context), Rule::Refuse) => {
                self.refuse(Reason::NoPlan, context)
            }
            (ParseOutcome::Request(request), Rule::Refuse) => {
                self.count_arrival(&request);
                self.refuse(Reason::NoPlan, request.refusal_context())
            }
            (ParseOutcome::Refused(reason, context), Rule::Plan) => self.refuse(reason, context),
            (ParseOutcome::Request(request), Rule::Plan) if incoming.body_follows => {
                self.receive(stream, request, now, verdicts)
            }
            (ParseOutcome::Request(request), Rule::Plan) => {
                self.admit(stream, request, now, verdicts)
            }
        }
    }

    /// A stream has ended; whoever waits here for what it leaves goes next. Told twice, the second
    /// time counts for nothing.
    pub fn on_end(
        &mut self,
        stream: StreamId,
        end: End,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        if let Some(mut request) = self.leave_receiving(stream) {
            self.ledger.release(&mut request.body);
            return self.stats.count(Metric::Gone, Label::None);
        }
        let Some(mut request) = self.requests.remove(&stream) else {
            return;
        };
        match request.state {
            State::Receiving { .. } => {}
            State::Held => {
                self.leave_queue(&request);
                self.ledger.release(&mut request.body);
                self.stats.count(Metric::Gone, Label::None);
            }
            State::InFlight(flight) => {
                if end == End::Unreachable && !flight.answered {
                    self.observe(request.variant, HealthSignal::Unreachable, now.mono);
                }
                self.finish_flight(stream, &request, flight, end, now);
            }
        }
        if self.health_changed {
            self.reroute_on_health_change(now, verdicts);
        } else if self.owns_slots() {
            self.dispatch_variant(request.variant, false, now, verdicts);
        }
    }

    /// Time has passed, or this worker was rung: verdicts for those that were held.
    pub fn release(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        self.retire_stale_plan(now, verdicts);
        self.reroute_on_health_change(now, verdicts);
        self.expire(now, verdicts);
        self.dispatch_all(now, verdicts);
    }

    /// Ends those whose time has passed while their bodies came, or while a server was at work.
    fn expire(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        while let Some(stream) = self.timers.pop(now.mono) {
            match self.requests.get(&stream).map(|request| request.state) {
                Some(State::Receiving { .. }) => self.check_receiving(stream, now, verdicts),
                Some(State::InFlight(_)) => self.expire_flight(stream, now, verdicts),
                Some(State::Held) | None => debug_assert!(false, "a timer that nobody set"),
            }
        }
    }

    /// The earliest deadline of what is received or in flight.
    #[must_use]
    pub fn next_timer(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// When [`Engine::release`] should be incoming at the latest; `None`: there is nothing to wait for.
    #[must_use]
    pub fn next_wake(&self, now: Mono) -> Option<Mono> {
        if self.health_changed {
            return Some(now);
        }
        let variants = self.variants.iter();
        let wait = self.config.batch_wait;
        let wakes = variants.filter_map(|variant| variant.next_wake(wait, now));
        let timer = self.timers.next().map(|at| at + Duration::from_nanos(1));
        wakes.chain(timer).min()
    }

    /// Renews the lease on the board; `polls`: this VM can poll the planner. `None` where the board is
    /// full or contended.
    pub fn renew(&mut self, polls: bool, now: Mono) -> Option<Membership> {
        self.variants.update_predictions(now);
        self.worker.set_held(self.held.all + self.receiving.len());
        let (membership, outcome) = self.worker.renew(polls, now);
        self.count(&outcome);
        if let Some(membership) = &membership {
            self.workers = membership.workers;
            self.sends_probes = membership.reports;
            self.read_health();
            self.gauge(membership, now);
        }
        membership
    }

    /// Renews the lease as one that has had requests.
    pub fn serve(&mut self, now: Mono) {
        self.worker.mark_serving();
        self.renew(false, now);
    }

    /// Rings the proxy's other VMs: there is a new plan.
    pub fn notify_others(&mut self, now: Mono) {
        self.worker.notify_others(Notification::Plan, now);
    }

    /// Whether the slots are its to give: a router leaves them to the gates.
    fn owns_slots(&self) -> bool {
        self.config.role != Role::Router
    }
}

#[cfg(test)]
mod tests;
