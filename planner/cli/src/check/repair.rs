//! Repairs of one error, so that the reader goes on to the next one.

use super::document::{Content, Edit, Found, Node, joined};
use super::kind::Complaint;

/// Values for want of better ones, by what most keys take.
const TEXTS: [&str; 5] = [
    "repaired",
    DURATION,
    "http://127.0.0.1:1/repaired",
    "127.0.0.1:1",
    "/",
];
/// A duration that is in most ranges.
const DURATION: &str = "300ms";
/// Amounts that exceed most sums.
const AMPLE: [u64; 2] = [1000, 65_536];

/// Edits with the paths at which they are made.
pub(super) type Repair = Vec<Step>;

/// One edit of a repair.
type Step = (String, Edit);

/// Paths of an error in the document: several for keys that exclude each other, and that of a missing key.
pub(super) fn targets(complaint: &Complaint) -> Vec<String> {
    let mut targets: Vec<String> = Vec::new();
    for path in complaint.path.split(", ") {
        // `variants[0].resize, workload`: the second is beside the first.
        let beside = targets.first().and_then(|first| first.rsplit_once('.'));
        let path = match beside {
            Some((parent, _)) if !path.contains(['.', '[']) => joined(parent, path),
            _ => whole(path).to_owned(),
        };
        targets.push(path);
    }
    // Elsewhere in a message they are of a key in another file.
    for quoted in ["missing field `", "unknown field `"] {
        let key = complaint.message.strip_prefix(quoted);
        let key = key.and_then(|rest| rest.split_once('`'));
        if let (Some((key, _)), [path]) = (key, targets.as_mut_slice())
            && path.rsplit('.').next() != Some(key)
        {
            *path = joined(path, key);
        }
    }
    targets
}

/// The names that readers give to the document itself.
fn whole(path: &str) -> &str {
    match path {
        "service file" | "resource" | "profile" | "scenario" | "problem" | "the document"
        | "(top level)" | "." => "",
        path => path.strip_prefix("(top level).").unwrap_or(path),
    }
}

/// The end of the first of the paths that exists, or of the nearest parent.
pub(super) fn find<'a>(document: &'a Node, complaint: &Complaint) -> Found<'a> {
    let mut targets = targets(complaint);
    let exists = targets.iter().position(|path| document.find(path).whole);
    let path = targets.swap_remove(exists.unwrap_or(0));
    document.find(&path)
}

/// Repairs of an error in groups. A group is tried if no repair of the groups before it helps: what it
/// replaces is larger, and with it more errors are lost.
pub(super) fn repairs(
    document: &Node,
    complaint: &Complaint,
    example: Option<&Node>,
) -> Vec<Vec<Repair>> {
    let targets = targets(complaint);
    let mut groups = vec![local(document, complaint, &targets, example)];
    for target in &targets {
        groups.extend(elements(document, target));
    }
    groups.push(sums(document, complaint, &targets));
    let sections = targets.iter().filter_map(|target| {
        let section = target.split(['.', '[']).next()?;
        (!section.is_empty()).then(|| section.to_owned())
    });
    let sections: Vec<String> = sections.collect();
    let sections = sections.iter().flat_map(|path| section(path, example));
    groups.push(sections.collect());
    let alone = |edit| vec![edit];
    let groups = groups
        .into_iter()
        .map(|group| group.into_iter().map(alone).collect());
    let profiles = targets
        .iter()
        .filter_map(|target| profile(document, target, example));
    let profiles: Vec<Vec<Repair>> = profiles.map(|one| vec![one]).collect();
    let renamed = targets
        .iter()
        .filter_map(|target| renamed(document, complaint, target, example));
    let renamed: Vec<Vec<Repair>> = renamed.map(|one| vec![one]).collect();
    renamed.into_iter().chain(profiles).chain(groups).collect()
}

/// Another key, no key, or another value.
fn local(
    document: &Node,
    complaint: &Complaint,
    targets: &[String],
    example: Option<&Node>,
) -> Vec<Step> {
    let mut repairs = Vec::new();
    let words = words(&complaint.message);
    for target in targets {
        let exists = document.find(target).whole;
        let key = target.rsplit('.').next().unwrap_or(target);
        if complaint.message.contains("unknown field") {
            let near = words.iter().filter(|word| is_near(word, key));
            repairs.extend(near.map(|word| (target.clone(), Edit::Rename(word.clone()))));
        }
        if !exists {
            let parent = target.rsplit_once('.').map_or("", |(parent, _)| parent);
            let beside = document.find(parent).node.entries().iter();
            let near = beside.filter(|entry| is_near(&entry.key, key));
            let near = near.map(|entry| joined(parent, &entry.key));
            repairs.extend(near.map(|path| (path, Edit::Rename(key.to_owned()))));
        }
        let model = example.and_then(|example| in_example(example, target));
        repairs.extend(model.map(|value| (target.clone(), Edit::Set(value))));
        if exists && !target.ends_with(']') {
            repairs.push((target.clone(), Edit::Remove));
        }
        let mut values = Vec::new();
        values.extend(numbers(&complaint.message));
        values.extend(durations(&complaint.message));
        values.extend(words.iter().cloned().map(Content::Text));
        values.extend([Content::Unsigned(1), Content::Unsigned(0)]);
        values.extend(TEXTS.map(|text| Content::Text(text.to_owned())));
        values.extend([
            Content::Bool(false),
            Content::List(Vec::new()),
            Content::Map(Vec::new()),
        ]);
        let set = values.into_iter().map(Edit::Set);
        repairs.extend(set.map(|edit| (target.clone(), edit)));
    }
    repairs
}

/// The present name of a former key. A value that was a number of a unit may be a text now.
fn renamed(
    document: &Node,
    complaint: &Complaint,
    target: &str,
    example: Option<&Node>,
) -> Option<Repair> {
    let (_, rest) = complaint.message.split_once("no longer a key; it is ")?;
    let (now, more) = rest.split_once([',', ' ']).unwrap_or((rest, ""));
    let now = now.rsplit('.').next()?;
    let parent = target.rsplit_once('.').map_or("", |(parent, _)| parent);
    let path = joined(parent, now);
    let mut repair = vec![(target.to_owned(), Edit::Rename(now.to_owned()))];
    let was_number = matches!(
        document.find(target).node.content,
        Content::Unsigned(_) | Content::Signed(_) | Content::Real(_)
    );
    if was_number && more.contains("duration") {
        let model = example.and_then(|example| in_example(example, &path));
        let model = model.unwrap_or_else(|| Content::Text(DURATION.to_owned()));
        repair.push((path, Edit::Set(model)));
    }
    Some(repair)
}

/// The example's laws instead of a profile in another file, if the path is one of the profile's.
fn profile(document: &Node, target: &str, example: Option<&Node>) -> Option<Repair> {
    let variant = target.get(..target.rfind(']')? + 1)?;
    let profile = joined(variant, "profile");
    if !document.find(&profile).whole || document.find(target).whole && !target.contains(".profile")
    {
        return None;
    }
    let mut repair = vec![(profile, Edit::Remove)];
    // An accuracy may be the profile's.
    let accuracy = joined(variant, "accuracy");
    let accuracy = (!document.find(&accuracy).whole).then_some("accuracy");
    for key in ["latency", "capacity"].into_iter().chain(accuracy) {
        let path = joined(variant, key);
        let model = in_example(example?, &path)?;
        repair.push((path, Edit::Set(model)));
    }
    Some(repair)
}

/// Removal of the list elements around a path, the innermost first; of all but the first for `[]`. A list with a
/// single element may be removed with it.
fn elements(document: &Node, target: &str) -> Vec<Vec<Step>> {
    let ends = target.match_indices(']').map(|(at, _)| at + 1);
    let mut groups: Vec<Vec<Step>> = ends
        .filter_map(|end| {
            let path = target.get(..end)?;
            Some(match path.strip_suffix("[]") {
                Some(list) => vec![(list.to_owned(), Edit::Shorten)],
                None => {
                    let list = path.rsplit_once('[').map_or("", |(list, _)| list);
                    let single = match &document.find(list).node.content {
                        Content::List(items) => items.len() == 1,
                        _ => false,
                    };
                    let list = single.then(|| (list.to_owned(), Edit::Remove));
                    list.into_iter()
                        .chain([(path.to_owned(), Edit::Remove)])
                        .collect()
                }
            })
        })
        .collect();
    groups.reverse();
    groups
}

/// More of the amounts that the message names, and less of those that the path names.
fn sums(document: &Node, complaint: &Complaint, targets: &[String]) -> Vec<Step> {
    let named = complaint.message.split([' ', '(', ')', ',', ':']);
    let named = named.filter(|word| word.contains('.') && document.find(word).whole);
    let more = named
        .flat_map(|path| AMPLE.map(|value| (path.to_owned(), Edit::Set(Content::Unsigned(value)))));
    let less = targets.iter().filter(|target| target.contains("[]"));
    let less = less.map(|path| (path.clone(), Edit::Set(Content::Unsigned(1))));
    more.chain(less).collect()
}

/// The example's section instead of this one, or none.
fn section(path: &str, example: Option<&Node>) -> Vec<Step> {
    let found = example.and_then(|example| example.get(path));
    let set = found.map(|node| (path.to_owned(), Edit::Set(node.content.clone())));
    set.into_iter()
        .chain([(path.to_owned(), Edit::Remove)])
        .collect()
}

/// Value of the example at a path, whose lists may be shorter.
fn in_example(example: &Node, target: &str) -> Option<Content> {
    let mut path = String::new();
    for (index, part) in target.split('[').enumerate() {
        let rest = part.split_once(']').map_or("", |(_, rest)| rest);
        path += &match index {
            0 => part.to_owned(),
            _ => format!("[0]{rest}"),
        };
    }
    let found = example.find(&path);
    found.whole.then(|| found.node.content.clone())
}

/// Numbers of a message, such as the ends of a range.
fn numbers(message: &str) -> Vec<Content> {
    let allowed = message
        .split_once("must be")
        .map_or(message, |(_, right)| right);
    let words = allowed.split([' ', ',', ';', '(', ')']);
    let numbers = words.filter_map(|word| {
        let whole = word.parse().ok().map(Content::Unsigned);
        whole.or_else(|| word.parse().ok().map(Content::Real))
    });
    numbers.collect()
}

/// Durations of a message, such as the ends of a range.
fn durations(message: &str) -> impl Iterator<Item = Content> {
    let allowed = message.split_once("must be").map_or("", |(_, right)| right);
    let words = allowed.split([' ', ',', ';', '(', ')']);
    let fits = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.ends_with(|c: char| c.is_ascii_alphabetic())
    };
    words
        .filter(fits)
        .map(|word| Content::Text(word.to_owned()))
}

/// Words of a message that may be keys or values: those in backticks, and those of a list.
fn words(message: &str) -> Vec<String> {
    let expected = message.split_once("expected").map(|(_, rest)| rest);
    let quoted = expected.into_iter().flat_map(|rest| rest.split('`'));
    let mut words: Vec<String> = quoted.skip(1).step_by(2).map(str::to_owned).collect();
    let listed = message.split_once("must be").map_or("", |(_, right)| right);
    let letters = |word: &&str| word.starts_with(|c: char| c.is_ascii_alphabetic());
    let listed = listed.split([' ', ',', ':']).filter(letters);
    words.extend(listed.map(str::to_owned));
    // In a message without backticks: `expected one of a, b`.
    let plain = expected.map_or("", |rest| rest.trim_start_matches([':', ' ']));
    let plain = plain.split([' ', ',']).filter(letters);
    words.extend(plain.map(str::to_owned));
    words.dedup();
    words
}

/// Whether a key may be a misspelled other one.
pub(super) fn is_near(word: &str, key: &str) -> bool {
    let begins = word.starts_with(key) || key.starts_with(word);
    word != key && (begins || distance(word, key) <= 2)
}

/// Edit distance of two words.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, c) in one.chars().enumerate() {
        let mut next = vec![index + 1];
        for (at, d) in other.iter().enumerate() {
            let of = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX / 2);
            let replaced = of(&row, at) + usize::from(c != *d);
            let min = replaced.min(of(&row, at + 1) + 1).min(of(&next, at) + 1);
            next.push(min);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_paths_in_the_document() {
        for (path, message, expected) in [
            ("slo", "0s; it must be 1ms to 2ms", vec!["slo"]),
            ("service file", "missing field `slo`", vec!["slo"]),
            ("a[0]", "missing field `b`", vec!["a[0].b"]),
            ("a[0].b", "unknown field `b`, expected `c`", vec!["a[0].b"]),
            ("keyEnv, keyFile", "both given", vec!["keyEnv", "keyFile"]),
            (
                "a[0].resize, workload",
                "both given",
                vec!["a[0].resize", "a[0].workload"],
            ),
        ] {
            let complaint = Complaint {
                path: path.to_owned(),
                message: message.to_owned(),
            };
            assert_eq!(targets(&complaint), expected);
        }
    }

    #[test]
    fn distance_counts_changed_letters() {
        for (one, other, expected) in [("slope", "slope", 0), ("slop", "slope", 1), ("ab", "ba", 2)]
        {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }
}
