//! Experiments as files: one scenario, changed by cases and rows, played and put into a table beside the paper's
//! figures.
//!
//! [`read`] reads and checks an experiment file. [`Experiment::play`] plays every row of every case with every seed, on
//! several threads, and measures its columns. [`Results`] are written as JSON, as a page and as pictures. Experiment
//! file and inputs determine the results: equal inputs give equal bytes.

mod experiment;
mod input;
mod objective;
mod page;
mod path;
mod picture;
mod play;
mod raw;
mod results;

pub use experiment::{Case, EXPERIMENT_BYTES_MAX, Experiment, Row, first_error, read};
pub use page::{page, section, table};
pub use picture::pictures;
pub use play::{Played, Progress};
pub use raw::{Column, Figure, Kind};
pub use results::{Cell, ClaimResult, Distance, Results};
