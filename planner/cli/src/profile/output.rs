//! The profile file, and the summary on standard output.

use std::fs;

use anyhow::Context;
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use weir_planner::spec::RawDuration;
use weir_profile::labels::Accuracy;
use weir_profile::model::{Model, Point};
use weir_profile::profile_file::{Origin, Profile as ProfileFile, Subject, models};
use weir_profile::run::Run;

use super::Profile;

impl Profile {
    /// Returns the file of these points; `done` once all are measured.
    pub(super) fn file(
        &self,
        subject: &Subject,
        points: &[Point],
        done: Option<(&Run, &Model, Option<Accuracy>)>,
    ) -> ProfileFile {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let accuracy = done.and_then(|(_, _, accuracy)| accuracy);
        let (latency, capacity) = done.map(|(_, model, _)| models(model)).unzip();
        let readiness = done.and_then(|(run, _, _)| run.readiness);
        ProfileFile {
            latency,
            capacity,
            readiness: readiness
                .map(|time| RawDuration::from_ms((time.as_secs_f64() * 1e3).round())),
            accuracy: accuracy.map(|one| one.percent),
            origin: Origin {
                measured_by: format!("weir profile {}", env!("CARGO_PKG_VERSION")),
                date: format!("{:.0}", jiff::Timestamp::now()),
                host: host.trim().to_owned(),
                subject: subject.clone(),
                first_answer_ms: done.map(|(run, _, _)| run.first_answer.as_secs_f64() * 1e3),
                r_squared: done.map(|(_, model, _)| model.r_squared),
                residual_percent: done.map(|(_, model, _)| max_abs(&model.residuals_percent)),
                labelled: accuracy.map(|one| one.labelled),
                points: points.to_vec(),
            },
        }
    }

    /// Writes the file at once: never half of it.
    pub(super) fn write(&self, file: &ProfileFile) -> anyhow::Result<()> {
        let mut beside = self.output.clone().into_os_string();
        beside.push(".part");
        let about = || format!("--output {}", self.output.display());
        fs::write(&beside, file.text()?).with_context(about)?;
        fs::rename(&beside, &self.output).with_context(about)
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
            "fit %",
        ]);
        for (point, residual) in run.busy.iter().zip(&model.residuals_percent) {
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
                format!("{residual:+.1}"),
            ]);
        }
        let latency = model.latency;
        let (g, e, d, h) = (
            latency.gamma_ms,
            latency.epsilon_ms,
            latency.delta_ms,
            latency.eta_ms,
        );
        let fit = format!(
            "ms of a batch b on c cores: {g:.2}·b/c + {e:.2}/c + {d:.2}·b + {h:.2}; R² {:.4}, within {:.1} % of each point",
            model.r_squared,
            max_abs(&model.residuals_percent)
        );
        let accuracy = accuracy.map(|one| {
            format!(
                "accuracy: {:.2} % of {} labelled requests\n",
                one.percent, one.labelled
            )
        });
        let path = self.output.display();
        format!(
            "{table}\n{fit}\n{}{path} is written; a variant refers to it with `profile: {{file: {path}}}`\n",
            accuracy.unwrap_or_default()
        )
    }
}

/// Greatest absolute value.
fn max_abs(residuals: &[f64]) -> f64 {
    residuals.iter().fold(0.0, |most, one| one.abs().max(most))
}
