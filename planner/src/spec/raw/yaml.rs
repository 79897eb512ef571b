//! YAML parsing with refusals in the planner's form: the key's path, the value, and the allowed values.

use serde::de::DeserializeOwned;

use crate::service::ConfigError;

/// Parses YAML into any type; `whole` names the file in refusals that concern all of it.
///
/// # Errors
/// Fails on an unknown, missing or malformed key.
pub fn from_yaml<T: DeserializeOwned>(text: &str, whole: &str) -> Result<T, ConfigError> {
    let mut options = serde_saphyr::options::Options::default();
    options.with_snippet = false;
    let mut at = None;
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |yaml| {
        serde_path_to_error::deserialize(yaml).map_err(|error| {
            at = Some(error.path().to_string());
            error.into_inner()
        })
    });
    read.map_err(|error| {
        let path = at
            .filter(|path| path != ".")
            .unwrap_or_else(|| whole.to_owned());
        refusal(text, path, &error)
    })
}

/// Rewrites the parser's message, which names neither the value nor its type in plain words.
fn refusal(text: &str, path: String, error: &serde_saphyr::Error) -> ConfigError {
    let serde_saphyr::Error::InvalidScalar { ty, .. } = error else {
        return ConfigError::Form {
            path,
            message: error.to_string(),
        };
    };
    let right = match *ty {
        "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "f32" | "f64" | "floating point" => "a number",
        other => other,
    };
    let value = error
        .location()
        .and_then(|place| scalar_at(text, place.line(), place.column()));
    ConfigError::Value {
        path,
        value: value.unwrap_or_default(),
        right: right.to_owned(),
    }
}

/// Returns the scalar that begins there; line and column count from 1.
fn scalar_at(text: &str, line: u64, column: u64) -> Option<String> {
    let line = text
        .lines()
        .nth(usize::try_from(line.checked_sub(1)?).ok()?)?;
    let rest = line
        .chars()
        .skip(usize::try_from(column.checked_sub(1)?).ok()?);
    let scalar: String = rest
        .take_while(|c| !matches!(c, ',' | '}' | ']' | '#'))
        .take(80)
        .collect();
    Some(scalar.trim_end().to_owned())
}
