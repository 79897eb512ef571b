//! Configuration of the estimation of clients' clock offsets.

use crate::time::Span;
use serde::Deserialize;
use weir_api::plan::HOUR_MS;

use super::error::wrong;
use super::{ConfigError, Skew};

/// Maximum length of a header's name.
const HEADER_BYTES_MAX: usize = 128;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawSkew {
    estimate: bool,
    delay_ms: u64,
    source_header: Option<String>,
}

impl Default for RawSkew {
    fn default() -> RawSkew {
        RawSkew {
            estimate: true,
            // Once around the earth and back by land: no client is always further away.
            delay_ms: 250,
            source_header: None,
        }
    }
}

/// Checked configuration.
pub(super) struct CheckedSkew {
    pub(super) policy: Skew,
    pub(super) delay_allowance: Span,
}

impl RawSkew {
    pub(super) fn check(self) -> Result<CheckedSkew, ConfigError> {
        if self.delay_ms > HOUR_MS {
            let right = format!("0 to {HOUR_MS}");
            return Err(wrong("skew.delay_ms", self.delay_ms, right));
        }
        if let Some(header) = &self.source_header {
            let token = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
            if !header.bytes().all(token) || !(1..=HEADER_BYTES_MAX).contains(&header.len()) {
                let right =
                    format!("a header's name, 1 to {HEADER_BYTES_MAX} of a-z, 0-9, -, _ and .");
                return Err(wrong("skew.source_header", format!("'{header}'"), right));
            }
            if !self.estimate {
                let right = "left out where `skew.estimate` is false";
                return Err(wrong("skew.source_header", format!("'{header}'"), right));
            }
        }
        Ok(CheckedSkew {
            delay_allowance: Span::from_millis(self.delay_ms),
            policy: Skew {
                estimate: self.estimate,
                source_header: self.source_header,
            },
        })
    }
}
