//! `weir forecast`: back-tests all forecasters on a trace. The table (or JSON) goes to standard output, the progress to
//! standard error.

mod plot;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::time::Instant;
use weir_forecast::backtest::{self, Extent, Report, Score};
use weir_forecast::ensemble::Ensemble;
use weir_forecast::gap::Trace;
use weir_forecast::history::WINDOW;
use weir_forecast::lstm::file::ModelFile;
use weir_forecast::model::{Kind, Season, Settings};
use weir_forecast::task::Task;
use weir_planner::spec::RawDuration;

use crate::input;
use crate::output::{print, try_write, write};
use crate::trace::progress::Progress;
use crate::trace::{TraceArguments, duration, seconds};

/// Horizons to score at least.
const SCORED_MIN: usize = 100;

/// Arguments of `weir forecast`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Forecast {
    #[command(flatten)]
    of: TraceArguments,
    /// Part of the peaks that the upper forecast is to cover.
    #[arg(long, value_name = "Q", default_value_t = 0.95)]
    quantile: f64,
    /// Time at the start of the trace that is not scored. Default: half of the trace
    #[arg(long, value_name = "TIME", value_parser = duration)]
    train: Option<RawDuration>,
    /// Model file of `weir train`, whose LSTM is tested too.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Season of the seasonal forecaster, as `demand.season`: 1m to 168h. Default: patterns of the hour and the day.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    season: Option<RawDuration>,
    /// Write a picture (SVG) of the load, the forecasts and the choice.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
}

impl Forecast {
    /// # Errors
    /// A wrong argument, trace or model, or a picture that cannot be written.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if let Some(path) = &self.plot {
            try_write(path).context("--plot")?;
        }
        let task = Task::new(self.of.horizon()?, self.quantile)?;
        let model = self.model.as_deref();
        let model = model.map(|path| read_model(path, task)).transpose()?;
        let scored_min = SCORED_MIN * task.horizon();
        let trace = self.of.read(WINDOW + scored_min)?;
        let train_seconds = self.train_seconds(&trace, scored_min)?;
        let network = model.as_ref().map(|file| &file.network);
        let settings = Settings {
            network,
            season: self.season()?,
        };
        let kinds = [&Kind::UNTRAINED[..], &[Kind::Lstm]].concat();
        let mut ensemble = Ensemble::new(&kinds, task, settings);
        let extent = Extent {
            task,
            train_seconds,
            origin: 0,
        };
        let began = Instant::now();
        let progress = Progress::new(trace.rates().len() as u64, "s of the trace")?;
        let clock = || began.elapsed();
        let tell = |at| progress.reach(at as u64, || String::from("all forecasters"));
        let report = backtest::run(&trace, &extent, &mut ensemble, clock, tell);
        progress.finish();
        if let Some(path) = &self.plot {
            write(path, &plot::page(&trace, &report, task)?).context("--plot")?;
        }
        print(match self.json {
            true => format!("{:#}\n", self.as_json(&trace, &extent, &report)),
            false => self.summary(&trace, &extent, &report),
        })
    }

    fn season(&self) -> anyhow::Result<Option<Season>> {
        let of = |given| {
            let seconds = seconds("--season", given)? as u64;
            anyhow::Ok(Season::new(seconds)?)
        };
        self.season.map(of).transpose()
    }

    fn train_seconds(&self, trace: &Trace, scored_min: usize) -> anyhow::Result<usize> {
        let length = trace.rates().len();
        let Some(train) = self.train else {
            return Ok((length / 2).clamp(WINDOW, length - scored_min));
        };
        let given = seconds("--train", train)?;
        let most = length - scored_min;
        anyhow::ensure!(
            (WINDOW..=most).contains(&given),
            "--train: {train}; it must be {WINDOW}s to {most}s, so that {SCORED_MIN} horizons are left to score"
        );
        Ok(given)
    }

    fn summary(&self, trace: &Trace, extent: &Extent, report: &Report) -> String {
        let header = [
            "forecaster",
            "SMAPE %",
            "pinball /s",
            "covered %",
            "above %",
            "time",
        ];
        let rows = report.scores.iter().map(|score| {
            [
                name(score).to_owned(),
                format!("{:.2}", score.smape_percent),
                format!("{:.3}", score.pinball_rps),
                format!("{:.2}", score.covered_percent),
                format!("{:.1}", score.above_percent),
                time(score.inference),
            ]
        });
        let table = weir_draw::table(header, rows);
        let gap_seconds: usize = trace.gaps().iter().map(ExactSizeIterator::len).sum();
        format!(
            "{}: {} s, {} gaps of {gap_seconds} s in all; scored from second {}\n\
             peak of the next {} s; quantile {}; {} forecasts of each; {} changes of the choice\n{table}\n",
            self.of.trace.display(),
            trace.rates().len(),
            trace.gaps().len(),
            extent.train_seconds,
            extent.task.horizon(),
            extent.task.quantile(),
            report.moments.len(),
            report.changes,
        )
    }

    fn as_json(&self, trace: &Trace, extent: &Extent, report: &Report) -> Value {
        let scores = report.scores.iter().map(|score| {
            json!({
                "forecaster": name(score),
                "forecasts": score.forecasts,
                "smape_percent": score.smape_percent,
                "pinball_rps": score.pinball_rps,
                "covered_percent": score.covered_percent,
                "above_percent": score.above_percent,
                "inference_us": score.inference.as_secs_f64() * 1e6,
            })
        });
        json!({
            "trace": self.of.trace.display().to_string(),
            "seconds": trace.rates().len(),
            "gaps": trace.gaps().len(),
            "train_s": extent.train_seconds,
            "horizon_s": extent.task.horizon(),
            "quantile": extent.task.quantile(),
            "changes": report.changes,
            "scores": scores.collect::<Vec<_>>(),
        })
    }
}

/// Name of a scored forecaster.
fn name(score: &Score) -> &'static str {
    score.kind.map_or("auto", Kind::name)
}

fn time(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

fn read_model(path: &Path, task: Task) -> anyhow::Result<ModelFile> {
    let about = || format!("--model {}", path.display());
    let text = input::read(path).with_context(about)?;
    let model = ModelFile::read(&text).with_context(about)?;
    let (of, horizon) = (model.facts.horizon_s, task.horizon());
    anyhow::ensure!(
        of == horizon,
        "--model {}: trained for a horizon of {of} s; it must be {horizon} s, as --horizon",
        path.display()
    );
    Ok(model)
}
