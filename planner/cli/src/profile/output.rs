//! The profile file, and the summary on standard output.

use std::fs;

use anyhow::Context;
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use weir_planner::spec::RawDuration;
use weir_profile::execution::Execution;
use weir_profile::labels::Accuracy;
use weir_profile::measurement::range;
use weir_profile::model::{Model, Point, failed_percent};
use weir_profile::notes::{curve_notes, failure_notes};
use weir_profile::profile_file::{
    CapacityQuality, Origin, Profile as ProfileFile, Subject, models,
};
use weir_profile::run::Run;

use super::report::max_abs;
use super::{Profile, report};
use crate::output::write;

/// Minimum batch window that is reported: a shorter one is within the uncertainty.
const WINDOW_MS_MIN: f64 = 1.0;

impl Profile {
    /// Returns the file of these points; `done` once all are measured.
    pub(super) fn file(
        &self,
        subject: &Subject,
        points: &[Point],
        done: Option<(&Run, &Model, Option<Accuracy>)>,
    ) -> ProfileFile {
        let stamp = Stamp::now();
        let accuracy = done.and_then(|(_, _, accuracy)| accuracy);
        let (latency, capacity) = done.map(|(_, model, _)| models(model)).unzip();
        let readiness = done.and_then(|(run, _, _)| run.readiness);
        let batches = done.and_then(|(run, _, _)| run.execution);
        let batches = batches.filter(|one| one.batch > 1);
        let range =
            done.and_then(|(run, _, _)| range(run.busy.iter().map(|it| (it.cores, it.batch))));
        // The server may form larger batches with more in flight; how long these take is not known.
        let measured_max = range.as_ref().map_or(1, |range| range.batch.max);
        ProfileFile {
            latency,
            capacity,
            readiness: readiness
                .map(|time| RawDuration::from_ms((time.as_secs_f64() * 1e3).round())),
            accuracy: accuracy.map(|one| one.percent),
            batch: batches
                .map(|one| one.batch.min(measured_max))
                .filter(|batch| *batch > 1),
            batch_delay: batches
                .and_then(|one| one.window_ms)
                .filter(|ms| *ms >= WINDOW_MS_MIN)
                .map(|ms| RawDuration::from_ms(ms.round())),
            range,
            origin: Origin {
                measured_by: stamp.measured_by,
                date: stamp.date,
                host: stamp.host,
                subject: subject.clone(),
                first_answer_ms: done.map(|(run, _, _)| run.first_answer.as_secs_f64() * 1e3),
                r_squared: done
                    .and_then(|(_, model, _)| model.fit.chosen.overdetermined_r_squared()),
                left_out_percent: done.and_then(|(_, model, _)| {
                    let left_out = model.fit.chosen.left_out.as_ref();
                    left_out.map(|one| one.mean_percent)
                }),
                residual_percent: done
                    .map(|(_, model, _)| &model.fit.chosen)
                    .filter(|chosen| chosen.overdetermined_r_squared().is_some())
                    .map(|chosen| max_abs(&chosen.residuals_percent)),
                capacity: done.map_or_else(CapacityQuality::default, |(_, model, _)| {
                    CapacityQuality::of(&model.capacity)
                }),
                failed_percent: (points.iter().any(|point| point.failed > 0))
                    .then(|| failed_percent(points)),
                labelled: accuracy.map(|one| one.labelled),
                points: points.to_vec(),
            },
        }
    }

    pub(super) fn write(&self, file: &ProfileFile) -> anyhow::Result<()> {
        let about = || format!("--output {}", self.output.display());
        write(&self.output, &file.text()?).with_context(about)
    }

    pub(super) fn summary(&self, run: &Run, model: &Model, accuracy: Option<Accuracy>) -> String {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_header([
            "cores",
            "batch",
            "in flight",
            "requests/s",
            "± %",
            "mean ms",
            "p50 ms",
            "p99 ms",
            "failed %",
            "fit %",
        ]);
        for (point, residual) in run.busy.iter().zip(&model.fit.chosen.residuals_percent) {
            let rps = point.batches_per_s * f64::from(point.batch);
            table.add_row([
                point.cores.to_string(),
                point.batch.to_string(),
                point.concurrency.to_string(),
                format!("{rps:.1}"),
                format!("{:.1}", point.half_width_percent),
                format!("{:.1}", point.mean_ms),
                format!("{:.1}", point.p50_ms),
                format!("{:.1}", point.p99_ms),
                format!("{:.1}", point.failed_percent()),
                format!("{residual:+.1}"),
            ]);
        }
        let fit = report::models(&model.fit, model.parallelism) + &report::lines(&model.fit.notes);
        let batches = run.execution.as_ref().map(batches);
        let capacity = report::capacity(&model.capacity) + &self.within(&run.best);
        let notes = [failure_notes(&run.busy), curve_notes(&run.measured)].concat();
        let notes = report::lines(&notes);
        let accuracy = accuracy.map(|one| {
            format!(
                "accuracy: {:.2} % of {} labelled requests\n",
                one.percent, one.labelled
            )
        });
        let path = self.output.display();
        let reference = match self.is_of_service {
            true => String::new(),
            false => format!("; a variant refers to it with `profile: {{file: {path}}}`"),
        };
        format!(
            "{table}\n{fit}{}{capacity}\n{notes}{}{path} is written{reference}\n",
            batches.unwrap_or_default(),
            accuracy.unwrap_or_default()
        )
    }

    /// Says how many requests are in flight at the capacity, and that it meets no objective if it does not.
    fn within(&self, best: &[Point]) -> String {
        let Some(slo) = self.slo else {
            return String::new();
        };
        let slo_ms = slo.as_secs_f64() * 1e3;
        let each = best.iter().map(|point| {
            let p95_ms = point.p95_ms.unwrap_or(point.p99_ms);
            let is = if p95_ms <= slo_ms { "meets" } else { "misses" };
            format!(
                "; with {} in flight on {} cores the 95th percentile of {p95_ms:.0} ms {is} the objective of {slo_ms:.0} ms",
                point.concurrency, point.cores
            )
        });
        each.collect()
    }
}

/// Says how many requests the server executes at once, or which batches it forms by itself.
fn batches(execution: &Execution) -> String {
    let Execution { lanes, batch, .. } = execution;
    if *batch == 1 {
        return match (execution.is_sure(), lanes) {
            (false, _) => String::new(),
            (true, 1) => "the server executes one request at a time\n".to_owned(),
            (true, lanes) => format!("the server executes {lanes} requests at once\n"),
        };
    }
    let at_once = match lanes {
        1 => "one".to_owned(),
        lanes => lanes.to_string(),
    };
    let window_ms = execution.window_ms.unwrap_or_default();
    let window = match window_ms < WINDOW_MS_MIN {
        true => String::new(),
        false => format!(", after a wait of some {window_ms:.0} ms for one to fill"),
    };
    format!("the server forms batches of up to {batch} requests, {at_once} at once{window}\n")
}

/// Program, date and machine of a profile.
pub(super) struct Stamp {
    pub(super) measured_by: String,
    pub(super) date: String,
    pub(super) host: String,
}

impl Stamp {
    pub(super) fn now() -> Stamp {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Stamp {
            measured_by: format!("weir profile {}", env!("CARGO_PKG_VERSION")),
            date: format!("{:.0}", jiff::Timestamp::now()),
            host: host.trim().to_owned(),
        }
    }
}
