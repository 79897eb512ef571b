//! YAML parsing with refusals in the planner's form: the key's path, the value, and the allowed values.

use serde::de::DeserializeOwned;

use crate::service::ConfigError;
use crate::spec::{place_of_tab, split_position};

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

/// Rewrites the parser's message about a wrong type, which names neither the value nor the type in plain words.
fn refusal(text: &str, path: String, error: &serde_saphyr::Error) -> ConfigError {
    let right = match error {
        serde_saphyr::Error::InvalidScalar { ty, .. } => match *ty {
            "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
            "f32" | "f64" | "floating point" => "a number",
            "boolean" => "true or false",
            other => other,
        },
        serde_saphyr::Error::Unexpected { expected, .. } => match *expected {
            "mapping start" => "keys with values",
            "sequence start" => "a list",
            "scalar" | "string scalar" | "value" => "a single value",
            other => other,
        },
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            let parent = path.trim_end_matches('?').trim_end_matches('.');
            return ConfigError::Form {
                path: match parent {
                    "" => key.clone(),
                    parent => format!("{parent}.{key}"),
                },
                message: "a duplicate key; it must be given once".to_owned(),
            };
        }
        error => {
            let mut message = error.to_string();
            if let Some((line, column)) = place_of_tab(text, &message) {
                let (about, _) = split_position(&message);
                message = format!("{about} at line {line}, column {column}");
            }
            return ConfigError::Form { path, message };
        }
    };
    let found = error
        .location()
        .and_then(|place| value_at(text, place.line(), place.column()));
    ConfigError::Value {
        path,
        value: found.unwrap_or_default(),
        right: right.to_owned(),
    }
}

/// Describes the value that begins there: a scalar by itself, a list and keys by their kind.
fn value_at(text: &str, line: u64, column: u64) -> Option<String> {
    let scalar = scalar_at(text, line, column)?;
    let is_key = || scalar.ends_with(':') || scalar.contains(": ");
    Some(match scalar.chars().next() {
        Some('[') => "a list".to_owned(),
        Some('-') if scalar == "-" || scalar.starts_with("- ") => "a list".to_owned(),
        Some('{') => "keys with values".to_owned(),
        Some('"' | '\'') => scalar,
        _ if is_key() => "keys with values".to_owned(),
        _ => scalar,
    })
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
