//! CSV report of Triton's `perf_analyzer --concurrency-range 1:8 -f FILE`: throughput and latency in µs by requests in
//! flight. As in our own measurement, a server that is busy with n batches executes one in n · 1000 / (batches per
//! second) ms.

use std::num::NonZeroU32;

use csv::{ReaderBuilder, StringRecord, Trim};
use weir_solve::latency_model::Parallelism;

use super::{Given, Imported, ROWS_MAX};
use crate::ProfileError;
use crate::measurement::Measurement;
use crate::sweep;

/// Parts of the mean latency. Older versions have one column for the server's computation.
const PARTS: [&str; 8] = [
    "Client Send",
    "Network+Server Send/Recv",
    "Server Queue",
    "Server Compute",
    "Server Compute Input",
    "Server Compute Infer",
    "Server Compute Output",
    "Client Recv",
];

struct Row {
    concurrency: u32,
    rps: f64,
    mean_ms: f64,
    p95_ms: Option<f64>,
    p99_ms: Option<f64>,
}

pub(super) fn import(text: &str, given: &Given) -> Result<Imported, ProfileError> {
    let mut reader = ReaderBuilder::new()
        .trim(Trim::All)
        .from_reader(text.as_bytes());
    let failed = |error: csv::Error| {
        let right = "it must be the CSV that perf_analyzer -f writes";
        ProfileError(format!("{error}; {right}"))
    };
    let header = reader.headers().map_err(failed)?.clone();
    for needed in ["Concurrency", "Inferences/Second", "Client Send"] {
        if !header.iter().any(|name| name == needed) {
            let header = header.iter().collect::<Vec<_>>().join(",");
            return Err(ProfileError(format!(
                "no column {needed}; the header is {header}; it must be the CSV of perf_analyzer --concurrency-range 1:8 -f FILE"
            )));
        }
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(failed)?;
        rows.push(row(&header, &record)?);
        if rows.len() > ROWS_MAX {
            let text = format!("more than {ROWS_MAX} rows; it must be at most that");
            return Err(ProfileError(text));
        }
    }
    let rate = |row: &Row| sweep::Rate {
        concurrency: row.concurrency,
        per_s: row.rps,
        half_width_percent: 0.0,
        p95_ms: row.p95_ms.unwrap_or_default(),
    };
    let rates: Vec<sweep::Rate> = rows.iter().map(rate).collect();
    let busy = sweep::busy(&rates).and_then(NonZeroU32::new);
    let busy = busy.ok_or_else(|| ProfileError("no row; it must be one or more".to_owned()))?;
    let row = rows.iter().find(|row| row.concurrency == busy.get());
    let row = row.ok_or_else(|| ProfileError("no row; it must be one or more".to_owned()))?;
    let batches_per_s = row.rps / f64::from(given.batch);
    let mean_ms = f64::from(busy.get()) * 1e3 / batches_per_s;
    // Percentiles are of the client's latency, so they are taken by their ratio to its mean.
    let of_batch = |ms: f64| mean_ms * ms / row.mean_ms;
    let mut notes = vec![format!(
        "the server is busy with {busy} in flight of {} measured",
        rows.len()
    )];
    let most = rows.iter().map(|row| row.concurrency).max().unwrap_or(1);
    if most == busy.get() && sweep::grows(&rates) {
        notes.push(format!(
            "throughput still grows at {most} in flight: a greater --concurrency-range may show more"
        ));
    }
    Ok(Imported {
        measurements: vec![Measurement {
            cores: given.cores,
            batch: given.batch,
            mean_ms: Some(mean_ms),
            p95_ms: row.p95_ms.map(of_batch),
            p99_ms: row.p99_ms.map(of_batch),
            rps: Some(row.rps),
            ..Measurement::default()
        }],
        parallelism: Some(Parallelism::Fixed(busy)),
        notes,
    })
}

fn row(header: &StringRecord, record: &StringRecord) -> Result<Row, ProfileError> {
    let line = record.position().map_or(0, csv::Position::line);
    let number = |name: &str| {
        let Some(text) = header
            .iter()
            .position(|one| one == name)
            .and_then(|at| record.get(at))
        else {
            return Ok(None);
        };
        let value = text.parse::<f64>().ok();
        let value = value.filter(|value| value.is_finite() && *value >= 0.0);
        let wrong = || format!("line {line}, {name}: {text}; it must be a number, 0 or more");
        value.ok_or_else(|| ProfileError(wrong())).map(Some)
    };
    let mut mean_us = 0.0;
    for part in PARTS {
        mean_us += number(part)?.unwrap_or_default();
    }
    let at = |name: &str| Ok::<_, ProfileError>(number(name)?.map(|us| us / 1e3));
    let row = Row {
        concurrency: number("Concurrency")?.unwrap_or_default() as u32,
        rps: number("Inferences/Second")?.unwrap_or_default(),
        mean_ms: mean_us / 1e3,
        p95_ms: at("p95 latency")?,
        p99_ms: at("p99 latency")?,
    };
    let wrong = |name: &str, value: f64| {
        Err(ProfileError(format!(
            "line {line}, {name}: {value}; it must be more than 0"
        )))
    };
    if row.concurrency == 0 {
        return wrong("Concurrency", 0.0);
    }
    if row.rps <= 0.0 {
        return wrong("Inferences/Second", row.rps);
    }
    if row.mean_ms <= 0.0 {
        return wrong("mean latency (the sum of its parts)", row.mean_ms);
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,\
        Server Compute Input,Server Compute Infer,Server Compute Output,Client Recv,\
        p50 latency,p90 latency,p95 latency,p99 latency\n";
    /// One execution at a time of 10 ms, with 1 ms around it; rows by rising throughput, as the program sorts them.
    const ROWS: &str = "1,80,200,700,100,100,9800,100,1000,12000,12500,13000,15000\n\
        2,99,200,800,8000,100,9800,100,1000,20000,21000,22000,24000\n\
        4,100,200,800,28000,100,9800,100,1000,40000,41000,44000,48000\n";

    fn given(batch: u32) -> Given {
        Given {
            cores: 2.0,
            batch,
            ..Given::default()
        }
    }

    #[test]
    fn smallest_busy_concurrency_gives_time_and_parallelism() {
        let found = import(&format!("{HEADER}{ROWS}"), &given(1)).unwrap();
        assert_eq!(
            found.parallelism,
            NonZeroU32::new(2).map(Parallelism::Fixed)
        );
        // 100 of 99 is no growth.
        assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
        let [one] = found.measurements.as_slice() else {
            panic!("{found:?}");
        };
        let mean_ms = 2000.0 / 99.0;
        let near = |value: Option<f64>, expected: f64| (value.unwrap() - expected).abs() < 1e-9;
        assert!(
            near(one.mean_ms, mean_ms) && near(one.p99_ms, mean_ms * 24.0 / 20.0),
            "{one:?}"
        );
        assert_eq!((one.cores, one.rps), (2.0, Some(99.0)));
        // Inferences are rows, not batches.
        let found = import(&format!("{HEADER}{ROWS}"), &given(4))
            .unwrap()
            .measurements;
        assert!(near(found[0].mean_ms, 4.0 * mean_ms), "{found:?}");
    }

    #[test]
    fn older_reports_are_read_and_growth_is_reported() {
        let text = "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute,\
            Client Recv,p50 latency,p90 latency,p95 latency,p99 latency\n\
            1,160.8,68,1291,38,4801,7,6212,6289,6328,7407\n";
        let found = import(text, &given(1)).unwrap();
        let one = found.measurements[0];
        assert!((one.mean_ms.unwrap() - 1e3 / 160.8).abs() < 1e-9, "{one:?}");
        assert!((one.p99_ms.unwrap() / one.mean_ms.unwrap() - 7407.0 / 6205.0).abs() < 1e-9);
        assert!(
            found
                .notes
                .join("\n")
                .contains("still grows at 1 in flight"),
            "{:?}",
            found.notes
        );
    }

    #[test]
    fn wrong_reports_are_refused() {
        for (text, expected) in [
            (
                "cores,mean_ms\n1,2\n".to_owned(),
                "no column Concurrency; the header is cores,mean_ms",
            ),
            (
                HEADER.replace("Concurrency", "Request Rate"),
                "no column Concurrency",
            ),
            (HEADER.to_owned(), "no row; it must be one or more"),
            (
                format!("{HEADER}{}", ROWS.replacen("80", "x", 1)),
                "line 2, Inferences/Second: x; it must be",
            ),
            (
                format!("{HEADER}{}", ROWS.replacen("99", "0", 1)),
                "line 3, Inferences/Second: 0; it must be",
            ),
            (
                format!("{HEADER}0{}", &ROWS[1..]),
                "line 2, Concurrency: 0; it must be",
            ),
            (format!("{HEADER}1,80\n"), "CSV error: record 1"),
        ] {
            let error = import(&text, &given(1)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{expected}\n{error}");
        }
    }
}
