//! Lines of a YAML text: that of a path such as `faults[2].what`, or of its nearest existing parent; and that of a
//! parser's message.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};

/// Returns the line of a path, from 1; `None` if the text is not YAML.
#[must_use]
pub fn line_of(text: &str, path: &str) -> Option<u64> {
    let steps: Vec<&str> = path
        .split(['.', '[', ']'])
        .filter(|step| !step.is_empty())
        .collect();
    let mut reach = steps.as_slice();
    loop {
        if let Some(line) = seek(text, reach) {
            return Some(line);
        }
        reach = reach.split_last()?.1;
    }
}

/// Splits the position off a parser's message that ends with one, and returns its line.
#[must_use]
pub fn split_position(message: &str) -> (&str, Option<u64>) {
    let split = message.rsplit_once(" at line ").and_then(|(rest, place)| {
        let (line, column) = place.split_once(" column ")?;
        column.parse::<u64>().ok()?;
        Some((rest, line.trim_end_matches(',').parse().ok()?))
    });
    split.map_or((message, None), |(rest, line)| (rest, Some(line)))
}

/// Returns line and column of a tab in the indentation below a plain text, where a parser's message has those of the
/// text.
#[must_use]
pub fn place_of_tab(text: &str, message: &str) -> Option<(u64, u64)> {
    let (message, begin) = split_position(message);
    let begin = begin.filter(|_| message.ends_with("found a tab"))?;
    (1..).zip(text.lines()).find_map(|(number, line)| {
        let blanks = line.chars().take_while(|c| [' ', '\t'].contains(c));
        let before = blanks.take_while(|c| *c != '\t').count();
        let is_tab = line.chars().nth(before) == Some('\t');
        (number > begin && is_tab).then_some((number, before as u64 + 1))
    })
}

fn seek(text: &str, steps: &[&str]) -> Option<u64> {
    let mut options = serde_saphyr::options::Options::default();
    options.with_snippet = false;
    // What the text's reader refuses is looked for here.
    options.duplicate_keys = DuplicateKeyPolicy::LastWins;
    options.non_finite_float_policy = NonFiniteFloatPolicy::PassThrough;
    let found = serde_saphyr::with_deserializer_from_str_with_options(text, options, |yaml| {
        Seek(steps).deserialize(yaml)
    });
    found.ok().flatten()
}

/// Remaining steps of the path.
struct Seek<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = Option<u64>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Option<u64>, D::Error> {
        if self.0.is_empty() {
            return Spanned::<IgnoredAny>::deserialize(from)
                .map(|spanned| Some(spanned.referenced.line()));
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seek<'_> {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a mapping or a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<u64>, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            match self.0.split_first() {
                Some((step, rest)) if *step == key => found = map.next_value_seed(Seek(rest))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<u64>, A::Error> {
        let Some((step, rest)) = self.0.split_first() else {
            return Ok(None);
        };
        let mut found = None;
        for index in 0.. {
            let more = if step.parse() == Ok(index) {
                let next = list.next_element_seed(Seek(rest))?;
                next.map(|line| found = line).is_some()
            } else {
                list.next_element::<IgnoredAny>()?.is_some()
            };
            if !more {
                break;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_that_of_path_or_nearest_parent() {
        let text = "# a note\nname: x\nload:\n  generator: poisson\n  rps: 3\nlist:\n- {a: 1}\n- a: 2\n  b: [1, 2]\n";
        for (path, at) in [
            ("name", 2),
            ("load.rps", 5),
            ("load.missing", 4),
            ("list[0].a", 7),
            ("list[1].b[1]", 9),
            ("list[9].b", 7),
            ("nothing", 2),
        ] {
            assert_eq!(line_of(text, path), Some(at), "{path}");
        }
        assert_eq!(line_of("a: [", "a"), None);
        assert_eq!(line_of("a: 1\nb: .nan\na: 2\n", "a"), Some(3));
        assert_eq!(line_of("c: 1\nb: .nan\nc: 2\n", "b"), Some(2));
    }
    #[test]
    fn position_is_split_off_a_message_that_ends_with_one() {
        for (message, expected) in [
            ("a: b at line 3, column 4", ("a: b", Some(3))),
            ("a at line 3 column 4", ("a", Some(3))),
            ("a at line three", ("a at line three", None)),
            ("a", ("a", None)),
        ] {
            assert_eq!(split_position(message), expected);
        }
    }

    #[test]
    fn tab_is_found_below_the_text_that_the_message_places() {
        let text = "a:\n  b: 1\n   \t c: 2\n\td: 3\n";
        let message = |line| format!("found a tab at line {line}, column 6");
        assert_eq!(place_of_tab(text, &message(2)), Some((3, 4)));
        assert_eq!(place_of_tab(text, &message(3)), Some((4, 1)));
        assert_eq!(place_of_tab(text, &message(4)), None);
        assert_eq!(place_of_tab(text, "a: b at line 2, column 6"), None);
    }
}
