//! Identifiers of a variant inside the filter.

/// Index of a variant in the engine's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariantId(pub u16);

/// Key of a variant in the slot table: a hash of its name, the same in every VM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariantKey(pub u64);

impl VariantKey {
    /// Returns the key of a variant's name.
    #[must_use]
    pub fn of(name: &str) -> VariantKey {
        use std::hash::Hasher;
        let mut hasher = fnv::FnvHasher::default();
        hasher.write(name.as_bytes());
        VariantKey(hasher.finish())
    }
}
