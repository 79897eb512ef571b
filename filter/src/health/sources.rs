//! Who has had a variant's errors in a row: one source alone may have provoked them.

use std::num::NonZeroU32;

/// Hash of the source of a request: a client, or the proxy before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source(NonZeroU32);

/// Sources of the errors in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ErrorSources {
    /// There are none.
    #[default]
    Nobody,
    /// This one alone.
    One(Source),
    /// Several, or unknown ones.
    Several,
}

impl Source {
    /// The source with this hash.
    #[must_use]
    pub fn of(hash: u64) -> Source {
        // 0 and 1 stand for nobody and several where it is encoded.
        let folded = (hash ^ (hash >> 32)) as u32;
        Source(NonZeroU32::MIN.saturating_add(folded.clamp(1, u32::MAX - 1)))
    }
}

impl ErrorSources {
    /// These and this one; `None`: it is unknown.
    pub(super) fn with(self, source: Option<Source>) -> ErrorSources {
        match (self, source) {
            (ErrorSources::Nobody, Some(source)) => ErrorSources::One(source),
            (ErrorSources::One(one), Some(source)) if one == source => self,
            _ => ErrorSources::Several,
        }
    }

    /// Its encoding: 0 for nobody, 1 for several, else the one.
    #[must_use]
    pub fn code(self) -> u32 {
        match self {
            ErrorSources::Nobody => 0,
            ErrorSources::Several => 1,
            ErrorSources::One(Source(one)) => one.get(),
        }
    }

    /// The opposite of [`ErrorSources::code`].
    #[must_use]
    pub fn from_code(code: u32) -> ErrorSources {
        match (code, NonZeroU32::new(code)) {
            (1, _) => ErrorSources::Several,
            (_, Some(one)) => ErrorSources::One(Source(one)),
            (_, None) => ErrorSources::Nobody,
        }
    }
}
