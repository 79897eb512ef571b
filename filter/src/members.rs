//! Who the VMs of one Envoy are: each holds a lease on an entry of one shared table. From it follow
//! the queue a VM is woken by, the part of the slots a worker may fill, and who polls the planner.
//!
//! Bytes in, bytes out: the shell carries the table through Envoy's shared data by compare-and-swap.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Mono;

/// Most VMs in the table; a further one works with what a lone worker has and is never woken.
pub const MEMBERS_MAX: usize = 256;
/// How long a lease lasts without renewal.
pub const LEASE: Duration = Duration::from_secs(5);
/// How often it is renewed.
pub const RENEWAL: Duration = Duration::from_secs(1);

const _: () = assert!(LEASE.as_secs() >= 3 * RENEWAL.as_secs());

/// The table. An entry whose lease has run out is taken over by the next VM that joins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    entries: Vec<Entry>,
    poller: u64,
    poller_until: Mono,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    incarnation: u64,
    until: Mono,
    serving: bool,
}

/// What a VM learns about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Its entry, and so its queue's number.
    pub index: usize,
    /// Its part of the slots.
    pub part: Part,
    /// Whether it is the one to poll the planner.
    pub polls: bool,
}

/// Part `index` of `count`: the workers divide each variant's slots among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Which, from 0.
    pub index: u32,
    /// Of how many, 1 or more.
    pub count: u32,
}

impl Part {
    /// All of it.
    pub const WHOLE: Part = Part { index: 0, count: 1 };

    /// This part of `slots`. What does not divide goes to different workers for different
    /// variants (`salt`). Where there are fewer slots than workers each still has one, or a worker
    /// could serve nobody.
    #[must_use]
    pub fn of(self, slots: u32, salt: u32) -> u32 {
        let count = self.count.max(1);
        let place = self.index.wrapping_add(salt) % count;
        let part = slots / count + u32::from(place < slots % count);
        part.max(u32::from(slots > 0))
    }
}

impl Members {
    /// Reads the table; anything unreadable is an empty one, to which its VMs return within a renewal.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Members {
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    /// The table as bytes.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Joins, or renews the lease of, the VM `incarnation`; `serving` once it has had a request.
    /// `None` where the table is full.
    pub fn renew(&mut self, incarnation: u64, serving: bool, now: Mono) -> Option<Standing> {
        let index = self.place(incarnation, now)?;
        let entry = Entry {
            incarnation,
            until: now + LEASE,
            serving,
        };
        *self.entries.get_mut(index)? = entry;
        if self.poller == incarnation || self.poller_until <= now {
            self.poller = incarnation;
            self.poller_until = now + LEASE;
        }
        Some(Standing {
            index,
            part: self.part(index, now),
            polls: self.poller == incarnation,
        })
    }

    /// How many VMs have had a request and live.
    #[must_use]
    pub fn workers(&self, now: Mono) -> u32 {
        self.alive(now).filter(|(_, entry)| entry.serving).count() as u32
    }

    /// The entries of the VMs that live, but for `own`.
    pub fn others(&self, own: u64, now: Mono) -> impl Iterator<Item = usize> + '_ {
        self.alive(now)
            .filter(move |(_, entry)| entry.incarnation != own)
            .map(|(index, _)| index)
    }

    fn alive(&self, now: Mono) -> impl Iterator<Item = (usize, &Entry)> {
        self.entries
            .iter()
            .enumerate()
            .filter(move |(_, entry)| entry.until > now)
    }

    fn place(&mut self, incarnation: u64, now: Mono) -> Option<usize> {
        let own = self
            .entries
            .iter()
            .position(|entry| entry.incarnation == incarnation);
        let free = || self.entries.iter().position(|entry| entry.until <= now);
        if let Some(index) = own.or_else(free) {
            return Some(index);
        }
        if self.entries.len() >= MEMBERS_MAX {
            return None;
        }
        self.entries.push(Entry {
            incarnation,
            until: now,
            serving: false,
        });
        Some(self.entries.len() - 1)
    }

    fn part(&self, own: usize, now: Mono) -> Part {
        let mut part = Part { index: 0, count: 0 };
        for (index, entry) in self.alive(now) {
            if entry.serving || index == own {
                part.index += u32::from(index < own);
                part.count += 1;
            }
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(s: u64) -> Mono {
        Mono(s * 1_000_000_000)
    }

    proptest! {
        #[test]
        fn the_parts_of_enough_slots_make_the_whole(slots in 0..200_u32, count in 1..16_u32, salt in 0..8_u32) {
            let parts: Vec<u32> =
                (0..count).map(|index| Part { index, count }.of(slots, salt)).collect();
            if slots >= count {
                prop_assert_eq!(parts.iter().sum::<u32>(), slots);
                let (least, most) = (parts.iter().min(), parts.iter().max());
                prop_assert!(most.unwrap() - least.unwrap() <= 1);
            } else {
                prop_assert!(parts.iter().all(|part| *part == u32::from(slots > 0)));
            }
        }
    }

    #[test]
    fn one_polls_until_its_lease_runs_out_and_then_another() {
        let mut members = Members::default();
        assert!(members.renew(11, false, at(0)).unwrap().polls);
        assert!(!members.renew(22, false, at(1)).unwrap().polls);
        assert!(members.renew(11, false, at(4)).unwrap().polls);
        assert!(!members.renew(22, false, at(8)).unwrap().polls);
        assert!(members.renew(22, false, at(9)).unwrap().polls);
        assert!(!members.renew(11, false, at(9)).unwrap().polls);
    }

    #[test]
    fn only_those_that_serve_divide_the_slots() {
        let mut members = Members::default();
        members.renew(1, false, at(0));
        let second = members.renew(2, true, at(0)).unwrap();
        assert_eq!(second.part, Part { index: 0, count: 1 });
        let third = members.renew(3, true, at(0)).unwrap();
        assert_eq!(third.part, Part { index: 1, count: 2 });
        assert_eq!(members.workers(at(0)), 2);
        assert_eq!(members.others(2, at(0)).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn an_entry_left_behind_is_used_again_and_the_table_is_bounded() {
        let mut members = Members::default();
        for incarnation in 0..MEMBERS_MAX as u64 {
            assert!(members.renew(incarnation + 1, true, at(0)).is_some());
        }
        assert_eq!(members.renew(9999, true, at(1)), None);
        let later = members.renew(9999, true, at(5)).unwrap();
        assert_eq!((later.index, later.part), (0, Part { index: 0, count: 1 }));
        assert_eq!(Members::read(&members.write()), members);
        assert_eq!(Members::read(b"rubbish"), Members::default());
    }
}
