//! Requests at the servers: arrival, execution, and the way back of the answers.

use std::time::Duration;

use super::Simulation;
use super::event_queue::Event;
use super::server::Job;
use super::witness::Witness;
use crate::nanos;

/// Time until a connection to a server that is down is refused.
pub(super) const BREAK_DELAY: Duration = Duration::from_micros(200);
/// Time from a request's arrival at a failing server to its error answer.
const ERROR_DELAY: Duration = Duration::from_millis(3);

impl<W: Witness> Simulation<'_, W> {
    /// Handles a request's arrival at its server, even if its client has disconnected.
    pub(super) fn reach(&mut self, request: u32, attempt: u16, server: u32) {
        if self.take(request, attempt, server) {
            self.wake_server(server);
        }
    }

    /// Offers the request to the server; if it is refused, schedules the error at the proxy.
    pub(super) fn take(&mut self, request: u32, attempt: u16, server: u32) -> bool {
        let time = self.time();
        let known = self
            .simulated_servers
            .get_mut(server as usize)
            .filter(|known| known.up);
        let failing = known.as_ref().is_some_and(|known| known.failing);
        let taken =
            !failing && known.is_some_and(|known| known.take(time, Job { request, attempt }));
        if failing {
            let at = self.now + nanos(ERROR_DELAY) + self.hop(server);
            self.event_queue
                .add(at, Event::ServerError { request, attempt });
        } else if !taken {
            let at = self.now + nanos(BREAK_DELAY) + self.hop(server);
            self.event_queue
                .add(at, Event::ConnectionFailed { request, attempt });
        }
        taken
    }

    /// One-way latency between the proxy and that server, ns.
    pub(super) fn hop(&self, server: u32) -> u64 {
        let known = self.simulated_servers.get(server as usize);
        known.map_or(0, |known| known.hop)
    }

    /// Advances a server that has an execution to end or start.
    pub(super) fn serve(&mut self, server: u32) {
        let time = self.time();
        let mut ended = std::mem::take(&mut self.ended);
        let mut variant = 0;
        if let Some(known) = self.simulated_servers.get_mut(server as usize) {
            known.advance(time, &mut ended);
            variant = known.variant;
        }
        let hop = self.hop(server);
        for (job, run) in ended.drain(..) {
            self.record_execution(job, &run);
            if hop == 0 {
                self.answer(job, variant);
            } else {
                let Job { request, attempt } = job;
                let answer = Event::Answer {
                    request,
                    attempt,
                    variant,
                };
                self.event_queue.add(self.now.saturating_add(hop), answer);
            }
        }
        self.ended = ended;
        self.end_if_drained(server);
        self.wake_server(server);
    }

    pub(super) fn wake_server(&mut self, server: u32) {
        let known = self.simulated_servers.get_mut(server as usize);
        if let Some(at) = known.and_then(|known| known.wake(self.now)) {
            self.event_queue.add(at, Event::ServerWake { server });
        }
    }
}
