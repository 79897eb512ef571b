//! Conditions of the servers: replicas of each variant, and the delay of changes.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

/// Minimum and maximum time until a kubelet has applied a resize.
const RESIZE_DELAY: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(1200)];
/// Maximum servers of a variant: more than any has lanes.
const REPLICAS_MAX: u32 = 64;

/// Conditions of all servers, including those behind the compared listeners.
#[derive(Debug, Clone, Copy, Args, Serialize)]
pub(crate) struct Field {
    /// Servers behind the cluster of each variant, over which its concurrent executions are spread.
    #[arg(long, default_value = "1", value_parser = replicas)]
    pub(crate) replicas: NonZeroU32,
    /// Load servers and apply resizes without delay, which is better than any real cluster.
    #[arg(long)]
    pub(crate) at_once: bool,
}

impl Default for Field {
    fn default() -> Self {
        Field {
            replicas: NonZeroU32::MIN,
            at_once: false,
        }
    }
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let servers = match self.replicas.get() {
            1 => "one of each variant".to_owned(),
            several => format!("{several} of each variant"),
        };
        let [shortest, longest] = RESIZE_DELAY.map(|delay| delay.as_secs_f64());
        match self.at_once {
            true => write!(f, "{servers}, loaded and resized without delay"),
            false => write!(
                f,
                "{servers}, with load times and a resize delay of {shortest} to {longest} s"
            ),
        }
    }
}

impl Field {
    /// Minimum and maximum delay of a change.
    pub(super) fn resize_delay(self) -> [Duration; 2] {
        match self.at_once {
            true => [Duration::ZERO; 2],
            false => RESIZE_DELAY,
        }
    }
}

fn replicas(text: &str) -> Result<NonZeroU32, String> {
    let count = text.parse().ok();
    let count = count.filter(|count: &NonZeroU32| count.get() <= REPLICAS_MAX);
    count.ok_or_else(|| format!("1 to {REPLICAS_MAX} servers"))
}
