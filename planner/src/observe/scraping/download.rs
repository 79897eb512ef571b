//! Reads one address over HTTP into a fold, piece by piece. Size is limited; the time is the caller's.

use reqwest::{Client, StatusCode};
use url::Url;

use crate::observe::{Fold, Folded, SCRAPE_BYTES_MAX, ScrapeError};

/// Fetches `url` into `fold`.
pub(super) async fn download(
    http: Client,
    url: Url,
    mut fold: Fold,
) -> Result<Folded, ScrapeError> {
    let unreachable = |error: reqwest::Error| ScrapeError::Unreachable(reason(&error));
    let mut answer = http.get(url).send().await.map_err(unreachable)?;
    if answer.status() != StatusCode::OK {
        return Err(ScrapeError::Status(answer.status().as_u16()));
    }
    let mut size = 0;
    while let Some(piece) = answer.chunk().await.map_err(unreachable)? {
        size += piece.len();
        if size > SCRAPE_BYTES_MAX {
            return Err(ScrapeError::TooLarge);
        }
        fold.push(&piece)?;
    }
    fold.finish()
}

/// Returns the innermost cause, without the address, which the log line names already.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
