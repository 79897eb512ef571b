//! An execution, as the search for the limit sees it.

use crate::time::{Mono, Span};

/// Execution that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Requests in flight when it was sent, itself included.
    pub in_flight: u32,
    /// Time of dispatch.
    pub sent: Mono,
    /// Time that it took.
    pub took: Span,
    /// Ratio of the way to an idle server and back to the planned time: what no more in flight can save.
    pub gap: u32,
    /// Ratio of the time that the request had when it arrived, with its body, to the planned time.
    pub left: u32,
    /// Ratio of its time to its planned one, in 1/1024. The time counts from the end of the execution before it was sent: so
    /// it is as long as if it had been sent then, whatever part of those under way was over.
    pub ratio: u32,
    /// Whether the plan has batches, which the servers make by themselves.
    pub batches: bool,
    /// Whether it was completed; else it was cut off.
    pub completed: bool,
}
