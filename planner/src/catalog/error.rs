//! Reasons why a service was not created, replaced or deleted.

use crate::service::ConfigError;
use crate::specification::ReplaceError;

/// Reason why a change of a service was refused; nothing was changed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum CatalogError {
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The name in the path is no service's.
    #[error("{0}")]
    Name(ConfigError),
    #[error("{0}")]
    Conflict(String),
    #[error(
        "the specification was created, replaced or deleted in the meantime, or is not as if-match and if-none-match \
         have it; read it again"
    )]
    Stale,
    #[error("it is not planned for here")]
    Unknown,
    #[error("{0}")]
    Internal(String),
}

impl From<ReplaceError> for CatalogError {
    fn from(error: ReplaceError) -> CatalogError {
        match error {
            ReplaceError::Edited(_) | ReplaceError::Exists(_) => {
                CatalogError::Conflict(error.to_string())
            }
            ReplaceError::Io { .. } => CatalogError::Internal(error.to_string()),
        }
    }
}

impl From<prometheus::Error> for CatalogError {
    fn from(error: prometheus::Error) -> CatalogError {
        CatalogError::Internal(error.to_string())
    }
}
