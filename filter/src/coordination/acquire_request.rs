//! Request for slots of one variant, and its result.

use super::{EndedExecutions, LaneReport, LaneRequest, Timeouts, Usage};
use crate::priority::Urgency;
use crate::time::{Mono, Span};
use crate::variant::VariantKey;

/// Usage that a worker publishes of one variant, and the slots it asks for.
#[derive(Debug, Clone)]
pub struct AcquireRequest<'a, W> {
    /// Variant.
    pub variant: VariantKey,
    /// Slots that the plan gives this proxy.
    pub slots: u32,
    /// Multiple of these slots that is the concurrency limit at first.
    pub start: u32,
    /// Slots that the worker has taken, orphans included.
    pub taken: u32,
    /// Requests of it upstream whose bodies still arrive.
    pub uploads: u32,
    /// Only for a newcomer whose body still arrives: how many of these the variant may have, of all workers.
    pub uploads_max: Option<u32>,
    /// Slots that it had taken at its last write: in quarantine it takes no more than that.
    pub reported: u32,
    /// Latest predicted end of the executions in those slots.
    pub until: Mono,
    /// Predicted service time of a new execution.
    pub service: Span,
    /// Requests waiting here, a newcomer included, most urgent first.
    pub waiting: W,
    /// Number of them.
    pub waiting_count: u32,
    /// Maximum number that may be granted now.
    pub limit: u32,
    /// Batch size, so that the server's own batcher fills; 1 (or 0): no batches.
    pub batch: u32,
    /// Least urgent request here whose batch window is over.
    pub due: Option<Urgency>,
    /// Whether this is a tick: every worker with a more urgent request is notified, so that by the next tick it
    /// has acquired or lost its reservation.
    pub tick: bool,
    /// Whether requests may be sent beyond the limit, to learn what the servers do with more in flight.
    pub explores: bool,
    /// Whether the newcomer goes before all that wait at other workers.
    pub jumps: bool,
    /// Executions that have ended.
    pub executions: EndedExecutions<'a>,
    /// Data for sending the next request before a lane is free. `None`: it is not sent early.
    pub lanes: Option<LaneRequest<'a>>,
}

impl<W: Iterator<Item = Urgency> + Clone> AcquireRequest<'_, W> {
    /// Usage of the worker after the first `granted` requests have left.
    pub(super) fn usage(&self, granted: u32, now: Mono, timeouts: &Timeouts) -> Usage {
        let taken = if granted > 0 {
            let behind = (self.lanes.as_ref()).map_or(Span::ZERO, |lanes| lanes.mean);
            now + self.service + behind
        } else {
            Mono(0)
        };
        Usage {
            taken: self.taken.saturating_add(granted),
            waiting_count: self.waiting_count.saturating_sub(granted),
            until: self.until.max(taken).min(now + timeouts.orphan_max),
            head: self.waiting.clone().nth(granted as usize),
            uploads: self.uploads.saturating_add(match self.uploads_max {
                Some(_) => granted,
                None => 0,
            }),
        }
    }
}

/// Usage of a variant by the other workers of the proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OtherWorkers {
    /// Slots taken, including those of dead workers while they count.
    pub taken: u32,
    /// Requests waiting at live workers, as last written.
    pub waiting: u32,
    /// Requests upstream whose bodies still arrive.
    pub uploads: u32,
}

/// Time for which all slots of a variant were taken, from one end of an execution to the next, and the executions that
/// ended. Their rate over long is what the servers sustain, whether they work on the requests of all slots at once or one
/// after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullTime {
    /// Time.
    pub time: Span,
    /// Executions, and predicted ends of orphans.
    pub ended: u32,
}

/// Result of an [`AcquireRequest`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AcquireResult {
    /// Number of slots granted: the first ones in order may leave.
    pub granted: u32,
    /// Whether more could have been granted, but for [`AcquireRequest::limit`]. Only with batches.
    pub more: bool,
    /// Time for which a slot was free while a request waited, before the first grant.
    pub idle: Option<Span>,
    /// Time with all slots taken, from one end of an execution to the next.
    pub full: Option<FullTime>,
    /// Usage of the other workers.
    pub others: OtherWorkers,
    /// Requests sent, and the backlog of the lanes.
    pub lanes: LaneReport,
    /// Whether workers must be notified: those with `notified_at` equal to now.
    pub notifies: bool,
    /// Whether the table has changed and must be written.
    pub changed: bool,
    /// Usage of the worker afterwards.
    pub usage: Usage,
}
