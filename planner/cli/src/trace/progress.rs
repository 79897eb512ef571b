//! Progress on standard error: a bar on a terminal, otherwise an occasional line.

use std::cell::Cell;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Update interval of the bar's clock.
const TICK: Duration = Duration::from_millis(100);
/// Interval of the lines without a terminal; a shorter run prints none.
const LINE_EVERY: Duration = Duration::from_secs(3);

/// Part of a run that is over.
pub(crate) struct Progress {
    bar: ProgressBar,
    unit: &'static str,
    length: u64,
    /// Time of the last line, since the start.
    last_line_at: Cell<Duration>,
}

impl Progress {
    pub(crate) fn new(length: u64, unit: &'static str) -> anyhow::Result<Progress> {
        let bar = ProgressBar::new(length);
        let form = "{elapsed_precise} {bar:30} {percent:>3} % {msg}";
        bar.set_style(ProgressStyle::with_template(form)?);
        bar.enable_steady_tick(TICK);
        Ok(Progress {
            bar,
            unit,
            length,
            last_line_at: Cell::new(Duration::ZERO),
        })
    }

    /// Reports that so much is over.
    pub(crate) fn reach(&self, over: u64, message: impl Fn() -> String) {
        if !self.bar.is_hidden() {
            self.bar.set_position(over);
            self.bar.set_message(message());
        } else if self.bar.elapsed() >= self.last_line_at.get() + LINE_EVERY {
            self.last_line_at.set(self.bar.elapsed());
            eprintln!("{}: {over} of {} {}", message(), self.length, self.unit);
        }
    }

    /// Removes the bar from a terminal.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}
