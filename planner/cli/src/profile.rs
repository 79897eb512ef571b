//! `weir profile`: measures a variant or all of a service through their endpoints, or reads what others have measured.
//! The result goes to standard output and into the profile files, the progress to standard error.
//!
//! The file is written after each point, so that an interrupted measurement goes on with `--resume`.

mod extent;
mod import;
mod output;
mod progress;
mod report;
mod service;
mod value;
#[cfg(feature = "kubernetes")]
mod via;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use reqwest::Url;
use tokio::sync::watch;
use weir_profile::cgroup::Cgroup;
use weir_profile::endpoint::{Batching, Endpoint, Protocol};
use weir_profile::labels::{self, Accuracy, Labelled, accuracy};
use weir_profile::model::{Point, model};
use weir_profile::plot::Plot;
use weir_profile::point::Until;
use weir_profile::profile_file::{Origin, Subject};
use weir_profile::resize::Resize;
use weir_profile::run::{Extent, Run, run};
use weir_profile::sweep::CONCURRENCY_MAX;

use crate::output::{print, try_write, write};
use progress::Progress;

/// Maximum number of cores and of batches to measure.
const VALUES_MAX: usize = 32;

/// Default maximum time of all points, of one number of cores and one batch.
const TIME_OF_ONE: Duration = Duration::from_secs(90);
/// The same of several.
const TIME_OF_SEVERAL: Duration = Duration::from_secs(300);

/// Protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ProtocolName {
    /// Any HTTP.
    Http,
    /// Open Inference Protocol v2 over HTTP.
    V2,
    /// Open Inference Protocol v2 over gRPC; the request is written as for HTTP.
    V2Grpc,
}

/// Arguments of `weir profile`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Profile {
    /// Service file, whose variants at the addresses that follow are measured one after the other, each into the profile
    /// that the file names. Those that have one are left out. All times below are for each variant.
    #[arg(
        value_name = "SERVICE", requires = "servers",
        conflicts_with_all = ["url", "from_proxy", "import", "output", "plot", "cores", "cgroup", "resize"]
    )]
    service_file: Option<PathBuf>,
    /// Name of a variant and address of its model or server, as for `weir init`.
    #[arg(value_name = "NAME=URL", value_parser = crate::init::variant)]
    servers: Vec<(String, Url)>,
    /// Address that requests are sent to, such as <http://127.0.0.1:8080/v2/models/digits/infer>.
    #[arg(
        long, value_name = "URL", requires = "request",
        required_unless_present_any = ["service_file", "from_proxy", "import"],
        conflicts_with_all = ["from_proxy", "import"]
    )]
    url: Option<Url>,
    /// File with the body of one request. Default with SERVICE: NAME.request.json beside it, as `weir init` writes it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from_proxy", "import"])]
    request: Option<PathBuf>,
    /// Protocol of the server. Default: v2 if the path is /v2/models/NAME/infer, else http.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["from_proxy", "import"])]
    protocol: Option<ProtocolName>,
    /// Content type of the request.
    #[arg(long, value_name = "TYPE", default_value = "application/json")]
    content_type: String,
    /// Cores of the server. With several, --cgroup, --resize or --via gives the server each of them in turn.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1")]
    cores: Vec<f64>,
    /// Folder of the server's control group, whose CPU quota is set to the cores and restored at the end.
    #[arg(long, value_name = "DIR")]
    cgroup: Option<PathBuf>,
    /// Address that changes the server's cores with PUT {"cores": 4}, as resize of a variant.
    #[arg(long, value_name = "URL", conflicts_with = "cgroup")]
    resize: Option<Url>,
    /// Send the batch to the resize address as well, with PUT {"batch": 4}.
    #[arg(long, requires = "resize")]
    tell_batch: bool,
    /// Batches to measure: rows of each input in one request of the Open Inference Protocol.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1")]
    batches: Vec<u32>,
    /// Send single requests, of which the server forms the batches, up to the greatest of --batches. Without --tell-batch
    /// the number in flight shows them.
    #[arg(long)]
    batch_requests: bool,
    /// Half width of throughput's 95 % interval at which a point is measured well enough, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 3.0)]
    precision: f64,
    /// Stop when left-out points are predicted within that on average, in percent; else all combinations are measured.
    #[arg(long, value_name = "PERCENT")]
    fit_error: Option<f64>,
    /// Maximum time of a point, in seconds.
    #[arg(long, value_name = "S", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3600))]
    point_time: u64,
    /// Maximum time of all points together, in seconds. Default: 90, or 300 with several cores or batches that the server
    /// is sent.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    time: Option<u64>,
    /// Latency objective, such as 500ms: the capacity is the greatest throughput whose 95th percentile meets it. Default
    /// with SERVICE: its `slo`; otherwise none.
    #[arg(long, value_name = "TIME", value_parser = value::objective, conflicts_with_all = ["from_proxy", "import"])]
    slo: Option<Duration>,
    /// Maximum time until the server answers, in seconds.
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=3600))]
    ready_time: u64,
    /// Maximum time of one request, in seconds.
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Maximum number of requests in flight.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=i64::from(CONCURRENCY_MAX)))]
    concurrency_max: u32,
    /// File with labelled requests for the accuracy: lines of {"request": BODY, "label": VALUE}.
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// File of the profile.
    #[arg(long, value_name = "FILE", default_value = "profile.yaml")]
    output: PathBuf,
    /// Go on with the points that are in the file already; with SERVICE this is the default.
    #[arg(long, conflicts_with = "replace")]
    resume: bool,
    /// Replace the file. With SERVICE, measure variants that have a profile again.
    #[arg(long)]
    replace: bool,
    /// Draw the points and the fitted curves into this SVG file.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[cfg(feature = "kubernetes")]
    #[command(flatten)]
    via: via::Via,
    #[command(flatten)]
    import: import::Import,
    /// Whether it is of a variant of a service file, which names the profile already.
    #[arg(skip)]
    is_of_service: bool,
}

impl Profile {
    /// # Errors
    /// A wrong argument or file, a server that does not answer, or a file that cannot be written.
    pub(crate) async fn run(&self, stop: watch::Receiver<bool>) -> anyhow::Result<()> {
        self.check()?;
        match (&self.service_file, &self.url) {
            (Some(file), _) => self.service(file, stop).await,
            (None, Some(_)) => print(self.variant(stop).await?),
            (None, None) => self.import(stop).await,
        }
    }

    /// Measures the variant at the address, writes its files and returns the report.
    async fn variant(&self, mut stop: watch::Receiver<bool>) -> anyhow::Result<String> {
        self.try_outputs()?;
        let extent = self.extent().await?;
        let subject = extent.endpoint.subject();
        let known = self.known(subject)?;
        let labelled = self.labelled()?;
        let mut progress = Progress::new(self, subject, known.clone())?;
        let measured = tokio::select! {
            measured = self.measure(&extent, &labelled, &known, &mut progress) => measured,
            _ = stop.changed() => Err(interrupted(&extent).await),
        };
        progress.bar.finish_and_clear();
        let kept = || {
            let (points, path) = (progress.kept, self.output.display());
            let again = match self.resume {
                true => "the same command",
                false => "--resume",
            };
            format!("{points} points are kept in {path}: {again} goes on")
        };
        let (run, accuracy) = match measured {
            Err(error) if progress.kept > 0 => return Err(error.context(kept())),
            measured => measured?,
        };
        let model = model(&run.busy, &run.best, &progress.points)?;
        let file = self.file(subject, &progress.points, Some((&run, &model, accuracy)));
        self.write(&file)?;
        if let Some(to) = &self.plot {
            let svg = Plot::of_points(&run.busy, &model).svg()?;
            write(to, &svg).context("--plot")?;
        }
        Ok(self.summary(&run, &model, accuracy))
    }

    async fn measure(
        &self,
        extent: &Extent,
        labelled: &[Labelled],
        known: &[Point],
        progress: &mut Progress<'_>,
    ) -> anyhow::Result<(Run, Option<Accuracy>)> {
        let run = run(extent, known, &mut |event| progress.tell(&event)).await?;
        let message = |text: String| progress.bar.set_message(text);
        Ok((run, accuracy(&extent.endpoint, labelled, message).await?))
    }

    fn check(&self) -> anyhow::Result<()> {
        let distinct = |values: &[f64]| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted.dedup();
            sorted.len() == values.len() && values.len() <= VALUES_MAX
        };
        for cores in &self.cores {
            let right = (0.01..=1024.0).contains(cores);
            anyhow::ensure!(right, "--cores: {cores}; it must be 0.01 to 1024");
        }
        let right = distinct(&self.cores);
        anyhow::ensure!(
            right,
            "--cores: it must be 1 to {VALUES_MAX} different numbers"
        );
        let is_resized = self.cgroup.is_some() || self.resize.is_some() || self.is_pod();
        let several = self.url.is_some() && self.cores.len() > 1 && !is_resized;
        anyhow::ensure!(
            !several,
            "--cores: several; it must be one number, or --cgroup, --resize or --via must say where they are set"
        );
        for batch in &self.batches {
            let right = (1..=1024).contains(batch);
            anyhow::ensure!(right, "--batches: {batch}; it must be 1 to 1024");
        }
        let batches: Vec<f64> = self.batches.iter().copied().map(f64::from).collect();
        let right = distinct(&batches);
        anyhow::ensure!(
            right,
            "--batches: it must be 1 to {VALUES_MAX} different numbers"
        );
        let precision = self.precision;
        let right = (0.1..=50.0).contains(&precision);
        anyhow::ensure!(
            right,
            "--precision: {precision}; it must be 0.1 to 50 percent"
        );
        let error = self.fit_error.unwrap_or(1.0);
        let right = (0.1..=50.0).contains(&error);
        anyhow::ensure!(right, "--fit-error: {error}; it must be 0.1 to 50 percent");
        Ok(())
    }

    /// Whether the server is a pod that is resized.
    fn is_pod(&self) -> bool {
        #[cfg(feature = "kubernetes")]
        return self.via.is_given();
        #[cfg(not(feature = "kubernetes"))]
        false
    }

    /// Opens the server's cores for changes.
    async fn resize(&self) -> anyhow::Result<Resize> {
        #[cfg(feature = "kubernetes")]
        if let Some(pod) = self.via.open(&self.cores).await? {
            return Ok(pod);
        }
        Ok(match (&self.cgroup, &self.resize) {
            (Some(folder), _) => Resize::Group(Cgroup::open(folder).context("--cgroup")?),
            (None, Some(url)) => Resize::Address {
                url: url.clone(),
                tell_batch: self.tell_batch,
            },
            (None, None) => Resize::None,
        })
    }

    async fn extent(&self) -> anyhow::Result<Extent> {
        let read =
            |path: &Path| fs::read(path).with_context(|| format!("--request {}", path.display()));
        let (Some(url), Some(request)) = (&self.url, &self.request) else {
            anyhow::bail!("--url, --request: missing; both are needed to measure");
        };
        let body = (self.content_type.clone(), read(request)?);
        let mut batches = self.batches.clone();
        batches.sort_unstable();
        let largest = batches.last().copied().unwrap_or(1);
        // A server that forms its batches by itself shows all of them by the number in flight.
        let batch_max = (self.batch_requests && !self.tell_batch).then_some(largest);
        if batch_max.is_some() {
            batches = vec![1];
        }
        let time = match batches.len() * self.cores.len() {
            0 | 1 => TIME_OF_ONE,
            _ => TIME_OF_SEVERAL,
        };
        let timeout = Duration::from_secs(self.timeout);
        let protocol = match self.protocol {
            Some(ProtocolName::Http) => Protocol::Http,
            Some(ProtocolName::V2) => Protocol::V2,
            Some(ProtocolName::V2Grpc) => Protocol::V2Grpc,
            None => Protocol::of(url),
        };
        let batching = match self.batch_requests {
            true => Batching::Requests,
            false => Batching::Rows,
        };
        let endpoint = Endpoint::new(url.clone(), protocol, batching, body, &batches, timeout)?;
        let mut cores = self.cores.clone();
        cores.sort_by(f64::total_cmp);
        Ok(Extent {
            endpoint: Arc::new(endpoint),
            cores,
            resize: self.resize().await?,
            batches,
            batching,
            batch_max,
            concurrency_max: self.concurrency_max,
            slo: self.slo,
            point: Until {
                precision_percent: self.precision,
                time: Duration::from_secs(self.point_time),
            },
            ready_max: Duration::from_secs(self.ready_time),
            time: self.time.map_or(time, Duration::from_secs),
            fit_error_percent: self.fit_error,
        })
    }

    fn labelled(&self) -> anyhow::Result<Vec<Labelled>> {
        let Some(path) = &self.labels else {
            return Ok(Vec::new());
        };
        let about = || format!("--labels {}", path.display());
        let text = fs::read_to_string(path).with_context(about)?;
        labels::read(&text).with_context(about)
    }

    /// Tries the files that are written at the end, before anything is measured.
    fn try_outputs(&self) -> anyhow::Result<()> {
        let plot = self.plot.iter().map(|path| ("--plot", path));
        for (name, path) in [("--output", &self.output)].into_iter().chain(plot) {
            try_write(path).with_context(|| name)?;
        }
        Ok(())
    }

    /// Refuses to overwrite a file without `--replace`.
    fn is_free(&self, path: &Path) -> anyhow::Result<()> {
        let path = (path.exists() && !self.replace).then(|| path.display());
        path.map_or(Ok(()), |path| {
            Err(anyhow::anyhow!(
                "--output {path}: it exists; --replace writes it anew"
            ))
        })
    }

    /// Points of an earlier run of the same requests.
    fn known(&self, subject: &Subject) -> anyhow::Result<Vec<Point>> {
        let path = self.output.display();
        if !self.output.exists() || self.replace {
            return Ok(Vec::new());
        }
        anyhow::ensure!(
            self.resume,
            "--output {path}: it exists; --resume goes on with its points, --replace measures anew"
        );
        let about = || format!("--resume: {path} is no profile of this command");
        let text = fs::read_to_string(&self.output).with_context(about)?;
        let earlier = Origin::read(&text).with_context(about)?;
        anyhow::ensure!(
            earlier.subject == *subject,
            "--resume: {path} is of {}; it must be of {subject}: --replace measures anew",
            earlier.subject
        );
        Ok(earlier.points)
    }
}

/// Restores the server's cores; returns the error of an interrupted measurement.
async fn interrupted(extent: &Extent) -> anyhow::Error {
    match extent.resize.restore().await {
        Ok(()) => anyhow::anyhow!("interrupted"),
        Err(error) => anyhow::anyhow!("interrupted; and {error}"),
    }
}
