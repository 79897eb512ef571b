//! One line of the Prometheus text format, read without allocation: name, labels and value. Whether the planner needs
//! the line is left to the caller.

/// Value of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample<'a> {
    /// Name with its suffix, such as `_bucket`.
    pub(super) name: &'a str,
    labels: &'a str,
    /// Value, which may be infinite or no number.
    pub(super) value: f64,
}

impl<'a> Sample<'a> {
    /// Parses a line; `None` if it is none of a series. A timestamp is ignored.
    pub(super) fn parse(line: &'a str) -> Option<Sample<'a>> {
        let ends = |byte: u8| byte == b'{' || byte.is_ascii_whitespace();
        let end = line.bytes().position(ends)?;
        let (name, rest) = line.split_at_checked(end)?;
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => rest.split_at_checked(closing(rest)?)?,
            None => ("", rest),
        };
        let rest = rest.strip_prefix('}').unwrap_or(rest);
        let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
        Some(Sample {
            name,
            labels,
            value,
        })
    }

    /// Returns the value of a label as it is written, escapes included.
    pub(super) fn label(&self, name: &str) -> Option<&'a str> {
        let mut rest = self.labels;
        loop {
            let (before, after) = rest.split_once("=\"")?;
            let (value, after) = after.split_at_checked(quote(after)?)?;
            if before.trim_start_matches([',', ' ']) == name {
                return Some(value);
            }
            rest = after.strip_prefix('"')?;
        }
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
        let broken = Sample::parse("a{le=1,x} 2").unwrap();
        assert_eq!((broken.label("le"), broken.label("x")), (None, None));
    }
}
