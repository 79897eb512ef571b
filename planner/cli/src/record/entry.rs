//! A line of the access log: its fields, and the record that they make.

use serde::Deserialize;
use weir_api::plan::HOUR_MS;

/// Maximum length of a class or variant.
const NAME_MAX: usize = 63;

/// Fields of a line that count; others are ignored. Envoy writes `null` or `-` for a header that is missing.
#[derive(Debug, Deserialize)]
struct Raw {
    #[serde(default)]
    start_time: Option<Field>,
    #[serde(default)]
    deadline_ms: Option<Field>,
    #[serde(default)]
    slo_ms: Option<Field>,
    #[serde(default)]
    slo_start: Option<Field>,
    #[serde(default)]
    bytes_received: Option<Field>,
    #[serde(default)]
    class: Option<Field>,
    #[serde(default)]
    min_accuracy: Option<Field>,
    #[serde(default)]
    variant: Option<Field>,
    #[serde(default)]
    response_code: Option<Field>,
}

/// Value of a field: Envoy writes numbers as such where an operator is one alone, and headers as text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Field {
    Number(serde_json::Number),
    Text(String),
}

/// Request as the proxy saw it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// Arrival, µs since the epoch.
    pub(super) arrival_us: i64,
    /// Rest of its budget at that time, in ms.
    pub(super) budget_ms: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) class: Option<String>,
    pub(super) min_accuracy: Option<f64>,
    pub(super) variant: Option<String>,
    pub(super) code: Option<u16>,
}

impl Entry {
    /// Creates a request of which only the arrival and the class are known.
    pub(super) fn arrival(arrival_us: i64, class: Option<String>) -> Entry {
        Entry {
            arrival_us,
            budget_ms: None,
            bytes: None,
            class,
            min_accuracy: None,
            variant: None,
            code: None,
        }
    }

    /// Parses a line.
    ///
    /// # Errors
    /// The field, its value, and what would be right.
    pub(super) fn parse(line: &[u8]) -> Result<Entry, String> {
        let raw: Raw = serde_json::from_slice(line).map_err(|error| {
            let error = error.to_string();
            let error = error
                .split(" at line ")
                .next()
                .unwrap_or_default()
                .to_owned();
            format!("no JSON object with these fields: {error}")
        })?;
        let start = text(raw.start_time).ok_or("start_time: missing; it must be %START_TIME%")?;
        let arrival_us = time(&start).map_err(|right| wrong("start_time", &start, &right))?;
        let deadline_ms: Option<f64> = number("deadline_ms", raw.deadline_ms)?;
        let slo_ms: Option<f64> = number("slo_ms", raw.slo_ms)?;
        let sent = text(raw.slo_start);
        let sent_us = sent.map(|sent| {
            unix_us(&sent).ok_or_else(|| wrong("slo_start", &sent, "Unix time in s, ms, µs or ns"))
        });
        // A send time after the arrival is a wrong clock: the filter counts from the arrival then.
        let on_the_way = sent_us
            .transpose()?
            .map_or(0, |sent_us| (arrival_us - sent_us).max(0));
        let by_deadline = deadline_ms.map(|ms| ms - arrival_us as f64 / 1e3);
        let left_ms = by_deadline.or(slo_ms.map(|ms| ms - on_the_way as f64 / 1e3));
        let hour_ms = HOUR_MS as f64;
        let class = name("class", text(raw.class))?;
        let min_accuracy: Option<f64> = number("min_accuracy", raw.min_accuracy)?;
        if let Some(percent) = min_accuracy.filter(|percent| !(0.0..=100.0).contains(percent)) {
            return Err(wrong(
                "min_accuracy",
                &percent.to_string(),
                "0 to 100 percent",
            ));
        }
        Ok(Entry {
            arrival_us,
            // A request whose time was over has the least budget of a record.
            budget_ms: left_ms.map(|ms| ms.floor().clamp(1.0, hour_ms) as u64),
            bytes: number("bytes_received", raw.bytes_received)?,
            class,
            min_accuracy,
            variant: name("variant", text(raw.variant))?,
            code: number("response_code", raw.response_code)?,
        })
    }
}

/// Reads a time: RFC 3339, as `%START_TIME%` is without a format, or Unix seconds; in µs since the epoch.
pub(super) fn time(text: &str) -> Result<i64, String> {
    let right = "RFC 3339 (2026-01-31T12:00:00.123Z) or Unix seconds (1769860800.123)";
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(time.as_microsecond());
    }
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) {
        return Err(right.to_owned());
    }
    let micros: String = part.chars().chain("000000".chars()).take(6).collect();
    let time = whole.parse::<i64>().ok().zip(micros.parse::<i64>().ok());
    let time =
        time.and_then(|(seconds, micros)| seconds.checked_mul(1_000_000)?.checked_add(micros));
    time.ok_or_else(|| right.to_owned())
}

/// Send time as clients write it: Unix time in s, ms, µs or ns by its size, `t=` before it allowed.
fn unix_us(text: &str) -> Option<i64> {
    let value: f64 = text.trim().trim_start_matches("t=").parse().ok()?;
    let us = match value {
        v if !(1e8..1e20).contains(&v) => return None,
        v if v < 1e11 => v * 1e6,
        v if v < 1e14 => v * 1e3,
        v if v < 1e17 => v,
        v => v / 1e3,
    };
    Some(us as i64)
}

fn text(field: Option<Field>) -> Option<String> {
    let text = match field? {
        Field::Number(number) => number.to_string(),
        Field::Text(text) => text,
    };
    Some(text).filter(|text| !text.is_empty() && text != "-")
}

fn number<T: std::str::FromStr>(name: &str, field: Option<Field>) -> Result<Option<T>, String> {
    let parse = |text: String| {
        let number = text.parse::<T>();
        number.map_err(|_| wrong(name, &text, "a number"))
    };
    text(field).map(parse).transpose()
}

fn name(field: &str, text: Option<String>) -> Result<Option<String>, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match text {
        Some(text) if text.chars().count() > NAME_MAX || !text.chars().all(is_plain) => {
            let right = format!("at most {NAME_MAX} letters, digits, dashes, dots and underscores");
            Err(wrong(field, &text, &right))
        }
        text => Ok(text),
    }
}

fn wrong(field: &str, value: &str, right: &str) -> String {
    let value: String = value.chars().take(80).collect();
    format!("{field}: {value}; it must be {right}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRIVAL_US: i64 = 1_769_860_800_123_000;

    #[test]
    fn times_are_rfc_3339_or_unix_seconds() {
        for text in [
            "2026-01-31T12:00:00.123Z",
            "1769860800.123",
            "1769860800.123000",
            "1769860800.1230009",
        ] {
            assert_eq!(time(text), Ok(ARRIVAL_US), "{text}");
        }
        assert_eq!(time("1769860800"), Ok(ARRIVAL_US - 123_000));
        for text in [
            "",
            "yesterday",
            "-1",
            "1.2.3",
            "2026-01-31",
            "99999999999999999999",
        ] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[track_caller]
    fn budget(fields: &str) -> Option<u64> {
        let line = format!(r#"{{"start_time": "1769860800.123", {fields} "other": [1]}}"#);
        Entry::parse(line.as_bytes()).unwrap().budget_ms
    }

    #[test]
    fn budget_is_what_is_left_at_the_arrival() {
        for (fields, expected) in [
            ("", None),
            (r#""slo_ms": "800","#, Some(800)),
            (r#""slo_ms": 800, "slo_start": null,"#, Some(800)),
            // 100 ms on the way, in ms, and in ns.
            (
                r#""slo_ms": "800", "slo_start": "1769860800023","#,
                Some(700),
            ),
            (
                r#""slo_ms": "800", "slo_start": "t=1769860800023000000","#,
                Some(700),
            ),
            // A clock that is ahead.
            (
                r#""slo_ms": "800", "slo_start": "1769860801000","#,
                Some(800),
            ),
            // What the filter itself wrote counts first.
            (
                r#""slo_ms": "800", "deadline_ms": "1769860800500","#,
                Some(377),
            ),
            (r#""deadline_ms": "1769860800000","#, Some(1)),
            (r#""slo_ms": "-", "deadline_ms": "-","#, None),
        ] {
            assert_eq!(budget(fields), expected, "{fields}");
        }
    }

    #[test]
    fn all_fields_are_read() {
        let line =
            br#"{"start_time": "2026-01-31T12:00:00.123Z", "slo_ms": "250", "bytes_received": 2048,
            "class": "gold", "min_accuracy": "76.5", "variant": "large", "response_code": 200}"#;
        let expected = Entry {
            arrival_us: ARRIVAL_US,
            budget_ms: Some(250),
            bytes: Some(2048),
            class: Some("gold".to_owned()),
            min_accuracy: Some(76.5),
            variant: Some("large".to_owned()),
            code: Some(200),
        };
        assert_eq!(Entry::parse(line), Ok(expected));
    }

    #[test]
    fn wrong_lines_are_refused_with_the_right_form() {
        for (line, parts) in [
            ("", ["no JSON object", "EOF"]),
            ("[2026] \"GET /\" 200", ["no JSON object", "these fields"]),
            ("{}", ["start_time: missing", "%START_TIME%"]),
            (
                r#"{"start_time": "noon"}"#,
                ["start_time: noon", "RFC 3339"],
            ),
            (
                r#"{"start_time": "1", "slo_ms": "soon"}"#,
                ["slo_ms: soon", "a number"],
            ),
            (
                r#"{"start_time": "1", "bytes_received": -1}"#,
                ["bytes_received: -1", "a number"],
            ),
            (
                r#"{"start_time": "1", "class": "a,b"}"#,
                ["class: a,b", "letters"],
            ),
            (
                r#"{"start_time": "1", "min_accuracy": 101}"#,
                ["min_accuracy: 101", "0 to 100"],
            ),
            (
                r#"{"start_time": "1", "slo_start": "3"}"#,
                ["slo_start: 3", "Unix time"],
            ),
        ] {
            let why = Entry::parse(line.as_bytes()).unwrap_err();
            for part in parts {
                assert!(why.contains(part), "{why}: {part}");
            }
        }
    }
}
