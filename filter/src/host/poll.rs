//! Long poll of the planner: one call at a time, repeated at once after an answer, with a growing pause
//! after failures. It logs once that the planner is unreachable, and once that it is back.

use weir_api::Revision;
use weir_api::plan::BYTES_MAX;

use crate::config::{Config, Planner};
use crate::time::{Mono, Span};

use super::call;

/// Timeout of a poll; the planner answers after at most 20 s.
const TIMEOUT: Span = Span::from_secs(25);
/// Pause after the first failure; it doubles with each further one.
const PAUSE_MIN: Span = Span::from_millis(250);
/// Longest pause. Not longer, because a planner gives the slots of a silent proxy to others.
const PAUSE_MAX: Span = Span::from_secs(1);

/// Pause after a refused plan: the planner would send the same one again at once.
const PAUSE_REFUSED: Span = Span::from_secs(1);

/// Version of the filter, which polls state.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Maximum length of a refusal's text in the log, in bytes.
const MESSAGE_MAX: usize = 1024;

/// Result of a poll.
pub(super) enum PollResult {
    /// Bytes that should be a plan.
    Plan(Vec<u8>),
    /// No newer plan.
    Nothing,
    /// This proxy gets no slot; the poll named that revision.
    NoSlots(Revision),
    /// No answer.
    Unreachable,
}

/// State of the poll in this VM.
pub(super) struct Poll {
    planner: Planner,
    path: String,
    call: Option<u32>,
    /// Revision that the last poll named.
    after: Revision,
    pause: Span,
    not_before: Mono,
    unreachable: bool,
}

impl Poll {
    pub(super) fn new(planner: Planner, config: &Config) -> Poll {
        let node = call::text(&["xds", "node", "id"])
            .or_else(|| call::text(&["node", "id"]))
            .filter(|node| !node.is_empty())
            .unwrap_or_else(|| "envoy".to_owned());
        let (node, version) = (plain(&node), plain(VERSION));
        let (service, role) = (&config.service, config.role.label());
        let mut path = format!("/v1/plans/{service}?proxy={node}&role={role}&version={version}");
        if let Some(variant) = &config.variant {
            path.push_str("&variant=");
            path.push_str(variant);
        }
        Poll {
            planner,
            path,
            call: None,
            after: Revision(0),
            pause: PAUSE_MIN,
            not_before: Mono(0),
            unreachable: false,
        }
    }

    /// Requests a plan newer than `after`, unless a call is pending or the pause is not over. Returns `false`
    /// if the call could not be made.
    pub(super) fn send(&mut self, after: Revision, process: u64, workers: u32, now: Mono) -> bool {
        if self.call.is_some() || now < self.not_before {
            return true;
        }
        let path = format!(
            "{}&incarnation={process}&workers={workers}&after={after}",
            self.path
        );
        let bearer = format!("Bearer {}", self.planner.key);
        let headers = vec![
            (":method", "GET"),
            (":path", path.as_str()),
            (":authority", self.planner.authority.as_str()),
            ("accept", "application/json"),
            ("authorization", bearer.as_str()),
        ];
        self.call = call::get(&self.planner.cluster, headers, TIMEOUT);
        self.after = after;
        if self.call.is_none() {
            let why = format!("there is no cluster '{}'", self.planner.cluster);
            self.failed(&why, now);
        }
        self.call.is_some()
    }

    /// Whether the answer to this call is the poll's.
    pub(super) fn expects(&self, token: u32) -> bool {
        self.call == Some(token)
    }

    /// Handles the answer to call `token`; `None` if it is not a poll.
    pub(super) fn on_answer(&mut self, token: u32, now: Mono) -> Option<PollResult> {
        if self.call != Some(token) {
            return None;
        }
        self.call = None;
        match call::call_status() {
            Some(200) => {
                self.reached(now);
                Some(PollResult::Plan(call::call_body(BYTES_MAX + 1)))
            }
            Some(204) => {
                self.reached(now);
                Some(PollResult::Nothing)
            }
            Some(409) => {
                let why = String::from_utf8_lossy(&call::call_body(MESSAGE_MAX)).into_owned();
                log::warn!("weir: the planner gives this proxy no slot: {why}");
                self.reached(now);
                self.refused(now);
                Some(PollResult::NoSlots(self.after))
            }
            Some(status) => {
                self.failed(&format!("status {status}"), now);
                Some(PollResult::Unreachable)
            }
            None => {
                self.failed("no answer", now);
                Some(PollResult::Unreachable)
            }
        }
    }

    /// Delays the next poll after a refused plan.
    pub(super) fn refused(&mut self, now: Mono) {
        self.not_before = now + PAUSE_REFUSED;
    }

    fn reached(&mut self, now: Mono) {
        if self.unreachable {
            log::info!("weir: the planner answers again");
        }
        self.unreachable = false;
        self.pause = PAUSE_MIN;
        self.not_before = now;
    }

    fn failed(&mut self, why: &str, now: Mono) {
        if !self.unreachable {
            let (cluster, pause) = (&self.planner.cluster, self.pause);
            log::warn!(
                "weir: the planner (cluster '{cluster}') does not answer: {why}; traffic goes on by the last plan, next try in {pause:?}, further failures are only counted"
            );
        }
        self.unreachable = true;
        self.not_before = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

/// Returns a text as a query may have it, with `_` for other characters.
fn plain(text: &str) -> String {
    let each = text.chars();
    each.map(|c| if is_plain(c) { c } else { '_' }).collect()
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~".contains(c)
}
