//! The read verbs: get and list. Lists are in order of namespace and name, in pages if requested.
//!
//! Simplified: a page shows the objects at the time of its request. Its version is the first
//! page's, so that a watch from it misses nothing.

use std::sync::Arc;

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::kinds::Kind;
use super::object::{Key, at};
use super::request::ApiRequest;
use super::scale;
use super::select::{Fields, Labels};
use super::status::Refusal;
use super::table;
use super::views;

/// The selected objects, their kind, and their form.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    pub(super) kind: Arc<Kind>,
    version: String,
    namespace: String,
    labels: Labels,
    fields: Fields,
    metadata_only: bool,
}

impl Selection {
    /// Parses the selectors of a request.
    ///
    /// # Errors
    ///
    /// They are malformed, or use fields that the kind does not support.
    pub(super) fn of(request: &ApiRequest) -> Result<Selection, Refusal> {
        let mut fields = Fields::parse(request.param("fieldSelector"), &request.kind.plural)?;
        if !request.key.name.is_empty() {
            let named = format!("metadata.name={}", request.key.name);
            fields = Fields::parse(&named, &request.kind.plural)?;
        }
        Ok(Selection {
            kind: Arc::clone(&request.kind),
            version: request.version.clone(),
            namespace: request.key.namespace.clone(),
            labels: Labels::parse(request.param("labelSelector"))?,
            fields,
            metadata_only: request.accept.contains("as=PartialObjectMetadata"),
        })
    }

    pub(super) fn selects(&self, object: &Value) -> bool {
        let namespace = super::object::text(object, "/metadata/namespace");
        (self.namespace.is_empty() || namespace == self.namespace)
            && self.labels.select(object)
            && self.fields.select(object)
    }

    /// An object in the requested form.
    pub(super) fn shown(&self, object: &Value) -> Value {
        if self.metadata_only {
            return views::metadata(object);
        }
        views::shown(&self.kind, &self.version, object)
    }

    /// An object in the requested form, as text; not copied if that is the stored form.
    pub(super) fn written(&self, object: &Value) -> String {
        let as_stored = !self.metadata_only
            && self.kind.shelf == self.kind.id
            && super::object::text(object, "/apiVersion") == self.kind.api_version(&self.version);
        match as_stored {
            true => object.to_string(),
            false => self.shown(object).to_string(),
        }
    }

    /// All selected objects.
    pub(super) fn all<'a>(
        &'a self,
        cluster: &'a Cluster,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> {
        self.after(cluster, None)
    }

    fn after<'a>(
        &'a self,
        cluster: &'a Cluster,
        key: Option<&Key>,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> {
        let all = cluster.store.list(&self.kind.shelf, &self.namespace, key);
        all.filter(|(_, object)| self.labels.select(object) && self.fields.select(object))
    }

    /// apiVersion and kind of one object in the requested form.
    fn types(&self) -> (String, String) {
        match self.metadata_only {
            true => (
                "meta.k8s.io/v1".to_owned(),
                "PartialObjectMetadata".to_owned(),
            ),
            false => (self.kind.api_version(&self.version), self.kind.kind.clone()),
        }
    }

    /// A bookmark: an object with only a version.
    pub(super) fn bookmark(&self, version: u64, annotations: Value) -> Value {
        let (api_version, kind) = self.types();
        let mut metadata =
            json!({"resourceVersion": version.to_string(), "creationTimestamp": null});
        if !annotations.is_null() {
            super::object::set(&mut metadata, "/annotations", annotations);
        }
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
    }
}

/// One object.
pub(super) fn get(cluster: &Cluster, request: &ApiRequest) -> Result<Value, Refusal> {
    let found = cluster.store.get(&request.kind.shelf, &request.key);
    let object = found.ok_or_else(|| request.not_found())?;
    if request.subresource == "scale" {
        return scale::shown(&request.kind, &object);
    }
    if table::is_requested(&request.accept) {
        let now = cluster.clock.now();
        let metadata = json!({"resourceVersion": at(&object, "/metadata/resourceVersion")});
        let objects = std::iter::once(&*object);
        return Ok(table::of(
            &request.kind,
            &request.version,
            objects,
            &metadata,
            &now,
        ));
    }
    Ok(Selection::of(request)?.shown(&object))
}

/// A list, or one page of it.
pub(super) fn list(cluster: &Cluster, request: &ApiRequest) -> Result<Value, Refusal> {
    let selection = Selection::of(request)?;
    let limit: usize = request.param("limit").parse().unwrap_or(0);
    let limit = if limit == 0 { usize::MAX } else { limit };
    let (version, after) = match request.param("continue") {
        "" => (cluster.store.version(), None),
        token => {
            let (version, key) =
                read_token(token).ok_or_else(|| Refusal::bad("continue key is not valid"))?;
            if let Err(oldest) = cluster
                .store
                .after(&selection.kind.shelf, version)
                .map(drop)
            {
                return Err(Refusal::expired(version, oldest));
            }
            (version, Some(key))
        }
    };
    let mut found = selection.after(cluster, after.as_ref()).peekable();
    let mut items = Vec::new();
    let mut last = Key::default();
    while items.len() < limit
        && let Some((key, object)) = found.next()
    {
        last = key.clone();
        items.push(match table::is_requested(&request.accept) {
            true => Value::clone(object),
            false => selection.shown(object),
        });
    }
    let more = found.peek().is_some();
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if more {
        super::object::set(&mut metadata, "/continue", json!(token(version, &last)));
    }
    if table::is_requested(&request.accept) {
        let now = cluster.clock.now();
        let (kind, version) = (&request.kind, &request.version);
        return Ok(table::of(kind, version, items.iter(), &metadata, &now));
    }
    let (api_version, kind) = selection.types();
    Ok(
        json!({"apiVersion": api_version, "kind": format!("{kind}List"), "metadata": metadata,
        "items": items}),
    )
}

/// Continue token of the next page: the version of the list, and the last item's namespace and
/// name.
fn token(version: u64, last: &Key) -> String {
    format!("{version}:{}:{}", last.namespace, last.name)
}

fn read_token(token: &str) -> Option<(u64, Key)> {
    let mut parts = token.splitn(3, ':');
    let version = parts.next()?.parse().ok()?;
    Some((version, Key::new(parts.next()?, parts.next()?)))
}
