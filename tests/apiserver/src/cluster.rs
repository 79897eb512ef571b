//! The emulated cluster behind one lock: store, kinds, clock, random numbers, and how objects are created, changed
//! and deleted.
//!
//! Writes of clients and of controllers both pass through here; authorization and validation have been done before.

use std::sync::Arc;

use rand::RngExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::clock::Clock;
use super::controllers::Controllers;
use super::journal::Journal;
use super::kinds::{Kind, Kinds};
use super::namespaces;
use super::object::{Key, at, list, number, remove, set, text};
use super::rules::Rules;
use super::store::Store;
use super::{Change, Options};
use tokio::sync::broadcast;

/// Letters of generated names, chosen by Kubernetes so that they form no words.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Maximum grace period, a year: beyond it the clock's arithmetic would overflow.
const GRACE_MAX_S: i64 = 365 * 86_400;

/// State of the emulated cluster: everything that changes together.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) options: Options,
    pub(super) store: Store,
    pub(super) kinds: Kinds,
    pub(super) rules: Rules,
    pub(super) clock: Clock,
    pub(super) rng: ChaCha8Rng,
    pub(super) journal: Arc<Journal>,
    pub(super) changes: broadcast::Sender<Change>,
    pub(super) controllers: Controllers,
}

impl Cluster {
    pub(super) fn new(options: Options, journal: Arc<Journal>, clock: Clock) -> Cluster {
        let mut cluster = Cluster {
            rng: ChaCha8Rng::seed_from_u64(options.seed),
            controllers: Controllers::new(),
            options,
            store: Store::new(),
            kinds: Kinds::new(),
            rules: Rules::new(),
            clock,
            journal,
            changes: broadcast::Sender::new(super::CHANGES_MAX),
        };
        for name in ["default", "kube-system"] {
            cluster.make_namespace(name);
        }
        cluster
    }

    /// Creates a namespace, unless it exists.
    pub(super) fn make_namespace(&mut self, name: &str) {
        let Some(kind) = self.kinds.by_id("namespaces") else {
            return;
        };
        if self.store.get("namespaces", &Key::new("", name)).is_none() {
            let labels = json!({"kubernetes.io/metadata.name": name});
            let object = json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "labels": labels}, "status": {"phase": "Active"}});
            self.make(&kind, object);
        }
    }

    /// A suffix for a generated name.
    pub(super) fn suffix(&mut self, len: usize) -> String {
        (0..len)
            .filter_map(|_| {
                let i = self.rng.random_range(0..LETTERS.len());
                LETTERS.get(i).copied().map(char::from)
            })
            .collect()
    }

    fn uid(&mut self) -> String {
        let bits: u128 = self.rng.random();
        let hex = format!("{bits:032x}");
        let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
        [
            part(0, 8),
            part(8, 12),
            part(12, 16),
            part(16, 20),
            part(20, 32),
        ]
        .join("-")
    }

    /// Sets the metadata that the server gives a new object.
    pub(super) fn stamp(&mut self, kind: &Kind, object: &mut Value) {
        set(object, "/metadata/uid", json!(self.uid()));
        set(
            object,
            "/metadata/creationTimestamp",
            json!(self.clock.now()),
        );
        remove(object, "/metadata/deletionTimestamp");
        remove(object, "/metadata/deletionGracePeriodSeconds");
        remove(object, "/metadata/resourceVersion");
        if kind.generation {
            set(object, "/metadata/generation", json!(1));
        }
    }

    /// Stores a new object.
    pub(super) fn make(&mut self, kind: &Kind, mut object: Value) -> Arc<Value> {
        self.stamp(kind, &mut object);
        self.put_new(kind, object)
    }

    /// Stores a new object that has been [`Cluster::stamp`]ed.
    pub(super) fn put_new(&mut self, kind: &Kind, mut object: Value) -> Arc<Value> {
        self.take_definition(kind, &mut object);
        self.store.put(kind, object)
    }

    /// Stores a changed object, or removes it if it is being deleted and nothing holds it any longer.
    pub(super) fn put(&mut self, kind: &Kind, mut object: Value) -> Arc<Value> {
        let doomed = !text(&object, "/metadata/deletionTimestamp").is_empty();
        let held = !list(&object, "/metadata/finalizers").is_empty();
        let graceful = number(&object, "/metadata/deletionGracePeriodSeconds").unwrap_or(0) > 0;
        if doomed && !held && !(kind.id == "pods" && graceful) {
            let key = Key::of(&object);
            self.store.put(kind, object);
            let last = self.remove_now(kind, &key);
            return last.unwrap_or_default();
        }
        self.take_definition(kind, &mut object);
        self.store.put(kind, object)
    }

    /// Changes one object as a controller; writes nothing if nothing changes.
    pub(super) fn amend(&mut self, id: &str, key: &Key, change: impl FnOnce(&mut Value)) {
        let (Some(kind), Some(old)) = (self.kinds.by_id(id), self.store.get(id, key)) else {
            return;
        };
        let mut new = Value::clone(&old);
        change(&mut new);
        if new != *old {
            if kind.generation && at(&new, "/spec") != at(&old, "/spec") {
                count_generation(&mut new);
            }
            self.put(&kind, new);
        }
    }

    /// Starts or completes a deletion. Returns the object in its new state if it still exists.
    ///
    /// `grace_s`: seconds a pod has to end; `None` for its own grace period.
    pub(super) fn delete(
        &mut self,
        kind: &Kind,
        key: &Key,
        grace_s: Option<i64>,
        propagation: &str,
    ) -> Option<Arc<Value>> {
        let old = self.store.get(&kind.shelf, key)?;
        if kind.id == namespaces::NAMESPACES {
            return namespaces::delete(self, &key.name);
        }
        let mut object = Value::clone(&old);
        let mut finalizers = list(&object, "/metadata/finalizers").to_vec();
        if propagation == "Foreground"
            && !self.store.owned_by(text(&old, "/metadata/uid")).is_empty()
        {
            finalizers.push(json!(FOREGROUND));
        } else if propagation == "Orphan" {
            self.orphan(text(&old, "/metadata/uid"));
        }
        let own_s = number(&old, "/spec/terminationGracePeriodSeconds").unwrap_or(0);
        let started = !text(&old, "/spec/nodeName").is_empty() && self.options.kubelet;
        let ended = ["Succeeded", "Failed"].contains(&text(&old, "/status/phase"));
        let grace_s = match kind.id == "pods" && started && !ended {
            true => grace_s.unwrap_or(own_s).clamp(0, GRACE_MAX_S),
            false => 0,
        };
        if grace_s == 0 && finalizers.is_empty() {
            self.remove_now(kind, key);
            return None;
        }
        finalizers.dedup();
        let earlier = number(&old, "/metadata/deletionGracePeriodSeconds");
        let doomed = !text(&old, "/metadata/deletionTimestamp").is_empty();
        if doomed
            && earlier.is_none_or(|earlier| earlier <= grace_s)
            && finalizers == list(&old, "/metadata/finalizers")
        {
            return Some(old);
        }
        let end = self
            .clock
            .after(std::time::Duration::from_secs(grace_s.unsigned_abs()));
        set(&mut object, "/metadata/deletionTimestamp", json!(end));
        set(
            &mut object,
            "/metadata/deletionGracePeriodSeconds",
            json!(grace_s),
        );
        if !finalizers.is_empty() {
            set(
                &mut object,
                "/metadata/finalizers",
                Value::Array(finalizers),
            );
        }
        if kind.generation && !doomed {
            count_generation(&mut object);
        }
        Some(self.put(kind, object))
    }

    /// Removes an object and the effects of its kind. The garbage collector removes the objects it owned.
    pub(super) fn remove_now(&mut self, kind: &Kind, key: &Key) -> Option<Arc<Value>> {
        let last = self.store.take(&kind.shelf, key)?;
        if kind.id == CRDS
            && let Some(removed) = Kind::custom(&last)
        {
            self.empty(&removed, "");
            self.kinds.withdraw(&removed.id);
        }
        if kind.id == "namespaces" {
            let kinds: Vec<Arc<Kind>> = self.kinds.all().cloned().collect();
            for kind in kinds.iter().filter(|kind| kind.namespaced) {
                self.empty(kind, &key.name);
            }
        }
        Some(last)
    }

    fn empty(&mut self, kind: &Kind, namespace: &str) {
        let all = self.store.list(&kind.shelf, namespace, None);
        let keys: Vec<Key> = all.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.remove_now(kind, &key);
        }
    }

    fn orphan(&mut self, uid: &str) {
        for (shelf, key) in self.store.owned_by(uid) {
            self.amend(&shelf, &key, |object| {
                if let Some(Value::Array(owners)) = object.pointer_mut("/metadata/ownerReferences")
                {
                    owners.retain(|owner| text(owner, "/uid") != uid);
                }
            });
        }
    }

    /// A custom resource's definition is served as soon as it is stored, and its conditions report it.
    fn take_definition(&mut self, kind: &Kind, object: &mut Value) {
        if kind.id != CRDS {
            return;
        }
        let Some(custom) = Kind::custom(object) else {
            return;
        };
        let condition = |name: &str, reason: &str| {
            json!({"type": name, "status": "True", "reason": reason,
                "lastTransitionTime": text(object, "/metadata/creationTimestamp")})
        };
        let status = json!({
            "acceptedNames": at(object, "/spec/names"),
            "storedVersions": [custom.stored_version()],
            "conditions": [condition("NamesAccepted", "NoConflicts"), condition("Established", "InitialNamesAccepted")],
        });
        set(object, "/status", status);
        for schema in custom.schemas.iter().flat_map(|all| all.values()) {
            self.rules.learn(schema);
        }
        self.kinds.serve(custom);
    }
}

/// The finalizer of a deletion that waits for the owned objects.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// Kind id of CustomResourceDefinitions.
pub(super) const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Increments the generation.
pub(super) fn count_generation(object: &mut Value) {
    let generation = number(object, "/metadata/generation").unwrap_or(0) + 1;
    set(object, "/metadata/generation", json!(generation));
}
