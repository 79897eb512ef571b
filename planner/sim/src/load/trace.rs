//! Trace files: the number of requests that arrived in each second.
//!
//! Four forms are read: one number per line; all numbers on one line, separated by spaces; CSV with a
//! header, whose column a key selects unless there is one alone; JSON. The JSON is an array, an object
//! with such an array as `rps`, or an object of such objects, one of which a key selects. A file whose name ends in `.gz` is decompressed. A missing second (a blank line,
//! `null`) is refused, because it would shift everything after it; a second without requests is a 0. So is a CSV file with
//! a column of times (`second`, `seconds`, `time` or `timestamp`) in which a row is not one second after the row before.

mod steps;

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use flate2::read::MultiGzDecoder;

use super::{RATE_MAX_RPS, Rates};
use steps::Steps;

/// Maximum size of a trace file, in bytes, decompressed.
pub const TRACE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Names of a CSV column that has the time of each row.
const TIME_COLUMNS: [&str; 4] = ["second", "seconds", "time", "timestamp"];
/// Maximum length of a trace, in seconds: eight weeks. A run is a part of it.
pub const TRACE_SECONDS_MAX: usize = 56 * 86_400;

/// Several traces in one file, of which no key names one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnnamedTrace {
    /// Content of the file.
    pub found: &'static str,
    /// Keys that it has.
    pub keys: String,
}

impl Display for UnnamedTrace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}; name one of {}", self.found, self.keys)
    }
}

impl Error for UnnamedTrace {}

impl Rates {
    /// Reads the whole trace in `path`; the key of an object of objects follows a `#` in the path.
    ///
    /// # Errors
    /// As [`read_trace`] and [`Rates::new`].
    pub fn from_file(path: &Path) -> anyhow::Result<Rates> {
        let whole = path.to_string_lossy();
        let (file, key) = match whole.rsplit_once('#') {
            Some((file, key)) if !path.exists() => (Path::new(file).to_owned(), Some(key)),
            _ => (path.to_owned(), None),
        };
        let rates = read_trace(&file, key)?;
        Rates::new(rates).with_context(|| format!("{}", file.display()))
    }
}

/// Reads the trace in `path`, in requests/s for each second; `key` selects one of several in a JSON
/// object, or a column of a CSV file.
///
/// # Errors
/// The file cannot be read or is not a trace. The message names file, line or second, value and the
/// valid form.
pub fn read_trace(path: &Path, key: Option<&str>) -> anyhow::Result<Vec<f64>> {
    let read = || parse_trace(&read_bounded(path, TRACE_BYTES_MAX)?, key);
    read().with_context(|| format!("{}", path.display()))
}

/// Parses the text of a trace, in requests/s for each second; `key` selects one of several.
///
/// # Errors
/// The text is not a trace. The message names line or second, value and the valid form.
pub fn parse_trace(text: &str, key: Option<&str>) -> anyhow::Result<Vec<f64>> {
    let rates = match text.trim_start().starts_with(['[', '{']) {
        true => from_json(text, key)?,
        false if key.is_some() || has_header(text) => from_csv(text, key)?,
        false => from_text(text)?,
    };
    let seconds = rates.len();
    anyhow::ensure!(
        (1..=TRACE_SECONDS_MAX).contains(&seconds),
        "{seconds} seconds; there must be 1 to {TRACE_SECONDS_MAX}"
    );
    Ok(rates)
}

/// Reads the text of a file of at most `bytes_max`, decompressed if its name ends in `.gz`.
///
/// # Errors
/// The file cannot be read, is larger, or is not UTF-8.
pub fn read_bounded(path: &Path, bytes_max: u64) -> anyhow::Result<String> {
    let file = File::open(path)?;
    let packed = path.extension().is_some_and(|extension| extension == "gz");
    let mut text = String::new();
    // One byte above the limit tells a file that is too long from one that just fits.
    let read = if packed {
        let unpacked = MultiGzDecoder::new(file).take(bytes_max + 1);
        { unpacked }.read_to_string(&mut text)
    } else {
        file.take(bytes_max + 1).read_to_string(&mut text)
    };
    let bytes = read? as u64;
    anyhow::ensure!(bytes <= bytes_max, "more than {bytes_max} bytes");
    Ok(text)
}

fn rate(value: f64) -> Option<f64> {
    (0.0..=RATE_MAX_RPS).contains(&value).then_some(value)
}

fn from_text(text: &str) -> anyhow::Result<Vec<f64>> {
    let body = text.trim_end();
    let one_line = !body.contains('\n');
    let values: Vec<&str> = if one_line {
        body.split_whitespace().collect()
    } else {
        body.lines().map(str::trim).collect()
    };
    let read = |(index, value): (usize, &&str)| {
        let parsed = value.parse().ok().and_then(rate);
        parsed.with_context(|| {
            let place = if one_line { "second" } else { "line" };
            // Seconds count from 0, lines from 1.
            let at = if one_line { index } else { index + 1 };
            let value = if value.is_empty() { "nothing" } else { value };
            format!("{place} {at}: '{value}' must be 0 to {RATE_MAX_RPS} requests/s")
        })
    };
    values.iter().enumerate().map(read).collect()
}

/// Whether the first line is the header of a CSV file: its first cell is a name.
fn has_header(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let cell = first.split(',').next().unwrap_or_default().trim();
    cell.starts_with(|c: char| c.is_alphabetic() || "\"_".contains(c))
        && cell.parse::<f64>().is_err()
}

fn from_csv(text: &str, key: Option<&str>) -> anyhow::Result<Vec<f64>> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let header = reader.headers()?.clone();
    let columns: Vec<&str> = header.iter().collect();
    let column = match (key, &columns[..]) {
        (Some(key), _) => {
            let found = columns.iter().position(|column| *column == key);
            found.with_context(|| {
                format!(
                    "no column '{key}'; it must be one of {}",
                    columns.join(", ")
                )
            })?
        }
        (None, [_]) => 0,
        (None, _) => anyhow::bail!(UnnamedTrace {
            found: "several columns",
            keys: columns.join(", "),
        }),
    };
    let mut rates = Vec::new();
    let is_time = |(at, name): (usize, &&str)| at != column && TIME_COLUMNS.contains(name);
    let times = columns.iter().enumerate().position(is_time);
    let mut steps = Steps::default();
    for row in reader.records() {
        let row = row?;
        if let Some((name, cell)) = times.and_then(|at| columns.get(at).zip(row.get(at))) {
            steps.check(cell).with_context(|| {
                let line = row.position().map_or(0, csv::Position::line);
                format!("line {line}: {name}")
            })?;
        }
        let value = row.get(column).unwrap_or_default();
        rates.push(value.parse().ok().and_then(rate).with_context(|| {
            let line = row.position().map_or(0, csv::Position::line);
            let value = if value.is_empty() { "nothing" } else { value };
            format!("line {line}: '{value}' must be 0 to {RATE_MAX_RPS} requests/s")
        })?);
    }
    Ok(rates)
}

fn from_json(text: &str, key: Option<&str>) -> anyhow::Result<Vec<f64>> {
    let json: serde_json::Value = serde_json::from_str(text)?;
    let keys = || {
        let keys = json.as_object().map(|object| object.keys());
        let keys: Vec<_> = keys.into_iter().flatten().map(String::as_str).collect();
        keys.join(", ")
    };
    let part = match key {
        Some(key) => json
            .get(key)
            .with_context(|| format!("there is no '{key}' in it; it has {}", keys()))?,
        None => &json,
    };
    let array = part.get("rps").unwrap_or(part).as_array();
    let array = array.ok_or_else(|| UnnamedTrace {
        found: "neither an array nor an object with 'rps'",
        keys: keys(),
    })?;
    let read = |(second, value): (usize, &serde_json::Value)| {
        let parsed = value.as_f64().and_then(rate);
        parsed.with_context(|| {
            format!("second {second}: {value} must be 0 to {RATE_MAX_RPS} requests/s")
        })
    };
    array.iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn all_forms_read_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        for text in [
            "3\n5\n4\n",
            "3 5 4\n",
            "3 5 4",
            "3\r\n5\r\n4\r\n\n",
            "[3, 5, 4]",
            r#"{"rps": [3, 5, 4], "note": 1}"#,
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read_trace(&path, None).unwrap(), [3.0, 5.0, 4.0], "{text}");
        }
        let packed = folder.path().join("trace.txt.gz");
        let file = File::create(&packed).unwrap();
        let mut gz = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        gz.write_all(b"3 5 4").unwrap();
        gz.finish().unwrap();
        assert_eq!(read_trace(&packed, None).unwrap(), [3.0, 5.0, 4.0]);
        std::fs::write(&path, r#"{"bursty": {"rps": [7]}, "flat": [8]}"#).unwrap();
        let keyed = |key| Rates::from_file(&folder.path().join(format!("trace#{key}")));
        assert_eq!(keyed("bursty").unwrap().rps(), [7.0]);
        assert_eq!(keyed("flat").unwrap().rps(), [8.0]);
        for (text, key) in [
            ("rps\n3\n5\n", None),
            ("second,rps\n0,3\n1,5\n", Some("rps")),
            (" rps ,\"a, b\"\r\n 3 , 9\r\n5,8\r\n", Some("rps")),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read_trace(&path, key).unwrap(), [3.0, 5.0], "{text}");
        }
        std::fs::write(&path, r#"{"bursty": {"rps": [7]}, "flat": [8]}"#).unwrap();
        let error = format!("{:#}", keyed("calm").unwrap_err());
        assert!(
            error.contains("'calm'") && error.contains("bursty, flat"),
            "{error}"
        );
    }

    #[test]
    fn invalid_trace_is_refused_with_file_place_and_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        for (text, message) in [
            ("", "0 seconds"),
            ("3\nx", "line 2: 'x'"),
            ("3\n-1", "line 2: '-1' must be 0 to 100000"),
            ("3\n\n4", "line 2: 'nothing'"),
            ("3\n4 5\n", "line 2: '4 5'"),
            ("3\nNaN", "line 2: 'NaN'"),
            ("3 inf 4", "second 1: 'inf'"),
            ("3 1e6", "second 1: '1e6'"),
            ("[3, \"x\"]", "second 1: \"x\""),
            ("[3, null]", "second 1: null"),
            ("[3,", "line 1"),
            ("{}", "'rps'"),
            ("a,b\n1,2", "several columns; name one of a, b"),
            ("a\n1\nx", "line 3: 'x' must be 0 to 100000"),
            ("a\n1\n-2", "line 3: '-2' must be"),
            ("a\n1\nnan", "line 3: 'nan' must be"),
            ("a\n1,2", "found record with 2 fields"),
            ("_a,b\n1\n", "several columns"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = format!("{:#}", read_trace(&path, None).unwrap_err());
            assert!(
                error.contains(message) && error.contains("trace"),
                "{error}"
            );
        }
        for (times, message) in [
            (
                ["0", "1", "2", "4"],
                "line 5: time: 4 after 2; rows must be",
            ),
            (["0", "1", "2", "1"], "line 5: time: 1 after 2;"),
            (["5", "5", "6", "7"], "line 3: time: 5 after 5;"),
            (["7", "6", "5", "4"], "line 3: time: 6 after 7;"),
            (
                ["0", "1000", "2000", "2001"],
                "line 5: time: 2001 after 2000;",
            ),
            (["0", "1", "2", "NaN"], "line 5: time: NaN after 2;"),
            // Good ones: a bad value further on is found.
            (["0", "1.02", "1.97", "3"], "line 6"),
            (
                [
                    "1700000000000",
                    "1700000001000",
                    "1700000002000",
                    "1700000003001",
                ],
                "line 6",
            ),
            (
                ["2026-01-01", "2026-01-02", "2026-01-04", "2026-01-03"],
                "line 6",
            ),
        ] {
            let rows = times.map(|time| format!("3,{time}\n")).concat();
            std::fs::write(&path, format!("rps,time\n{rows}x,\n")).unwrap();
            let error = format!("{:#}", read_trace(&path, Some("rps")).unwrap_err());
            assert!(error.contains(message), "{times:?}: {error}");
        }
        std::fs::write(&path, "a,b\n1,\n").unwrap();
        for (key, message) in [
            ("b", "line 2: 'nothing'"),
            ("c", "no column 'c'; it must be one of a, b"),
        ] {
            let error = format!("{:#}", read_trace(&path, Some(key)).unwrap_err());
            assert!(error.contains(message), "{error}");
        }
        std::fs::write(folder.path().join("trace.gz"), "3 4").unwrap();
        assert!(read_trace(&folder.path().join("trace.gz"), None).is_err());
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_bounded(&path, 5).unwrap(), "12345");
        assert!(
            read_bounded(&path, 4)
                .unwrap_err()
                .to_string()
                .contains("4 bytes")
        );
    }
}
