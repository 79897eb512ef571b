//! The proxies that poll: who they are, which plan they have. A bounded table; a poll is a proxy's
//! sign of life.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use weir_api::Revision;

use crate::clock::Now;

/// Most proxies remembered; further ones are served and counted, not listed.
pub const PROXIES_MAX: usize = 1024;
/// A proxy that has not polled for so long is gone: more than two long polls.
pub const LIVE_FOR: Duration = Duration::from_secs(60);

/// What a proxy's filter does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Deadline and choice of variant.
    Router,
    /// Slots and order.
    Gate,
    /// Both in one.
    #[default]
    Both,
}

/// What a poll says of its proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poll {
    /// Envoy's node id.
    pub proxy: String,
    /// Rises with each start of its fetching VM.
    pub incarnation: u64,
    /// Envoy's worker threads; 0 if it did not say.
    pub workers: u32,
    /// What it does.
    pub role: Role,
    /// The plan it has.
    pub after: Revision,
}

/// A proxy, as it last polled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProxyState {
    /// Rises with each start of its fetching VM.
    pub incarnation: u64,
    /// Envoy's worker threads; 0 if it did not say.
    pub workers: u32,
    /// What it does.
    pub role: Role,
    /// The plan it has.
    pub revision: Revision,
    /// When it last polled, Unix time in ms.
    pub polled_ms: u64,
    #[serde(skip)]
    at: Duration,
}

/// The table.
#[derive(Debug, Default)]
pub struct Proxies {
    table: Mutex<HashMap<String, ProxyState>>,
    polled: Notify,
}

impl Proxies {
    /// Takes in a poll; whether there was room for its proxy.
    pub fn polled(&self, poll: Poll, now: Now) -> bool {
        let mut table = self.lock();
        table.retain(|_, state| now.at.saturating_sub(state.at) < LIVE_FOR);
        if table.len() >= PROXIES_MAX && !table.contains_key(&poll.proxy) {
            return false;
        }
        let Poll {
            proxy,
            incarnation,
            workers,
            role,
            after,
        } = poll;
        let state = ProxyState {
            incarnation,
            workers,
            role,
            revision: after,
            polled_ms: now.unix_ms,
            at: now.at,
        };
        table.insert(proxy, state);
        drop(table);
        self.polled.notify_waiters();
        true
    }

    /// The proxies that polled within [`LIVE_FOR`], by name.
    pub fn live(&self, now: Now) -> Vec<(String, ProxyState)> {
        let table = self.lock();
        let live = table
            .iter()
            .filter(|(_, state)| now.at.saturating_sub(state.at) < LIVE_FOR);
        let mut live: Vec<_> = live
            .map(|(name, state)| (name.clone(), state.clone()))
            .collect();
        live.sort_by(|a, b| a.0.cmp(&b.0));
        live
    }

    /// Returns once every proxy in the table has `revision`; at once if there is none.
    pub async fn all_have(&self, revision: Revision) {
        loop {
            let polled = self.polled.notified();
            if self.lock().values().all(|state| state.revision >= revision) {
                return;
            }
            polled.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ProxyState>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(proxy: &str, after: u64) -> Poll {
        Poll {
            proxy: proxy.into(),
            incarnation: 1,
            workers: 2,
            role: Role::Both,
            after: Revision(after),
        }
    }

    fn now(seconds: u64) -> Now {
        Now {
            at: Duration::from_secs(seconds),
            unix_ms: seconds * 1000,
        }
    }

    #[test]
    fn the_table_is_bounded_and_forgets_the_silent() {
        let proxies = Proxies::default();
        for index in 0..PROXIES_MAX {
            assert!(proxies.polled(poll(&index.to_string(), 1), now(0)));
        }
        assert!(
            !proxies.polled(poll("one more", 1), now(1)),
            "the table is full"
        );
        assert!(
            proxies.polled(poll("0", 2), now(1)),
            "a known proxy has its place"
        );
        assert!(
            proxies.polled(poll("one more", 1), now(60)),
            "the silent have made room"
        );
        let live = proxies.live(now(60));
        let names: Vec<_> = live.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["0", "one more"]);
    }

    #[tokio::test]
    async fn all_have_waits_for_the_last() {
        let proxies = std::sync::Arc::new(Proxies::default());
        proxies.all_have(Revision(9)).await;
        proxies.polled(poll("a", 1), now(0));
        proxies.polled(poll("b", 2), now(0));
        let waiting = tokio::spawn({
            let proxies = proxies.clone();
            async move { proxies.all_have(Revision(2)).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        proxies.polled(poll("a", 2), now(1));
        waiting.await.unwrap();
    }
}
