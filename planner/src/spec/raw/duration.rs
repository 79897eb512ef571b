//! Durations as Kubernetes and Go write them: `250ms`, `1m30s`. Never negative.

use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Text of a refusal.
const RIGHT: &str = "a duration such as 250ms or 1s";
/// Units, in ns.
const UNITS: [(&str, u128); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
/// Digits after the point that count.
const FRACTION_DIGITS: usize = 18;

/// A duration, as a text of numbers with units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RawDuration(pub Duration);

impl RawDuration {
    /// Rounds to whole ns; a time in ms that is no duration counts as none.
    pub fn from_ms(ms: f64) -> RawDuration {
        RawDuration(Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default())
    }

    /// Returns the duration in ms.
    pub fn as_ms(self) -> f64 {
        self.0.as_nanos() as f64 / 1e6
    }

    /// Parses a text; a duration that is too long to be represented becomes the longest.
    fn parse(text: &str) -> Option<RawDuration> {
        let mut nanos: u128 = 0;
        let mut rest = text;
        loop {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
            let (number, after) = rest.split_at_checked(end)?;
            let end = after.find(|c: char| !c.is_ascii_alphabetic());
            let (unit, after) = after.split_at_checked(end.unwrap_or(after.len()))?;
            let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
            nanos = nanos.saturating_add(amount(number, *unit)?);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
        let below = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
        Some(RawDuration(Duration::new(seconds, below)))
    }
}

/// A decimal number of units, in ns.
fn amount(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: u128 = whole.parse().unwrap_or(u128::MAX);
    let fraction: String = fraction.chars().take(FRACTION_DIGITS).collect();
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction: u128 = fraction.parse().ok()?;
    Some(
        whole
            .saturating_mul(unit)
            .saturating_add(fraction * unit / scale),
    )
}

impl fmt::Display for RawDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        if seconds == 0 && nanos > 0 {
            return decimal(f, (nanos / 1_000_000).into(), nanos % 1_000_000, 6, "ms");
        }
        let (hours, minutes, left) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        for (number, unit) in [(hours, "h"), (minutes, "m")] {
            if number > 0 {
                write!(f, "{number}{unit}")?;
            }
        }
        if left > 0 || nanos > 0 || seconds == 0 {
            decimal(f, left, nanos, 9, "s")?;
        }
        Ok(())
    }
}

fn decimal(
    f: &mut fmt::Formatter<'_>,
    whole: u64,
    fraction: u32,
    digits: usize,
    unit: &str,
) -> fmt::Result {
    let fraction = format!("{fraction:0digits$}");
    match fraction.trim_end_matches('0') {
        "" => write!(f, "{whole}{unit}"),
        fraction => write!(f, "{whole}.{fraction}{unit}"),
    }
}

impl Serialize for RawDuration {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl JsonSchema for RawDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": 32,
            "pattern": r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$",
        })
    }
}

impl<'de> Deserialize<'de> for RawDuration {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = RawDuration;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(RIGHT)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                let refused = || E::custom(format_args!("{text}; it must be {RIGHT}"));
                RawDuration::parse(text).ok_or_else(refused)
            }
        }
        // Of YAML, a number comes as its text.
        from.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, nanos, written) in [
            ("1s", 1_000_000_000, "1s"),
            ("250ms", 250_000_000, "250ms"),
            ("1000ms", 1_000_000_000, "1s"),
            ("1m30s", 90_000_000_000, "1m30s"),
            ("90s", 90_000_000_000, "1m30s"),
            ("300s", 300_000_000_000, "5m"),
            ("1h", 3_600_000_000_000, "1h"),
            ("1h1s", 3_601_000_000_000, "1h1s"),
            ("1.5s", 1_500_000_000, "1.5s"),
            ("87.3ms", 87_300_000, "87.3ms"),
            ("100us", 100_000, "0.1ms"),
            ("1ns", 1, "0.000001ms"),
            ("0s", 0, "0s"),
            ("0.0000000000000000000001ns", 0, "0s"),
        ] {
            let read = RawDuration::parse(text).unwrap();
            assert_eq!(read.0.as_nanos(), nanos, "{text}");
            assert_eq!(read.to_string(), written, "{text}");
            assert_eq!(RawDuration::parse(written), Some(read), "{written}");
        }
        let endless = RawDuration::parse("99999999999999999999999999999999999999999h").unwrap();
        assert_eq!(endless.0.as_secs(), u64::MAX);
    }

    #[test]
    fn text_without_unit_or_number_is_refused() {
        for text in [
            "", "1", "s", "-1s", "+1s", "1 s", "1.s", ".5s", "1.5.5s", "1d", "soon", "1s2", "1S",
            "PT1S", "∞s", "1µ",
        ] {
            assert_eq!(RawDuration::parse(text), None, "{text}");
        }
    }

    #[test]
    fn refusal_names_value_and_an_example() {
        for (yaml, value) in [
            ("1000", "1000"),
            ("-1", "-1"),
            ("1.5", "1.5"),
            ("soon", "soon"),
        ] {
            let error = serde_saphyr::from_str::<RawDuration>(yaml).unwrap_err();
            let error = error.to_string();
            let expected = format!("{value}; it must be a duration such as 250ms or 1s");
            assert!(error.contains(&expected), "{error}");
        }
        let error = serde_json::from_str::<RawDuration>("1000")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("`1000`, expected a duration such as 250ms or 1s"),
            "{error}"
        );
    }

    #[test]
    fn schema_accepts_the_same_texts() {
        let schema = RawDuration::json_schema(&mut SchemaGenerator::default());
        assert_eq!(schema.get("type"), Some(&"string".into()));
        for ms in [0.0, 0.001, 1.0, 87.3, 1e3, 61_500.0, 3.6e6, f64::NAN] {
            let text = RawDuration::from_ms(ms).to_string();
            assert_eq!(
                RawDuration::parse(&text),
                Some(RawDuration::from_ms(ms)),
                "{text}"
            );
        }
    }
}
