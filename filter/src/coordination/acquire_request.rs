//! What a VM says of one variant and asks of the table, and what comes of it. Decides nothing.

use std::time::Duration;

use super::{LaneReport, LaneRequest, Timeouts, Usage};
use crate::priority::Urgency;
use crate::time::Mono;
use crate::variant::VariantKey;

/// What a VM says of one variant, and asks.
#[derive(Debug, Clone)]
pub struct AcquireRequest<'a, W> {
    /// The variant.
    pub variant: VariantKey,
    /// How many slots the plan gives this proxy.
    pub slots: u32,
    /// How many the VM has taken, ghosts included.
    pub taken: u32,
    /// How many it had taken when it last wrote: while the table quarantined it takes no more than that.
    pub reported: u32,
    /// The latest predicted end of what it has taken.
    pub until: Mono,
    /// The predicted service time of what it would take.
    pub service: Duration,
    /// Those who wait here, an arrival included, the limit urgent first.
    pub waiting: W,
    /// How many they are.
    pub waiting_count: u32,
    /// How many of them may go now.
    pub limit: u32,
    /// How many leave together, so that the server's own batcher fills; 1 (or 0): each by itself.
    pub batch: u32,
    /// The least urgent of those here that can wait no longer for company.
    pub due: Option<Urgency>,
    /// Whether this is a tick: everybody who stands before those who wait here is rung, so that by the
    /// next tick each has come or lost its right.
    pub tick: bool,
    /// Times by which the next is sent before a lane gets free. `None`: it is not.
    pub lanes: Option<LaneRequest<'a>>,
}

impl<W: Iterator<Item = Urgency>> AcquireRequest<'_, W> {
    /// What the VM has and holds once the first `granted` of those who wait may go.
    pub(super) fn usage(mut self, granted: u32, now: Mono, timeouts: &Timeouts) -> Usage {
        let taken = if granted > 0 {
            let behind = self.lanes.map_or(Duration::ZERO, |lanes| lanes.mean);
            now + self.service + behind
        } else {
            Mono(0)
        };
        Usage {
            taken: self.taken.saturating_add(granted),
            waiting_count: self.waiting_count.saturating_sub(granted),
            until: self.until.max(taken).min(now + timeouts.orphan_max),
            head: self.waiting.nth(granted as usize),
        }
    }
}

/// What the other VMs of the proxy have of a variant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OtherWorkers {
    /// Slots taken, those of the dead included while they count.
    pub taken: u32,
    /// How many wait at those who live, as they last wrote.
    pub waiting: u32,
}

/// What the table answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AcquireResult {
    /// How many of those who wait may go: the first so many.
    pub granted: u32,
    /// Whether more of them might have gone, had they been asked for: [`AcquireRequest::limit`] held them back.
    /// Only of batches.
    pub more: bool,
    /// Where a slot was free for somebody before the first of them took it: for how long.
    pub idle: Option<Duration>,
    /// What the others have.
    pub others: OtherWorkers,
    /// Requests sent, and the work before the lanes.
    pub lanes: LaneReport,
    /// Whether somebody is to be rung: whoever has `notified_at` now.
    pub notifies: bool,
    /// Whether the table is another than before and has to be written.
    pub changed: bool,
}
