//! Tree of a YAML or JSON document that knows the place of each value, and can be edited by path.

mod parse;

use std::collections::BTreeSet;

use serde_saphyr::Location;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};

/// Line and column, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

/// First place of a file.
pub(crate) const START: Place = Place { line: 1, column: 1 };

/// Value with its place; a value that an edit has put in has none.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) place: Option<Place>,
    pub(crate) content: Content,
}

#[derive(Debug, Clone)]
pub(crate) enum Content {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Real(f64),
    Text(String),
    /// Elements with their indices in the file, which stay when another element is removed.
    List(Vec<(usize, Node)>),
    Map(Vec<Entry>),
}

/// Key of a mapping with its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) place: Option<Place>,
    pub(crate) value: Node,
}

/// Change of the value at a path.
#[derive(Debug, Clone)]
pub(crate) enum Edit {
    Remove,
    /// Removes all elements of the list but the first.
    Shorten,
    Rename(String),
    Set(Content),
}

/// End of a path in a document.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    /// Value at the path, or its nearest existing parent.
    pub(crate) node: &'a Node,
    /// Place of the value (of its key if it is a list or mapping), or of the nearest parent that has one.
    pub(crate) place: Option<Place>,
    /// Place of the last key of the path.
    pub(crate) key: Option<Place>,
    /// The path with the indices of the file.
    pub(crate) path: String,
    /// Whether the path exists.
    pub(crate) whole: bool,
}

impl Place {
    pub(crate) fn of(location: Location) -> Option<Place> {
        let (line, column) = (location.line(), location.column());
        (line > 0).then_some(Place { line, column })
    }
}

/// Reads all documents of a text. A key may stand twice in a mapping: see [`Node::take_duplicates`].
///
/// # Errors
/// The text is neither YAML nor JSON.
pub(crate) fn documents(text: &str) -> Result<Vec<Node>, serde_saphyr::Error> {
    let mut options = serde_saphyr::options::Options::default();
    options.with_snippet = false;
    options.duplicate_keys = DuplicateKeyPolicy::LastWins;
    options.non_finite_float_policy = NonFiniteFloatPolicy::PassThrough;
    serde_saphyr::from_multiple_with_options(text, options)
}

impl Node {
    /// Value of a key, if this is a mapping that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        let entry = self.entries().iter().find(|entry| entry.key == key)?;
        Some(&entry.value)
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.content, Content::Null)
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.content {
            Content::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Removes the keys that stand a second time in a mapping, and returns their places and paths.
    pub(crate) fn take_duplicates(&mut self) -> Vec<(Option<Place>, String)> {
        let mut duplicates = Vec::new();
        self.move_duplicates("", &mut duplicates);
        duplicates
    }

    fn move_duplicates(&mut self, path: &str, to: &mut Vec<(Option<Place>, String)>) {
        match &mut self.content {
            Content::List(items) => {
                for (index, item) in items {
                    item.move_duplicates(&format!("{path}[{index}]"), to);
                }
            }
            Content::Map(entries) => {
                let mut keys = BTreeSet::new();
                entries.retain(|entry| {
                    let new = keys.insert(entry.key.clone());
                    if !new {
                        to.push((entry.place, joined(path, &entry.key)));
                    }
                    new
                });
                for entry in entries {
                    entry.value.move_duplicates(&joined(path, &entry.key), to);
                }
            }
            _ => {}
        }
    }

    /// Forgets the places: the values do not come from the file that is checked.
    pub(crate) fn forget_places(&mut self) {
        self.place = None;
        match &mut self.content {
            Content::List(items) => items.iter_mut().for_each(|(_, item)| item.forget_places()),
            Content::Map(entries) => {
                for entry in entries {
                    entry.place = None;
                    entry.value.forget_places();
                }
            }
            _ => {}
        }
    }

    /// Follows a path such as `variants[0].name` as far as it exists.
    pub(crate) fn find(&self, path: &str) -> Found<'_> {
        let mut found = Found {
            node: self,
            place: self.place,
            key: None,
            path: String::new(),
            whole: false,
        };
        let mut rest = path;
        while !rest.is_empty() {
            let (step, key, place, node, after) = match &found.node.content {
                Content::Map(entries) => {
                    let Some((index, after)) = entry(entries, rest) else {
                        break;
                    };
                    let Some(entry) = entries.get(index) else {
                        break;
                    };
                    let many = matches!(entry.value.content, Content::List(_) | Content::Map(_));
                    let (key, value) = (entry.place, entry.value.place);
                    let place = if many { key } else { value.or(key) };
                    (entry.key.clone(), key, place, &entry.value, after)
                }
                Content::List(items) => {
                    let Some((index, after)) = element(rest) else {
                        break;
                    };
                    let Some((origin, item)) = index.and_then(|index| items.get(index)) else {
                        break;
                    };
                    (format!("[{origin}]"), None, item.place, item, after)
                }
                _ => break,
            };
            found.path = joined(&found.path, &step);
            found.place = place.or(found.place);
            found.key = key;
            found.node = node;
            rest = after;
        }
        found.whole = rest.is_empty();
        found.path = joined(&found.path, rest);
        found
    }

    /// Changes the value at a path; `[]` stands for all elements of a list. Returns whether there is such a
    /// value, or a mapping into which a new one is set.
    pub(crate) fn edit(&mut self, path: &str, edit: &Edit) -> bool {
        if path.is_empty() {
            return self.apply(edit);
        }
        match &mut self.content {
            Content::Map(entries) => match (entry(entries, path), edit) {
                (Some((index, "")), Edit::Remove) => {
                    entries.remove(index);
                    true
                }
                (Some((index, "")), Edit::Rename(key)) => {
                    let new = entries.iter().all(|entry| entry.key != *key);
                    match entries.get_mut(index) {
                        Some(entry) if new => {
                            entry.key.clone_from(key);
                            true
                        }
                        _ => false,
                    }
                }
                (Some((index, after)), edit) => match entries.get_mut(index) {
                    Some(entry) => entry.value.edit(after, edit),
                    None => false,
                },
                (None, Edit::Set(content)) if !path.contains(['.', '[', ' ', '?']) => {
                    let value = Node {
                        place: None,
                        content: content.clone(),
                    };
                    entries.push(Entry {
                        key: path.to_owned(),
                        place: None,
                        value,
                    });
                    true
                }
                _ => false,
            },
            Content::List(items) => match (element(path), edit) {
                (Some((Some(index), "")), Edit::Remove) => {
                    let exists = index < items.len();
                    if exists {
                        items.remove(index);
                    }
                    exists
                }
                (Some((Some(index), after)), edit) => match items.get_mut(index) {
                    Some((_, item)) => item.edit(after, edit),
                    None => false,
                },
                (Some((None, after)), edit) if !after.is_empty() => {
                    let mut changed = false;
                    for (_, item) in items {
                        changed |= item.edit(after, edit);
                    }
                    changed
                }
                _ => false,
            },
            _ => false,
        }
    }

    fn apply(&mut self, edit: &Edit) -> bool {
        match (edit, &mut self.content) {
            (Edit::Set(content), _) => {
                self.content = content.clone();
                self.place = None;
                true
            }
            (Edit::Shorten, Content::List(items)) if items.len() > 1 => {
                items.truncate(1);
                true
            }
            _ => false,
        }
    }

    /// Writes the document on one line: JSON, but for numbers that JSON does not have.
    pub(crate) fn line(&self) -> String {
        let mut line = String::new();
        self.content.write(&mut line);
        line
    }
}

/// Index of the entry at which a path begins, and the rest of the path. Keys may have dots: the longest
/// that fits counts.
fn entry<'a>(entries: &[Entry], path: &'a str) -> Option<(usize, &'a str)> {
    let fits = entries.iter().enumerate().filter_map(|(index, entry)| {
        let rest = path.strip_prefix(entry.key.as_str())?;
        if rest.is_empty() || rest.starts_with('[') {
            return Some((index, rest));
        }
        Some((index, rest.strip_prefix('.')?))
    });
    fits.min_by_key(|(_, rest)| rest.len())
}

/// Index with which a path begins, `None` for `[]`, and the rest of the path.
fn element(path: &str) -> Option<(Option<usize>, &str)> {
    let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
    let rest = rest.strip_prefix('.').unwrap_or(rest);
    if index.is_empty() {
        return Some((None, rest));
    }
    Some((Some(index.parse().ok()?), rest))
}

/// Path of a key or index below another path.
pub(crate) fn joined(path: &str, step: &str) -> String {
    if path.is_empty() || step.is_empty() || step.starts_with('[') {
        return format!("{path}{step}");
    }
    format!("{path}.{step}")
}

impl Content {
    fn write(&self, line: &mut String) {
        match self {
            Content::Null => *line += "null",
            Content::Bool(value) => *line += &value.to_string(),
            Content::Unsigned(value) => *line += &value.to_string(),
            Content::Signed(value) => *line += &value.to_string(),
            Content::Real(value) if value.is_nan() => *line += ".nan",
            Content::Real(value) if value.is_infinite() => {
                *line += if *value > 0.0 { ".inf" } else { "-.inf" };
            }
            Content::Real(value) => *line += &serde_json::Value::from(*value).to_string(),
            Content::Text(text) => *line += &serde_json::Value::from(text.as_str()).to_string(),
            Content::List(items) => {
                *line += "[";
                for (index, (_, item)) in items.iter().enumerate() {
                    *line += if index > 0 { ", " } else { "" };
                    item.content.write(line);
                }
                *line += "]";
            }
            Content::Map(entries) => {
                *line += "{";
                for (index, entry) in entries.iter().enumerate() {
                    *line += if index > 0 { ", " } else { "" };
                    *line += &serde_json::Value::from(entry.key.as_str()).to_string();
                    *line += ": ";
                    entry.value.content.write(line);
                }
                *line += "}";
            }
        }
    }
}

#[cfg(test)]
mod tests;
