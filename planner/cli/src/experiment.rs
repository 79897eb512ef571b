//! `weir experiment`: plays the experiments of files, and reports their results beside the papers' figures. The tables
//! (or JSON) go to standard output, the progress to standard error.
//!
//! Each file of a report is written beside its place and renamed: an interrupted run leaves no half-written one.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use weir_experiment::{Experiment, Results, page, pictures, read, table};

use crate::output::print;

/// Maximum number of threads.
const THREADS_MAX: usize = 256;
/// Update interval of the bar's clock.
const TICK: Duration = Duration::from_millis(100);
/// Interval of the lines without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(3);
/// File of the page.
const PAGE: &str = "experiments.md";
/// Beginning of the name of a file that is being written.
const UNFINISHED: &str = ".weir-";
/// First lines of the page.
const INTRODUCTION: &str = include_str!("experiment/introduction.txt");

/// Arguments of `weir experiment`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct ExperimentArguments {
    /// The experiment files (YAML).
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Folder with the papers' inputs; without it their substitutes are played.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Write the report into this folder: a page, JSON and pictures.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Print JSON instead of the tables.
    #[arg(long)]
    json: bool,
    /// Number of threads; by default one for each CPU.
    #[arg(long, value_name = "N", value_parser = threads)]
    threads: Option<usize>,
    /// Check the files and their inputs, without playing them.
    #[arg(long)]
    check: bool,
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads) if (1..=THREADS_MAX).contains(&threads) => Ok(threads),
        _ => Err(format!("{text}; it must be 1 to {THREADS_MAX}")),
    }
}

impl ExperimentArguments {
    /// # Errors
    /// An invalid file, a distance without its reason, or a report that cannot be written.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let mut experiments = Vec::with_capacity(self.files.len());
        for file in &self.files {
            experiments.push(read(file, self.data.as_deref())?);
        }
        if self.check {
            return experiments.iter().try_for_each(|one| print(summary(one)));
        }
        if let Some(folder) = &self.report {
            prepare(folder).with_context(|| format!("--report {}", folder.display()))?;
        }
        let mut all = Vec::with_capacity(experiments.len());
        for experiment in experiments {
            let results = self.played(&experiment)?;
            if let Some(folder) = &self.report {
                write_results(folder, &results)?;
            }
            if !self.json {
                print(table(&results) + "\n")?;
            }
            all.push((experiment, results));
        }
        if let Some(folder) = &self.report {
            write(folder, PAGE, &page(INTRODUCTION, &all))?;
        }
        if self.json {
            let results: Vec<&Results> = all.iter().map(|(_, results)| results).collect();
            print(serde_json::to_string_pretty(&results)? + "\n")?;
        }
        all.iter().try_for_each(|(_, results)| reasons(results))
    }

    fn played(&self, experiment: &Experiment) -> anyhow::Result<Results> {
        let usual = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.unwrap_or_else(usual);
        let bar = ProgressBar::new(0);
        let form = "{elapsed_precise} {bar:30} {pos} of {len} {msg}";
        bar.set_style(ProgressStyle::with_template(form)?);
        bar.enable_steady_tick(TICK);
        let last_line = Mutex::new(Duration::ZERO);
        let results = experiment.play(threads, &|progress| {
            bar.set_length(progress.all as u64);
            bar.set_position(progress.ended as u64);
            bar.set_message(progress.last.clone());
            let mut last_line = last_line.lock().unwrap_or_else(PoisonError::into_inner);
            if bar.is_hidden() && bar.elapsed() >= *last_line + LINE_EVERY {
                *last_line = bar.elapsed();
                eprintln!("{} of {}: {}", progress.ended, progress.all, progress.last);
            }
        })?;
        bar.finish_and_clear();
        Ok(results)
    }
}

/// Description of an experiment for `--check`.
fn summary(experiment: &Experiment) -> String {
    let names = |names: Vec<&str>| names.join(", ");
    let about = match &*experiment.question {
        "" => &experiment.title,
        question => question,
    };
    format!(
        "{}: {}\n  cases: {}\n  rows: {}\n  seeds: {:?}\n",
        experiment.name,
        about,
        names(experiment.cases.iter().map(|one| &*one.name).collect()),
        names(experiment.rows.iter().map(|one| &*one.name).collect()),
        experiment.seeds,
    )
}

/// Requires a reason for every large distance to the paper's value.
fn reasons(results: &Results) -> anyhow::Result<()> {
    for one in &results.distances {
        ensure!(
            !one.lacks_reason(),
            "{}: {}, {}, {}: {} played and {} published ({:+.0} %); state the reason as `why`",
            results.name,
            one.row,
            one.case,
            one.column.heading(),
            one.played,
            one.published,
            one.percent
        );
    }
    for one in &results.claims {
        ensure!(
            !one.lacks_reason(),
            "{}: {} / {}, {}, {}: {} played and {} published; state the reason as `why`",
            results.name,
            one.row,
            one.to,
            one.case,
            one.column.heading(),
            one.played
                .map_or_else(|| "no ratio".to_owned(), |played| played.to_string()),
            one.published,
        );
    }
    Ok(())
}

/// Makes the folder of a report, and refuses one with files that no report has.
fn prepare(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().display().to_string();
        let is_own = name == PAGE || name.starts_with(UNFINISHED);
        let is_own = is_own || [".json", ".svg"].iter().any(|end| name.ends_with(end));
        ensure!(
            is_own,
            "{name} is not of a report; name a new folder or an earlier report's"
        );
    }
    // Refused now and not after the plays. It is deleted at once.
    let mut file = tempfile::Builder::new();
    let made = file.prefix(UNFINISHED).tempfile_in(folder);
    made.map_err(|error| std::io::Error::from(error.kind()))?;
    Ok(())
}

fn write_results(folder: &Path, results: &Results) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(results)? + "\n";
    write(folder, &format!("{}.json", results.name), &json)?;
    for (name, svg) in pictures(results)? {
        write(folder, &name, &svg)?;
    }
    Ok(())
}

/// Writes a file under another name, and renames it.
fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = folder.join(name);
    let written = || -> anyhow::Result<()> {
        let mut file = tempfile::Builder::new();
        // As any new file: the umask takes what it takes.
        let permissions = Permissions::from_mode(0o666);
        let file = file.prefix(UNFINISHED).permissions(permissions);
        let mut file = file.tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.persist(&path)?;
        Ok(())
    };
    written().with_context(|| path.display().to_string())
}
