//! JSON reading with errors that name the path of the wrong value.

use serde::de::DeserializeOwned;

/// Error of [`read`]: the place and the cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}")]
pub struct Misread {
    /// Path of the key, such as `plan.variants[0].slots`, or `(top level)`.
    pub path: String,
    /// Cause, as serde reports it.
    pub what: String,
}

/// Reads one JSON value and nothing after it.
///
/// # Errors
/// The input is not JSON, does not have the form of `T`, or continues after the value.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Misread> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        misread(&path, error.inner())
    })?;
    reader.end().map_err(|error| misread(".", &error))?;
    Ok(value)
}

fn misread(path: &str, error: &serde_json::Error) -> Misread {
    let path = match path {
        "." => "(top level)",
        path => path,
    };
    Misread {
        path: path.to_owned(),
        what: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn error_names_the_path() {
        type Shape = BTreeMap<String, Vec<u8>>;
        let error = |json: &str| read::<Shape>(json.as_bytes()).unwrap_err().to_string();
        assert!(error(r#"{"a":[1,300]}"#).starts_with("a[1]: invalid value"));
        assert!(error("5").starts_with("(top level): invalid type"));
        assert!(error("{} {}").starts_with("(top level): trailing characters"));
        assert_eq!(read::<Shape>(b" {} ").unwrap(), Shape::new());
    }
}
