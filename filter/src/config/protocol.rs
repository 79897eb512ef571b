//! What the configuration lets through untouched: few, short, and never everything.

use serde::Deserialize;

use super::ConfigError;
use super::raw::wrong;
use crate::protocol::{Bypass, METHODS, METHODS_MAX, PATHS, PATHS_MAX, PATTERN_BYTES_MAX, Pattern};

/// What is not named keeps its default; an empty list is none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawBypass {
    methods: Vec<String>,
    paths: Vec<String>,
}

impl Default for RawBypass {
    fn default() -> RawBypass {
        RawBypass {
            methods: METHODS.map(str::to_owned).to_vec(),
            paths: PATHS.map(str::to_owned).to_vec(),
        }
    }
}

impl RawBypass {
    pub(super) fn check(self) -> Result<Bypass, ConfigError> {
        for (path, len, most) in [
            ("bypass.methods", self.methods.len(), METHODS_MAX),
            ("bypass.paths", self.paths.len(), PATHS_MAX),
        ] {
            if len > most {
                let right = format!("at most {most}");
                return Err(wrong(path, format!("{len} of them"), right));
            }
        }
        for (index, method) in self.methods.iter().enumerate() {
            let upper = method.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
            if !upper || !(1..=PATTERN_BYTES_MAX).contains(&method.len()) {
                let right = format!("1 to {PATTERN_BYTES_MAX} of A-Z and dashes");
                let path = format!("bypass.methods[{index}]");
                return Err(wrong(path, shown(method), right));
            }
        }
        let pattern = |(index, path): (usize, &String)| {
            Pattern::new(path).ok_or_else(|| {
                let right = format!(
                    "a path from its / on, at most {PATTERN_BYTES_MAX} printable ASCII characters \
                     without a query, with at most one *, without .., and not /*"
                );
                wrong(format!("bypass.paths[{index}]"), shown(path), right)
            })
        };
        let paths = self.paths.iter().enumerate().map(pattern);
        Ok(Bypass {
            paths: paths.collect::<Result<_, _>>()?,
            methods: self.methods,
        })
    }
}

/// What an error shows of a value: as much as names it.
fn shown(value: &str) -> String {
    const SHOWN: usize = 64;
    let mut start: String = value.chars().take(SHOWN).collect();
    if start.len() < value.len() {
        start.push('…');
    }
    format!("'{start}'")
}
