//! Assignment of plans to proxies: towards the slots that [`divide`](super::divide) gives, and never into
//! slots that another proxy may still use.

use std::collections::BTreeMap;

use weir_api::{Plan, Revision};

use super::SlotAllocation;
use super::divide::{divide_slots, is_superfluous, variant_names, variant_slots};
use super::ownership::{Relation, relations};
use super::proxy::{Grant, Proxy};
use crate::clock::Now;

/// Next change for one proxy.
#[derive(Debug, PartialEq, Eq)]
enum Assignment {
    /// None.
    Keep,
    /// A plan with these slots.
    Give(Vec<u32>),
    /// None yet: the proxy would have to give up its last slot for another that is not free.
    Blocked,
}

impl SlotAllocation {
    /// Assigns all slots that are free to assign; returns whether any plan changed.
    pub(super) fn assign(&mut self, now: Now) -> bool {
        let Some(whole) = self.whole.as_ref().filter(|_| !self.is_listening()) else {
            return false;
        };
        let slots = variant_slots(whole);
        let targets = update_targets(&mut self.proxies, whole, now);
        let mut held: Vec<u64> = (0..slots.len())
            .map(|variant| total_held(self.proxies.values(), variant))
            .collect();
        let (mut assigned, mut unconfirmed, mut blocked) = (false, false, None);
        for ((name, proxy), target) in self.proxies.iter_mut().zip(targets) {
            let available = available(proxy, &slots, &held);
            let granted = match next_assignment(proxy, &target, &available, whole.revision) {
                Assignment::Keep => None,
                Assignment::Give(slots) => Some(slots),
                Assignment::Blocked => {
                    blocked.get_or_insert_with(|| name.clone());
                    None
                }
            };
            if let Some(granted) = granted {
                let before = may_hold(proxy, slots.len());
                grant_plan(
                    proxy,
                    granted,
                    whole,
                    &mut self.floor,
                    &mut self.counts.moves,
                    now,
                );
                let after = may_hold(proxy, slots.len());
                for (held, (before, after)) in held.iter_mut().zip(before.into_iter().zip(after)) {
                    *held = (*held + after).saturating_sub(before);
                }
                assigned = true;
            }
            unconfirmed |= proxy.owns_any() && !proxy.is_confirmed();
        }
        // Each waits for the last slot of the next, in a circle: one gives its slot up.
        if let Some(proxy) = blocked
            .filter(|_| !assigned && !unconfirmed)
            .and_then(|name| self.proxies.get_mut(&name))
        {
            let nothing = vec![0; slots.len()];
            grant_plan(
                proxy,
                nothing,
                whole,
                &mut self.floor,
                &mut self.counts.moves,
                now,
            );
            assigned = true;
        }
        assigned
    }
}

/// Assumes, after a start, that the proxies with a plan shared `whole` before.
pub(super) fn assume_previous(proxies: &mut BTreeMap<String, Proxy>, whole: &Plan) {
    // A proxy that has fallen silent since had its slots all the same.
    let members: Vec<_> = proxies.values().map(|proxy| proxy.member(true)).collect();
    let mut relations = relations(&variant_names(whole), &members);
    for (proxy, relations) in proxies.values().zip(&mut relations) {
        if proxy.after == Revision(0) {
            relations.fill(Relation::None);
        }
    }
    let parts = divide_slots(&variant_slots(whole), &relations);
    for (proxy, (relations, slots)) in proxies.values_mut().zip(relations.iter().zip(parts)) {
        if !relations.contains(&Relation::Owns) {
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
fn update_targets(proxies: &mut BTreeMap<String, Proxy>, whole: &Plan, now: Now) -> Vec<Vec<u32>> {
    let slots = variant_slots(whole);
    let live = proxies
        .values()
        .map(|proxy| proxy.member(proxy.is_live(now.at)));
    let members: Vec<_> = live.collect();
    let relations = relations(&variant_names(whole), &members);
    let parts = divide_slots(&slots, &relations);
    for (proxy, (relations, part)) in proxies.values_mut().zip(relations.into_iter().zip(&parts)) {
        proxy.refused = is_superfluous(&relations, part, &slots);
        proxy.relations = relations;
    }
    parts
}

/// Returns, by variant, the slots that no other owner may use.
fn available(proxy: &Proxy, slots: &[u32], held: &[u64]) -> Vec<u32> {
    let free = |(variant, (slots, held)): (usize, (&u32, &u64))| {
        if !proxy.owns(variant) {
            return *slots;
        }
        let others = held.saturating_sub(proxy.may_hold(variant).into());
        u32::try_from(u64::from(*slots).saturating_sub(others)).unwrap_or(*slots)
    };
    slots.iter().zip(held).enumerate().map(free).collect()
}

fn next_assignment(
    proxy: &Proxy,
    target: &[u32],
    available: &[u32],
    edition: Revision,
) -> Assignment {
    let current = proxy.current();
    // True if the proxy lacks the newest plan, or reports a higher revision than its plan has.
    let fresh = current.is_none_or(|has| has.revision < edition || has.revision < proxy.after);
    if target.iter().all(|slots| *slots == 0) {
        let stay = match current {
            None => proxy.refused && proxy.holds_nothing(),
            Some(has) => has.is_empty() && !fresh,
        };
        return match stay {
            true => Assignment::Keep,
            false => Assignment::Give(target.to_vec()),
        };
    }
    let desired: Vec<u32> = (0..)
        .zip(target.iter().zip(available))
        .map(|(variant, (target, available))| *target.min(&proxy.holds(variant).max(*available)))
        .collect();
    let Some(has) = current.filter(|has| !has.is_empty()) else {
        // A proxy without a plan waits for all of its slots, which does not take long.
        return match desired == target {
            true => Assignment::Give(desired),
            false => Assignment::Keep,
        };
    };
    if desired == target {
        return match fresh || has.slots != desired {
            true => Assignment::Give(desired),
            false => Assignment::Keep,
        };
    }
    let (desired, keeps) = match desired.iter().all(|slots| *slots == 0) {
        true => last_slot(&has.slots, available),
        false => (desired, false),
    };
    let shrinks = desired
        .iter()
        .zip(&has.slots)
        .any(|(desired, has)| desired < has);
    match (fresh || shrinks, keeps) {
        (true, _) => Assignment::Give(desired),
        (false, true) => Assignment::Blocked,
        (false, false) => Assignment::Keep,
    }
}

/// Returns one slot to keep until others are free, and whether one is available.
fn last_slot(has: &[u32], available: &[u32]) -> (Vec<u32>, bool) {
    let kept = has
        .iter()
        .zip(available)
        .position(|(has, available)| *has > 0 && *available > 0);
    let slots = (0..has.len()).map(|variant| u32::from(kept == Some(variant)));
    (slots.collect(), kept.is_some())
}

/// Grants a plan, under the published revision if that is new to the proxy, else under a new one.
fn grant_plan(
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

fn total_held<'a>(proxies: impl Iterator<Item = &'a Proxy>, variant: usize) -> u64 {
    proxies.map(|proxy| held_slots(proxy, variant)).sum()
}

/// Returns, by variant, the slots that the proxy owns and may use.
fn may_hold(proxy: &Proxy, variants: usize) -> Vec<u64> {
    (0..variants)
        .map(|variant| held_slots(proxy, variant))
        .collect()
}

fn held_slots(proxy: &Proxy, variant: usize) -> u64 {
    match proxy.owns(variant) {
        true => proxy.may_hold(variant).into(),
        false => 0,
    }
}
