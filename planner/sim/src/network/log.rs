//! Measured links from files, in the two formats in which the Ghent 4G/LTE logs (van der Hooft et al.,
//! IEEE Communications Letters 20(11), 2016) are published.
//!
//! * Lines of six columns: epoch ms, ms since the start, latitude, longitude, bytes since the last
//!   line, ms since the last line. They have no latency: [`LOG_ROUND_TRIP`] is assumed.
//! * JSON `[{"duration_ms", "bandwidth_kbps", "latency_ms"}]`; the latency is taken as a round trip.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::{Network, ROUND_TRIP_MAX, SEGMENT_MAX, Segment};

/// Round trip assumed for logs without one; the JSON logs of the same set all have 20 ms.
pub const LOG_ROUND_TRIP: Duration = Duration::from_millis(20);
/// Maximum size of a log file, in bytes.
const FILE_MAX: u64 = 32 * 1024 * 1024;

impl Network {
    /// Reads the link measured in `path`; the first character determines the format.
    ///
    /// # Errors
    /// The file cannot be read or is not a log. The message names file, line and field.
    pub fn from_file(path: &Path) -> anyhow::Result<Network> {
        let name = path.display();
        let size = std::fs::metadata(path)
            .with_context(|| format!("{name}"))?
            .len();
        anyhow::ensure!(
            size <= FILE_MAX,
            "{name}: {size} bytes; at most {FILE_MAX} are read"
        );
        let text = std::fs::read_to_string(path).with_context(|| format!("{name}"))?;
        Network::from_text(&text).with_context(|| format!("{name}"))
    }

    fn from_text(text: &str) -> anyhow::Result<Network> {
        let segments = if text.trim_start().starts_with('[') {
            from_json(text)?
        } else {
            from_lines(text)?
        };
        Network::new(segments)
    }
}

#[derive(Deserialize)]
struct Entry {
    #[serde(deserialize_with = "duration")]
    duration_ms: Duration,
    #[serde(deserialize_with = "bandwidth")]
    bandwidth_kbps: f64,
    #[serde(deserialize_with = "latency")]
    latency_ms: Duration,
}

fn from_json(text: &str) -> anyhow::Result<Vec<Segment>> {
    let mut json = serde_json::Deserializer::from_str(text);
    let entries: Vec<Entry> = serde_path_to_error::deserialize(&mut json)?;
    let segment = |entry: Entry| Segment {
        duration: entry.duration_ms,
        bytes_per_s: entry.bandwidth_kbps * 1000.0 / 8.0,
        round_trip: entry.latency_ms,
    };
    Ok(entries.into_iter().map(segment).collect())
}

/// Reads a JSON number from `min` to `max`.
fn number<'de, D: Deserializer<'de>>(json: D, min: f64, max: f64) -> Result<f64, D::Error> {
    let value = f64::deserialize(json)?;
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    Err(D::Error::custom(format!("{value} must be {min} to {max}")))
}

fn duration<'de, D: Deserializer<'de>>(json: D) -> Result<Duration, D::Error> {
    let ms = number(json, 1.0, SEGMENT_MAX.as_secs_f64() * 1e3)?;
    Ok(Duration::from_secs_f64(ms / 1e3))
}

fn bandwidth<'de, D: Deserializer<'de>>(json: D) -> Result<f64, D::Error> {
    number(json, 0.0, 1e9)
}

fn latency<'de, D: Deserializer<'de>>(json: D) -> Result<Duration, D::Error> {
    let ms = number(json, 0.0, ROUND_TRIP_MAX.as_secs_f64() * 1e3)?;
    Ok(Duration::from_secs_f64(ms / 1e3))
}

fn from_lines(text: &str) -> anyhow::Result<Vec<Segment>> {
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let mut last = None;
    lines
        .map(|(index, line)| {
            from_line(line, &mut last).with_context(|| format!("line {}", index + 1))
        })
        .collect()
}

/// Parses one line; `last` is the time of the line before it. A missing, repeated or misplaced line
/// does not continue from that time and is refused.
fn from_line(line: &str, last: &mut Option<u64>) -> anyhow::Result<Segment> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let [_epoch, since_start, _latitude, _longitude, bytes, ms] = columns.as_slice() else {
        anyhow::bail!("{} columns; there must be 6", columns.len());
    };
    let at: u64 = since_start.parse().with_context(|| {
        format!("column 2 (ms since the start): '{since_start}', not a whole number, 0 or more")
    })?;
    let bytes: u64 = bytes
        .parse()
        .with_context(|| format!("column 5 (bytes since the last line): '{bytes}'"))?;
    let longest = u64::try_from(SEGMENT_MAX.as_millis())?;
    let ms: u64 = ms
        .parse()
        .ok()
        .filter(|ms| (1..=longest).contains(ms))
        .with_context(|| {
            format!("column 6 (ms since the last line): '{ms}', not 1 to {longest}")
        })?;
    if let Some(last) = last.replace(at) {
        anyhow::ensure!(
            last.checked_add(ms) == Some(at),
            "column 2 (ms since the start): {at} must be {ms} (column 6) after the line before it \
             ({last}): lines are missing, twice there or out of order"
        );
    }
    Ok(Segment {
        duration: Duration::from_millis(ms),
        bytes_per_s: bytes as f64 * 1e3 / ms as f64,
        round_trip: LOG_ROUND_TRIP,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_give_bytes_per_second() {
        let lines =
            "1450274031248 725 51.06 3.73 362500 725\n1450274032248 1725 51.06 3.73 0 1000\n";
        let json = r#"[{"duration_ms": 725, "bandwidth_kbps": 4000, "latency_ms": 20},
            {"duration_ms": 1000, "bandwidth_kbps": 0, "latency_ms": 20, "note": "tunnel"}]"#;
        let link = Network::from_text(lines).unwrap();
        assert_eq!(link, Network::from_text(json).unwrap());
        assert_eq!(link.bytes_per_s(Duration::ZERO), 500_000.0);
        assert_eq!(link.length(), Duration::from_millis(1725));
    }

    #[test]
    fn invalid_log_is_refused_with_file_line_and_field() {
        let entry = r#"{"duration_ms": 1000, "bandwidth_kbps": 1, "latency_ms": 20}"#;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link");
        for (text, expected) in [
            ("".to_owned(), vec!["0 segments"]),
            (
                "1 1 51 3 100 1000\n\n1 1 51 3 many 1000".to_owned(),
                vec!["line 3", "column 5", "many"],
            ),
            (
                "1 1 51 3 100 1000\n1 -5 51 3 9 1000".to_owned(),
                vec!["line 2", "column 2", "'-5'"],
            ),
            (
                "1 1 51 3 100 1000\n1 2001 51 3 9 1000".to_owned(),
                vec!["line 2", "column 2", "2001 must be 1000", "(1)", "missing"],
            ),
            (
                "1 1000 51 3 100 1000\n1 1000 51 3 9 1000".to_owned(),
                vec!["line 2", "column 2", "twice there"],
            ),
            (
                "1 2000 51 3 100 1000\n1 1000 51 3 9 1000".to_owned(),
                vec!["line 2", "column 2", "out of order"],
            ),
            (
                "1 1 51 3 100 0".to_owned(),
                vec!["line 1", "column 6", "'0'"],
            ),
            ("1 1 51 3 100".to_owned(), vec!["line 1", "5 columns"]),
            (
                format!("[{entry},\n{{\"duration_ms\": 1}}]"),
                vec!["line 2", "bandwidth_kbps"],
            ),
            (
                format!("[{entry},\n{}]", entry.replace("1000", "-4")),
                vec!["line 2", "[1].duration_ms", "-4"],
            ),
            (
                format!("[{}]", entry.replace("20", "\"x\"")),
                vec!["line 1", "[0].latency_ms"],
            ),
        ] {
            std::fs::write(&path, &text).unwrap();
            let error = format!("{:#}", Network::from_file(&path).unwrap_err());
            for part in expected.iter().chain(&[path.to_str().unwrap()]) {
                assert!(error.contains(part), "'{error}' does not name '{part}'");
            }
        }
        let missing = Network::from_file(&folder.path().join("none")).unwrap_err();
        assert!(format!("{missing:#}").contains("none"));
    }
}
