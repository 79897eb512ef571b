//! What a worker asks the slot table for.

use crate::coordination::{AcquireRequest, SyncResult, Worker};
use crate::engine::variant::Variant;
use crate::priority::Urgency;
use crate::time::Mono;
use crate::waiting::class::ClassId;
use crate::waiting::queue::Place;

/// Parameters of an acquisition beyond the state of the variant's slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct AcquireParams {
    pub(super) waiting_count: u32,
    pub(super) batch: u32,
    pub(super) due: Option<Urgency>,
    pub(super) limit: u32,
    pub(super) uploads_max: Option<u32>,
    pub(super) explores: bool,
    pub(super) jumps: bool,
    pub(super) limit_max: u32,
    /// Whether the servers make batches of what is sent to them.
    pub(super) batches: bool,
    pub(super) tick: bool,
    pub(super) overlaps: bool,
}

/// Requests for which a worker asks for slots.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) enum Asking {
    /// None: the usage is published.
    Nobody,
    /// All that wait.
    Waiting,
    /// A newcomer that goes before all that wait.
    Newcomer(Newcomer),
    /// A newcomer that is sent beyond the limit.
    Explorer(Newcomer),
}

/// A request that has just arrived.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct Newcomer {
    pub(super) at: (ClassId, Place),
    /// How many requests of its variant may have bodies that still arrive, if its own does.
    pub(super) uploads_max: Option<u32>,
}

impl Asking {
    pub(super) fn newcomer(self) -> Option<Newcomer> {
        match self {
            Asking::Nobody | Asking::Waiting => None,
            Asking::Newcomer(newcomer) | Asking::Explorer(newcomer) => Some(newcomer),
        }
    }

    pub(super) fn limit(self) -> u32 {
        match self {
            Asking::Nobody => 0,
            Asking::Waiting => u32::MAX,
            Asking::Newcomer(_) | Asking::Explorer(_) => 1,
        }
    }
}

impl AcquireParams {
    /// Acquires.
    pub(super) fn acquire<W: Iterator<Item = Urgency> + Clone>(
        self,
        worker: &mut Worker,
        variant: &Variant,
        waiting: W,
        now: Mono,
    ) -> SyncResult {
        let slots = &variant.slots;
        let request = AcquireRequest {
            variant: variant.key,
            slots: slots.planned(),
            // While a batch executes the next one waits at the server.
            start: 1 + u32::from(self.batches && self.limit_max > 0),
            taken: slots.taken(),
            uploads: variant.uploads,
            uploads_max: self.uploads_max,
            reported: slots.reported.taken,
            until: slots.until(),
            service: variant.full.high,
            waiting_count: self.waiting_count,
            waiting,
            batch: self.batch,
            due: self.due,
            limit: self.limit,
            explores: self.explores,
            jumps: self.jumps,
            tick: self.tick,
            executions: variant.ended_executions(self.batches, self.limit_max),
            lanes: self
                .overlaps
                .then(|| variant.lane_request(self.waiting_count, now)),
        };
        worker.acquire(request, now)
    }
}
