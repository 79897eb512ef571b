//! A request as Kubernetes reads it: path, query and method → verb, resource, name, subresource.
//!
//! It decides nothing about who may do it or what it does.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::Query;
use axum::http::request::Parts;
use axum::http::{Method, Uri};

use super::kinds::{Kind, Kinds};
use super::object::Key;
use super::status::Refusal;

/// What is asked to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// One object is read.
    Get,
    /// Objects are read.
    List,
    /// Changes are followed.
    Watch,
    /// An object is made.
    Create,
    /// An object is replaced (PUT).
    Update,
    /// An object is changed (PATCH), or applied.
    Patch,
    /// An object is deleted.
    Delete,
}

impl Verb {
    /// As RBAC names it.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
        }
    }

    /// Whether it changes anything.
    pub fn writes(self) -> bool {
        !matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }
}

/// Where a path leads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
    pub(super) key: Key,
    pub(super) subresource: String,
}

/// Reads a path; `None` where it is no resource's (discovery, perhaps).
pub(super) fn target(path: &str) -> Option<Target> {
    let steps: Vec<&str> = path.split('/').filter(|step| !step.is_empty()).collect();
    let (group, version, rest) = match steps.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    // A namespace is itself a resource: `namespaces/x`, and `namespaces/x/status` of it.
    let (namespace, rest) = match rest {
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => ("", rest),
        ["namespaces", namespace, rest @ ..] => (*namespace, rest),
        rest => ("", rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, "", ""),
        [plural, name] => (*plural, *name, ""),
        [plural, name, subresource] => (*plural, *name, *subresource),
        _ => return None,
    };
    Some(Target {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        key: Key::new(namespace, name),
        subresource: subresource.to_owned(),
    })
}

/// The query's parameters; of one that is there twice, the last.
pub(super) fn query(uri: &Uri) -> BTreeMap<String, String> {
    let read = Query::<Vec<(String, String)>>::try_from_uri(uri);
    read.map(|Query(pairs)| pairs.into_iter().collect())
        .unwrap_or_default()
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) user: String,
    pub(super) groups: Vec<String>,
}

impl Subject {
    /// A subject by its name; service accounts have their groups, the admin may do everything.
    pub(super) fn named(user: &str) -> Subject {
        let mut groups = vec!["system:authenticated".to_owned()];
        if let Some(account) = user.strip_prefix("system:serviceaccount:")
            && let Some((namespace, _)) = account.split_once(':')
        {
            groups.push("system:serviceaccounts".to_owned());
            groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        if user == super::ADMIN {
            groups.push("system:masters".to_owned());
        }
        Subject {
            user: user.to_owned(),
            groups,
        }
    }
}

/// A request for a resource, read.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) verb: Verb,
    pub(super) kind: Arc<Kind>,
    pub(super) version: String,
    pub(super) key: Key,
    pub(super) subresource: String,
    pub(super) query: BTreeMap<String, String>,
    pub(super) subject: Subject,
    pub(super) content_type: String,
    pub(super) accept: String,
    pub(super) agent: String,
    pub(super) body: Bytes,
}

impl Asked {
    /// Reads a request for the resource at `target`.
    ///
    /// # Errors
    /// No such resource or subresource, or a method it has not.
    pub(super) fn read(
        kinds: &Kinds,
        target: Target,
        parts: &Parts,
        subject: Subject,
        body: Bytes,
    ) -> Result<Asked, Refusal> {
        let kind = kinds
            .find(&target.group, &target.version, &target.plural)
            .ok_or_else(Refusal::no_path)?;
        let known = target.subresource.is_empty()
            || kind.subresources().contains(&target.subresource.as_str());
        if !known || (!kind.namespaced && !target.key.namespace.is_empty()) {
            return Err(Refusal::no_path());
        }
        let query = query(&parts.uri);
        let verb = verb(&parts.method, &target, &query).ok_or_else(Refusal::method)?;
        let all = target.key.namespace.is_empty() && kind.namespaced;
        if all && !(target.key.name.is_empty() && matches!(verb, Verb::List | Verb::Watch)) {
            return Err(Refusal::method());
        }
        let header = |name: &str| {
            let value = parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        Ok(Asked {
            verb,
            kind,
            version: target.version,
            key: target.key,
            subresource: target.subresource,
            query,
            subject,
            content_type: header("content-type"),
            accept: header("accept"),
            agent: header("user-agent"),
            body,
        })
    }

    /// A parameter of the query, or empty.
    pub(super) fn param(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.param(name), "true" | "1")
    }

    pub(super) fn is_dry(&self) -> bool {
        self.param("dryRun") == "All"
    }

    pub(super) fn is_strict(&self) -> bool {
        self.param("fieldValidation") == "Strict"
    }

    /// Who manages the fields it writes.
    pub(super) fn manager(&self) -> String {
        let agent = self.agent.split('/').next().unwrap_or_default();
        match (self.param("fieldManager"), agent) {
            ("", "") => "unknown".to_owned(),
            ("", agent) => agent.to_owned(),
            (manager, _) => manager.to_owned(),
        }
    }

    /// Resource and subresource, as RBAC and the log name them.
    pub(super) fn resource(&self) -> String {
        match self.subresource.as_str() {
            "" => self.kind.plural.clone(),
            subresource => format!("{}/{subresource}", self.kind.plural),
        }
    }

    pub(super) fn not_found(&self) -> Refusal {
        Refusal::not_found(&self.kind, &self.key.name)
    }
}

fn verb(method: &Method, target: &Target, query: &BTreeMap<String, String>) -> Option<Verb> {
    let named = !target.key.name.is_empty();
    let watch = matches!(query.get("watch").map(String::as_str), Some("true" | "1"));
    let making = ["eviction", "binding", "token"].contains(&target.subresource.as_str());
    match (method, named) {
        (&Method::POST, _) if making || !named => Some(Verb::Create),
        _ if making => None,
        (&Method::GET, true) => Some(Verb::Get),
        (&Method::GET, false) if watch => Some(Verb::Watch),
        (&Method::GET, false) => Some(Verb::List),
        (&Method::PUT, true) => Some(Verb::Update),
        (&Method::PATCH, true) => Some(Verb::Patch),
        (&Method::DELETE, true) if target.subresource.is_empty() => Some(Verb::Delete),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, target};

    #[test]
    fn paths_lead_to_resources() {
        let read = |path| target(path).map(|t| (t.group, t.plural, t.key, t.subresource));
        let own = |g: &str, p: &str, ns: &str, n: &str, s: &str| {
            Some((g.to_owned(), p.to_owned(), Key::new(ns, n), s.to_owned()))
        };
        for (path, wanted) in [
            ("/api/v1/pods", own("", "pods", "", "", "")),
            (
                "/api/v1/namespaces/a/pods/b/resize",
                own("", "pods", "a", "b", "resize"),
            ),
            ("/api/v1/namespaces/a", own("", "namespaces", "", "a", "")),
            (
                "/api/v1/namespaces/a/status",
                own("", "namespaces", "", "a", "status"),
            ),
            (
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                own("apps", "deployments", "a", "b", "scale"),
            ),
            ("/apis/apps/v1", None),
            ("/version", None),
            ("/api/v1/namespaces/a/pods/b/c/d", None),
        ] {
            assert_eq!(read(path), wanted, "{path}");
        }
    }
}
