//! Parsing of a scenario file into a [`Scenario`] and its load. Files that it names are relative to its
//! folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use weir_sim::load::{REQUESTS_MAX, read_bounded};

use super::fault::{FaultTargets, faults};
use super::load::LoadContext;
use super::raw::RawScenario;
use super::refused::{ScenarioError, within};
use super::{
    Scenario, SharedScenario, contender, load, proxies, replicated, sending, sent, server, shared,
};
use crate::file_error::FileError;
use crate::input::Sending;
use weir_planner::service::{ConfigError, Service};
use weir_planner::spec::{ServiceFile, ServiceSpec, from_yaml};

/// Error in the text of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FieldError {
    /// Path of the field.
    pub path: String,
    /// Value, and the expected value.
    pub message: String,
}

/// Maximum size of a scenario file, in bytes: a day of written rates, with room to spare.
pub const SCENARIO_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// Maximum length of a name.
pub(super) const NAME_MAX: usize = 100;

/// Command line values that override the file.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Overrides {
    /// Replaces the seed.
    pub seed: Option<u64>,
    /// Replaces `load.of_capacity`.
    pub of_capacity: Option<f64>,
    /// Maximum number of requests, if it is less than a replay's own.
    pub requests_max: Option<usize>,
}

/// Reads and checks a scenario and every file that it names.
///
/// # Errors
/// The first error: file, line, field, value, and the expected value.
pub fn read(path: &Path, overrides: Overrides) -> Result<(Scenario, Sending), FileError> {
    read_by(path, |text, folder| check(text, folder, overrides))
}

/// The same of a scenario of one service, or of several that share a budget.
///
/// # Errors
/// The first error: file, line, field, value, and the expected value.
pub fn read_any(path: &Path, overrides: Overrides) -> Result<ScenarioFile, FileError> {
    read_by(path, |text, folder| check_any(text, folder, overrides))
}

fn read_by<T>(
    path: &Path,
    check: impl FnOnce(&str, &Path) -> Result<T, ScenarioError>,
) -> Result<T, FileError> {
    let file = path.display().to_string();
    let text = read_bounded(path, SCENARIO_BYTES_MAX).map_err(|error| FileError {
        file: file.clone(),
        line: None,
        message: format!("{error:#}"),
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    check(&text, folder).map_err(|wrong| wrong.of_text(file, &text))
}

/// Reads and checks the text of a scenario and every file that it names, relative to `folder`.
///
/// # Errors
/// The first error, by its path.
pub fn read_text(
    text: &str,
    folder: &Path,
    overrides: Overrides,
) -> Result<(Scenario, Sending), FieldError> {
    check(text, folder, overrides).map_err(field_error)
}

pub(super) fn field_error(wrong: ScenarioError) -> FieldError {
    match wrong {
        ScenarioError::InScenario { path, message, .. } => {
            let complaint = message.strip_prefix(&format!("{path}: "));
            FieldError {
                message: complaint.unwrap_or(&message).to_owned(),
                path,
            }
        }
        ScenarioError::InFile { path, error } => FieldError {
            path,
            message: error.to_string(),
        },
    }
}

/// The same of a scenario of one service, or of several that share a budget.
///
/// # Errors
/// The first error, by its path.
pub fn read_any_text(
    text: &str,
    folder: &Path,
    overrides: Overrides,
) -> Result<ScenarioFile, FieldError> {
    check_any(text, folder, overrides).map_err(field_error)
}

/// Reads and checks the text of a scenario that somebody sent: it names no file.
///
/// # Errors
/// The first error, by its path.
pub fn read_sent(text: &str, overrides: Overrides) -> Result<(Scenario, Sending), FieldError> {
    let read = || {
        let raw: RawScenario =
            from_yaml(text, "scenario").map_err(|error| ScenarioError::config("", &error))?;
        sent::refuse_files(&raw)?;
        // A path that is overlooked is one below no folder.
        checked(raw, Path::new("/dev/null"), overrides, None)
    };
    read().map_err(field_error)
}

/// First error of a scenario's text as its path and the complaint, if there is one. Files that the
/// scenario names are relative to `folder`.
#[must_use]
pub fn first_error(text: &str, folder: &Path) -> Option<(String, String)> {
    let FieldError { path, message } = read_any_text(text, folder, Overrides::default()).err()?;
    Some((path, message))
}

/// Scenario that a file describes, with its load.
#[derive(Debug)]
pub enum ScenarioFile {
    /// One service.
    Single(Box<(Scenario, Sending)>),
    /// Several services that share a budget, each with its load.
    Shared(SharedScenario, Vec<Sending>),
}

fn check_any(
    text: &str,
    folder: &Path,
    overrides: Overrides,
) -> Result<ScenarioFile, ScenarioError> {
    /// Key that only a scenario of several services has.
    #[derive(Deserialize)]
    struct Probe {
        services: Option<IgnoredAny>,
    }
    let is_shared = match from_yaml::<Probe>(text, "scenario") {
        Ok(probe) => probe.services.is_some(),
        // Its reader names the error.
        Err(_) => text.lines().any(|line| line.starts_with("services:")),
    };
    if is_shared {
        let (scenario, sendings) = shared::check(text, folder, overrides)?;
        return Ok(ScenarioFile::Shared(scenario, sendings));
    }
    let single = check(text, folder, overrides)?;
    Ok(ScenarioFile::Single(Box::new(single)))
}

fn check(
    text: &str,
    folder: &Path,
    overrides: Overrides,
) -> Result<(Scenario, Sending), ScenarioError> {
    let raw: RawScenario =
        from_yaml(text, "scenario").map_err(|error| ScenarioError::config("", &error))?;
    checked(raw, folder, overrides, None)
}

/// Checks a scenario as written. A service without `budget.cores` has `budget_cores`.
pub(super) fn checked(
    mut raw: RawScenario,
    folder: &Path,
    overrides: Overrides,
    budget_cores: Option<f64>,
) -> Result<(Scenario, Sending), ScenarioError> {
    let seed = overrides.seed.unwrap_or(raw.seed);
    raw.load.of_capacity = overrides.of_capacity.or(raw.load.of_capacity);
    let characters = raw.name.chars().count();
    within("name", characters, 1..=NAME_MAX, "characters")?;
    let service = service(raw.service, folder, budget_cores)?;
    let variants = server::servers(&service, &raw.servers)?;
    let proxies = proxies::proxies(&service, raw.proxies)?;
    let classes = sending::classes(&raw.classes)?;
    let class_names: Vec<String> = classes.iter().map(|class| class.name.clone()).collect();
    let context = LoadContext {
        length_s: raw.length_s,
        folder,
        classes: &class_names,
        capacity_rps: super::capacity_rps(&service, &variants),
        seed,
        requests_max: overrides.requests_max.unwrap_or(REQUESTS_MAX),
    };
    let load::Load {
        arrivals,
        length_s,
        left_out,
    } = load::load(&raw.load, &context)?;
    let length = Duration::from_secs(length_s);
    let sending = Sending {
        arrivals,
        left_out,
        network: sending::network(&raw.network, folder, length_s, seed)?,
        payload_bytes: sending::bytes("payload_bytes", raw.payload_bytes)?,
        answer_bytes: sending::bytes("answer_bytes", raw.answer_bytes)?,
        clients: sending::clients(&raw.clients, &service)?,
        classes,
    };
    let targets = FaultTargets {
        length,
        service: &service,
        variants: &variants,
        proxies: &proxies,
        seed,
    };
    let faults = faults(&raw.faults, &targets)?;
    let contenders = contender::contenders(raw.contenders.as_deref(), &service)?;
    let contenders = replicated::contenders(&service, contenders, raw.contenders.is_some())?;
    server::check_profiles(&service, &contenders)?;
    server::check_cores(&service, &raw.servers, &variants, &contenders)?;
    let scenario = Scenario {
        name: raw.name,
        seed,
        length,
        contenders,
        service,
        variants,
        classes: class_names,
        proxies,
        faults,
    };
    Ok((scenario, sending))
}

/// Service as written.
struct WrittenService {
    keys: Value,
    /// Folder to which its profiles are relative.
    folder: PathBuf,
    /// Its own file and the text of that, if the scenario names one.
    file: Option<(PathBuf, String)>,
}

impl WrittenService {
    /// Reads the service in the scenario, or in the file that it names.
    fn read(written: Value, folder: &Path) -> Result<WrittenService, ScenarioError> {
        let Value::String(name) = written else {
            return Ok(WrittenService {
                keys: written,
                folder: folder.to_owned(),
                file: None,
            });
        };
        let path = folder.join(&name);
        let text = read_bounded(&path, SCENARIO_BYTES_MAX).map_err(|error| {
            let file = path.display();
            let message = format!("{file}: {error:#}; it must be a service file or its content");
            ScenarioError::about("service", message)
        })?;
        let keys = from_yaml(&text, "service file").map_err(|error| {
            let error = ScenarioError::config("", &error);
            let file = path.display().to_string();
            ScenarioError::in_file("service", error.of_text(file, &text))
        })?;
        Ok(WrittenService {
            keys,
            folder: path.parent().unwrap_or(folder).to_owned(),
            file: Some((path, text)),
        })
    }

    /// Error of the planner about the service, in its own file if it has one.
    fn error(&self, error: &ConfigError) -> ScenarioError {
        let Some((path, text)) = &self.file else {
            return ScenarioError::config("service", error);
        };
        // A line is one of the keys on one line, which were checked.
        let error = ScenarioError::config("", error).below("");
        let file = path.display().to_string();
        ScenarioError::in_file("service", error.of_text(file, text))
    }
}

/// Runs the planner's own check of its service file. Adds missing addresses and the key, which a replay
/// never uses, and a missing budget.
fn service(
    written: Value,
    folder: &Path,
    budget_cores: Option<f64>,
) -> Result<Service, ScenarioError> {
    let mut written = WrittenService::read(written, folder)?;
    let Some(keys) = written.keys.as_object_mut() else {
        let right = "a mapping: the keys of a planner's service file";
        return Err(ScenarioError::value("service", written.keys, right));
    };
    if !keys.contains_key("keyFile") {
        keys.entry("keyEnv").or_insert(json!("WEIR_KEY"));
    }
    keys.entry("listen").or_insert(json!("127.0.0.1:0"));
    keys.entry("proxies")
        .or_insert(json!({ "stats": ["http://127.0.0.1/stats"] }));
    if let Some(cores) = budget_cores {
        let budget = keys.entry("budget").or_insert(json!({}));
        if let Some(budget) = budget.as_object_mut() {
            budget.entry("cores").or_insert(json!(cores));
        }
    }
    fill_in_addresses(keys.get_mut("variants"));
    let stages = keys.get_mut("stages").and_then(Value::as_array_mut);
    for stage in stages.into_iter().flatten() {
        fill_in_addresses(stage.get_mut("variants"));
    }
    // JSON is YAML.
    let text = written.keys.to_string();
    let spec = ServiceSpec::from_file(&written.folder.join("service"), &text);
    let file = spec
        .and_then(ServiceFile::try_from)
        .map_err(|error| written.error(&error))?;
    Ok(file.service)
}

/// Adds missing addresses to a list of variants, which a replay never uses.
fn fill_in_addresses(variants: Option<&mut Value>) {
    let variants = variants.and_then(Value::as_array_mut);
    for variant in variants.into_iter().flatten() {
        if let Some(variant) = variant.as_object_mut() {
            // As an address, which a replay never uses either.
            for key in ["cgroup", "systemd"] {
                variant.remove(key);
            }
            variant
                .entry("resize")
                .or_insert(json!("http://127.0.0.1/resize"));
        }
    }
}
