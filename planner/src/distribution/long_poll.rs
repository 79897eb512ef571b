//! A held poll that waits for its proxy's plan. If it is dropped without an answer, it reports that the
//! proxy's connection broke off.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use weir_api::Plan;

use super::Publisher;
use crate::clock::Clock;
use crate::distribution::slot_allocation::{Answer, HOLD_SHARED, NoSlots, Ticket};

/// Result of a poll.
#[derive(Debug, Clone, PartialEq)]
pub enum PollResponse {
    /// A plan newer than the proxy's.
    Plan(Box<Plan>),
    /// No newer plan within the hold time.
    Nothing,
    /// No slots for this proxy.
    Refused(NoSlots),
}

/// A registered poll.
#[derive(Debug)]
pub struct LongPoll<'a> {
    pub(super) publisher: &'a Publisher,
    pub(super) ticket: Ticket,
    pub(super) clock: Clock,
    pub(super) moved: watch::Receiver<()>,
    pub(super) answered: bool,
}

impl LongPoll<'_> {
    /// Waits for at most `hold`, or [`HOLD_SHARED`] while slots are shared.
    pub async fn wait(&mut self, hold: Duration) -> PollResponse {
        let begin = Instant::now();
        loop {
            self.moved.mark_unchanged();
            let (answer, shared) = {
                let mut allocation = self.publisher.allocation();
                (
                    allocation.answer(&self.ticket),
                    allocation.is_shared(&self.ticket),
                )
            };
            match answer {
                Answer::Plan(plan) => return PollResponse::Plan(plan),
                Answer::Refused(why) => return PollResponse::Refused(why),
                Answer::Wait => {}
            }
            let end = begin + if shared { hold.min(HOLD_SHARED) } else { hold };
            tokio::select! {
                biased;
                _ = self.moved.changed() => {}
                () = sleep_until(end) => return PollResponse::Nothing,
            }
        }
    }

    /// Records that the poll is being answered.
    pub fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for LongPoll<'_> {
    fn drop(&mut self) {
        let now = self.clock.now();
        self.publisher
            .allocation()
            .leave(&self.ticket, self.answered, now);
    }
}
