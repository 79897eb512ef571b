//! Manifests of Kubernetes' own kinds pass through Kubernetes' own types: a key that they do not have is lost on
//! the way, and what has lost something is refused.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ManifestError;

/// The same value, if `T` knows all of it.
pub(super) fn typed<T: DeserializeOwned + Serialize>(value: Value) -> Result<Value, ManifestError> {
    let wrong = |error: String| ManifestError::Form {
        what: std::any::type_name::<T>().to_owned(),
        error,
    };
    let read: T =
        serde_json::from_value(value.clone()).map_err(|error| wrong(error.to_string()))?;
    let again = serde_json::to_value(read).map_err(|error| wrong(error.to_string()))?;
    if again != value {
        return Err(wrong(format!("{value} is read as {again}")));
    }
    Ok(value)
}
