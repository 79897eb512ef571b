//! Progress on standard error, and the profile file after each point.

use std::io::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use weir_profile::model::Point;
use weir_profile::profile_file::Subject;
use weir_profile::run::Event;

use super::Profile;

/// Update interval of the line on a terminal.
const TICK: Duration = Duration::from_millis(100);

/// Points so far, and where they are shown.
pub(super) struct Progress<'a> {
    arguments: &'a Profile,
    subject: &'a Subject,
    pub(super) bar: ProgressBar,
    pub(super) points: Vec<Point>,
    /// Number of points in the file.
    pub(super) kept: usize,
    waits: bool,
}

impl<'a> Progress<'a> {
    pub(super) fn new(
        arguments: &'a Profile,
        subject: &'a Subject,
        points: Vec<Point>,
    ) -> anyhow::Result<Progress<'a>> {
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template(
            "{elapsed_precise} {spinner} {msg}",
        )?);
        bar.enable_steady_tick(TICK);
        Ok(Progress {
            arguments,
            subject,
            bar,
            kept: points.len(),
            points,
            waits: false,
        })
    }

    pub(super) fn tell(&mut self, event: &Event) {
        match event {
            Event::Waiting(why) if !self.waits => {
                self.waits = true;
                self.line(&format!("waits for the server: {why}"));
            }
            Event::Waiting(_) => {}
            Event::Ready(after) => self.line(&format!("ready after {:.1} s", after.as_secs_f64())),
            Event::Warm(requests) => self.line(&format!("warm after {requests} requests")),
            Event::Begin(cores, batch, concurrency) => {
                self.bar.set_message(format!("{cores} cores, batch {batch}, {concurrency} in flight"));
            }
            Event::Point(point) => {
                self.points.push(*point);
                let settled = if point.settled { "" } else { " (not settled: the time of a point is over)" };
                self.line(&format!(
                    "{} cores, batch {}, {} in flight: {:.1} batches/s ± {:.1} %, mean {:.1} ms{settled}",
                    point.cores, point.batch, point.concurrency, point.batches_per_s,
                    point.half_width_percent, point.mean_ms
                ));
                let file = self.arguments.file(self.subject, &self.points, None);
                match self.arguments.write(&file) {
                    Ok(()) => self.kept = self.points.len(),
                    Err(error) => self.line(&format!("{error:#}; it is tried again after the next point")),
                }
            }
            Event::Failing(failed, why) => {
                self.line(&format!("{failed} requests of this point failed, the last with: {why}"));
            }
            Event::Growing(concurrency) => self.line(&format!(
                "throughput still grows at {concurrency} in flight: --concurrency-max may be too small"
            )),
            Event::Enough(error) => self.line(&format!(
                "left-out points are predicted within {error:.1} % on average: the other combinations are not measured (--fit-error)"
            )),
            Event::OutOfTime => self.line("the time of all points is over: the rest is left out (--time)"),
        }
    }

    /// Prints a line above the bar, or plainly without a terminal. Nobody may be left to read it: that must not end the
    /// measurement before the server has its cores back.
    fn line(&self, text: &str) {
        if self.bar.is_hidden() {
            let _ = writeln!(std::io::stderr(), "{text}");
        } else {
            self.bar.println(text);
        }
    }
}
