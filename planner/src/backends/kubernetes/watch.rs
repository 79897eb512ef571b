//! Watches of the API server: objects that are followed in the background and read without a request.
//!
//! Each watch lists, then watches. After a failure it tries again with growing pauses ([`RETRY_MIN`] and the maxima
//! below); meanwhile the last reported state holds. It does not use streaming lists, which fail with old versions of
//! etcd. A watch logs its failure once until it recovers. An API server that cannot be reached is logged once for all
//! watches together ([`ApiOutage`]).

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use kube::Resource;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use super::api_failure::ApiFailure;
use crate::backends::ActuateError;

/// Pause after the first failure of a watch; doubled with each further one.
pub const RETRY_MIN: Duration = Duration::from_millis(800);
/// Maximum of that pause while the API server does not answer, or answers with a failure of its own.
pub const UNREACHABLE_AGAIN_MAX: Duration = Duration::from_secs(10);
/// Maximum of that pause while the API server refuses: no right, or an invalid request.
pub const REFUSED_AGAIN_MAX: Duration = Duration::from_secs(30);
/// Maximum of that pause while the API server does not know the kind.
pub const ABSENT_AGAIN_MAX: Duration = Duration::from_secs(300);
/// Time for which a watch may fail before its last state is reported as outdated.
pub const STALE_AFTER: Duration = Duration::from_secs(60);

/// Notified whenever any watch reports something.
pub(crate) type ChangeNotifier = Arc<watch::Sender<()>>;

/// Reason why objects cannot be listed or watched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum WatchFailure {
    #[error("the API server has not answered yet")]
    Unanswered,
    #[error("forbidden: {0}")]
    Forbidden(String),
    #[error("no such kind")]
    AbsentKind,
    #[error("refused: {0}")]
    Refused(String),
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    #[error("{0}")]
    Failed(String),
}

impl WatchFailure {
    fn of(error: &watcher::Error) -> WatchFailure {
        let error = match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => error,
            watcher::Error::WatchError(status) => {
                return WatchFailure::Failed(status.message.clone());
            }
            other => return WatchFailure::Failed(other.to_string()),
        };
        match error {
            kube::Error::Api(status) => match status.code {
                401 | 403 => WatchFailure::Forbidden(status.message.clone()),
                404 => WatchFailure::AbsentKind,
                400 | 422 => WatchFailure::Refused(status.message.clone()),
                _ => WatchFailure::Failed(status.message.clone()),
            },
            error => match ApiFailure::of(error, "list") {
                ApiFailure::Unreachable { why, .. } => WatchFailure::Unreachable(why),
                other => WatchFailure::Failed(other.to_string()),
            },
        }
    }

    /// Returns the pause after `failures` failures in a row, this one included.
    fn pause(&self, failures: u32) -> Duration {
        let most = match self {
            WatchFailure::AbsentKind => ABSENT_AGAIN_MAX,
            WatchFailure::Forbidden(_) | WatchFailure::Refused(_) => REFUSED_AGAIN_MAX,
            WatchFailure::Unanswered | WatchFailure::Unreachable(_) | WatchFailure::Failed(_) => {
                UNREACHABLE_AGAIN_MAX
            }
        };
        let times = 2_u32.saturating_pow(failures.saturating_sub(1));
        RETRY_MIN.saturating_mul(times).min(most)
    }
}

/// Outage of the API server, as all watches of a planner see it: logged once when it begins and once when it ends.
#[derive(Debug, Default)]
pub struct ApiOutage(Mutex<BTreeSet<String>>);

impl ApiOutage {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a watch cannot reach the API server. Returns whether the outage begins with it.
    fn begin(&self, watch: &str, why: &str) -> bool {
        let mut failing = self.lock();
        let first = failing.is_empty();
        failing.insert(watch.to_owned());
        if first {
            tracing::warn!(
                "the API server cannot be reached: {why}; its last state holds, and proxies keep their plans (logged once)"
            );
        }
        first
    }

    /// Records that a watch gets answers, or has ended. Returns whether the outage ends with it.
    fn end(&self, watch: &str) -> bool {
        let mut failing = self.lock();
        let last = failing.remove(watch) && failing.is_empty();
        if last {
            tracing::info!("the API server answers again");
        }
        last
    }
}

/// State of a watch.
#[derive(Debug)]
struct WatchState {
    /// Whether the objects have been listed once.
    listed: bool,
    /// Latest failure and the time of the first one in a row; `None` while the watch works.
    failure: Option<(WatchFailure, Instant)>,
    /// Failures in a row.
    failures: u32,
}

impl WatchState {
    fn new() -> WatchState {
        WatchState {
            listed: false,
            failure: None,
            failures: 0,
        }
    }

    /// Records an event: only objects or a complete list show that the watch works. `Init` comes before each attempt.
    /// Returns the failure that is over, if there was one.
    fn succeed<K>(&mut self, event: &Event<K>) -> Option<WatchFailure> {
        match event {
            Event::Init | Event::InitApply(_) => return None,
            Event::InitDone => self.listed = true,
            Event::Apply(_) | Event::Delete(_) => {}
        }
        self.failures = 0;
        self.failure.take().map(|(failure, _)| failure)
    }

    /// Records a failure; returns the pause before the next attempt, and whether it is the first of its kind in a row.
    fn fail(&mut self, failure: &WatchFailure, now: Instant) -> (Duration, bool) {
        let before = self.failure.take();
        let same = before.as_ref().is_some_and(|(before, _)| {
            std::mem::discriminant(before) == std::mem::discriminant(failure)
        });
        self.failures = match same {
            true => self.failures.saturating_add(1),
            false => 1,
        };
        let since = before.map_or(now, |(_, since)| since);
        self.failure = Some((failure.clone(), since));
        (failure.pause(self.failures), !same)
    }
}

/// Objects as reported by a watch.
pub(crate) struct ObjectWatch<K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Hash + Eq + Clone,
{
    /// Watched kind and place, for messages.
    name: String,
    store: Store<K>,
    state: Arc<Mutex<WatchState>>,
    outage: Arc<ApiOutage>,
    task: AbortHandle,
}

/// Drops `managedFields`: half of the object, and nothing here reads it.
pub(super) fn slim<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
}

impl<K> ObjectWatch<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Hash + Eq + Clone + Send + Sync,
{
    /// Watches the objects that `config` selects, called `name` in messages, without the fields that `slim` drops.
    pub(crate) fn new(
        name: String,
        api: Api<K>,
        config: watcher::Config,
        kind: K::DynamicType,
        slim: fn(&mut K),
        notifier: ChangeNotifier,
        outage: &Arc<ApiOutage>,
    ) -> ObjectWatch<K> {
        let mut writer = reflector::store::Writer::new(kind);
        let store = writer.as_reader();
        let state = Arc::new(Mutex::new(WatchState::new()));
        let (shared, called, outages) = (Arc::clone(&state), name.clone(), Arc::clone(outage));
        let task = tokio::spawn(async move {
            loop {
                // Begun anew after a failure: only a new list shows that a quiet watch works again. Without kube's
                // backoff, which any event resets, even that of the next attempt.
                let stream = watcher::watcher(api.clone(), config.clone()).modify(slim);
                let mut stream = pin!(stream);
                let failure = loop {
                    match stream.next().await {
                        Some(Ok(event)) => {
                            writer.apply_watcher_event(&event);
                            if let Some(failure) = lock(&shared).succeed(&event) {
                                recovered(&called, &failure, &outages);
                            }
                            notifier.send_replace(());
                        }
                        Some(Err(error)) => break WatchFailure::of(&error),
                        None => return,
                    }
                };
                let (pause, first) = lock(&shared).fail(&failure, Instant::now());
                if first {
                    failed(&called, &failure, &outages);
                }
                notifier.send_replace(());
                sleep(pause).await;
            }
        });
        ObjectWatch {
            name,
            store,
            state,
            outage: Arc::clone(outage),
            task: task.abort_handle(),
        }
    }

    /// Returns the objects.
    ///
    /// # Errors
    /// The first list has not arrived.
    pub(crate) fn store(&self) -> Result<&Store<K>, ActuateError> {
        let listed = self.listed();
        listed.map_err(|why| ActuateError::NotObserved(format!("{}: {why}", self.name)))
    }

    /// Returns the objects.
    ///
    /// # Errors
    /// The first list has not arrived; the reason is as the API server gave it.
    pub(super) fn listed(&self) -> Result<&Store<K>, WatchFailure> {
        let state = lock(&self.state);
        match (state.listed, &state.failure) {
            (true, _) => Ok(&self.store),
            (false, Some((failure, _))) => Err(failure.clone()),
            (false, None) => Err(WatchFailure::Unanswered),
        }
    }

    /// Returns the objects; `None` if the API server does not know the kind.
    ///
    /// # Errors
    /// See [`ObjectWatch::listed`].
    pub(super) fn listed_or_absent(&self) -> Result<Option<&Store<K>>, WatchFailure> {
        match self.listed() {
            Ok(store) => Ok(Some(store)),
            Err(WatchFailure::AbsentKind) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Whether the objects have been listed, or could not be.
    pub(super) fn has_tried(&self) -> bool {
        let state = lock(&self.state);
        state.listed || state.failure.is_some()
    }

    /// Returns why the objects are not known, if they have never been listed.
    pub(crate) fn failure(&self) -> Option<String> {
        let state = lock(&self.state);
        let failure = state.failure.as_ref().filter(|_| !state.listed);
        failure.map(|(failure, _)| format!("{} cannot be listed: {failure}", self.name))
    }

    /// Returns why the last state may be outdated, if the watch has failed for [`STALE_AFTER`].
    pub(crate) fn stale(&self) -> Option<String> {
        let state = lock(&self.state);
        let (failure, since) = state.failure.as_ref().filter(|_| state.listed)?;
        let age = since.elapsed();
        (age >= STALE_AFTER).then(|| {
            let seconds = age.as_secs();
            format!(
                "{} are known as of {seconds} s ago: {failure}; that state holds",
                self.name
            )
        })
    }
}

fn lock(state: &Mutex<WatchState>) -> MutexGuard<'_, WatchState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Logs the first failure in a row.
fn failed(name: &str, failure: &WatchFailure, outage: &ApiOutage) {
    match failure {
        WatchFailure::Unreachable(why) => drop(outage.begin(name, why)),
        // Most clusters have no VerticalPodAutoscalers.
        WatchFailure::AbsentKind => tracing::debug!("watch of {name}: {failure}"),
        failure => {
            outage.end(name);
            tracing::warn!("watch of {name}: {failure}; its last state holds (logged once)");
        }
    }
}

/// Logs the end of the failures.
fn recovered(name: &str, failure: &WatchFailure, outage: &ApiOutage) {
    match failure {
        WatchFailure::Unreachable(_) => drop(outage.end(name)),
        WatchFailure::AbsentKind => {}
        _ => tracing::info!("watch of {name}: well again"),
    }
}

impl<K> Drop for ObjectWatch<K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Hash + Eq + Clone,
{
    fn drop(&mut self) {
        self.task.abort();
        self.outage.end(&self.name);
    }
}

#[cfg(test)]
mod tests;
