//! Parsing of a Kubernetes request: path, query and method → verb, resource, name, subresource.
//!
//! It decides neither about authorization nor about the effect.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::Query;
use axum::http::request::Parts;
use axum::http::{Method, Uri};

use super::kinds::{Kind, Kinds};
use super::object::Key;
use super::status::Refusal;

/// The verb of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads a list of objects.
    List,
    /// Follows changes.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces an object (PUT).
    Update,
    /// Changes an object (PATCH), or applies one.
    Patch,
    /// Deletes an object.
    Delete,
}

impl Verb {
    /// Name in RBAC rules.
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

/// The target of a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
    pub(super) key: Key,
    pub(super) subresource: String,
}

/// Parses a path; `None` if it is no resource's (perhaps discovery's).
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

/// The query's parameters; the last one counts if a name is repeated.
pub(super) fn query(uri: &Uri) -> BTreeMap<String, String> {
    let read = Query::<Vec<(String, String)>>::try_from_uri(uri);
    read.map(|Query(pairs)| pairs.into_iter().collect())
        .unwrap_or_default()
}

/// The subject of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) user: String,
    pub(super) groups: Vec<String>,
}

impl Subject {
    /// A subject by its name; service accounts have their groups, the admin has all rights.
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

/// A parsed request for a resource.
#[derive(Debug, Clone)]
pub(super) struct ApiRequest {
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
    /// Time of its arrival since the start.
    pub(super) arrived: std::time::Duration,
}

impl ApiRequest {
    /// Parses a request for the resource at `target`.
    ///
    /// # Errors
    ///
    /// The resource or subresource does not exist, or does not support the method.
    pub(super) fn read(
        kinds: &Kinds,
        target: Target,
        parts: &Parts,
        subject: Subject,
        body: Bytes,
    ) -> Result<ApiRequest, Refusal> {
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
        Ok(ApiRequest {
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
            arrived: std::time::Duration::ZERO,
        })
    }

    /// A parameter of the query, or "".
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

    /// Manager of the fields that the request writes.
    pub(super) fn manager(&self) -> String {
        let agent = self.agent.split('/').next().unwrap_or_default();
        match (self.param("fieldManager"), agent) {
            ("", "") => "unknown".to_owned(),
            ("", agent) => agent.to_owned(),
            (manager, _) => manager.to_owned(),
        }
    }

    /// Resource and subresource, as in RBAC rules and the log.
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
    fn paths_parse_to_resources() {
        let read = |path| target(path).map(|t| (t.group, t.plural, t.key, t.subresource));
        let own = |g: &str, p: &str, ns: &str, n: &str, s: &str| {
            Some((g.to_owned(), p.to_owned(), Key::new(ns, n), s.to_owned()))
        };
        for (path, expected) in [
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
            assert_eq!(read(path), expected, "{path}");
        }
    }
}
