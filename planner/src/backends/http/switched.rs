//! Backends that are changed only while the mode of their service is active.

use weir_api::Cores;

use super::{Advisory, HttpBackends};
use crate::backends::{Actuate, ActuateError, NotReplaced};
use crate::capacity::{Actual, Resize};
use crate::mode::{ModeSwitch, RunMode};

/// Backends that are changed in mode active, and read in every mode.
#[derive(Debug)]
pub struct SwitchedBackends<'a> {
    active: HttpBackends,
    advisory: Advisory,
    mode: &'a ModeSwitch,
}

impl<'a> SwitchedBackends<'a> {
    /// Creates the port to these backends, which follows `mode`.
    pub fn new(backends: HttpBackends, mode: &'a ModeSwitch) -> SwitchedBackends<'a> {
        SwitchedBackends {
            advisory: backends.clone().advisory(),
            active: backends,
            mode,
        }
    }

    fn is_active(&self) -> bool {
        self.mode.current().mode == RunMode::Active
    }
}

impl Actuate for SwitchedBackends<'_> {
    async fn actual(&self) -> Vec<Option<Result<Actual, ActuateError>>> {
        self.active.actual().await
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<Actual, ActuateError>> {
        match self.is_active() {
            true => self.active.resize(changes).await,
            false => self.advisory.resize(changes).await,
        }
    }

    async fn tell(&self, batches: &[Option<u32>]) -> Vec<Option<Result<u32, ActuateError>>> {
        match self.is_active() {
            true => self.active.tell(batches).await,
            false => self.advisory.tell(batches).await,
        }
    }

    fn retire(&self, variant: usize, spare: Cores) -> Option<Result<Actual, NotReplaced>> {
        match self.is_active() {
            true => self.active.retire(variant, spare),
            false => self.advisory.retire(variant, spare),
        }
    }

    async fn replace(&self, variant: usize) -> Result<Actual, ActuateError> {
        match self.is_active() {
            true => self.active.replace(variant).await,
            false => self.advisory.replace(variant).await,
        }
    }
}
