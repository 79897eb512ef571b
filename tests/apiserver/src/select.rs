//! Label and field selectors of LIST and WATCH.
//!
//! Labels: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`. Fields: equality, and
//! only the fields that Kubernetes supports. A selector object (`matchLabels`, `matchExpressions`)
//! becomes the same.

use std::collections::BTreeMap;

use serde_json::Value;

use super::object::{at, list, text, texts};
use super::status::Refusal;

/// A requirement on one label.
#[derive(Debug, Clone, PartialEq)]
enum Term {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Has(String),
    HasNot(String),
}

impl Term {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Term::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Term::NotIn(key, values) => {
                !labels.get(key).is_some_and(|value| values.contains(value))
            }
            Term::Has(key) => labels.contains_key(key),
            Term::HasNot(key) => !labels.contains_key(key),
        }
    }
}

/// A label selector: all of its terms must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Labels(Vec<Term>);

impl Labels {
    /// Parses `labelSelector`.
    pub(super) fn parse(text: &str) -> Result<Labels, Refusal> {
        let mut terms = Vec::new();
        for part in split(text) {
            let term = term(part).ok_or_else(|| {
                Refusal::bad(format!("unable to parse requirement: found '{part}'"))
            })?;
            terms.push(term);
        }
        Ok(Labels(terms))
    }

    /// Parses a `LabelSelector` object. An empty one selects everything, null selects nothing.
    pub(super) fn of(selector: &Value) -> Option<Labels> {
        selector.as_object()?;
        let equal = texts(selector, "/matchLabels")
            .into_iter()
            .map(|(key, value)| Term::In(key, vec![value]));
        let mut terms: Vec<Term> = equal.collect();
        for expression in list(selector, "/matchExpressions") {
            let key = text(expression, "/key").to_owned();
            let values = list(expression, "/values")
                .iter()
                .filter_map(|value| Some(value.as_str()?.to_owned()))
                .collect();
            terms.push(match text(expression, "/operator") {
                "In" => Term::In(key, values),
                "NotIn" => Term::NotIn(key, values),
                "Exists" => Term::Has(key),
                _ => Term::HasNot(key),
            });
        }
        Some(Labels(terms))
    }

    pub(super) fn select(&self, object: &Value) -> bool {
        self.0.is_empty() || self.hold(&texts(object, "/metadata/labels"))
    }

    pub(super) fn hold(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|term| term.holds(labels))
    }

    /// The form in a `Scale`'s status.
    pub(super) fn written(&self) -> String {
        let terms = self.0.iter().map(|term| match term {
            Term::In(key, values) if values.len() == 1 => format!("{key}={}", values.join(",")),
            Term::In(key, values) => format!("{key} in ({})", values.join(",")),
            Term::NotIn(key, values) => format!("{key} notin ({})", values.join(",")),
            Term::Has(key) => key.clone(),
            Term::HasNot(key) => format!("!{key}"),
        });
        terms.collect::<Vec<_>>().join(",")
    }
}

/// Splits at commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = text.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

fn term(part: &str) -> Option<Term> {
    if let Some((left, right)) = part.split_once(" notin ") {
        return Some(Term::NotIn(label(left)?, set_of(right)?));
    }
    if let Some((left, right)) = part.split_once(" in ") {
        return Some(Term::In(label(left)?, set_of(right)?));
    }
    if let Some((left, right)) = part.split_once("!=") {
        return Some(Term::NotIn(label(left)?, vec![right.trim().to_owned()]));
    }
    if let Some((left, right)) = part.split_once('=') {
        let right = right.trim_start_matches('=').trim();
        return Some(Term::In(label(left)?, vec![right.to_owned()]));
    }
    match part.strip_prefix('!') {
        Some(key) => Some(Term::HasNot(label(key)?)),
        None => Some(Term::Has(label(part)?)),
    }
}

fn label(text: &str) -> Option<String> {
    let text = text.trim();
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    (!text.is_empty() && text.chars().all(fits)).then(|| text.to_owned())
}

fn set_of(text: &str) -> Option<Vec<String>> {
    let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    Some(
        inner
            .split(',')
            .map(|value| value.trim().to_owned())
            .collect(),
    )
}

/// A field selector.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Fields(Vec<(String, String, bool)>);

impl Fields {
    /// Parses `fieldSelector` for a kind.
    pub(super) fn parse(text: &str, plural: &str) -> Result<Fields, Refusal> {
        let mut terms = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (field, value, equal) = match part.split_once("!=") {
                Some((field, value)) => (field, value, false),
                None => match part.split_once('=') {
                    Some((field, value)) => (field, value.trim_start_matches('='), true),
                    None => return Err(Refusal::bad(format!("invalid selector: '{part}'"))),
                },
            };
            if !offered(plural, field) {
                let message = format!("field label not supported: {field}");
                return Err(Refusal::bad(message));
            }
            let path = format!("/{}", field.replace('.', "/"));
            terms.push((path, value.to_owned(), equal));
        }
        Ok(Fields(terms))
    }

    pub(super) fn select(&self, object: &Value) -> bool {
        self.0.iter().all(|(path, value, equal)| {
            let found = match at(object, path) {
                Value::String(text) => text == value,
                Value::Null => value.is_empty(),
                other => &other.to_string() == value,
            };
            found == *equal
        })
    }
}

/// Whether the kind can be selected by the field.
fn offered(plural: &str, field: &str) -> bool {
    let own: &[&str] = match plural {
        "pods" => &[
            "spec.nodeName",
            "status.phase",
            "spec.schedulerName",
            "status.podIP",
        ],
        "events" => &[
            "involvedObject.name",
            "involvedObject.kind",
            "involvedObject.uid",
            "involvedObject.namespace",
            "reason",
            "type",
            "regarding.name",
        ],
        "nodes" => &["spec.unschedulable"],
        _ => &[],
    };
    ["metadata.name", "metadata.namespace"].contains(&field) || own.contains(&field)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Fields, Labels};

    #[test]
    fn every_label_selector_form_matches() {
        let pod = json!({"metadata": {"labels": {"app": "a", "tier": "web"}}});
        for (selector, selected) in [
            ("", true),
            ("app=a", true),
            ("app==a,tier=web", true),
            ("app=b", false),
            ("app!=b", true),
            ("app in (a, b),tier", true),
            ("app notin (a,b)", false),
            ("!gone", true),
            ("gone", false),
        ] {
            let labels = Labels::parse(selector).unwrap();
            assert_eq!(labels.select(&pod), selected, "{selector}");
        }
        assert!(Labels::parse("a b c").is_err());
        let selector = json!({"matchLabels": {"app": "a"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["web"]}]});
        assert!(Labels::of(&selector).unwrap().select(&pod));
        assert_eq!(Labels::of(&json!(null)), None);
    }

    #[test]
    fn unsupported_field_selector_is_rejected() {
        let pod = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n"}});
        let select = |text| Fields::parse(text, "pods").map(|fields| fields.select(&pod));
        assert_eq!(select("metadata.name=a,spec.nodeName=n"), Ok(true));
        assert_eq!(select("spec.nodeName!=n"), Ok(false));
        assert_eq!(select("status.phase="), Ok(true));
        assert!(select("spec.image=x").is_err());
        assert!(Fields::parse("status.phase=Running", "nodes").is_err());
    }
}
