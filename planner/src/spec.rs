//! A service as written, in its file or as a custom resource: read once, checked wholly, then a [`Service`]. Nothing here
//! reads the key or opens a connection.
//!
//! `service.example.yaml` beside this crate documents every key. Unknown, missing or wrong keys are refused with the
//! key's path, the value and what is allowed.

mod check;
mod classes;
mod demand;
mod duration;
mod filter;
mod limits;
mod place;
mod profile;
mod proxies;
mod raw;
mod renamed;
#[cfg(feature = "kubernetes")]
pub mod resource;
mod servers;
mod service_times;
mod stages;
mod variant;
mod without_profile;
#[cfg(feature = "serve")]
mod written;

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::service::{ConfigError, FILE_BYTES_MAX, Service};

pub use place::{line_of, place_of_tab, split_position};
pub use profile::{PROFILE_BYTES_MAX, R_SQUARED_MIN, check_profile};
#[cfg(feature = "kubernetes")]
pub use raw::SloService;
pub use raw::from_yaml;
pub use raw::{
    RawBounds, RawBudget, RawCapacity, RawCores, RawCpu, RawDuration, RawLatency, RawRange,
    RawReference, RawVariant, ServiceSpec,
};
pub use servers::{Place, place};

/// Source of the keys that polls carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// Environment variable of this name, read once.
    Env(String),
    /// File of this path, read again when it changes.
    File(PathBuf),
}

/// A service file: the service, and how the planner is reached.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceFile {
    /// The service.
    pub service: Service,
    /// Address to answer at.
    pub listen: SocketAddr,
    /// Place of the proxies' key.
    pub key: KeySource,
}

impl ServiceFile {
    /// Reads and checks a service file.
    ///
    /// # Errors
    /// The first thing that is wrong, with the key's path, the value and what is allowed.
    pub fn from_yaml(text: &str) -> Result<ServiceFile, ConfigError> {
        ServiceFile::parse(text)?.try_into()
    }

    /// Parses a service file of at most [`FILE_BYTES_MAX`], without validating values.
    fn parse(text: &str) -> Result<ServiceSpec, ConfigError> {
        if text.len() > FILE_BYTES_MAX {
            return Err(ConfigError::TooLarge(text.len()));
        }
        ServiceSpec::from_yaml(text)
    }
}

impl Service {
    /// Reads the service of a file.
    ///
    /// # Errors
    /// As [`ServiceFile::from_yaml`] has them.
    pub fn from_yaml(text: &str) -> Result<Service, ConfigError> {
        Ok(ServiceFile::from_yaml(text)?.service)
    }

    /// Checks the service of a resource of that name.
    ///
    /// # Errors
    /// The first thing that is wrong, with the key's path, the value and what is allowed.
    pub fn from_resource(name: &str, spec: ServiceSpec) -> Result<Service, ConfigError> {
        check::from_resource(name, spec)
    }
}

#[cfg(test)]
pub(crate) mod tests;
