//! Waiting for a condition instead of sleeping for a guess.

use std::time::Duration;

use tokio::time::Instant;

/// Interval between checks of a condition.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Returns as soon as `condition` holds.
///
/// # Errors
///
/// It does not within `limit`; the message contains `what`.
pub async fn until(
    what: &str,
    limit: Duration,
    mut condition: impl FnMut() -> bool,
) -> anyhow::Result<()> {
    until_async(what, limit, async || condition()).await
}

/// [`until`] for an async condition, such as a check over HTTP.
///
/// # Errors
///
/// As [`until`].
pub async fn until_async(
    what: &str,
    limit: Duration,
    mut condition: impl AsyncFnMut() -> bool,
) -> anyhow::Result<()> {
    let started = Instant::now();
    while !condition().await {
        anyhow::ensure!(
            started.elapsed() < limit,
            "timed out after {limit:?} waiting for {what}"
        );
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn wait_ends_on_condition_and_timeout_names_it() {
        let mut checks = 0;
        let third = || {
            checks += 1;
            checks == 3
        };
        until("the third check", Duration::from_secs(5), third)
            .await
            .unwrap();
        let error = until("rain", Duration::from_millis(20), || false)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("rain"));
    }
}
