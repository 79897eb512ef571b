//! `weir train`: trains the LSTM on a trace, and writes the model file. Equal traces and seeds give equal models.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use sha2::{Digest, Sha256};
use weir_forecast::history::WINDOW;
use weir_forecast::lstm::file::{Facts, ModelFile};
use weir_forecast::lstm::train::{Training, train};
use weir_forecast::task::Task;
use weir_planner::spec::RawDuration;

use crate::output::{print, try_write, write};
use crate::trace::progress::Progress;
use crate::trace::{TraceArguments, duration, seconds};

/// Arguments of `weir train`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Train {
    #[command(flatten)]
    of: TraceArguments,
    /// Train with this first part of the trace alone.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    train: Option<RawDuration>,
    /// Passes over all windows.
    #[arg(long, value_name = "N", default_value_t = 6)]
    epochs: usize,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// File of the model.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file.
    #[arg(long)]
    replace: bool,
}

impl Train {
    /// # Errors
    /// A wrong argument or trace, or a model that cannot be written.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let out = self.out.display();
        anyhow::ensure!(
            self.replace || !self.out.exists(),
            "--out {out}: it exists; --replace trains anew"
        );
        try_write(&self.out).context("--out")?;
        // Any valid quantile: the network is trained for the median.
        let horizon = Task::new(self.of.horizon()?, 0.5)?.horizon();
        let trace = self.of.read(WINDOW + horizon)?;
        let trace = match self.train {
            Some(first) => trace.first(seconds("--train", first)?),
            None => trace,
        };
        let training = Training {
            horizon,
            seed: self.seed,
            epochs: self.epochs,
        };
        let progress = Progress::new(self.epochs as u64, "passes")?;
        let tell = |epoch, loss| progress.reach(epoch as u64, || format!("loss {loss:.5}"));
        let trained = train(&trace, &training, tell)?;
        progress.finish();
        let model = ModelFile {
            facts: Facts {
                date: format!("{:.0}", jiff::Timestamp::now()),
                trace: self.name(),
                trace_sha256: self.sha256()?,
                seconds: trace.rates().len(),
                horizon_s: horizon,
                windows: trained.windows,
                epochs: self.epochs,
                seed: self.seed,
                loss: trained.loss,
                smape_percent: trained.smape_percent,
            },
            network: trained.network,
        };
        write(&self.out, &model.write()?).context("--out")?;
        print(format!(
            "{out}: {} windows, {} passes, loss {:.5}, SMAPE {:.2} % on what it was trained with\n",
            model.facts.windows, model.facts.epochs, model.facts.loss, model.facts.smape_percent
        ))
    }

    /// File name of the trace, without its folder.
    fn name(&self) -> String {
        let name = self.of.trace.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    fn sha256(&self) -> anyhow::Result<String> {
        let bytes = fs::read(&self.of.trace).context("--trace")?;
        let mut digits = String::new();
        for byte in Sha256::digest(&bytes) {
            write!(digits, "{byte:02x}")?;
        }
        Ok(digits)
    }
}
