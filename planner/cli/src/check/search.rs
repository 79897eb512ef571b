//! All errors of a document, found with a reader that stops at the first: the reported error is repaired in a
//! copy, which is read again.
//!
//! A repair may cause errors of its own. Several repairs are therefore followed at once, and those that lead to a
//! valid document with the fewest errors count. An error that only shows in a value that a repair has put in, that
//! depends on a repaired value, or that misses what a repair has removed, is not reported.

use std::time::Duration;

use weir_planner::clock::stopwatch;

use super::document::{Content, Found, Node, Place};
use super::kind::Complaint;
use super::repair::{find, repairs, targets};

/// Copies that are followed at once.
const WIDTH: usize = 24;
/// Copies with the same next error: what their repairs cause may differ later.
const ALIKE: usize = 6;
/// Maximum time of the search; a scenario's load takes the longest to read.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of errors that are looked for.
const ERRORS_MAX: usize = 100;

/// Error with its place in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) place: Option<Place>,
    pub(crate) path: String,
    pub(crate) message: String,
}

/// Errors of a document.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    pub(crate) all: Vec<Located>,
    /// Whether the document is valid with all of them repaired; otherwise more may show later.
    pub(crate) complete: bool,
}

/// Copy of the document with the errors repaired so far.
struct Copy {
    document: Node,
    repaired: Vec<Located>,
    /// Paths of the edits.
    edited: Vec<String>,
    next: Located,
    /// Whether the next error is about a key that a repair has removed, so that it is repaired but not reported.
    is_caused: bool,
    complaint: Complaint,
}

/// Finds the errors of a document, of which `first` reports the first one.
pub(crate) fn errors(
    document: Node,
    example: Option<&Node>,
    first: impl Fn(&Node) -> Option<Complaint>,
) -> Errors {
    let elapsed = stopwatch();
    let Some(complaint) = first(&document) else {
        return Errors {
            all: Vec::new(),
            complete: true,
        };
    };
    let mut copies = vec![Copy {
        next: located(&document, &complaint),
        document,
        repaired: Vec::new(),
        edited: Vec::new(),
        is_caused: false,
        complaint,
    }];
    loop {
        let mut found = Vec::new();
        for copy in &copies {
            match copy.repaired_copies(example, &first, &elapsed) {
                Repaired::Valid => return copy.errors(true),
                Repaired::Copies(copies) => found.push(copies.into_iter()),
            }
        }
        let more = chosen(found);
        let exhausted =
            elapsed() > PATIENCE || copies.iter().any(|copy| copy.repaired.len() >= ERRORS_MAX);
        if more.is_empty() || exhausted {
            return copies
                .first()
                .map_or_else(Errors::default, |copy| copy.errors(false));
        }
        copies = more;
    }
}

/// Copies to follow: of each earlier copy in turn, so that one with many repairs does not displace the others.
fn chosen(mut found: Vec<impl Iterator<Item = Copy>>) -> Vec<Copy> {
    let mut chosen: Vec<Copy> = Vec::new();
    while !found.is_empty() && chosen.len() < WIDTH {
        found.retain_mut(|copies| {
            let Some(one) = copies.next() else {
                return false;
            };
            let alike = chosen.iter().filter(|other| other.next == one.next);
            if alike.count() < ALIKE {
                chosen.push(one);
            }
            true
        });
    }
    chosen
}

/// Result of all repairs of one error.
enum Repaired {
    /// One of them leaves no error.
    Valid,
    /// Each leaves another error.
    Copies(Vec<Copy>),
}

impl Copy {
    fn repaired_copies(
        &self,
        example: Option<&Node>,
        first: &impl Fn(&Node) -> Option<Complaint>,
        elapsed: &impl Fn() -> Duration,
    ) -> Repaired {
        for group in repairs(&self.document, &self.complaint, example) {
            let mut copies = Vec::new();
            for repair in group {
                let mut document = self.document.clone();
                let done = repair.iter().all(|(path, edit)| document.edit(path, edit));
                if elapsed() > PATIENCE || !done {
                    continue;
                }
                let Some(complaint) = first(&document) else {
                    return Repaired::Valid;
                };
                let next = located(&document, &complaint);
                let caused = find(&document, &complaint).node.place.is_none();
                let paths = repair.iter().map(|(path, _)| self.document.find(path).path);
                let edited: Vec<String> = self.edited.iter().cloned().chain(paths).collect();
                let here = |error: &Located| error.path == next.path;
                let targets = targets(&complaint);
                let ends: Vec<Found<'_>> = targets.iter().map(|path| document.find(path)).collect();
                let any = |holds: fn(&Found<'_>, &str, &str) -> bool| {
                    let is_one =
                        |found: &Found<'_>, path: &String| holds(found, path, &complaint.message);
                    ends.iter()
                        .any(|found| edited.iter().any(|path| is_one(found, path)))
                };
                let is_caused = any(names_removed);
                let known = here(&self.next)
                    || self.repaired.iter().any(here)
                    || any(misses)
                    || is_about(&document, &complaint.message);
                if !caused && !known {
                    copies.push(Copy {
                        document,
                        repaired: self.reported(),
                        edited,
                        next,
                        is_caused,
                        complaint,
                    });
                }
            }
            if !copies.is_empty() {
                return Repaired::Copies(copies);
            }
        }
        Repaired::Copies(Vec::new())
    }

    /// The errors so far.
    fn reported(&self) -> Vec<Located> {
        let next = (!self.is_caused).then(|| self.next.clone());
        self.repaired.iter().cloned().chain(next).collect()
    }

    /// The errors, by place.
    fn errors(&self, complete: bool) -> Errors {
        let mut all = self.reported();
        all.sort_by_key(|error| error.place);
        Errors { all, complete }
    }
}

/// Whether the end of an error's path is what an edit has changed, was a part of it, or is a list that it has emptied.
fn misses(found: &Found<'_>, edited: &str, _: &str) -> bool {
    if let Some(below) = found.path.strip_prefix(edited) {
        return below.is_empty() || !found.whole && below.starts_with(['.', '[']);
    }
    let emptied = matches!(&found.node.content, Content::List(items) if items.is_empty());
    emptied && edited.starts_with(&found.path)
}

/// Whether the message of an error in a mapping names a key that an edit has removed from it.
fn names_removed(found: &Found<'_>, edited: &str, message: &str) -> bool {
    let key = edited.strip_prefix(&found.path);
    let key = key.map(|key| key.trim_start_matches('.'));
    let is_map = matches!(found.node.content, Content::Map(_));
    let removed = key.filter(|key| is_map && found.whole && found.node.get(key).is_none());
    removed.is_some_and(|key| words(message).any(|word| word == key))
}

/// Whether a message is about a name that a repair has put in.
fn is_about(document: &Node, message: &str) -> bool {
    let is_own = |node: &Node| is_about(node, message);
    match &document.content {
        Content::List(items) => items.iter().any(|(_, item)| is_own(item)),
        Content::Map(entries) => entries.iter().any(|entry| {
            let name = entry.value.text().filter(|_| entry.key == "name");
            let name = name.filter(|_| entry.value.place.is_none());
            is_own(&entry.value) || name.is_some_and(|name| words(message).any(|word| word == name))
        }),
        _ => false,
    }
}

/// Words of a message.
fn words(message: &str) -> impl Iterator<Item = &str> {
    message.split([' ', ',', ';', ':', '`', '(', ')'])
}

fn located(document: &Node, complaint: &Complaint) -> Located {
    let found = find(document, complaint);
    let path = match complaint.path.contains(", ") {
        true => complaint.path.clone(),
        false => found.path,
    };
    let about_key = ["unknown field", "no longer a key"];
    let about_key = about_key
        .iter()
        .any(|begin| complaint.message.starts_with(begin));
    let unknown = found.whole && about_key;
    Located {
        place: found.key.filter(|_| unknown).or(found.place),
        path,
        message: complaint.message.clone(),
    }
}
