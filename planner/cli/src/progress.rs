//! How far a replay is, on the standard error: a bar at a terminal, elsewhere a line now and then.
//! The standard output and what is played know nothing of it.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use weir_replay::scenario::Scenario;

/// How often the clock beside the bar moves.
const TICK: Duration = Duration::from_millis(100);
/// Between two lines where there is no terminal; what is played sooner says nothing.
const LINE_EVERY: Duration = Duration::from_secs(3);

/// Counts virtual seconds, over all contenders.
pub(super) struct Progress {
    bar: ProgressBar,
    /// Virtual seconds of one contender.
    length_s: u64,
    contenders: usize,
    /// Those before the one that plays.
    played: usize,
    name: String,
    /// For how long nothing more was said, since the start.
    said_at: Duration,
}

impl Progress {
    pub(super) fn new(scenario: &Scenario) -> anyhow::Result<Progress> {
        let length_s = scenario.length.as_secs();
        let contenders = scenario.contenders.len();
        let bar = ProgressBar::new(length_s.saturating_mul(contenders as u64));
        let form = "{elapsed_precise} {bar:30} {percent:>3} % {msg}";
        bar.set_style(ProgressStyle::with_template(form)?);
        bar.enable_steady_tick(TICK);
        Ok(Progress {
            bar,
            length_s,
            contenders,
            played: 0,
            name: String::new(),
            said_at: Duration::ZERO,
        })
    }

    /// A contender begins.
    pub(super) fn begin(&mut self, name: String) {
        self.name = name;
        self.second(0);
    }

    /// So many seconds of its play are over.
    pub(super) fn second(&mut self, over: u64) {
        let before = self.length_s.saturating_mul(self.played as u64);
        self.bar.set_position(before.saturating_add(over));
        self.say(|now| {
            format!(
                "{} ({} of {}): {over} of {} s",
                now.name,
                now.played + 1,
                now.contenders,
                now.length_s
            )
        });
    }

    /// It has ended.
    pub(super) fn end(&mut self) {
        self.played += 1;
    }

    /// All have, and the bounds are sought.
    pub(super) fn bounds(&mut self) {
        self.say(|_| "what nobody could have beaten".to_owned());
    }

    /// Nothing of it is left at a terminal.
    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
    }

    fn say(&mut self, message: impl Fn(&Progress) -> String) {
        if !self.bar.is_hidden() {
            let message = message(self);
            self.bar.set_message(message);
        } else if self.bar.elapsed() >= self.said_at + LINE_EVERY {
            self.said_at = self.bar.elapsed();
            eprintln!("{}", message(self));
        }
    }
}
