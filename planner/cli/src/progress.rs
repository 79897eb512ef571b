//! Progress of a replay on standard error: a bar on a terminal, otherwise an occasional line. Standard
//! output and the simulation are not affected.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Update interval of the bar's clock.
const TICK: Duration = Duration::from_millis(100);
/// Interval of the lines without a terminal; a shorter replay prints none.
const LINE_EVERY: Duration = Duration::from_secs(3);

/// Counter of simulated seconds, over all contenders.
pub(super) struct Progress {
    bar: ProgressBar,
    /// Simulated seconds of one contender.
    length_s: u64,
    contenders: usize,
    /// Simulated seconds of the contenders before the current one.
    played: usize,
    name: String,
    /// Time of the last line, since the start.
    last_line_at: Duration,
    /// Time at which the current contender began, since the start.
    begun_at: Duration,
    /// Time that the simulations took.
    took: Duration,
}

impl Progress {
    pub(super) fn new(length: Duration, contenders: usize) -> anyhow::Result<Progress> {
        let length_s = length.as_secs();
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
            last_line_at: Duration::ZERO,
            begun_at: Duration::ZERO,
            took: Duration::ZERO,
        })
    }

    /// Starts a contender.
    pub(super) fn begin(&mut self, name: String) {
        self.name = name;
        self.begun_at = self.bar.elapsed();
        self.second(0);
    }

    /// Reports that `over` seconds of its simulation have passed.
    pub(super) fn second(&mut self, over: u64) {
        let before = self.length_s.saturating_mul(self.played as u64);
        self.bar.set_position(before.saturating_add(over));
        self.report(|now| {
            format!(
                "{} ({} of {}): {over} of {} s",
                now.name,
                now.played + 1,
                now.contenders,
                now.length_s
            )
        });
    }

    /// Ends a contender.
    pub(super) fn end(&mut self) {
        self.played += 1;
        self.took += self.bar.elapsed().saturating_sub(self.begun_at);
    }

    /// Reports that all contenders have ended and the bounds are computed.
    pub(super) fn bounds(&mut self) {
        self.report(|_| "what nobody could have beaten".to_owned());
    }

    /// Removes the bar from a terminal, and reports how quickly the contenders' `requests` were simulated.
    pub(super) fn finish(self, requests: usize) {
        self.bar.finish_and_clear();
        let (contenders, took_s) = (self.contenders, self.took.as_secs_f64());
        let rate = (requests * contenders) as f64 / took_s.max(f64::MIN_POSITIVE);
        eprintln!(
            "{contenders} × {requests} requests simulated in {took_s:.2} s: {rate:.0} requests/s"
        );
    }

    fn report(&mut self, message: impl Fn(&Progress) -> String) {
        if !self.bar.is_hidden() {
            let message = message(self);
            self.bar.set_message(message);
        } else if self.bar.elapsed() >= self.last_line_at + LINE_EVERY {
            self.last_line_at = self.bar.elapsed();
            eprintln!("{}", message(self));
        }
    }
}
