//! Faults of a real server in the midst of a run.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::sleep;

use super::servers::Server;

/// Seconds of the run in which the server fails.
pub(crate) const SPAN: Range<u64> = 10..20;

/// Kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The medium server is killed, and started anew after half of the span.
    Killed,
    /// The large server hangs, its connections open.
    Hung,
    /// The large server has no model: it answers 404.
    NotFound,
}

impl Fault {
    pub(crate) const ALL: [Fault; 3] = [Fault::Killed, Fault::Hung, Fault::NotFound];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Fault::Killed => "medium killed",
            Fault::Hung => "large hung",
            Fault::NotFound => "large answers 404",
        }
    }

    /// Waits for the span, and lets the server fail for it.
    pub(crate) async fn cause(self, servers: &mut [Server]) -> Result<()> {
        let span = Duration::from_secs(SPAN.end - SPAN.start);
        let name = match self {
            Fault::Killed => "medium",
            Fault::Hung | Fault::NotFound => "large",
        };
        let server = servers.iter_mut().find(|server| server.name == name);
        let server = server.with_context(|| format!("no server {name}"))?;
        sleep(Duration::from_secs(SPAN.start)).await;
        match self {
            Fault::Killed => {
                server.kill()?;
                sleep(span / 2).await;
                server.restart()
            }
            Fault::Hung => {
                server.signal("-STOP")?;
                sleep(span).await;
                server.signal("-CONT")
            }
            Fault::NotFound => {
                server.repository("unload").await?;
                sleep(span).await;
                server.repository("load").await
            }
        }
    }

    /// Waits until the server serves as before.
    pub(crate) async fn over(servers: &[Server]) -> Result<()> {
        for server in servers {
            server.until_ready().await?;
            server.group.set(server.cores)?;
        }
        Ok(())
    }
}
