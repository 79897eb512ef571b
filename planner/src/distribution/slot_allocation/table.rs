//! State of the allocation: the known proxies, and the answers to their polls. [`assign`](super::assign)
//! assigns the slots.

use std::collections::{BTreeMap, VecDeque};
use std::ops::AddAssign;
use std::time::Duration;

use weir_api::{Plan, Revision};

use super::assign::assume_previous;
use super::divide::with_slots;
use super::proxy::{Proxy, Replaced};
use super::{BROKEN_OFF_MAX, NoSlots, PROXIES_MAX, Role};
use crate::clock::Now;

/// Content of a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poll {
    /// Envoy's node id.
    pub proxy: String,
    /// Number that differs after each start of the polling process.
    pub incarnation: u64,
    /// Envoy's worker threads; 0 if not reported.
    pub workers: u32,
    /// Role of the proxy.
    pub role: Role,
    /// The one variant that it fronts, for a gate of one variant.
    pub variant: Option<String>,
    /// Version of its filter, if stated.
    pub version: Option<String>,
    /// Revision of the plan it has.
    pub after: Revision,
}

/// A registered poll that waits for its answer.
#[derive(Debug, Clone)]
pub struct Ticket {
    proxy: String,
    after: Revision,
    /// `None` for the poll of an incarnation that has been replaced.
    epoch: Option<u64>,
}

/// Answer to a poll.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A plan.
    Plan(Box<Plan>),
    /// Nothing yet.
    Wait,
    /// No slots for this proxy.
    Refused(NoSlots),
}

/// Refusal: the maximum number of proxies share slots already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("proxy: {PROXIES_MAX} others share already, no more can")]
pub struct Full;

/// Totals since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Plans granted because slots moved, not because a plan was published.
    pub moves: u64,
    /// Proxies that are gone.
    pub left: u64,
    /// Incarnations that replaced an earlier one.
    pub replaced: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.moves += other.moves;
        self.left += other.left;
        self.replaced += other.replaced;
    }
}

/// Allocation of one stage's slots.
#[derive(Debug, Default)]
pub struct SlotAllocation {
    pub(super) proxies: BTreeMap<String, Proxy>,
    pub(super) whole: Option<Plan>,
    /// Highest known revision.
    pub(super) floor: Revision,
    /// End of the listening phase; `None` after it.
    listening_until: Option<Duration>,
    epochs: u64,
    /// Live proxies at the last tick.
    live: usize,
    pub(super) counts: Counts,
}

impl SlotAllocation {
    /// Creates an allocation without proxies that sends nothing before `listening_until`.
    pub fn new(listening_until: Duration) -> SlotAllocation {
        SlotAllocation {
            listening_until: Some(listening_until).filter(|until| !until.is_zero()),
            ..SlotAllocation::default()
        }
    }

    /// Returns the revision of a plan made now.
    pub fn next_revision(&self, now: Now) -> Revision {
        self.floor.next(now.unix_ms)
    }

    /// Records the revision that a proxy has; returns whether it exceeds all of this planner's.
    pub fn is_ahead(&mut self, after: Revision) -> bool {
        let ahead = after > self.floor;
        self.floor = self.floor.max(after);
        ahead
    }

    /// Sets a new plan for all proxies. It is validated and has [`SlotAllocation::next_revision`].
    pub fn publish(&mut self, plan: Plan, now: Now) {
        self.tick(now);
        self.floor = self.floor.max(plan.revision);
        let old = self.whole.replace(plan);
        self.remap_variants(old.as_ref());
        self.assign(now);
    }

    /// Registers a poll. Returns `true` if other polls may have to be answered, or held for less long.
    ///
    /// # Errors
    /// Fails if [`PROXIES_MAX`] proxies are known.
    pub fn poll(&mut self, poll: &Poll, now: Now) -> Result<(Ticket, bool), Full> {
        let ticked = self.tick(now);
        let ticket = |epoch| Ticket {
            proxy: poll.proxy.clone(),
            after: poll.after,
            epoch,
        };
        let known = self.proxies.get_mut(&poll.proxy);
        if let Some(proxy) = known
            && let Some(replaced) = &mut proxy.replaced
            && replaced.incarnation == poll.incarnation
            && proxy.incarnation != poll.incarnation
            && (proxy.pending > 0 || now.at.saturating_sub(proxy.heard_at) < BROKEN_OFF_MAX)
        {
            replaced.polled_ms = now.unix_ms;
            return Ok((ticket(None), ticked));
        }
        let known = self.proxies.len();
        let (epoch, changed) = self.register(poll, now)?;
        if changed {
            self.live = self.live(now);
        }
        let assigned = changed && self.assign(now);
        let joined = self.proxies.len() > known;
        Ok((ticket(Some(epoch)), ticked || assigned || joined))
    }

    /// Records that a poll has been answered, or has broken off.
    pub fn leave(&mut self, ticket: &Ticket, answered: bool, now: Now) {
        let Some(proxy) = self.proxies.get_mut(&ticket.proxy) else {
            return;
        };
        if ticket.epoch == Some(proxy.epoch) {
            proxy.pending = proxy.pending.saturating_sub(1);
            proxy.heard_at = now.at;
            proxy.broken_off = !answered;
        }
    }

    /// Advances the time; returns whether polls may have to be answered.
    pub fn tick(&mut self, now: Now) -> bool {
        if self.listening_until.is_some_and(|until| now.at < until) {
            return false;
        }
        let first = self.listening_until.take().is_some();
        if first && let Some(whole) = &self.whole {
            assume_previous(&mut self.proxies, whole);
        }
        let had = self.proxies.len();
        self.proxies.retain(|_, proxy| proxy.is_shown(now.at));
        self.counts.left += (had - self.proxies.len()) as u64;
        // Refused proxies are shown for a while after they are gone.
        let live = self.live(now);
        let before = std::mem::replace(&mut self.live, live);
        (first || before != live) && self.assign(now)
    }

    /// Returns the answer to a poll; a plan counts as sent.
    pub fn answer(&mut self, ticket: &Ticket) -> Answer {
        let listening = self.is_listening();
        let known = self.proxies.get_mut(&ticket.proxy);
        let (Some(proxy), Some(whole), false) = (known, &self.whole, listening) else {
            return Answer::Wait;
        };
        if let Some(grant) = proxy.send(ticket.after) {
            return Answer::Plan(Box::new(Plan {
                revision: grant.revision,
                published_ms: grant.published_ms,
                variants: with_slots(&whole.variants, &grant.slots),
                ..whole.clone()
            }));
        }
        if proxy.refused && proxy.holds_nothing() {
            return self
                .proxies
                .get(&ticket.proxy)
                .map_or(Answer::Wait, |proxy| {
                    Answer::Refused(self.refusal_of(proxy))
                });
        }
        Answer::Wait
    }

    /// Whether this poll's proxy shares slots, or would if a gate went: its silence must be noticed.
    pub fn is_shared(&self, ticket: &Ticket) -> bool {
        let may_own = |proxy: &&Proxy| proxy.role != Role::Router;
        let proxy = self.proxies.get(&ticket.proxy);
        proxy.as_ref().is_some_and(may_own) && self.proxies.values().filter(may_own).count() > 1
    }

    /// Whether every proxy with a plan has `revision` or a later one.
    pub fn all_have(&self, revision: Revision) -> bool {
        let has = |proxy: &Proxy| proxy.has_taken(revision) || proxy.holds_nothing();
        self.proxies.values().all(has)
    }

    /// Returns the totals since the start.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn is_listening(&self) -> bool {
        self.listening_until.is_some()
    }

    fn live(&self, now: Now) -> usize {
        let live = |proxy: &&Proxy| proxy.is_live(now.at);
        self.proxies.values().filter(live).count()
    }

    /// Updates the poll's proxy; returns its epoch, and whether anything changed for the allocation.
    fn register(&mut self, poll: &Poll, now: Now) -> Result<(u64, bool), Full> {
        let full = self.proxies.len() >= PROXIES_MAX;
        self.epochs += 1;
        let mut new = false;
        let proxy = match self.proxies.entry(poll.proxy.clone()) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(_) if full => return Err(Full),
            std::collections::btree_map::Entry::Vacant(place) => {
                new = true;
                place.insert(Proxy {
                    incarnation: poll.incarnation,
                    epoch: self.epochs,
                    replaced: None,
                    role: poll.role,
                    variant: poll.variant.clone(),
                    version: poll.version.clone(),
                    workers: poll.workers,
                    after: poll.after,
                    polled_ms: now.unix_ms,
                    polled_at: now.at,
                    pending: 0,
                    heard_at: now.at,
                    broken_off: false,
                    relations: Vec::new(),
                    refused: false,
                    grants: VecDeque::new(),
                })
            }
        };
        if proxy.incarnation != poll.incarnation {
            let (incarnation, polled_ms) = (proxy.incarnation, proxy.polled_ms);
            proxy.replaced = Some(Replaced {
                incarnation,
                polled_ms,
            });
            (proxy.incarnation, proxy.epoch) = (poll.incarnation, self.epochs);
            proxy.pending = 0;
            if proxy
                .grants
                .front()
                .is_some_and(|oldest| poll.after < oldest.revision)
            {
                // It has none of these plans, so it gets slots as far as they are free.
                proxy.grants.clear();
                new = true;
            }
            self.counts.replaced += 1;
        }
        // A refused proxy that was gone counts as alive again only now.
        let back = !proxy.is_live(now.at);
        let moved = proxy.role != poll.role || proxy.variant != poll.variant;
        let other = moved || proxy.after > poll.after;
        (proxy.role, proxy.workers) = (poll.role, poll.workers);
        proxy.variant.clone_from(&poll.variant);
        proxy.version.clone_from(&poll.version);
        (proxy.polled_ms, proxy.polled_at, proxy.heard_at) = (now.unix_ms, now.at, now.at);
        proxy.pending += 1;
        proxy.broken_off = false;
        let confirmed = proxy.is_confirmed();
        let freed = proxy.confirm(poll.after);
        let epoch = proxy.epoch;
        let changed = new || back || other || freed || confirmed != proxy.is_confirmed();
        Ok((epoch, changed))
    }

    /// Grants are stored by index: if the variants changed, slots move to the index of their variant's
    /// name.
    fn remap_variants(&mut self, old: Option<&Plan>) {
        let (Some(old), Some(new)) = (old, &self.whole) else {
            return;
        };
        let names = |plan: &Plan| -> Vec<String> {
            plan.variants
                .iter()
                .map(|variant| variant.name.clone())
                .collect()
        };
        let (before, after) = (names(old), names(new));
        if before == after {
            return;
        }
        for grant in self
            .proxies
            .values_mut()
            .flat_map(|proxy| &mut proxy.grants)
        {
            let named: BTreeMap<_, _> = before.iter().zip(&grant.slots).collect();
            let slots = after
                .iter()
                .map(|name| named.get(name).map_or(0, |slots| **slots));
            grant.slots = slots.collect();
        }
    }
}
