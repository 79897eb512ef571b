//! Backends behind a gate: while it is closed they are read, and no cores are changed.

use std::sync::atomic::{AtomicBool, Ordering};

use weir_api::Cores;

use super::{Actuate, ActuateError, NotReplaced};
use crate::capacity::{Actual, Resize};

/// Backends that are changed only while the gate is open.
#[derive(Debug)]
pub struct Gate<'a, A> {
    actuate: &'a A,
    is_open: AtomicBool,
}

impl<'a, A> Gate<'a, A> {
    /// Creates an open gate.
    pub fn new(actuate: &'a A) -> Gate<'a, A> {
        Gate {
            actuate,
            is_open: AtomicBool::new(true),
        }
    }

    /// Opens or closes it.
    pub fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Relaxed);
    }

    fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }
}

impl<A: Actuate + Sync> Actuate for Gate<'_, A> {
    async fn actual(&self) -> Vec<Option<Result<Actual, ActuateError>>> {
        self.actuate.actual().await
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<Actual, ActuateError>> {
        match self.is_open() {
            true => self.actuate.resize(changes).await,
            false => changes
                .iter()
                .map(|_| Err(ActuateError::Advisory))
                .collect(),
        }
    }

    async fn tell(&self, batches: &[Option<u32>]) -> Vec<Option<Result<u32, ActuateError>>> {
        self.actuate.tell(batches).await
    }

    fn retire(&self, variant: usize, spare: Cores) -> Option<Result<Actual, NotReplaced>> {
        match self.is_open() {
            true => self.actuate.retire(variant, spare),
            false => None,
        }
    }

    async fn replace(&self, variant: usize) -> Result<Actual, ActuateError> {
        match self.is_open() {
            true => self.actuate.replace(variant).await,
            false => Err(ActuateError::Advisory),
        }
    }
}
