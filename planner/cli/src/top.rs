//! `weir top`: state of a planner's services, again each second: in place on a terminal, and a line for each service
//! elsewhere. An answer that fails is shown, and tried again.

mod terminal;

use std::io::{ErrorKind, IsTerminal, Write};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use weir_planner::clock::Clock;

use crate::inspect::view::StatusView;
use crate::inspect::{Api, PlannerArguments, requests, screen, status};
use terminal::Terminal;

/// Time between two refreshes.
const REFRESH: Duration = Duration::from_secs(1);

/// Arguments of `weir top`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Top {
    #[command(flatten)]
    planner: PlannerArguments,
    /// Number of refreshes after which it ends. Default: until q or Ctrl-C.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    refreshes: Option<u32>,
}

impl Top {
    /// # Errors
    /// A planner that does not answer at first, or output that cannot be written.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) -> anyhow::Result<()> {
        let api = self.planner.api()?;
        let services = self.planner.services(&api).await?;
        // An error of the first answer is the user's to correct.
        for service in &services {
            status(&api, service, 1).await?;
        }
        let mut terminal = match std::io::stdout().is_terminal() {
            true => Some(Terminal::enter()?),
            false => None,
        };
        let clock = Clock::start();
        let mut ticks = interval(REFRESH);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut left = self.refreshes;
        while left != Some(0) {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stopped| *stopped) => break,
                () = Terminal::quit(terminal.as_mut()) => break,
                _ = ticks.tick() => {}
            }
            let shown = show(&api, &services, &clock, terminal.is_some()).await;
            let written = match &mut terminal {
                Some(terminal) => terminal.draw(&shown),
                None => write(&shown),
            };
            match written {
                // The reader, for example `head`, has enough.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
                written => written?,
            }
            left = left.map(|left| left - 1);
        }
        Ok(())
    }
}

fn write(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Returns all services: each as its whole status, or as one line.
async fn show(api: &Api, services: &[String], clock: &Clock, whole: bool) -> String {
    let mut text = String::new();
    for service in services {
        let now_ms = clock.now().unix_ms;
        let view = status(api, service, 1).await;
        text += &match (view, whole) {
            (Ok(view), true) => screen::status(&view, now_ms) + "\n",
            (Ok(view), false) => line(&view, now_ms),
            (Err(error), _) => format!("{} {error:#}\n", screen::time_of_day(now_ms)),
        };
    }
    text
}

/// Returns a service in one line.
fn line(view: &StatusView, now_ms: u64) -> String {
    let mut line = format!("{} {}", screen::time_of_day(now_ms), view.service);
    let Some(latest) = &view.latest else {
        return line + " no cycle yet\n";
    };
    let (measured, demand) = (screen::rate(latest.measured_rps), latest.demand_rps);
    line += &format!(
        " arrivals {measured}, demand with headroom {}, {}:",
        screen::rate(demand),
        latest.outcome
    );
    if let Some(requests) = &view.requests {
        line = line.trim_end_matches(':').to_owned();
        line += &format!(", {}:", requests::short(requests));
    }
    let variants = latest.variants.iter().map(|(name, variant)| {
        let cores = screen::change(variant.cores_actual, variant.cores_target);
        format!(" {name} {cores} cores {:.0} %", 100.0 * variant.share)
    });
    line + &variants.collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::screen::tests::{example, view};

    #[test]
    fn service_is_one_line() {
        let expected = "01:01:03 demo arrivals 19.0/s, demand with headroom unknown, optimal, \
            on time 98.76 %, latency 62, 140 ms, budget left 99.89 %, refused 45, waiting 7: \
            a 2 cores 50 %, b 2 → 6 cores 50 %\n";
        assert_eq!(line(&view(example()), 3_663_000), expected);
        let mut none = example();
        none["latest"] = serde_json::Value::Null;
        assert_eq!(line(&view(none), 0), "00:00:00 demo no cycle yet\n");
    }
}
