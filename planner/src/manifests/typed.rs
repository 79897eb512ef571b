//! Check of manifests of Kubernetes' own kinds: they are converted to Kubernetes' types and back. A key
//! that the type lacks is lost in this, and a document that lost a key is refused.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ManifestError;

/// Returns the value unchanged if `T` has all its keys.
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
