//! h2load, nghttp2's load generator: many requests on few HTTP/2 connections.
//!
//! Parses the summary that h2load prints.

use anyhow::{Context, Result};
use tokio::process::Command;

use super::run;
use crate::built;

/// Counts reported by h2load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Requests to send.
    pub total: u64,
    /// Responses with a status below 400.
    pub succeeded: u64,
    /// Requests with another response or none.
    pub failed: u64,
    /// Requests without a complete response.
    pub errored: u64,
    /// Responses with status 2xx.
    pub ok: u64,
    /// Responses with status 5xx.
    pub server_errors: u64,
}

/// Runs h2load with these arguments, which include the URL.
///
/// # Errors
///
/// h2load is missing or failed; the message contains its error output.
pub async fn h2load(arguments: &[&str]) -> Result<Loaded> {
    let mut command = Command::new(built::h2load()?);
    let output = run(command.args(arguments), "h2load").await?;
    read(&output).with_context(|| format!("unexpected output of h2load:\n{output}"))
}

/// Parses the lines `requests: …` and `status codes: …` of the summary.
fn read(summary: &str) -> Result<Loaded> {
    let count = |line: &str, what: &str| -> Result<u64> {
        let (_, list) = summary
            .lines()
            .find_map(|found| found.split_once(line))
            .with_context(|| format!("missing line '{line}'"))?;
        let mut items = list.split(',').map(|item| item.trim().split_once(' '));
        let found = items.find_map(|item| item.filter(|(_, name)| *name == what));
        let (number, _) = found.with_context(|| format!("no '{what}' in '{list}'"))?;
        Ok(number.parse()?)
    };
    Ok(Loaded {
        total: count("requests:", "total")?,
        succeeded: count("requests:", "succeeded")?,
        failed: count("requests:", "failed")?,
        errored: count("requests:", "errored")?,
        ok: count("status codes:", "2xx")?,
        server_errors: count("status codes:", "5xx")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_is_parsed() {
        let summary = "finished in 9.07ms, 1102.78 req/s\n\
            requests: 10 total, 10 started, 10 done, 8 succeeded, 2 failed, 0 errored, 0 timeout\n\
            status codes: 8 2xx, 0 3xx, 0 4xx, 2 5xx\n";
        let loaded = read(summary).unwrap();
        assert_eq!((loaded.total, loaded.succeeded, loaded.failed), (10, 8, 2));
        assert_eq!((loaded.ok, loaded.server_errors, loaded.errored), (8, 2, 0));
        assert!(read("nothing").is_err());
    }
}
