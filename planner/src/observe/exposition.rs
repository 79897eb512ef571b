//! One line of the Prometheus text format, read without allocation: name, labels and value. Whether the line is needed is
//! left to the caller. The planner leaves out a line that it cannot read; [`Sample::parse_strictly`] is for readers that
//! must not, such as the profiler.

use memchr::memchr3;

/// Value of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample<'a> {
    /// Name with its suffix, such as `_bucket`.
    pub name: &'a str,
    labels: &'a str,
    /// Value, which may be infinite or no number.
    pub value: f64,
}

impl<'a> Sample<'a> {
    /// Parses a line; `None` if it is none of a series. A timestamp is ignored.
    pub fn parse(line: &'a str) -> Option<Sample<'a>> {
        let (name, rest) = split_name(line)?;
        Sample::of(name, rest)
    }

    /// Parses a line whose name has been read: `rest` is all after it.
    pub(super) fn of(name: &'a str, rest: &'a str) -> Option<Sample<'a>> {
        let (labels, rest) = split_labels(rest)?;
        let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
        Some(Sample {
            name,
            labels,
            value,
        })
    }

    /// Parses a line of which nothing may be left over: `None` too if a label is not `name="value"`, or if something else
    /// than a timestamp follows the value.
    pub fn parse_strictly(line: &'a str) -> Option<Sample<'a>> {
        let (labels, rest) = split_labels(split_name(line)?.1)?;
        let mut after = rest.split_ascii_whitespace().skip(1);
        let is_timestamp = after.next().is_none_or(|time| time.parse::<i64>().is_ok());
        let is_whole = is_timestamp && after.next().is_none() && are_labels(labels);
        Sample::parse(line).filter(|_| is_whole)
    }

    /// Returns the value of a label as it is written, escapes included.
    pub fn label(&self, name: &str) -> Option<&'a str> {
        let mut labels = self.labels();
        Some(labels.find(|(known, _)| *known == name)?.1)
    }

    /// Returns the labels with their values as they are written, up to one that is broken.
    pub fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let mut rest = self.labels;
        std::iter::from_fn(move || {
            let (before, after) = rest.split_once('=')?;
            let after = after.strip_prefix('"')?;
            let (value, after) = after.split_at_checked(quote(after)?)?;
            rest = after.strip_prefix('"')?;
            Some((before.trim_start_matches([',', ' ']), value))
        })
    }
}

/// Splits a line into its name and the rest.
pub(super) fn split_name(line: &str) -> Option<(&str, &str)> {
    line.split_at_checked(memchr3(b'{', b' ', b'\t', line.as_bytes())?)
}

/// Splits what follows a name into the labels without their braces and the rest with the value.
fn split_labels(rest: &str) -> Option<(&str, &str)> {
    let Some(labels) = rest.strip_prefix('{') else {
        return Some(("", rest));
    };
    let (labels, rest) = labels.split_at_checked(closing(labels)?)?;
    Some((labels, rest.strip_prefix('}')?))
}

/// Whether it is a list of `name="value"`; the last may be followed by a comma.
fn are_labels(mut rest: &str) -> bool {
    loop {
        rest = rest.trim_start_matches(' ');
        if rest.is_empty() {
            return true;
        }
        let Some((name, after)) = rest.split_once("=\"") else {
            return false;
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = quote(after).filter(|_| !name.is_empty() && name.chars().all(is_name));
        let Some(after) = end.and_then(|end| after.get(end + 1..)) else {
            return false;
        };
        rest = match after.strip_prefix(',') {
            Some(next) => next,
            None if after.is_empty() => return true,
            None => return false,
        };
    }
}

/// Returns the place of the quote that ends a label's value.
fn quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

/// Returns the place of the brace that ends the labels; a brace in a value ends none.
fn closing(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    text.bytes().position(|byte| {
        quoted ^= byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        byte == b'}' && !quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_name_labels_and_value() {
        for (line, name, le, value) in [
            ("a 1", "a", None, 1.0),
            ("a{} 2.5", "a", None, 2.5),
            ("a\t3 1700000000000", "a", None, 3.0),
            ("a{le=\"1\"} 4", "a", Some("1"), 4.0),
            ("a{x=\"le=\",le=\"+Inf\",} 5", "a", Some("+Inf"), 5.0),
            ("a{x=\"}\\\"{\", le=\"2\"} 6", "a", Some("2"), 6.0),
            ("a{x=\"\\\\\",le=\"3\"} 1e3 7", "a", Some("3"), 1000.0),
            ("a{sample=\"1\"} +Inf", "a", None, f64::INFINITY),
        ] {
            let sample = Sample::parse(line).unwrap();
            let read = (sample.name, sample.label("le"), sample.value);
            assert_eq!(read, (name, le, value), "{line}");
        }
    }

    #[test]
    fn other_lines_are_no_series() {
        for line in [
            "",
            "a",
            "a ",
            "a{",
            "a{}",
            "a{le=\"1} 2",
            "a x",
            "a{} x 1",
            "# HELP a b",
        ] {
            assert_eq!(Sample::parse(line), None, "{line}");
        }
    }

    #[test]
    fn strict_reader_takes_whole_lines_only() {
        for line in [
            "a 1",
            "a{} 1 1700000000000",
            "a:b{le=\"+Inf\",path=\"/{x}\",} 1e3",
            "a{x=\"\\\"\", y=\"\"} 1",
        ] {
            let read = Sample::parse(line);
            assert!(read.is_some(), "{line}");
            assert_eq!(Sample::parse_strictly(line), read, "{line}");
        }
        for line in [
            "a",
            "a x",
            "a 1 x",
            "a 1 2 3",
            "a{le=1} 2",
            "a{le=\"1\" x=\"2\"} 2",
            "a{=\"1\"} 2",
            "a{le=\"1\",,} 2",
            "a{x y=\"1\"} 2",
        ] {
            assert_eq!(Sample::parse_strictly(line), None, "{line}");
        }
    }

    #[test]
    fn broken_labels_have_no_values() {
        let broken = Sample::parse("a{le=1,x} 2").unwrap();
        assert_eq!((broken.label("le"), broken.label("x")), (None, None));
    }
}
