//! CSV with a header: `cores` and `batch`, and at least one of `mean_ms` and `rps`; percentiles if they are known. A
//! latency may be in `_us`, `_ms` or `_s`.

use csv::{ReaderBuilder, StringRecord, Trim};

use super::{Given, Imported};
use crate::ProfileError;
use crate::measurement::Measurement;

/// Maximum number of rows that count.
pub const ROWS_MAX: usize = 1024;

/// Units of latencies, in ms.
const UNITS: [(&str, f64); 3] = [("ms", 1.0), ("us", 1e-3), ("s", 1e3)];
/// Latencies of a row.
const LATENCIES: [&str; 4] = ["mean", "p80", "p95", "p99"];

/// Names of a table's columns, and the rows that count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    /// Our name and theirs, such as `cores` and `cpu`.
    pub names: Vec<(String, String)>,
    /// Column and value that a row must have, or one of a column's values.
    pub only: Vec<(String, String)>,
}

struct Table<'a> {
    header: &'a StringRecord,
    columns: &'a Columns,
}

impl Table<'_> {
    /// Returns the column of that name of ours.
    fn column(&self, ours: &str) -> Option<usize> {
        let renamed = self.columns.names.iter().find(|(name, _)| name == ours);
        let theirs = renamed.map_or(ours, |(_, theirs)| theirs.as_str());
        self.header.iter().position(|name| name == theirs)
    }

    /// Returns the column and the factor to ms of a latency.
    fn latency(&self, name: &str) -> Option<(usize, f64)> {
        let found = |(unit, factor): &(&str, f64)| {
            let column = self.column(&format!("{name}_{unit}"))?;
            Some((column, *factor))
        };
        UNITS.iter().find_map(found)
    }

    fn header(&self) -> String {
        self.header.iter().collect::<Vec<_>>().join(",")
    }
}

pub(super) fn import(text: &str, given: &Given) -> Result<Imported, ProfileError> {
    let mut reader = ReaderBuilder::new()
        .trim(Trim::All)
        .comment(Some(b'#'))
        .from_reader(text.as_bytes());
    let failed = |error: csv::Error| ProfileError(format!("{error}; it must be a CSV table"));
    let header = reader.headers().map_err(failed)?.clone();
    let table = Table {
        header: &header,
        columns: &given.columns,
    };
    for (ours, theirs) in &given.columns.names {
        let right = ["cores", "batch", "rps"].into_iter().map(str::to_owned);
        let of_unit = |(unit, _): &(&str, f64)| LATENCIES.map(|name| format!("{name}_{unit}"));
        let mut right = right.chain(UNITS.iter().flat_map(of_unit));
        if !right.any(|name| name == *ours) {
            return Err(ProfileError(format!(
                "--column {ours}={theirs}: the first must be cores, batch, rps, or one of mean, p80, p95, p99 with _us, _ms or _s"
            )));
        }
        if table.column(ours).is_none() {
            return Err(missing(
                theirs,
                &table,
                &format!("--column {ours}={theirs}"),
            ));
        }
    }
    let only = given.columns.only.iter().map(|(name, value)| {
        let at = header.iter().position(|one| one == name);
        let at = at.ok_or_else(|| missing(name, &table, &format!("--where {name}={value}")))?;
        Ok((at, value.as_str()))
    });
    let only: Vec<(usize, &str)> = only.collect::<Result<_, ProfileError>>()?;
    let latencies = LATENCIES.map(|name| table.latency(name));
    let (cores, batch, rps) = (
        table.column("cores"),
        table.column("batch"),
        table.column("rps"),
    );
    let [mean, ..] = latencies;
    if mean.is_none() && rps.is_none() {
        return Err(missing("mean_ms", &table, "neither latency nor rps"));
    }
    let mut measurements = Vec::new();
    for record in reader.records() {
        let record = record.map_err(failed)?;
        let line = record.position().map_or(0, csv::Position::line);
        // Several values of one column stand for any of them.
        let is_one = |at: usize| {
            let mut values = only.iter().filter(|(column, _)| *column == at);
            values.any(|(_, value)| record.get(at) == Some(value))
        };
        if !only.iter().all(|(at, _)| is_one(*at)) {
            continue;
        }
        let number = |column: Option<usize>, factor: f64| -> Result<Option<f64>, ProfileError> {
            let Some(column) = column else {
                return Ok(None);
            };
            let text = record.get(column).unwrap_or_default();
            let name = header.get(column).unwrap_or_default();
            if text.is_empty() {
                return Ok(None);
            }
            let value: f64 = text.parse().map_err(|_| {
                ProfileError(format!("line {line}, {name}: {text}; it must be a number"))
            })?;
            Ok(Some(value * factor))
        };
        let [mean_ms, p80_ms, p95_ms, p99_ms] = latencies.map(|found| match found {
            Some((column, factor)) => number(Some(column), factor),
            None => Ok(None),
        });
        let size = number(batch, 1.0)?.unwrap_or(given.batch.into());
        if size.fract() != 0.0 || !(1.0..=65_536.0).contains(&size) {
            let text = format!("line {line}, batch: {size}; it must be a whole number, 1 to 65536");
            return Err(ProfileError(text));
        }
        let measurement = Measurement {
            cores: number(cores, 1.0)?.unwrap_or(given.cores),
            batch: size as u32,
            mean_ms: mean_ms?,
            p80_ms: p80_ms?,
            p95_ms: p95_ms?,
            p99_ms: p99_ms?,
            rps: number(rps, 1.0)?,
            ..Measurement::default()
        };
        measurement.check(&format!("line {line}"))?;
        if measurement.mean_ms.is_none() && measurement.rps.is_none() {
            let text = format!("line {line}: no mean latency and no rps; it must have one of them");
            return Err(ProfileError(text));
        }
        measurements.push(measurement);
        if measurements.len() > ROWS_MAX {
            let text = format!("more than {ROWS_MAX} rows; it must be at most that");
            return Err(ProfileError(text));
        }
    }
    if measurements.is_empty() {
        return Err(ProfileError("no row; it must be one or more".to_owned()));
    }
    Ok(Imported {
        measurements,
        ..Imported::default()
    })
}

fn missing(name: &str, table: &Table<'_>, about: &str) -> ProfileError {
    let header = table.header();
    ProfileError(format!("{about}: no column {name}; the header is {header}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(names: &[(&str, &str)], only: &[(&str, &str)]) -> Given {
        let owned = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect()
        };
        Given {
            cores: 2.0,
            batch: 4,
            columns: Columns {
                names: owned(names),
                only: owned(only),
            },
            ..Given::default()
        }
    }

    #[test]
    fn own_columns_and_renamed_ones_of_other_units_are_read() {
        let ours = "cores,batch,mean_ms,p99_ms,rps\n1,1,40,52,\n# a comment\n0.5, 2 ,80.5,,24\n";
        let found = import(ours, &given(&[], &[])).unwrap().measurements;
        let first = Measurement {
            cores: 1.0,
            batch: 1,
            mean_ms: Some(40.0),
            p99_ms: Some(52.0),
            ..Measurement::default()
        };
        let second = Measurement {
            cores: 0.5,
            batch: 2,
            mean_ms: Some(80.5),
            rps: Some(24.0),
            ..Measurement::default()
        };
        assert_eq!(found, [first, second]);
        let theirs = "arch,cpu,seconds\n18,8,0.25\n50,8,9\n";
        let names = [("cores", "cpu"), ("mean_s", "seconds")];
        let found = import(theirs, &given(&names, &[("arch", "18")]))
            .unwrap()
            .measurements;
        assert_eq!((found.len(), found[0].cores, found[0].batch), (1, 8.0, 4));
        assert_eq!(found[0].mean_ms, Some(250.0));
        let any = [("arch", "18"), ("arch", "50"), ("cpu", "8")];
        let found = import(theirs, &given(&names, &any)).unwrap().measurements;
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn wrong_tables_are_refused_with_line_and_column() {
        for (text, names, only, expected) in [
            (
                "",
                &[][..],
                &[][..],
                "neither latency nor rps: no column mean_ms; the header is ",
            ),
            (
                "cores,batch\n1,1\n",
                &[],
                &[],
                "neither latency nor rps: no column mean_ms; the header is cores,batch",
            ),
            (
                "cores,mean_ms\n",
                &[],
                &[],
                "no row; it must be one or more",
            ),
            (
                "cores,mean_ms\n1,many\n",
                &[],
                &[],
                "line 2, mean_ms: many; it must be a number",
            ),
            (
                "cores,mean_ms\n1,40\n1,NaN\n",
                &[],
                &[],
                "line 3, mean_ms: NaN; it must be",
            ),
            (
                "cores,mean_ms\n0,40\n",
                &[],
                &[],
                "line 2, cores: 0; it must be",
            ),
            (
                "cores,batch,mean_ms\n1,1.5,40\n",
                &[],
                &[],
                "line 2, batch: 1.5; it must be a whole",
            ),
            (
                "cores,mean_ms\n1,\n",
                &[],
                &[],
                "line 2: no mean latency and no rps",
            ),
            (
                "cores,mean_ms\n1,4,5\n",
                &[],
                &[],
                "CSV error: record 1 (line: 2",
            ),
            (
                "cores,mean_ms\n1,4\n",
                &[("cores", "cpu")],
                &[],
                "--column cores=cpu: no column cpu; the header is cores,mean_ms",
            ),
            (
                "cores,mean_ms\n1,4\n",
                &[("cpu", "cores")],
                &[],
                "--column cpu=cores: the first must be",
            ),
            (
                "cores,mean_ms\n1,4\n",
                &[],
                &[("arch", "18")],
                "--where arch=18: no column arch",
            ),
            (
                "cores,mean_ms\n1,4\n",
                &[],
                &[("cores", "2")],
                "no row; it must be",
            ),
        ] {
            let error = import(text, &given(names, only)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        let many = format!("cores,mean_ms\n{}", "1,4\n".repeat(ROWS_MAX + 1));
        let error = import(&many, &given(&[], &[])).unwrap_err().to_string();
        assert_eq!(error, "more than 1024 rows; it must be at most that");
    }
}
