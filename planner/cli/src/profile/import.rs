//! Profiles of numbers that others have measured: a proxy's histograms (`--from-proxy`), or another program's
//! measurements (`--import`).

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use reqwest::Url;
use tokio::sync::watch;
use tokio::time::Instant;
use weir_planner::solve::latency_model::Parallelism;
use weir_profile::fitted::{Assumed, Fitted};
use weir_profile::import::{self, Columns, Given, Imported};
use weir_profile::measurement::Percentile;
use weir_profile::plot::Plot;
use weir_profile::profile_file::{
    CapacityQuality, FitQuality, ImportOrigin, Profile as ProfileFile, fitted_models,
};
use weir_profile::proxy::{Conditions, Observed, Reading, STATS_PATH};
use weir_profile::source::Source;

use super::Profile;
use super::output::Stamp;
use super::report;
use super::value::{duration, pair, parallelism, percentile, tail};
use crate::output::{print, try_write, write};

/// Form of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Table with a header: cores, batch, mean_ms, rps, p80_ms, p95_ms, p99_ms.
    Csv,
    /// Answer of Triton's /v2/models/NAME/stats.
    Triton,
    /// Report of Triton's perf_analyzer --concurrency-range 1:8 -f FILE.
    PerfAnalyzer,
    /// MLServer's /metrics.
    Mlserver,
    /// TensorFlow Serving's /monitoring/prometheus/metrics.
    TfServing,
}

/// Arguments of the sources that are not measured.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Numbers that others have measured")]
pub(super) struct Import {
    /// Admin address of a proxy, whose histograms of service times give the profile.
    #[arg(
        long,
        value_name = "URL",
        requires = "service",
        conflicts_with = "import"
    )]
    pub(crate) from_proxy: Option<Url>,
    /// Service at the proxy.
    #[arg(long, value_name = "NAME", requires = "from_proxy")]
    service: Option<String>,
    /// Variant of the service. Without it there is a file for each variant, in the folder --output.
    #[arg(long, value_name = "NAME", requires = "from_proxy")]
    variant: Option<String>,
    /// File or address with measurements of another program.
    #[arg(long, value_name = "FILE|URL", requires = "format")]
    pub(crate) import: Option<String>,
    /// Form of the imported file.
    #[arg(long, value_name = "FORM", requires = "import")]
    format: Option<Format>,
    /// Read counters twice, that time apart, and take what was counted between. Without it all since the start counts.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    r#for: Option<Duration>,
    /// Earlier reading of the same counters (triton, mlserver, tf-serving): what was counted since then is taken.
    #[arg(
        long,
        value_name = "FILE|URL",
        requires = "import",
        conflicts_with = "for"
    )]
    earlier: Option<String>,
    /// Batches that the server executes at once: a number or per-core. Default: as the source shows it, else 1.
    #[arg(long, value_name = "N", value_parser = parallelism)]
    parallelism: Option<Parallelism>,
    /// Percentile that tail is of: 80, 95 or 99.
    #[arg(long, value_name = "P", default_value = "99", value_parser = percentile)]
    percentile: Percentile,
    /// The tail itself, where the source has no percentiles.
    #[arg(long, value_name = "RATIO", requires = "import", value_parser = tail)]
    tail: Option<f64>,
    /// Model, where the source has several.
    #[arg(long, value_name = "NAME", requires = "import")]
    model: Option<String>,
    /// Column of a CSV that has another name, such as cores=cpu or mean_s=latency.
    #[arg(long, value_name = "OURS=THEIRS", requires = "import", value_parser = pair)]
    column: Vec<(String, String)>,
    /// Value that a column must have for a row of a CSV to count; given several times, any of a column's values.
    #[arg(long = "where", value_name = "COLUMN=VALUE", requires = "import", value_parser = pair)]
    only: Vec<(String, String)>,
}

/// Numbers of one variant, and the place that they come from.
struct Origin {
    source: String,
    format: &'static str,
    variant: Option<String>,
    /// Largest batch that the server has formed.
    batch: Option<u32>,
    notes: Vec<String>,
}

impl Profile {
    /// # Errors
    /// A source that cannot be read or has too little, or a file that cannot be written.
    pub(super) async fn import(&self, mut stop: watch::Receiver<bool>) -> anyhow::Result<()> {
        let ([cores], [batch]) = (self.cores.as_slice(), self.batches.as_slice()) else {
            anyhow::bail!(
                "--cores, --batches: several; each must be one number, that of the source"
            );
        };
        let work = async {
            match (&self.import.from_proxy, &self.import.import) {
                (Some(url), _) => self.read_proxy(url, *cores).await,
                (None, Some(source)) => self.import_source(source, *cores, *batch).await,
                (None, None) => Ok(()),
            }
        };
        tokio::select! {
            done = work => done,
            _ = stop.changed() => Err(anyhow::anyhow!("interrupted; nothing is written")),
        }
    }

    async fn import_source(&self, text: &str, cores: f64, batch: u32) -> anyhow::Result<()> {
        self.is_free(&self.output)?;
        self.try_outputs()?;
        let about = || format!("--import {text}");
        let source = Source::of(text).with_context(about)?;
        let arguments = &self.import;
        let (format, name) = match arguments.format {
            Some(Format::Triton) => (import::Format::Triton, "triton"),
            Some(Format::PerfAnalyzer) => (import::Format::PerfAnalyzer, "perf-analyzer"),
            Some(Format::Mlserver) => (import::Format::Mlserver, "mlserver"),
            Some(Format::TfServing) => (import::Format::TfServing, "tf-serving"),
            Some(Format::Csv) | None => (import::Format::Csv, "csv"),
        };
        let counters = format.has_counters();
        let twice = arguments.r#for.is_some();
        anyhow::ensure!(
            !twice || counters && matches!(source, Source::Url(_)),
            "--for: it must be left out; only an address of triton, mlserver or tf-serving can be read twice"
        );
        anyhow::ensure!(
            arguments.earlier.is_none() || counters,
            "--earlier: it must be left out; only triton, mlserver and tf-serving count"
        );
        let (earlier, between) = match &arguments.earlier {
            Some(text) => {
                let about = || format!("--earlier {text}");
                let earlier = Source::of(text).with_context(about)?;
                let read = earlier.read().await.with_context(about)?;
                (Some(read), Some(format!("counted since {earlier}")))
            }
            None => {
                let (read, _) = self.earlier(&source).await.with_context(about)?;
                let between = |time| format!("counted between two readings, {time:?} apart");
                (read, arguments.r#for.map(between))
            }
        };
        let now = source.read().await.with_context(about)?;
        let given = Given {
            cores,
            batch,
            model: arguments.model.clone(),
            columns: Columns {
                names: arguments.column.clone(),
                only: arguments.only.clone(),
            },
        };
        let found = import::import(format, &now, earlier.as_deref(), &given).with_context(about)?;
        let Imported {
            measurements,
            parallelism,
            mut notes,
        } = found;
        notes.extend(between);
        let assumed = Assumed {
            parallelism: arguments
                .parallelism
                .or(parallelism)
                .unwrap_or(Parallelism::Fixed(NonZeroU32::MIN)),
            percentile: arguments.percentile,
            tail: arguments.tail,
        };
        let fitted = Fitted::new(&measurements, assumed).with_context(about)?;
        let origin = Origin {
            source: source.to_string(),
            format: name,
            variant: None,
            // The batches of other sources may be rows of one request.
            batch: (format == import::Format::Triton && fitted.range.batch.max > 1)
                .then_some(fitted.range.batch.max),
            notes,
        };
        print(self.finish(&self.output, &fitted, origin)?)
    }

    async fn read_proxy(&self, url: &Url, cores: f64) -> anyhow::Result<()> {
        let arguments = &self.import;
        let service = arguments.service.as_deref().unwrap_or_default();
        let mut url = url.clone();
        if url.path() == "/" {
            url.set_path(STATS_PATH);
        }
        let source = Source::Url(url);
        let about = || format!("--from-proxy {source}");
        let at_once = match arguments.parallelism {
            Some(Parallelism::Fixed(at_once)) => Some(at_once),
            Some(Parallelism::PerCore) => NonZeroU32::new(Parallelism::PerCore.at_once(cores)),
            None => None,
        };
        let conditions = Conditions {
            cores,
            percentile: arguments.percentile,
            at_once,
        };
        if arguments.variant.is_some() {
            self.is_free(&self.output)?;
            self.try_outputs()?;
        } else {
            let is_file = self.output.extension().is_some() || self.output.is_file();
            let output = self.output.display();
            anyhow::ensure!(
                !is_file,
                "--output {output}: it must be a folder, for a file of each variant; or --variant names one"
            );
            let about = || format!("--output {output}");
            fs::create_dir_all(&self.output).with_context(about)?;
            try_write(&self.output.join("profile.yaml")).context("--output")?;
        }
        let (earlier, read_at) = self.earlier(&source).await.with_context(about)?;
        let earlier = earlier
            .as_deref()
            .map(Reading::of)
            .transpose()
            .with_context(about)?;
        let now = Reading::of(&source.read().await.with_context(about)?).with_context(about)?;
        let time = read_at.elapsed();
        let earlier = earlier.as_ref().map(|reading| (reading, time));
        let one = |variant: &str, path: PathBuf| -> anyhow::Result<String> {
            self.is_free(&path)?;
            let found = now
                .observe((service, variant), earlier, conditions)
                .with_context(about)?;
            let fitted = self.fitted(&found)?;
            let origin = Origin {
                source: source.to_string(),
                format: "proxy",
                variant: Some(format!("{service}/{variant}")),
                batch: None,
                notes: notes(&found, time),
            };
            self.finish(&path, &fitted, origin)
        };
        if let Some(variant) = &arguments.variant {
            return print(one(variant, self.output.clone())?);
        }
        let variants = now.variants(service);
        if variants.is_empty() {
            // Refused, with the names that there are.
            now.observe((service, ""), earlier, conditions)
                .with_context(about)?;
        }
        let folder = &self.output;
        let files = variants
            .iter()
            .map(|variant| one(variant, folder.join(format!("{variant}.yaml"))));
        let (done, left_out): (Vec<_>, Vec<_>) = files.partition(Result::is_ok);
        print(
            done.iter()
                .flatten()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join("\n"),
        )?;
        let left_out = left_out.into_iter().filter_map(Result::err);
        let left_out: Vec<String> = left_out.map(|error| format!("{error:#}")).collect();
        anyhow::ensure!(
            left_out.is_empty(),
            "{} variants left out: {}",
            left_out.len(),
            left_out.join("; ")
        );
        Ok(())
    }

    fn fitted(&self, found: &Observed) -> anyhow::Result<Fitted> {
        let at_once = found.at_once.context(
            "the proxy has no slots of the variant (weir_slots): --parallelism must be the number of batches at once",
        )?;
        let assumed = Assumed {
            parallelism: Parallelism::Fixed(at_once),
            percentile: self.import.percentile,
            tail: None,
        };
        Ok(Fitted::new(&[found.measurement], assumed)?)
    }

    /// Reads a source and waits, with `--for`; returns the text and the time of its reading.
    async fn earlier(&self, source: &Source) -> anyhow::Result<(Option<String>, Instant)> {
        let start = Instant::now();
        let Some(time) = self.import.r#for else {
            return Ok((None, start));
        };
        let text = source.read().await?;
        eprintln!("read once; reads again in {time:?}");
        tokio::time::sleep_until(start + time).await;
        Ok((Some(text), start))
    }

    /// Writes the file and the plot; returns the report.
    fn finish(&self, path: &Path, fitted: &Fitted, origin: Origin) -> anyhow::Result<String> {
        let (latency, capacity) = fitted_models(fitted);
        let stamp = Stamp::now();
        let notes = [origin.notes, fitted.notes.clone()].concat();
        let report = report::fitted(fitted, origin.variant.as_deref(), &notes);
        let file = ProfileFile {
            latency,
            capacity,
            readiness: None,
            accuracy: None,
            batch: origin.batch,
            batch_delay: None,
            range: Some(fitted.range),
            origin: ImportOrigin {
                measured_by: stamp.measured_by,
                date: stamp.date,
                host: stamp.host,
                source: origin.source,
                format: origin.format.to_owned(),
                variant: origin.variant,
                fit: fitted
                    .latency
                    .as_ref()
                    .map(|one| FitQuality::of(&one.chosen)),
                capacity: fitted
                    .capacity
                    .as_ref()
                    .map_or_else(CapacityQuality::default, CapacityQuality::of),
                notes,
                measurements: fitted.measurements.clone(),
            },
        };
        write(path, &file.text()?).context("--output")?;
        if let Some(to) = &self.plot {
            write(to, &Plot::of_fitted(fitted).svg()?).context("--plot")?;
        }
        let path = path.display();
        Ok(format!(
            "{report}{path} is written; a variant refers to it with `profile: {{file: {path}}}`\n"
        ))
    }
}

/// Facts about an observation that reduce its value.
fn notes(found: &Observed, time: Duration) -> Vec<String> {
    let mut notes = Vec::new();
    let quantile = found.quantile;
    let upper = match quantile.upper.is_finite() {
        true => format!("{}", quantile.upper),
        false => "no edge".to_owned(),
    };
    notes.push(format!(
        "the percentile lies in the bucket from {} to {upper} ms",
        quantile.lower
    ));
    let mean_ms = found.measurement.mean_ms;
    match (found.full_s, found.rps, mean_ms) {
        (Some(full_s), _, _) => notes.push(format!(
            "the rate and the mean are those of {full_s:.1} s with all slots taken"
        )),
        (None, Some(rps), Some(mean_ms)) => notes.push(format!(
            "{rps:.1} requests/s in {:.0} s, {:.1} in execution on average: times of a busier server may be longer",
            time.as_secs_f64(),
            rps * mean_ms / 1e3
        )),
        _ => {}
    }
    notes
}
