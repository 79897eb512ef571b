//! Several proxies, one set of slots: who they are, what part each has, and how parts move when a
//! proxy comes or goes. Pure: polls and the time come in, plans and waits go out.
//!
//! **Who owns slots.** The gates that front a variant; where no live gate fronts it, the proxies that
//! are router and gate in one; a router never: it gets the plan as it is. A gate fronts the variant that
//! its polls name, or all. [`divide`] deals each variant's slots out in the order of the node ids: the
//! parts sum to the whole and differ by at most one. A variant that neither a gate nor a proxy that is
//! both fronts is nobody's: its slots wait for an owner.
//!
//! **How a part moves.** Make before break: a proxy *may work by* every plan handed to it since the
//! one its polls confirm (`after`), so a part grows only into what no other may work by. A proxy that
//! has to give up slots gets a smaller plan at once; who is to have them gets its plan when that one
//! is confirmed, or its proxy gone. Whoever waits without a plan waits for its whole part; who has one
//! goes on by it.
//!
//! **Who is gone.** A proxy whose pending poll broke off and that did not come back within
//! [`BROKEN_OFF_MAX`], or that let [`SILENT_MAX`] pass without a poll. So that a machine that fell
//! silent is noticed, polls are held for [`HOLD_SHARED`] only while slots are shared. Its own requests
//! cannot be seen from here: one that is cut off from the planner but not from its servers goes on by
//! its last part beside those who took it over.
//!
//! **Restarts.** A new incarnation takes its node id's place, part and all, at once: the old process
//! and the new one work by the same part while the old one drains. The old one's later polls are
//! answered and count for nothing, unless the new one falls silent. A planner that starts knows
//! nothing of who holds what: it hands out nothing for [`SETTLE`], and then takes those it has heard
//! of that have a plan for those who shared the whole before. One that comes back later than that
//! works by its old part until its first poll is answered.
//!
//! **Fewer slots than owners.** Some get none: one that has a part first gets a plan without slots,
//! to give it back; then its polls are refused ([`NoPart`]) until there are slots, or a gate. So are those
//! of a gate whose variant is none of the plan's. A gate whose variant has no slots at the moment is not
//! one too many: it gets a plan that says so.

mod deal;
mod divide;
mod own;
mod proxy;
mod refusal;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod view;

use std::time::Duration;

pub use divide::{TooFew, divide};
pub use own::Role;
pub use refusal::NoPart;
pub use table::{Answer, Counts, Full, Poll, Sharing, Ticket};
pub use view::ProxyView;

/// Most proxies that share; a further one is told to come back (503).
pub const PROXIES_MAX: usize = 1024;
/// How long a poll is held while there is somebody to share with. A poll that is answered and not
/// followed by another is what tells of a silent machine.
pub const HOLD_SHARED: Duration = Duration::from_millis(500);
/// How long a proxy may let pass between an answer and its next poll. Longer than a filter pauses
/// after its first failure (500 ms) and a tick of it (500 ms).
pub const SILENT_MAX: Duration = Duration::from_millis(1200);
/// The same after its poll was broken off, which most likely was its end.
pub const BROKEN_OFF_MAX: Duration = Duration::from_millis(1000);
/// How often the time is looked at.
pub const LOOK: Duration = Duration::from_millis(50);
/// A part has moved so long after its proxy has come or gone. Nothing enforces it: it is what the
/// figures above come to, with time left for the answers' way.
pub const MOVE_MAX: Duration = Duration::from_secs(2);
/// How long a planner that starts listens before it hands out parts: whoever is there has polled.
pub const SETTLE: Duration = Duration::from_millis(1500);
/// How long a proxy that was refused a part is shown: longer than its filter's longest pause.
pub const REFUSED_SHOWN: Duration = Duration::from_secs(10);

const _: () = assert!(
    HOLD_SHARED.as_millis() + SILENT_MAX.as_millis() + LOOK.as_millis() + 200
        <= MOVE_MAX.as_millis()
);
const _: () = assert!(BROKEN_OFF_MAX.as_millis() <= SILENT_MAX.as_millis());
const _: () = assert!(SETTLE.as_millis() >= SILENT_MAX.as_millis());
