//! Accuracy on labelled requests.
//!
//! A line of the file is `{"request": BODY, "label": VALUE}`, where BODY is what the server is sent. The prediction is
//! the first output of the answer (Open Inference Protocol: `outputs[0].data`; TF Serving: `predictions[0]`): its only
//! value, or the index of its greatest one.

use serde::Deserialize;
use serde_json::Value;

use crate::ProfileError;
use crate::endpoint::Endpoint;

/// Maximum number of labelled requests.
pub const LABELS_MAX: usize = 100_000;

/// Labelled request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Labelled {
    /// Body of the request.
    pub request: Value,
    /// Right prediction.
    pub label: Value,
}

/// Reads labelled requests, one on each line.
///
/// # Errors
/// The first wrong line; no line, or more than [`LABELS_MAX`].
pub fn read(text: &str) -> Result<Vec<Labelled>, ProfileError> {
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let parsed = lines.map(|(index, line)| {
        serde_json::from_str(line).map_err(|error| {
            let right = r#"it must be {"request": BODY, "label": VALUE}"#;
            ProfileError(format!("line {}: {error}; {right}", index + 1))
        })
    });
    let all: Vec<Labelled> = parsed.collect::<Result<_, _>>()?;
    if (1..=LABELS_MAX).contains(&all.len()) {
        return Ok(all);
    }
    let count = all.len();
    Err(ProfileError(format!(
        "{count} labelled requests; it must be 1 to {LABELS_MAX}"
    )))
}

/// Returns the prediction in an answer; `None` if it has none.
#[must_use]
pub fn prediction(answer: &Value) -> Option<Value> {
    let output = answer.pointer("/outputs/0/data");
    let found = output.or_else(|| answer.pointer("/predictions/0"))?;
    let Value::Array(values) = found else {
        return Some(found.clone());
    };
    if let [only] = values.as_slice() {
        return match only {
            Value::Array(_) => prediction(&serde_json::json!({"predictions": [only]})),
            value => Some(value.clone()),
        };
    }
    let numbers = values.iter().map(Value::as_f64);
    let numbers: Vec<f64> = numbers.collect::<Option<_>>()?;
    let values = numbers.iter().copied().enumerate();
    let index = values.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    Some(Value::from(index.0))
}

/// Whether a prediction is the label; numbers are equal by value (`3` and `3.0`).
#[must_use]
pub fn is_right(prediction: &Value, label: &Value) -> bool {
    match (prediction.as_f64(), label.as_f64()) {
        (Some(prediction), Some(label)) => prediction == label,
        _ => prediction == label,
    }
}

/// Refuses a label that no prediction of this type can equal.
fn comparable(prediction: &Value, label: &Value) -> Result<(), String> {
    let right = kind(prediction);
    if right == kind(label) {
        return Ok(());
    }
    Err(format!(
        "label: {label}; it must be {right}, as the server's answer {prediction} is"
    ))
}

/// Type of a value, for people.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// Accuracy on labelled requests.
#[derive(Debug, Clone, Copy)]
pub struct Accuracy {
    /// Percentage of right answers.
    pub percent: f64,
    /// Number of labelled requests.
    pub labelled: usize,
}

/// Sends the labelled requests one after the other; returns `None` if there are none. `tell` takes the progress.
///
/// # Errors
/// A request that fails, an answer without a prediction, or one of another type than the label.
pub async fn accuracy(
    endpoint: &Endpoint,
    labelled: &[Labelled],
    tell: impl Fn(String),
) -> Result<Option<Accuracy>, ProfileError> {
    let mut right = 0_u32;
    for (index, one) in labelled.iter().enumerate() {
        let number = index + 1;
        tell(format!("accuracy: request {number} of {}", labelled.len()));
        let failed = |why: String| ProfileError(format!("labelled request {number}: {why}"));
        let body = one.request.to_string().into_bytes();
        let answer = endpoint.send_body(body).await;
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        let answer = serde_json::from_slice(&answer).ok();
        let prediction = answer.as_ref().and_then(prediction).ok_or_else(|| {
            failed(
                "the answer has no prediction; it must have outputs[0].data or predictions[0]"
                    .to_owned(),
            )
        })?;
        comparable(&prediction, &one.label).map_err(failed)?;
        right += u32::from(is_right(&prediction, &one.label));
    }
    let count = labelled.len();
    Ok((count > 0).then(|| Accuracy {
        percent: 100.0 * f64::from(right) / count as f64,
        labelled: count,
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prediction_is_the_only_value_or_index_of_the_maximum() {
        for (answer, expected) in [
            (json!({"outputs": [{"data": [7]}]}), Some(json!(7))),
            (json!({"outputs": [{"data": ["cat"]}]}), Some(json!("cat"))),
            (
                json!({"outputs": [{"data": [0.1, 0.7, 0.2]}]}),
                Some(json!(1)),
            ),
            (json!({"outputs": [{"data": [[0.1, 0.7]]}]}), Some(json!(1))),
            (json!({"outputs": [{"data": [0.5, 0.5]}]}), Some(json!(0))),
            (json!({"predictions": [[0.9, 0.1]]}), Some(json!(0))),
            (json!({"predictions": [4]}), Some(json!(4))),
            (json!({"outputs": []}), None),
            (json!({"outputs": [{"data": []}]}), None),
            (json!({"outputs": [{"data": ["a", "b"]}]}), None),
            (json!("no object"), None),
        ] {
            assert_eq!(prediction(&answer), expected, "{answer}");
        }
    }

    #[test]
    fn numbers_are_equal_by_value() {
        assert!(is_right(&json!(3), &json!(3.0)));
        assert!(is_right(&json!("a"), &json!("a")));
        assert!(!is_right(&json!(3), &json!("3")));
    }

    #[test]
    fn label_of_another_type_than_the_answer_is_refused() {
        assert_eq!(comparable(&json!(7), &json!(3.5)), Ok(()));
        let error = comparable(&json!(7), &json!("seven")).unwrap_err();
        let expected = r#"label: "seven"; it must be a number, as the server's answer 7 is"#;
        assert_eq!(error, expected);
        assert!(comparable(&json!("7"), &json!(7)).is_err());
    }

    #[test]
    fn wrong_lines_are_refused_with_their_number() {
        let good = r#"{"request": {"inputs": []}, "label": 1}"#;
        assert_eq!(read(&format!("{good}\n\n{good}\n")).unwrap().len(), 2);
        for (text, expected) in [
            (
                format!("{good}\n{{\"label\": 1}}"),
                "line 2: missing field `request`",
            ),
            (format!("{good}\nx"), "line 2: expected value"),
            (
                r#"{"request": 1, "label": 1, "more": 1}"#.to_owned(),
                "line 1: unknown field `more`",
            ),
            (
                "\n".to_owned(),
                "0 labelled requests; it must be 1 to 100000",
            ),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
