//! Queue of one class: earliest deadline first, first come first among equals. It knows neither slots nor
//! classes nor limits; the engine bounds the total.
//!
//! A sorted list cut into bounded chunks. Deadlines come mostly in rising order and leave from the front,
//! so both ends are fast. A cancel moves at most half a chunk. A rank adds up chunk lengths; a tree would
//! need counts in every node for that. Thin neighbours are joined, so memory is released after a peak.

use std::collections::VecDeque;

use crate::size::{SIZE_BITS, Size};
use crate::time::Mono;

/// Maximum number of entries in a chunk: 3 KB, of which a push or cancel moves a quarter on average.
/// Smaller chunks move less, but a rank adds up more of them.
const CHUNK_MAX: usize = 128;
/// Neighbours with at most this many entries together are joined: half a chunk, so that the next few pushes
/// do not split it again.
const JOIN_MAX: usize = CHUNK_MAX / 2;
const _: () = assert!(JOIN_MAX < CHUNK_MAX);

/// Place in the queue: by deadline, then by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Deadline of the request.
    pub deadline: Mono,
    /// Sequence number of the arrival, so that equals keep their order and all places differ; in its lowest bits the
    /// size of the body, which orders nothing and needs no memory there.
    pub arrival: u64,
}

impl Place {
    /// Returns the place of the request that arrived as number `arrival`, with a body of this size.
    #[must_use]
    pub fn new(deadline: Mono, arrival: u64, size: Size) -> Place {
        Place {
            deadline,
            arrival: arrival << SIZE_BITS | size.index() as u64,
        }
    }

    /// Size of the request's body.
    #[must_use]
    pub fn size(self) -> Size {
        Size::in_low_bits(self.arrival)
    }
}

/// Held requests in EDF order.
#[derive(Debug, Default)]
pub struct Queue {
    /// Chunks in order; none is empty.
    chunks: VecDeque<Chunk>,
    len: usize,
}

#[derive(Debug)]
struct Chunk {
    /// Lower bound of its places; those of the chunk before are below it.
    from: Place,
    entries: VecDeque<(Place, u32)>,
}

impl Queue {
    /// Number of requests held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds `stream` at `place`.
    pub fn push(&mut self, place: Place, stream: u32) {
        let last = self.chunks.len().saturating_sub(1);
        let mut at = self.chunk_of(place);
        match self.chunks.get_mut(at) {
            None => self.chunks.push_back(Chunk::start(place, 0)),
            Some(chunk) if chunk.entries.len() < CHUNK_MAX => {}
            // In rising order leave full chunks behind, not halves.
            Some(chunk) if at == last && chunk.latest() < Some(place) => {
                self.chunks.push_back(Chunk::start(place, CHUNK_MAX));
                at += 1;
            }
            Some(chunk) => {
                let upper = chunk.split();
                let later = upper.from <= place;
                self.chunks.insert(at + 1, upper);
                at += usize::from(later);
            }
        }
        if let Some(chunk) = self.chunks.get_mut(at) {
            chunk.insert(place, stream);
            self.len += 1;
        }
    }

    /// Removes the request with the earliest deadline.
    pub fn pop(&mut self) -> Option<(Place, u32)> {
        let front = self.chunks.front_mut()?;
        let first = front.entries.pop_front();
        if front.entries.is_empty() {
            self.remove(0);
        }
        self.len -= usize::from(first.is_some());
        first
    }

    /// Removes the request at `place`; returns whether it was there.
    pub fn cancel(&mut self, place: Place) -> bool {
        let at = self.chunk_of(place);
        let Some(chunk) = self.chunks.get_mut(at) else {
            return false;
        };
        let Ok(within) = chunk.entries.binary_search_by_key(&place, |entry| entry.0) else {
            return false;
        };
        chunk.entries.remove(within);
        self.len -= 1;
        if chunk.entries.is_empty() {
            self.remove(at);
        } else if chunk.entries.len() <= JOIN_MAX {
            self.join(at);
            if let Some(before) = at.checked_sub(1) {
                self.join(before);
            }
        }
        true
    }

    /// First request.
    #[must_use]
    pub fn first(&self) -> Option<(Place, u32)> {
        self.chunks.front()?.entries.front().copied()
    }

    /// Earliest deadline held.
    #[must_use]
    pub fn earliest(&self) -> Option<Mono> {
        self.first().map(|(place, _)| place.deadline)
    }

    /// Last request.
    #[must_use]
    pub fn latest(&self) -> Option<(Place, u32)> {
        self.chunks.back()?.entries.back().copied()
    }

    /// Number of requests before `place`, which may be free.
    #[must_use]
    pub fn rank(&self, place: Place) -> usize {
        let at = self.chunk_of(place);
        let Some(chunk) = self.chunks.get(at) else {
            return 0;
        };
        let within = chunk.entries.partition_point(|entry| entry.0 < place);
        if at == 0 {
            return within;
        }
        // From the nearer end.
        if at < self.chunks.len() / 2 {
            within + held(self.chunks.range(..at))
        } else {
            within + self.len.saturating_sub(held(self.chunks.range(at..)))
        }
    }

    /// All requests, earliest first.
    pub fn iter(&self) -> impl Iterator<Item = (Place, u32)> + Clone + '_ {
        self.chunks
            .iter()
            .flat_map(|chunk| chunk.entries.iter().copied())
    }

    /// Deadlines held, earliest first.
    pub fn deadlines(&self) -> impl Iterator<Item = Mono> + Clone + '_ {
        self.iter().map(|(place, _)| place.deadline)
    }

    /// Index of the chunk that contains or would contain `place`.
    fn chunk_of(&self, place: Place) -> usize {
        if self.chunks.len() <= 1 {
            return 0;
        }
        self.chunk_behind(place).saturating_sub(1)
    }

    /// Index of the first chunk whose places are all after `place`.
    fn chunk_behind(&self, place: Place) -> usize {
        self.chunks.partition_point(|chunk| chunk.from <= place)
    }

    /// Joins a chunk with the next if both are thin.
    fn join(&mut self, at: usize) {
        let together = held(self.chunks.range(at..).take(2));
        if together > JOIN_MAX || at + 1 >= self.chunks.len() {
            return;
        }
        if let Some(mut next) = self.remove(at + 1)
            && let Some(chunk) = self.chunks.get_mut(at)
        {
            chunk.entries.append(&mut next.entries);
        }
    }

    fn remove(&mut self, at: usize) -> Option<Chunk> {
        let chunk = self.chunks.remove(at);
        if self.chunks.len() < self.chunks.capacity() / 4 {
            self.chunks.shrink_to(self.chunks.len() * 2);
        }
        chunk
    }
}

impl Chunk {
    fn start(from: Place, capacity: usize) -> Chunk {
        Chunk {
            from,
            entries: VecDeque::with_capacity(capacity),
        }
    }

    fn latest(&self) -> Option<Place> {
        self.entries.back().map(|entry| entry.0)
    }

    /// Splits off the later half.
    fn split(&mut self) -> Chunk {
        let entries = self.entries.split_off(self.entries.len() / 2);
        let from = entries.front().map_or(self.from, |entry| entry.0);
        Chunk { from, entries }
    }

    fn insert(&mut self, place: Place, stream: u32) {
        self.from = self.from.min(place);
        if self.latest() < Some(place) {
            self.entries.push_back((place, stream));
            return;
        }
        let within = self.entries.partition_point(|entry| entry.0 < place);
        let taken = self.entries.get(within).is_some_and(|e| e.0 == place);
        debug_assert!(!taken, "two requests in one place");
        self.entries.insert(within, (place, stream));
    }
}

fn held<'a>(chunks: impl Iterator<Item = &'a Chunk>) -> usize {
    chunks.map(|chunk| chunk.entries.len()).sum()
}

#[cfg(test)]
mod tests;
