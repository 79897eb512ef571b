//! Polls of real proxies at a publisher, by the clock.

use tokio::time::{MissedTickBehavior, interval};

use super::{LongPoll, Publisher};
use crate::clock::Clock;
use crate::distribution::slot_allocation::{Full, Poll, TICK};

impl Publisher {
    /// Registers a poll, which then waits.
    ///
    /// # Errors
    /// Fails if the maximum number of proxies share slots already.
    pub fn long_poll(&self, poll: &Poll, clock: Clock) -> Result<LongPoll<'_>, Full> {
        let now = clock.now();
        self.advance_revision(poll.after, now);
        let moved = self.moved.subscribe();
        let (ticket, others) = self.allocation().poll(poll, now)?;
        let poll = LongPoll {
            publisher: self,
            ticket,
            clock,
            moved,
            answered: false,
        };
        self.polled.notify_waiters();
        if others {
            self.moved.send_replace(());
        }
        Ok(poll)
    }

    /// Advances the time of the slot allocation, so that proxies that are gone are noticed; never returns.
    pub async fn run_ticks(&self, clock: Clock) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let moved = self.allocation().tick(clock.now());
            if moved {
                self.moved.send_replace(());
                self.polled.notify_waiters();
            }
        }
    }
}
