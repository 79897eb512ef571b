//! Assignment of plans to proxies: towards the slots that [`divide`](super::divide) gives, and never into
//! slots that another proxy may still use.

use std::collections::BTreeMap;

use weir_api::{Plan, Revision};

use super::Sharing;
use super::divide::{deal, is_refused, names_of, slots_of};
use super::own::{Tie, ties};
use super::proxy::{Grant, Proxy};
use crate::clock::Now;

/// Next change for one proxy.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// None.
    Stay,
    /// A plan with these slots.
    Give(Vec<u32>),
    /// None yet: the proxy would have to give up its last slot for another that is not free.
    Stuck,
}

impl Sharing {
    /// Assigns all slots that are free to assign; returns whether any plan changed.
    pub(super) fn deal(&mut self, now: Now) -> bool {
        let Some(whole) = self.whole.as_ref().filter(|_| !self.is_listening()) else {
            return false;
        };
        let slots = slots_of(whole);
        let targets = targets(&mut self.proxies, whole, now);
        let mut held: Vec<u64> = (0..slots.len())
            .map(|variant| sum_of(self.proxies.values(), variant))
            .collect();
        let (mut dealt, mut unsettled, mut stuck) = (false, false, None);
        for ((name, proxy), target) in self.proxies.iter_mut().zip(targets) {
            let room = room(proxy, &slots, &held);
            let given = match step(proxy, &target, &room, whole.revision) {
                Step::Stay => None,
                Step::Give(slots) => Some(slots),
                Step::Stuck => {
                    stuck.get_or_insert_with(|| name.clone());
                    None
                }
            };
            if let Some(given) = given {
                let before = may_hold(proxy, slots.len());
                give(
                    proxy,
                    given,
                    whole,
                    &mut self.floor,
                    &mut self.counts.moves,
                    now,
                );
                let after = may_hold(proxy, slots.len());
                for (held, (before, after)) in held.iter_mut().zip(before.into_iter().zip(after)) {
                    *held = (*held + after).saturating_sub(before);
                }
                dealt = true;
            }
            unsettled |= proxy.owns_any() && !proxy.is_settled();
        }
        // Each waits for the last slot of the next, in a circle: one gives its slot up.
        if let Some(proxy) = stuck
            .filter(|_| !dealt && !unsettled)
            .and_then(|name| self.proxies.get_mut(&name))
        {
            let nothing = vec![0; slots.len()];
            give(
                proxy,
                nothing,
                whole,
                &mut self.floor,
                &mut self.counts.moves,
                now,
            );
            dealt = true;
        }
        dealt
    }
}

/// Assumes, after a start, that the proxies with a plan shared `whole` before.
pub(super) fn assume(proxies: &mut BTreeMap<String, Proxy>, whole: &Plan) {
    // A proxy that has fallen silent since had its slots all the same.
    let stands: Vec<_> = proxies.values().map(|proxy| proxy.stand(true)).collect();
    let mut ties = ties(&names_of(whole), &stands);
    for (proxy, ties) in proxies.values().zip(&mut ties) {
        if proxy.after == Revision(0) {
            ties.fill(Tie::None);
        }
    }
    let parts = deal(&slots_of(whole), &ties);
    for (proxy, (ties, slots)) in proxies.values_mut().zip(ties.iter().zip(parts)) {
        if !ties.contains(&Tie::Owns) {
            continue;
        }
        let (revision, published_ms) = (proxy.after, whole.published_ms);
        proxy.grants.clear();
        proxy.grant(Grant {
            revision,
            published_ms,
            slots,
            sent: true,
        });
    }
}

/// Returns the target slots of each proxy; updates ownership and refusals.
fn targets(proxies: &mut BTreeMap<String, Proxy>, whole: &Plan, now: Now) -> Vec<Vec<u32>> {
    let slots = slots_of(whole);
    let live = proxies
        .values()
        .map(|proxy| proxy.stand(proxy.is_live(now.at)));
    let stands: Vec<_> = live.collect();
    let ties = ties(&names_of(whole), &stands);
    let parts = deal(&slots, &ties);
    for (proxy, (ties, part)) in proxies.values_mut().zip(ties.into_iter().zip(&parts)) {
        proxy.refused = is_refused(&ties, part, &slots);
        proxy.ties = ties;
    }
    parts
}

/// Returns, by variant, the slots that no other owner may use.
fn room(proxy: &Proxy, slots: &[u32], held: &[u64]) -> Vec<u32> {
    let free = |(variant, (slots, held)): (usize, (&u32, &u64))| {
        if !proxy.owns(variant) {
            return *slots;
        }
        let others = held.saturating_sub(proxy.may_hold(variant).into());
        u32::try_from(u64::from(*slots).saturating_sub(others)).unwrap_or(*slots)
    };
    slots.iter().zip(held).enumerate().map(free).collect()
}

fn step(proxy: &Proxy, target: &[u32], room: &[u32], edition: Revision) -> Step {
    let current = proxy.current();
    // True if the proxy lacks the newest plan, or reports a higher revision than its plan has.
    let fresh = current.is_none_or(|has| has.revision < edition || has.revision < proxy.after);
    if target.iter().all(|slots| *slots == 0) {
        let stay = match current {
            None => proxy.refused && proxy.holds_nothing(),
            Some(has) => has.is_empty() && !fresh,
        };
        return match stay {
            true => Step::Stay,
            false => Step::Give(target.to_vec()),
        };
    }
    let wanted: Vec<u32> = (0..)
        .zip(target.iter().zip(room))
        .map(|(variant, (target, room))| *target.min(&proxy.holds(variant).max(*room)))
        .collect();
    let Some(has) = current.filter(|has| !has.is_empty()) else {
        // A proxy without a plan waits for all of its slots, which does not take long.
        return match wanted == target {
            true => Step::Give(wanted),
            false => Step::Stay,
        };
    };
    if wanted == target {
        return match fresh || has.slots != wanted {
            true => Step::Give(wanted),
            false => Step::Stay,
        };
    }
    let (wanted, keeps) = match wanted.iter().all(|slots| *slots == 0) {
        true => last_of(&has.slots, room),
        false => (wanted, false),
    };
    let shrinks = wanted
        .iter()
        .zip(&has.slots)
        .any(|(wanted, has)| wanted < has);
    match (fresh || shrinks, keeps) {
        (true, _) => Step::Give(wanted),
        (false, true) => Step::Stuck,
        (false, false) => Step::Stay,
    }
}

/// Returns one slot to keep until others are free, and whether one is available.
fn last_of(has: &[u32], room: &[u32]) -> (Vec<u32>, bool) {
    let kept = has
        .iter()
        .zip(room)
        .position(|(has, room)| *has > 0 && *room > 0);
    let slots = (0..has.len()).map(|variant| u32::from(kept == Some(variant)));
    (slots.collect(), kept.is_some())
}

/// Grants a plan, under the published revision if that is new to the proxy, else under a new one.
fn give(
    proxy: &mut Proxy,
    slots: Vec<u32>,
    whole: &Plan,
    floor: &mut Revision,
    moves: &mut u64,
    now: Now,
) {
    let last = proxy.current().map_or(Revision(0), |grant| grant.revision);
    let (mut revision, mut published_ms) = (whole.revision, whole.published_ms);
    if revision <= last.max(proxy.after) {
        revision = floor.next(now.unix_ms);
        *floor = revision;
        published_ms = now.unix_ms;
        *moves += 1;
    }
    proxy.grant(Grant {
        revision,
        published_ms,
        slots,
        sent: false,
    });
}

fn sum_of<'a>(proxies: impl Iterator<Item = &'a Proxy>, variant: usize) -> u64 {
    proxies.map(|proxy| held_by(proxy, variant)).sum()
}

/// Returns, by variant, the slots that the proxy owns and may use.
fn may_hold(proxy: &Proxy, variants: usize) -> Vec<u64> {
    (0..variants)
        .map(|variant| held_by(proxy, variant))
        .collect()
}

fn held_by(proxy: &Proxy, variant: usize) -> u64 {
    match proxy.owns(variant) {
        true => proxy.may_hold(variant).into(),
        false => 0,
    }
}
