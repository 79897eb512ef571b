//! The store: objects by kind and key, one version counter, a bounded history of changes.
//!
//! Independent of the content. Every change has a version of its own and an entry in its kind's
//! history, from which watches read. Versions older than the history are dropped (410).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::kinds::Kind;
use super::object::{Key, list, set, text};

/// Changes kept of each kind: ten for each of 500 pods; one version of a pod takes about 10 KiB.
pub(super) const HISTORY_MAX: usize = 5_000;

/// The kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// One change.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) version: u64,
    pub(super) shelf: Arc<str>,
    pub(super) happened: EventKind,
    /// The object after the change; a deleted one as it was last, with the version of its deletion.
    pub(super) object: Arc<Value>,
    /// The object before the change, if it existed.
    pub(super) before: Option<Arc<Value>>,
}

#[derive(Debug, Default)]
struct Shelf {
    objects: BTreeMap<Key, Arc<Value>>,
    history: VecDeque<Event>,
    /// Version of the latest dropped change.
    forgotten: u64,
}

/// All objects.
#[derive(Debug)]
pub(super) struct Store {
    shelves: BTreeMap<Arc<str>, Shelf>,
    version: u64,
    /// Changes that the controllers have not seen yet.
    unseen: VecDeque<Event>,
    /// uid of an owner → its objects.
    owned: BTreeMap<String, BTreeSet<(Arc<str>, Key)>>,
    latest: watch::Sender<u64>,
}

impl Store {
    pub(super) fn new() -> Store {
        Store {
            shelves: BTreeMap::new(),
            version: 1,
            unseen: VecDeque::new(),
            owned: BTreeMap::new(),
            latest: watch::Sender::new(1),
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Receiver of every new version.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }

    pub(super) fn get(&self, shelf: &str, key: &Key) -> Option<Arc<Value>> {
        self.shelves.get(shelf)?.objects.get(key).cloned()
    }

    /// Objects in order of namespace and name, in one namespace or all, after a key.
    pub(super) fn list(
        &self,
        shelf: &str,
        namespace: &str,
        after: Option<&Key>,
    ) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        let first = Key::new(namespace, "");
        let from = match after {
            Some(key) => Bound::Excluded(key.clone()),
            None => Bound::Included(first),
        };
        let namespace = namespace.to_owned();
        self.shelves
            .get(shelf)
            .into_iter()
            .flat_map(move |shelf| shelf.objects.range((from.clone(), Bound::Unbounded)))
            .take_while(move |(key, _)| namespace.is_empty() || key.namespace == namespace)
    }

    /// Objects owned by the object with this uid.
    pub(super) fn owned_by(&self, uid: &str) -> Vec<(Arc<str>, Key)> {
        let owned = self.owned.get(uid).into_iter().flatten();
        owned.cloned().collect()
    }

    /// Stores an object, new or changed, with a new version.
    pub(super) fn put(&mut self, kind: &Kind, mut object: Value) -> Arc<Value> {
        self.version += 1;
        set(
            &mut object,
            "/metadata/resourceVersion",
            json!(self.version.to_string()),
        );
        let object = Arc::new(object);
        let key = Key::of(&object);
        let name = self.shelf(&kind.shelf);
        let shelf = self.shelves.entry(Arc::clone(&name)).or_default();
        let before = shelf.objects.insert(key.clone(), Arc::clone(&object));
        if let Some(before) = &before {
            self.disown(&name, &key, before);
        }
        for owner in list(&object, "/metadata/ownerReferences") {
            let uid = text(owner, "/uid").to_owned();
            let owned = self.owned.entry(uid).or_default();
            owned.insert((Arc::clone(&name), key.clone()));
        }
        let happened = match before {
            Some(_) => EventKind::Modified,
            None => EventKind::Added,
        };
        self.publish(name, happened, Arc::clone(&object), before);
        object
    }

    /// Removes an object, with a new version.
    pub(super) fn take(&mut self, shelf: &str, key: &Key) -> Option<Arc<Value>> {
        let before = self.shelves.get_mut(shelf)?.objects.remove(key)?;
        self.version += 1;
        let name = self.shelf(shelf);
        self.disown(&name, key, &before);
        let mut last = Value::clone(&before);
        set(
            &mut last,
            "/metadata/resourceVersion",
            json!(self.version.to_string()),
        );
        let last = Arc::new(last);
        self.publish(name, EventKind::Deleted, Arc::clone(&last), Some(before));
        Some(last)
    }

    fn shelf(&self, name: &str) -> Arc<str> {
        match self.shelves.get_key_value(name) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(name),
        }
    }

    fn disown(&mut self, shelf: &Arc<str>, key: &Key, object: &Value) {
        for owner in list(object, "/metadata/ownerReferences") {
            let uid = text(owner, "/uid");
            if let Some(owned) = self.owned.get_mut(uid) {
                owned.remove(&(Arc::clone(shelf), key.clone()));
                if owned.is_empty() {
                    self.owned.remove(uid);
                }
            }
        }
    }

    fn publish(
        &mut self,
        shelf: Arc<str>,
        happened: EventKind,
        object: Arc<Value>,
        before: Option<Arc<Value>>,
    ) {
        let event = Event {
            version: self.version,
            shelf: Arc::clone(&shelf),
            happened,
            object,
            before,
        };
        self.unseen.push_back(event.clone());
        let shelf = self.shelves.entry(shelf).or_default();
        if shelf.history.len() >= HISTORY_MAX
            && let Some(old) = shelf.history.pop_front()
        {
            shelf.forgotten = old.version;
        }
        shelf.history.push_back(event);
        self.latest.send_replace(self.version);
    }

    /// Takes the changes that the controllers have not seen.
    pub(super) fn unseen(&mut self) -> VecDeque<Event> {
        std::mem::take(&mut self.unseen)
    }

    /// Changes of a kind after `version`, oldest first.
    ///
    /// # Errors
    ///
    /// The version of the latest dropped change, if some of them have been dropped.
    pub(super) fn after(
        &self,
        shelf: &str,
        version: u64,
    ) -> Result<impl Iterator<Item = &Event>, u64> {
        let shelf = self.shelves.get(shelf);
        if let Some(shelf) = shelf
            && version < shelf.forgotten
        {
            return Err(shelf.forgotten);
        }
        let events = shelf.into_iter().flat_map(move |shelf| {
            let first = shelf
                .history
                .partition_point(|event| event.version <= version);
            shelf.history.range(first..)
        });
        Ok(events)
    }

    /// Drops all history, like a compaction of etcd: watches that lag get 410.
    pub(super) fn forget(&mut self) {
        for shelf in self.shelves.values_mut() {
            shelf.history.clear();
            shelf.forgotten = self.version;
        }
    }
}
