//! Texts as documents: JSON or YAML, of a limited size.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ConsoleError;

/// Maximum size of a text, in bytes; that of a problem for `POST /v1/solve`.
pub const TEXT_MAX: usize = 4 * 1024 * 1024;

/// Parses JSON or YAML. JSON is parsed as JSON, which is faster and has better errors; YAML in flow style also starts
/// with a brace.
///
/// # Errors
/// A text that is too large, or neither.
pub fn parse(what: &'static str, text: &str) -> Result<Value, ConsoleError> {
    if text.len() > TEXT_MAX {
        let right = format!("at most {TEXT_MAX} bytes");
        return Err(ConsoleError::value(
            what,
            format!("{} bytes", text.len()),
            right,
        ));
    }
    let wrong = |message: String| ConsoleError::Text { what, message };
    if !text.trim_start().starts_with('{') {
        return serde_saphyr::from_str(text).map_err(|error| wrong(error.to_string()));
    }
    serde_json::from_str(text)
        .or_else(|json| serde_saphyr::from_str(text).map_err(|_| json))
        .map_err(|error| wrong(error.to_string()))
}

/// Reads a request of the page, which is JSON.
///
/// # Errors
/// A text that is too large, or not of that form.
pub fn request<T: DeserializeOwned>(text: &str) -> Result<T, ConsoleError> {
    let value = parse("request", text)?;
    serde_json::from_value(value).map_err(|error| ConsoleError::Text {
        what: "request",
        message: error.to_string(),
    })
}

/// Writes a document as YAML.
///
/// # Errors
/// None for a document that was read.
pub fn yaml(document: &Value) -> Result<String, ConsoleError> {
    serde_saphyr::to_string(document).map_err(|error| ConsoleError::Text {
        what: "service file",
        message: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_and_yaml_are_read_and_other_texts_refused() {
        for text in ["a: 1", "{\"a\": 1}", "{a: 1}"] {
            assert_eq!(parse("text", text).unwrap(), json!({ "a": 1 }), "{text}");
        }
        for (text, message) in [
            ("a: [", "text: "),
            ("{", "text: EOF"),
            (
                &"a".repeat(TEXT_MAX + 1),
                "4194305 bytes; it must be at most",
            ),
        ] {
            let error = parse("text", text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn limit_is_that_of_the_endpoint() {
        assert_eq!(TEXT_MAX, weir_planner::http::solve::BODY_MAX);
    }

    #[test]
    fn written_document_reads_the_same() {
        let document =
            json!({ "slo": "1s", "variants": [{ "name": "a", "accuracy": 69.75, "on": true }] });
        let text = yaml(&document).unwrap();
        assert_eq!(parse("text", &text).unwrap(), document, "{text}");
    }
}
