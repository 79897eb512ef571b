//! Configuration of bypassed paths and methods, and of paths of streams: few, short, and never all.

use serde::Deserialize;

use super::ConfigError;
use super::error::wrong;
use crate::request::protocol::{
    Bypass, GET_PATHS, METHODS, METHODS_MAX, PATHS, PATHS_MAX, PATTERN_BYTES_MAX, Pattern,
    STREAMED, Streams,
};

/// Absent keys keep their defaults; an empty list is empty.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawBypass {
    methods: Vec<String>,
    paths: Vec<String>,
    get_paths: Vec<String>,
}

impl Default for RawBypass {
    fn default() -> RawBypass {
        RawBypass {
            methods: METHODS.map(str::to_owned).to_vec(),
            paths: PATHS.map(str::to_owned).to_vec(),
            get_paths: GET_PATHS.map(str::to_owned).to_vec(),
        }
    }
}

impl RawBypass {
    pub(super) fn check(self) -> Result<Bypass, ConfigError> {
        if self.methods.len() > METHODS_MAX {
            let right = format!("at most {METHODS_MAX}");
            let many = format!("{} of them", self.methods.len());
            return Err(wrong("bypass.methods", many, right));
        }
        for (index, method) in self.methods.iter().enumerate() {
            let upper = method.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
            if !upper || !(1..=PATTERN_BYTES_MAX).contains(&method.len()) {
                let right = format!("1 to {PATTERN_BYTES_MAX} of A-Z and dashes");
                let path = format!("bypass.methods[{index}]");
                return Err(wrong(path, shown(method), right));
            }
        }
        Ok(Bypass {
            paths: patterns("bypass.paths", &self.paths)?,
            get_paths: patterns("bypass.get_paths", &self.get_paths)?,
            methods: self.methods,
        })
    }
}

/// Absent keys keep their defaults; an empty list is empty.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawStreams {
    requests: Vec<String>,
    answers: Vec<String>,
}

impl Default for RawStreams {
    fn default() -> RawStreams {
        RawStreams {
            requests: Vec::new(),
            answers: STREAMED.map(str::to_owned).to_vec(),
        }
    }
}

impl RawStreams {
    pub(super) fn check(self) -> Result<Streams, ConfigError> {
        Ok(Streams {
            requests: patterns("streams.requests", &self.requests)?,
            answers: patterns("streams.answers", &self.answers)?,
        })
    }
}

/// Checks the patterns of `list`, which is their path in the configuration.
pub(super) fn patterns(list: &str, paths: &[String]) -> Result<Vec<Pattern>, ConfigError> {
    if paths.len() > PATHS_MAX {
        let right = format!("at most {PATHS_MAX}");
        return Err(wrong(
            list.to_owned(),
            format!("{} of them", paths.len()),
            right,
        ));
    }
    let pattern = |(index, path): (usize, &String)| {
        Pattern::new(path).ok_or_else(|| {
            let right = format!(
                "a path from its / on, at most {PATTERN_BYTES_MAX} printable ASCII characters \
                 without a query, with at most one *, without .., and not /*"
            );
            wrong(format!("{list}[{index}]"), shown(path), right)
        })
    };
    paths.iter().enumerate().map(pattern).collect()
}

/// Shortens a value for an error message.
pub(super) fn shown(value: &str) -> String {
    const SHOWN: usize = 64;
    let mut start: String = value.chars().take(SHOWN).collect();
    if start.len() < value.len() {
        start.push('…');
    }
    format!("'{start}'")
}
