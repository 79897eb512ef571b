//! Fetches of the proxies' statistics, shared by all services of a process: services that read the same address share
//! one fetch and one pass over the text. Each answer carries its time. Here it is decided whether an answer is fresh
//! enough; the time that a service waits is its own.
//!
//! A service takes the latest answer if it is newer than the one it took before, and at most its scrape interval old.
//! Otherwise it joins a fetch that began within that time, or begins one. Services of one interval therefore share one
//! fetch an interval, whatever their offsets, and each has samples of about that length.
//!
//! A fetch goes on while any service waits for it, and ends with the last one. A failure is the result of those that
//! waited; the next service tries anew.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use url::Url;

use super::download::download;
use crate::clock::Clock;
use crate::observe::{Fold, Folded, ScrapeError, StageNames};

/// Reads an address into a fold.
type Read = dyn Fn(Url, Fold) -> BoxFuture<'static, Result<Folded, ScrapeError>> + Send + Sync;

/// Result of a fetch.
type Fetched = Result<Arc<Answer>, ScrapeError>;

/// Fetches of one process.
#[derive(Clone)]
pub struct Fetches(Arc<Shared>);

struct Shared {
    read: Box<Read>,
    clock: Clock,
    names: Mutex<Names>,
    proxies: Mutex<BTreeMap<Url, Weak<Proxy>>>,
}

/// Stages that are read, with the number of their readers.
#[derive(Default)]
struct Names {
    readers: BTreeMap<String, usize>,
    all: Arc<StageNames>,
}

/// A proxy's address.
#[derive(Debug, Default)]
pub(super) struct Proxy(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    latest: Option<Arc<Answer>>,
    running: Weak<Fetch>,
}

/// Counts of all services at a proxy.
#[derive(Debug)]
pub(super) struct Answer {
    /// Time of the answer.
    pub(super) at: Duration,
    /// Counts of the stages that were read then.
    pub(super) folded: Folded,
}

/// Fetch under way; dropped by the last service that waits, it ends.
#[derive(Debug)]
pub(super) struct Fetch {
    began: Duration,
    names: Arc<StageNames>,
    done: watch::Receiver<Option<Fetched>>,
    task: AbortHandle,
}

/// Answer that is there, or comes.
#[derive(Debug)]
pub(super) enum Pending {
    Ready(Arc<Answer>),
    Running(Arc<Fetch>),
}

/// One service's part in the fetches: its stages are read as long as it exists.
#[derive(Debug)]
pub(super) struct Reader {
    fetches: Fetches,
    stages: Vec<String>,
}

impl fmt::Debug for Fetches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetches").finish_non_exhaustive()
    }
}

impl Fetches {
    /// Creates fetches over HTTP.
    pub fn new(http: reqwest::Client, clock: Clock) -> Fetches {
        let read = move |url, fold| -> BoxFuture<'static, _> {
            Box::pin(download(http.clone(), url, fold))
        };
        Fetches::with(clock, read)
    }

    /// Creates fetches by `read`.
    pub(super) fn with(
        clock: Clock,
        read: impl Fn(Url, Fold) -> BoxFuture<'static, Result<Folded, ScrapeError>>
        + Send
        + Sync
        + 'static,
    ) -> Fetches {
        Fetches(Arc::new(Shared {
            read: Box::new(read),
            clock,
            names: Mutex::default(),
            proxies: Mutex::default(),
        }))
    }

    /// Returns the current time, as answers have it.
    pub(super) fn now(&self) -> Duration {
        self.0.clock.now().at
    }

    /// Adds a service with these stages.
    pub(super) fn reader(&self, stages: Vec<String>) -> Reader {
        let mut names = lock(&self.0.names);
        for stage in &stages {
            *names.readers.entry(stage.clone()).or_default() += 1;
        }
        names.renew();
        drop(names);
        let fetches = self.clone();
        Reader { fetches, stages }
    }

    /// Returns the proxy of an address, the same as long as any service knows it.
    pub(super) fn proxy(&self, url: &Url) -> Arc<Proxy> {
        let mut proxies = lock(&self.0.proxies);
        if let Some(proxy) = proxies.get(url).and_then(Weak::upgrade) {
            return proxy;
        }
        proxies.retain(|_, proxy| proxy.strong_count() > 0);
        let proxy = Arc::new(Proxy::default());
        proxies.insert(url.clone(), Arc::downgrade(&proxy));
        proxy
    }

    /// Begins a fetch of all services' stages.
    fn begin(&self, url: Url, proxy: &Arc<Proxy>) -> Arc<Fetch> {
        let names = Arc::clone(&lock(&self.0.names).all);
        let (sender, done) = watch::channel(None);
        let (shared, proxy) = (Arc::clone(&self.0), Arc::clone(proxy));
        let fold = Fold::new(Arc::clone(&names));
        let began = self.now();
        let task = tokio::spawn(async move {
            let folded = (shared.read)(url, fold).await;
            let at = shared.clock.now().at;
            let result = folded.map(|folded| Arc::new(Answer { at, folded }));
            if let Ok(answer) = &result {
                proxy.keep(answer);
            }
            sender.send_replace(Some(result));
        });
        Arc::new(Fetch {
            began,
            names,
            done,
            task: task.abort_handle(),
        })
    }
}

impl Names {
    fn renew(&mut self) {
        let all = StageNames::new(self.readers.keys().map(String::as_str));
        if all != *self.all {
            self.all = Arc::new(all);
        }
    }
}

impl Reader {
    /// Names of its stages.
    pub(super) fn stages(&self) -> &[String] {
        &self.stages
    }

    /// Returns the latest answer if it is newer than `after` and at most `age_max` old. Otherwise it joins a fetch that
    /// began within that time, or begins one.
    pub(super) fn fetch(
        &self,
        url: &Url,
        proxy: &Arc<Proxy>,
        after: Option<Duration>,
        age_max: Duration,
    ) -> Pending {
        let now = self.fetches.now();
        let is_fresh = |at: Duration| now.saturating_sub(at) <= age_max;
        let mut state = lock(&proxy.0);
        let latest = state.latest.as_ref().filter(|answer| {
            let is_new = after.is_none_or(|after| answer.at > after);
            is_new && is_fresh(answer.at) && answer.folded.includes(&self.stages)
        });
        if let Some(answer) = latest {
            return Pending::Ready(Arc::clone(answer));
        }
        let running = state.running.upgrade();
        let running = running.filter(|fetch| {
            let is_running = !fetch.done.has_changed().unwrap_or(true);
            is_running && is_fresh(fetch.began) && fetch.names.include(&self.stages)
        });
        let fetch = running.unwrap_or_else(|| {
            let fetch = self.fetches.begin(url.clone(), proxy);
            state.running = Arc::downgrade(&fetch);
            fetch
        });
        Pending::Running(fetch)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut names = lock(&self.fetches.0.names);
        for stage in &self.stages {
            if let Some(readers) = names.readers.get_mut(stage) {
                *readers = readers.saturating_sub(1);
            }
        }
        names.readers.retain(|_, readers| *readers > 0);
        names.renew();
    }
}

impl Proxy {
    /// Keeps an answer, unless there is a newer one.
    fn keep(&self, answer: &Arc<Answer>) {
        let mut state = lock(&self.0);
        if state
            .latest
            .as_ref()
            .is_none_or(|latest| latest.at <= answer.at)
        {
            state.latest = Some(Arc::clone(answer));
        }
    }
}

impl Fetch {
    /// Waits for the result.
    pub(super) async fn result(&self) -> Fetched {
        let mut done = self.done.clone();
        let result = done.wait_for(Option::is_some).await;
        let result = result.ok().and_then(|result| result.clone());
        result.unwrap_or_else(|| Err(ScrapeError::Unreachable("its task ended".to_owned())))
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
