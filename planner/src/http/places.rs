//! Places of connections. A connection has no key until a request with a valid key came on it. Connections without
//! a key have few places, for a short time: a new one takes the place of the oldest. Connections with a key have
//! places of their own, so whoever has no key cannot take them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

/// Maximum number of connections with a key: one for each poll that may be held, and some for people.
pub const KEYED_MAX: usize = super::POLLS_MAX + 256;
/// Maximum number of connections without a key.
pub const KEYLESS_MAX: usize = 512;
/// Maximum time of a connection without a key, its TLS handshake included.
pub const KEYLESS_TIME: Duration = Duration::from_secs(10);

/// Limits of the places.
#[derive(Debug, Clone, Copy)]
pub struct PlaceLimits {
    /// [`KEYED_MAX`] except in tests.
    pub keyed_max: usize,
    /// [`KEYLESS_MAX`] except in tests.
    pub keyless_max: usize,
    /// [`KEYLESS_TIME`] except in tests.
    pub keyless_time: Duration,
}

impl Default for PlaceLimits {
    fn default() -> PlaceLimits {
        PlaceLimits {
            keyed_max: KEYED_MAX,
            keyless_max: KEYLESS_MAX,
            keyless_time: KEYLESS_TIME,
        }
    }
}

/// All places.
#[derive(Debug)]
pub(super) struct Places {
    limits: PlaceLimits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    entered: u64,
    /// Connections without a key, oldest first.
    keyless: BTreeMap<u64, Arc<Place>>,
    keyed: usize,
}

/// Place of one connection, as its requests see it.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    id: u64,
    keyed: AtomicBool,
    evicted: Notify,
}

/// Holder of a place; it leaves when dropped.
#[derive(Debug)]
pub(super) struct Occupied(Arc<Place>);

/// Refusal: all places of connections with a key are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("all {0} places of connections with a key are taken")]
pub(super) struct PlacesFull(usize);

impl Places {
    pub(super) fn new(limits: PlaceLimits) -> Arc<Places> {
        Arc::new(Places {
            limits,
            taken: Mutex::default(),
        })
    }

    /// Takes a place for a new connection; the oldest without a key loses its own if all are taken.
    pub(super) fn enter(self: &Arc<Self>) -> Occupied {
        let mut taken = self.taken();
        while taken.keyless.len() >= self.limits.keyless_max.max(1) {
            evict_oldest(&mut taken);
        }
        taken.entered += 1;
        let place = Arc::new(Place {
            places: Arc::clone(self),
            id: taken.entered,
            keyed: AtomicBool::new(false),
            evicted: Notify::new(),
        });
        taken.keyless.insert(place.id, Arc::clone(&place));
        Occupied(place)
    }

    /// Ends the oldest connection without a key; returns whether there was one.
    pub(super) fn evict_oldest(&self) -> bool {
        evict_oldest(&mut self.taken())
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn evict_oldest(taken: &mut Taken) -> bool {
    let oldest = taken.keyless.pop_first();
    if let Some((_, place)) = &oldest {
        place.evicted.notify_one();
    }
    oldest.is_some()
}

impl Place {
    /// Whether a request with a valid key came on the connection.
    pub(super) fn is_keyed(&self) -> bool {
        self.keyed.load(Ordering::Acquire)
    }

    /// Moves the connection to the places of those with a key.
    ///
    /// # Errors
    /// Fails if all of these are taken.
    pub(super) fn promote(&self) -> Result<(), PlacesFull> {
        let mut taken = self.places.taken();
        if self.is_keyed() {
            return Ok(());
        }
        let most = self.places.limits.keyed_max;
        if taken.keyed >= most {
            return Err(PlacesFull(most));
        }
        // One that has just been evicted ends all the same; it counts until then.
        taken.keyless.remove(&self.id);
        taken.keyed += 1;
        self.keyed.store(true, Ordering::Release);
        Ok(())
    }

    /// Waits until the connection must end: evicted, or without a key for too long.
    pub(super) async fn wait_ended(&self) {
        tokio::select! {
            biased;
            () = self.evicted.notified() => return,
            () = sleep(self.places.limits.keyless_time) => {}
        }
        if self.is_keyed() {
            self.evicted.notified().await;
        }
    }
}

impl Occupied {
    pub(super) fn place(&self) -> &Arc<Place> {
        &self.0
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        let mut taken = self.0.places.taken();
        match self.0.is_keyed() {
            true => taken.keyed = taken.keyed.saturating_sub(1),
            false => drop(taken.keyless.remove(&self.0.id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn places() -> Arc<Places> {
        Places::new(PlaceLimits {
            keyed_max: 2,
            keyless_max: 3,
            keyless_time: Duration::from_secs(10),
        })
    }

    fn has_ended(occupied: &Occupied) -> bool {
        occupied.place().wait_ended().now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn new_connection_takes_place_of_oldest_without_key() {
        let places = places();
        let first: Vec<_> = (0..3).map(|_| places.enter()).collect();
        first[0].place().promote().unwrap();
        // The connection with a key counts no more among those without.
        let fourth = places.enter();
        assert!(!first.iter().any(has_ended));
        let fifth = places.enter();
        assert_eq!(
            first.iter().map(has_ended).collect::<Vec<_>>(),
            [false, true, false]
        );
        drop(fourth);
        let sixth = places.enter();
        assert!(!has_ended(&first[2]) && !has_ended(&fifth) && !has_ended(&sixth));
        assert!(places.evict_oldest());
        assert!(has_ended(&first[2]) && !has_ended(&fifth));
    }

    #[tokio::test(start_paused = true)]
    async fn connection_without_key_ends_in_time_and_one_with_key_stays() {
        let places = places();
        let (keyless, keyed) = (places.enter(), places.enter());
        keyed.place().promote().unwrap();
        keyless.place().wait_ended().await;
        let stays = tokio::time::timeout(Duration::from_secs(100), keyed.place().wait_ended());
        assert!(stays.await.is_err());
    }

    #[tokio::test]
    async fn places_with_key_are_limited_and_freed() {
        let places = places();
        let mut all: Vec<_> = (0..3).map(|_| places.enter()).collect();
        all[0].place().promote().unwrap();
        all[0].place().promote().unwrap();
        all[1].place().promote().unwrap();
        assert_eq!(all[2].place().promote(), Err(PlacesFull(2)));
        drop(all.remove(0));
        assert_eq!(all[1].place().promote(), Ok(()));
        assert!(!places.evict_oldest(), "all that are left have a key");
    }
}
