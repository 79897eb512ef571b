//! All errors of a document, found with a reader that stops at the first: the reported error is repaired in a
//! copy, which is read again.
//!
//! A repair may cause errors of its own. Several repairs are therefore followed at once, and those that lead to a
//! valid document with the fewest errors count. An error that only shows in a value that a repair has put in, or
//! that depends on a repaired value, is not reported.

use std::time::Duration;

use weir_planner::clock::stopwatch;

use super::document::{Node, Place};
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
                let known = here(&self.next)
                    || self.repaired.iter().any(here)
                    || targets(&complaint)
                        .iter()
                        .any(|path| edited.contains(&document.find(path).path));
                if !caused && !known {
                    let mut repaired = self.repaired.clone();
                    repaired.push(self.next.clone());
                    copies.push(Copy {
                        document,
                        repaired,
                        edited,
                        next,
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

    /// The errors, by place.
    fn errors(&self, complete: bool) -> Errors {
        let mut all = self.repaired.clone();
        all.push(self.next.clone());
        all.sort_by_key(|error| error.place);
        Errors { all, complete }
    }
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
