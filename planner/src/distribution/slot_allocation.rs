//! Allocation of one set of slots to several proxies, and its changes when a proxy comes or goes. Pure:
//! polls and the time come in, plans and waits go out.
//!
//! **Ownership.** The gates that front a variant own its slots. If no live gate fronts it, the proxies that
//! are router and gate in one own them. A router owns nothing: it gets the plan unchanged. A gate fronts
//! the variant that its polls name, or all variants. [`divide`] divides each variant's slots in the order
//! of the node ids: the proxies' slots add up to the whole, and differ by at most one. A variant that
//! neither a gate nor a combined proxy fronts has no owner; its slots wait for one.
//!
//! **Moves.** Make before break: a proxy *may use* every plan sent to it since the one that its polls
//! confirm (`after`). A proxy's slots therefore grow only into those that no other proxy may use. A proxy
//! that has to give up slots gets a smaller plan at once. The proxy that receives them gets its plan once
//! the smaller one is confirmed, or its proxy is gone. A proxy without a plan waits for all of its slots;
//! one with a plan goes on using it.
//!
//! **Proxies that are gone.** A proxy is gone if its pending poll broke off and it did not return within
//! [`BROKEN_OFF_MAX`], or if [`SILENT_MAX`] passed without a poll. Polls are held for [`HOLD_SHARED`] only
//! while slots are shared, so that a silent machine is noticed. A proxy's own requests are not visible
//! here. One that is cut off from the planner, but not from its servers, goes on using its last slots while
//! others use them too.
//!
//! **Restarts.** A new incarnation takes over its node id and slots at once: the old and the new process
//! use the same slots while the old one drains. The old one's later polls are answered but do not count,
//! unless the new one falls silent. A planner that starts does not know who uses which slots. It sends
//! nothing for [`LISTEN_TIME`], and then assumes that the proxies it has heard of that have a plan shared the
//! whole before. A proxy that returns later uses its old slots until its first poll is answered.
//!
//! **Fewer slots than owners.** Some proxies get none. One that has slots first gets a plan without slots,
//! to give them back. Then its polls are refused ([`NoSlots`]) until there are slots, or a gate. The polls
//! of a gate whose variant is not in the plan are refused as well. A gate whose variant has no slots at the
//! moment is not refused: it gets a plan that says so.

mod assign;
mod divide;
mod ownership;
mod proxy;
mod refusal;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod view;

use std::time::Duration;

pub use divide::{TooFew, divide};
pub use ownership::Role;
pub use refusal::NoSlots;
pub use table::{Answer, Counts, Full, Poll, SlotAllocation, Ticket};
pub use view::ProxyView;

/// Maximum number of proxies that share slots; further ones are refused with 503.
pub const PROXIES_MAX: usize = 1024;
/// Time for which a poll is held while slots are shared. A silent machine is noticed because no poll
/// follows an answered one.
pub const HOLD_SHARED: Duration = Duration::from_millis(500);
/// Maximum time between an answer and the proxy's next poll. Longer than a filter's pause after its first
/// failure (500 ms) and one of its ticks (500 ms).
pub const SILENT_MAX: Duration = Duration::from_millis(1200);
/// Maximum time between a poll that broke off, which most likely was the proxy's end, and the next poll.
pub const BROKEN_OFF_MAX: Duration = Duration::from_millis(1000);
/// Interval between two ticks of the allocation.
pub const TICK: Duration = Duration::from_millis(50);
/// Time within which slots have moved after their proxy came or went. Nothing enforces it: it is the sum of
/// the constants above, with a margin for network latency.
pub const MOVE_MAX: Duration = Duration::from_secs(2);
/// Time for which a planner that starts listens before it sends plans: every running proxy has polled by
/// then.
pub const LISTEN_TIME: Duration = Duration::from_millis(1500);
/// Time for which a refused proxy is shown: longer than its filter's longest pause.
pub const REFUSED_SHOWN: Duration = Duration::from_secs(10);

const _: () = assert!(
    HOLD_SHARED.as_millis() + SILENT_MAX.as_millis() + TICK.as_millis() + 200
        <= MOVE_MAX.as_millis()
);
const _: () = assert!(BROKEN_OFF_MAX.as_millis() <= SILENT_MAX.as_millis());
const _: () = assert!(LISTEN_TIME.as_millis() >= SILENT_MAX.as_millis());
