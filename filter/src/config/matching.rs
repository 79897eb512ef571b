//! Configuration of the requests that are a service's own: hosts and paths.

use serde::Deserialize;

use super::ConfigError;
use super::error::wrong;
use super::protocol::{patterns, shown};
use crate::request::matching::{HOST_BYTES_MAX, HOSTS_MAX, Host, Match};

/// An absent or empty list matches everything.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawMatch {
    hosts: Vec<String>,
    paths: Vec<String>,
}

impl RawMatch {
    pub(super) fn check(self) -> Result<Match, ConfigError> {
        if self.hosts.len() > HOSTS_MAX {
            let many = format!("{} of them", self.hosts.len());
            return Err(wrong("match.hosts", many, format!("at most {HOSTS_MAX}")));
        }
        let host = |(index, host): (usize, &String)| {
            Host::new(host).ok_or_else(|| {
                let right = format!(
                    "a name without a port, or *. and a domain: at most {HOST_BYTES_MAX} of a-z, 0-9, \
                     -, _ and single dots between; for every host leave `hosts` out"
                );
                wrong(format!("match.hosts[{index}]"), shown(host), right)
            })
        };
        let hosts: Result<_, _> = self.hosts.iter().enumerate().map(host).collect();
        Ok(Match {
            hosts: hosts?,
            paths: patterns("match.paths", &self.paths)?,
        })
    }
}
