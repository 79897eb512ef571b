//! Scenarios that somebody sent: the files of this machine are not theirs to read.

use serde_json::Value;

use super::raw::{RawNetwork, RawScenario};
use super::refused::ScenarioError;

/// Refuses each key that names a file.
pub(super) fn refuse_files(raw: &RawScenario) -> Result<(), ScenarioError> {
    let network = match &raw.network {
        RawNetwork::File(log) => Some(log.path.clone()),
        _ => None,
    };
    let text = |value: Option<&Value>| Some(value?.as_str().unwrap_or_default().to_owned());
    let service = &raw.service;
    let named = [
        ("load.file", raw.load.file.clone()),
        ("load.records", raw.load.records.clone()),
        ("network.file", network),
        ("service", text(Some(service).filter(|one| one.is_string()))),
        (
            "service.demand.model",
            text(service.pointer("/demand/model")),
        ),
    ];
    let named = named
        .into_iter()
        .filter_map(|(path, file)| Some((path.to_owned(), file?)));
    let stages = service.get("stages").and_then(Value::as_array);
    let stages = stages.into_iter().flatten().enumerate();
    let of_stages =
        stages.flat_map(|(index, stage)| variants(&format!("service.stages[{index}]"), stage));
    let files = named
        .chain(variants("service", service))
        .chain(of_stages)
        .next();
    match files {
        Some((path, file)) => {
            let right =
                "left out: a scenario that is sent names no file, its content stands in place";
            Err(ScenarioError::value(path, file, right))
        }
        None => Ok(()),
    }
}

/// Paths and files of the profiles of the variants of a service or stage.
fn variants(at: &str, owner: &Value) -> Vec<(String, String)> {
    let variants = owner.get("variants").and_then(Value::as_array);
    let variants = variants.into_iter().flatten().enumerate();
    let files = variants.filter_map(|(index, variant)| {
        let file = variant.pointer("/profile/file")?;
        let file = file.as_str().unwrap_or_default().to_owned();
        Some((format!("{at}.variants[{index}].profile.file"), file))
    });
    files.collect()
}
