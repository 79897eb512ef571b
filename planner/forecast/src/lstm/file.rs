//! Model file of the LSTM (JSON): format, origin and weights.

use serde::{Deserialize, Serialize};

use super::{Network, WEIGHTS};
use crate::task::HORIZON_MAX;

/// Format of the file.
pub const FORMAT: &str = "weir-lstm/1";
/// Maximum size of a model file, in bytes.
pub const BYTES_MAX: usize = 1 << 20;

/// Facts of a training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Day of the training.
    pub date: String,
    /// Trace trained with.
    pub trace: String,
    /// SHA-256 of the trace's file, in hexadecimal digits.
    pub trace_sha256: String,
    /// Seconds of the trace trained with.
    pub seconds: usize,
    /// Seconds ahead.
    pub horizon_s: usize,
    /// Windows trained with.
    pub windows: usize,
    /// Passes over all windows.
    pub epochs: usize,
    /// Seed.
    pub seed: u64,
    /// Mean absolute error of the peak's logarithm in the last pass.
    pub loss: f64,
    /// Symmetric absolute error over the windows trained with, in percent.
    pub smape_percent: f64,
}

/// Content of a model file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    format: String,
    facts: Facts,
    weights: Vec<f32>,
}

/// Model with its facts.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFile {
    /// Facts of its training.
    pub facts: Facts,
    /// The network.
    pub network: Network,
}

/// Error of a model file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file is too large.
    #[error("{0} bytes; it must be at most {BYTES_MAX}")]
    Bytes(usize),
    /// The file is no JSON of this form.
    #[error("no model file: {0}")]
    Json(#[from] serde_json::Error),
    /// The format is unknown.
    #[error("format: {0}; it must be {FORMAT}")]
    Format(String),
    /// The horizon is out of range.
    #[error("facts.horizon_s: {0}; it must be 1 to {HORIZON_MAX}")]
    Horizon(usize),
    /// The weights do not fit.
    #[error("weights: {0}; there must be {WEIGHTS} finite numbers")]
    Weights(usize),
}

impl ModelFile {
    /// Reads a model file.
    ///
    /// # Errors
    /// The first part of the file that is wrong.
    pub fn read(text: &str) -> Result<ModelFile, FileError> {
        if text.len() > BYTES_MAX {
            return Err(FileError::Bytes(text.len()));
        }
        let content: Content = serde_json::from_str(text)?;
        if content.format != FORMAT {
            return Err(FileError::Format(content.format));
        }
        let horizon = content.facts.horizon_s;
        if !(1..=HORIZON_MAX).contains(&horizon) {
            return Err(FileError::Horizon(horizon));
        }
        let weights = content.weights.len();
        let network = Network::new(content.weights).ok_or(FileError::Weights(weights))?;
        Ok(ModelFile {
            facts: content.facts,
            network,
        })
    }

    /// Text of the file.
    ///
    /// # Errors
    /// None with finite numbers.
    pub fn write(&self) -> Result<String, FileError> {
        let content = Content {
            format: FORMAT.to_owned(),
            facts: self.facts.clone(),
            weights: self.network.weights().to_vec(),
        };
        Ok(serde_json::to_string_pretty(&content)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> ModelFile {
        ModelFile {
            facts: Facts {
                date: "2026-11-26".to_owned(),
                trace: "trace.txt".to_owned(),
                trace_sha256: "00".repeat(32),
                seconds: 6000,
                horizon_s: 20,
                windows: 1000,
                epochs: 3,
                seed: 1,
                loss: 0.07,
                smape_percent: 7.0,
            },
            network: Network::new(vec![0.1; WEIGHTS]).unwrap(),
        }
    }

    #[test]
    fn model_is_read_as_it_was_written() {
        let text = model().write().unwrap();
        assert_eq!(ModelFile::read(&text).unwrap(), model());
    }

    #[test]
    fn invalid_model_is_refused_with_field_and_value() {
        let text = model().write().unwrap();
        let short = text.replacen("0.1,", "", 1);
        let missing = WEIGHTS - 1;
        for (text, message) in [
            (
                text.replace("weir-lstm/1", "weir-lstm/9"),
                "format: weir-lstm/9; it must be weir-lstm/1",
            ),
            (
                text.replace("\"horizon_s\": 20", "\"horizon_s\": 0"),
                "facts.horizon_s: 0; it must be 1 to 120",
            ),
            (
                short,
                &*format!("weights: {missing}; there must be {WEIGHTS} finite numbers"),
            ),
            (text.replacen("0.1,", "1e99,", 1), "weights: "),
            (
                text.replace("\"seed\"", "\"sead\""),
                "no model file: unknown field `sead`",
            ),
            ("{".to_owned(), "no model file: EOF"),
            (
                " ".repeat(BYTES_MAX + 1),
                "1048577 bytes; it must be at most 1048576",
            ),
        ] {
            let error = ModelFile::read(&text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
