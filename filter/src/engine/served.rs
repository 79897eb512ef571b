//! Paths that a variant has served lately, by which a 404 is known to be its own fault.

use crate::request::wire::{Field, Wire};

/// Paths remembered for a variant: those of a service are few.
const PATHS_MAX: usize = 8;

/// Hash of a path without its query. FNV has no secret: who makes up a path with the hash of another gains no more than
/// with that path itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PathHash(u32);

impl PathHash {
    pub(super) fn of(wire: &Wire<'_>) -> PathHash {
        let path = wire.get(Field::Path).unwrap_or_default();
        let bytes = path.iter().take_while(|byte| **byte != b'?');
        let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
        });
        PathHash(hash.max(1))
    }
}

/// Paths served, the oldest of which is forgotten.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ServedPaths {
    paths: [PathHash; PATHS_MAX],
    next: usize,
}

impl ServedPaths {
    pub(super) fn note(&mut self, path: PathHash) {
        if self.paths.contains(&path) {
            return;
        }
        if let Some(oldest) = self.paths.get_mut(self.next % PATHS_MAX) {
            *oldest = path;
        }
        self.next = (self.next + 1) % PATHS_MAX;
    }

    /// Whether a path that is not found is the variant's fault: it has served it, or nothing yet. `lists`: the client has
    /// named its variants, and so might aim at one that has served nothing.
    pub(super) fn blames(&self, path: PathHash, lists: bool) -> bool {
        let has_served = self.paths != [PathHash::default(); PATHS_MAX];
        self.paths.contains(&path) || !has_served && !lists
    }
}
