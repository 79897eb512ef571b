//! Checked experiment: every scenario of it is valid.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weir_planner::service::ConfigError;
use weir_planner::spec::{from_yaml, line_of};
use weir_replay::bound::Weights;
use weir_replay::file_error::FileError;
use weir_replay::input::Sending;
use weir_replay::scenario::{self, FieldError, Overrides, Scenario, ScenarioFile};
use weir_sim::load::read_bounded;

use crate::input::Input;
use crate::raw::{Changes, Claim, Column, Figure, Kind, Published, RawCase, RawExperiment, RawRow};
use crate::{objective, path};

/// Maximum size of an experiment file, in bytes.
pub const EXPERIMENT_BYTES_MAX: u64 = 1024 * 1024;
/// Maximum number of cases, of rows and of seeds.
const EACH_MAX: usize = 64;

/// Checked experiment.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Name, as on the command line.
    pub name: String,
    /// Title of its section.
    pub title: String,
    /// The paper.
    pub paper: String,
    /// Figures of the paper that it plays again.
    pub figures: String,
    /// Question that it answers.
    pub question: String,
    /// Seeds of the plays.
    pub seeds: Vec<u64>,
    /// Cases, the columns' groups.
    pub cases: Vec<Case>,
    /// Rows.
    pub rows: Vec<Row>,
    /// Measured quantities.
    pub columns: Vec<Column>,
    /// Remarks of its author, for the report.
    pub remarks: Vec<String>,
    /// Figures of the paper, and what plays them again.
    pub coverage: Vec<Figure>,
    pub(crate) published: Vec<Published>,
    pub(crate) claims: Vec<Claim>,
    /// Folder to which the files of the scenarios are relative.
    pub(crate) folder: PathBuf,
}

/// Case of an experiment.
#[derive(Debug, Clone)]
pub struct Case {
    /// Name.
    pub name: String,
    /// Descriptions of its inputs.
    pub inputs: Vec<String>,
    /// Scenario of each row, as text.
    pub(crate) scenarios: Vec<String>,
}

/// Row of an experiment.
#[derive(Debug, Clone)]
pub struct Row {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: Kind,
}

/// Reads and checks an experiment, with inputs of the folder `data`, or their substitutes without one.
///
/// # Errors
/// The first error: file, line, field, value, and the expected value.
pub fn read(file: &Path, data: Option<&Path>) -> Result<Experiment, FileError> {
    let refused = |line, message| FileError {
        file: file.display().to_string(),
        line,
        message,
    };
    let text = read_bounded(file, EXPERIMENT_BYTES_MAX)
        .map_err(|error| refused(None, format!("{error:#}")))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    check(&text, folder, data).map_err(|wrong| {
        let line = line_of(&text, &wrong.path);
        refused(line, format!("{}: {}", wrong.path, wrong.message))
    })
}

/// First error of an experiment's text as its path and the complaint, if there is one. Files that it names are relative
/// to `folder`.
#[must_use]
pub fn first_error(text: &str, folder: &Path) -> Option<(String, String)> {
    let wrong = check(text, folder, None).err()?;
    Some((wrong.path, wrong.message))
}

/// Error at a path of the file.
#[derive(Debug, PartialEq)]
struct Wrong {
    path: String,
    message: String,
}

fn wrong(path: impl Into<String>, message: impl Into<String>) -> Wrong {
    Wrong {
        path: path.into(),
        message: message.into(),
    }
}

fn check(text: &str, folder: &Path, data: Option<&Path>) -> Result<Experiment, Wrong> {
    let raw: RawExperiment = from_yaml(text, "experiment").map_err(|error| match error {
        ConfigError::Form { path, message } => wrong(path, message),
        ConfigError::Value { path, value, right } => {
            wrong(path, format!("{value}; it must be {right}"))
        }
        ConfigError::TooLarge(_) => wrong("experiment", error.to_string()),
    })?;
    let each = [
        ("cases", raw.cases.len()),
        ("rows", raw.rows.len()),
        ("seeds", raw.seeds.len()),
        ("columns", raw.columns.len()),
    ];
    for (path, count) in each {
        if !(1..=EACH_MAX).contains(&count) {
            let right = format!("{count} of them; it must be 1 to {EACH_MAX}");
            return Err(wrong(path, right));
        }
    }
    different("cases", raw.cases.iter().map(|case| &*case.name))?;
    different("rows", raw.rows.iter().map(|row| &*row.name))?;
    known(&raw)?;
    let mut cases = Vec::with_capacity(raw.cases.len());
    for (index, case) in raw.cases.iter().enumerate() {
        let mut base = raw.scenario.clone();
        change(&mut base, &case.set, &format!("cases[{index}].set"))?;
        let mut inputs = Vec::new();
        for (at, input) in raw.inputs.iter().enumerate() {
            let uses = |cases: &Vec<String>| cases.contains(&case.name);
            if input.cases.as_ref().is_none_or(uses) {
                let path = format!("inputs[{at}]");
                let input = Input::of(input, data).map_err(|why| wrong(&path, why))?;
                change(&mut base, &input.set, &format!("{path}.set"))?;
                inputs.push(input.description);
            }
        }
        let mut scenarios = Vec::with_capacity(raw.rows.len());
        for (at, row) in raw.rows.iter().enumerate() {
            let of_case = (case, format!("cases[{index}]"), &raw.scenario);
            let (scenario, text) = of_row(&base, row, at, folder, &of_case)?;
            if let ScenarioFile::Single(single) = scenario {
                has_objective(&raw.columns, &single.0)?;
            }
            scenarios.push(text);
        }
        cases.push(Case {
            name: case.name.clone(),
            inputs,
            scenarios,
        });
    }
    let row = |row: RawRow| Row {
        name: row.name,
        kind: row.kind,
    };
    Ok(Experiment {
        title: raw.title.unwrap_or_else(|| raw.name.clone()),
        name: raw.name,
        paper: raw.paper,
        figures: raw.figures,
        question: raw.question,
        seeds: raw.seeds,
        cases,
        rows: raw.rows.into_iter().map(row).collect(),
        columns: raw.columns,
        remarks: raw.remarks,
        coverage: raw.coverage,
        published: raw.published,
        claims: raw.claims,
        folder: folder.to_owned(),
    })
}

/// Returns the scenario of a row and its text, once it is valid. The case's changes have been made, and are only named in
/// errors; `written` is the scenario without any.
fn of_row(
    base: &Value,
    row: &RawRow,
    at: usize,
    folder: &Path,
    (case, path_of_case, written): &(&RawCase, String, &Value),
) -> Result<(ScenarioFile, String), Wrong> {
    let path = format!("rows[{at}]");
    let mut value = base.clone();
    change(&mut value, &row.set, &format!("{path}.set"))?;
    let of_both = case.rows.get(&row.name);
    let path_of_both = format!("{path_of_case}.rows.{}", row.name);
    if let Some(changes) = of_both {
        change(&mut value, changes, &path_of_both)?;
    }
    let contenders = json!([row.contender]);
    path::set(&mut value, "contenders", contenders).map_err(|why| wrong("scenario", why))?;
    let text = value.to_string();
    let sets = |field: &str, changes: &Changes| {
        let mut keys = changes.keys();
        keys.any(|key| field.starts_with(key.as_str()) || key.starts_with(field))
    };
    // A field that the row or the case sets is wrong there, and every other one in the scenario.
    let place = |field: &str| {
        if of_both.is_some_and(|changes| sets(field, changes)) {
            path_of_both.clone()
        } else if sets(field, &row.set) {
            format!("{path}.set")
        } else if sets(field, &case.set) {
            format!("{path_of_case}.set")
        } else {
            format!("scenario.{field}")
        }
    };
    let checked = scenario::read_any_text(&text, folder, Overrides::default());
    let checked = checked.map_err(|error| {
        let FieldError {
            path: field,
            message,
        } = error;
        let of_row = field
            .strip_prefix("contenders[0]")
            .map(|rest| format!("{path}.contender{rest}"));
        let message = format!("{message} (row {}, field {field})", row.name);
        wrong(of_row.unwrap_or_else(|| place(&field)), message)
    })?;
    let changes = [Some(&case.set), Some(&row.set), of_both];
    let keys = changes.into_iter().flatten().flat_map(Changes::keys);
    let objective = objective::changed(keys, (written, &value), folder);
    let own = budgets_undecided(&value, &checked);
    match objective {
        Some(field) if own > 0 => {
            let message = format!(
                "{field}: {own} records have budgets of their own, which it does not change; add load.budgets: service \
                 to replace them, or load.budgets: recorded to keep them (row {})",
                row.name
            );
            Err(wrong(place(field), message))
        }
        _ => Ok((checked, text)),
    }
}

/// Refuses the column of an objective that has no accuracy.
fn has_objective(columns: &[Column], scenario: &Scenario) -> Result<(), Wrong> {
    let at = columns.iter().position(|one| *one == Column::Objective);
    match (at, Weights::of(&scenario.service)) {
        (Some(at), None) => {
            let policy = scenario.service.policy.name();
            let right = "left out, unless policy is infadapter or ipa: mean-cores or mean-cost is its objective";
            let message = format!("objective, with policy {policy}; it must be {right}");
            Err(wrong(format!("columns[{at}]"), message))
        }
        _ => Ok(()),
    }
}

/// Records with budgets of their own, in loads that do not say with `budgets` whether these count.
fn budgets_undecided(scenario: &Value, checked: &ScenarioFile) -> usize {
    let own = |load: String, sending: &Sending| {
        let decides = scenario.pointer(&format!("{load}/budgets")).is_some();
        let own = sending.arrivals.iter().filter(|one| one.budget.is_some());
        if decides { 0 } else { own.count() }
    };
    match checked {
        ScenarioFile::Single(single) => own("/load".to_owned(), &single.1),
        ScenarioFile::Shared(_, sendings) => {
            let each = sendings.iter().enumerate();
            each.map(|(index, sending)| own(format!("/services/{index}/scenario/load"), sending))
                .sum()
        }
    }
}

fn change(value: &mut Value, changes: &Changes, path: &str) -> Result<(), Wrong> {
    for (at, new) in changes {
        path::set(value, at, new.clone()).map_err(|why| wrong(path, format!("{at}: {why}")))?;
    }
    Ok(())
}

fn different<'a>(path: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Wrong> {
    let mut known = BTreeSet::new();
    for (index, name) in names.enumerate() {
        if !known.insert(name) {
            let path = format!("{path}[{index}].name");
            return Err(wrong(path, format!("{name}; it must be another name")));
        }
    }
    Ok(())
}

/// Whether a scenario has several classes, one of that name.
fn is_class(scenario: &Value, name: &str) -> bool {
    let classes = scenario.get("classes").and_then(Value::as_array);
    classes.is_some_and(|classes| {
        classes.len() > 1
            && classes
                .iter()
                .any(|class| class.get("name") == Some(&json!(name)))
    })
}

/// Checks the names to which inputs and the paper's values refer.
fn known(raw: &RawExperiment) -> Result<(), Wrong> {
    let is_case = |name: &str| raw.cases.iter().any(|case| case.name == name);
    for (index, column) in raw.columns.iter().enumerate() {
        let of_class = match column {
            Column::OnTimePercent(name) => Some(name),
            _ => None,
        };
        if let Some(name) = of_class.filter(|name| !is_class(&raw.scenario, name)) {
            let right = "one of the scenario's classes, of which there must be two at least";
            let path = format!("columns[{index}].on-time-percent");
            return Err(wrong(path, format!("{name}; it must be {right}")));
        }
        if raw.scenario.get("services").is_some() && !column.is_of_several() {
            let right = "lost-percent, mean-cores, mean-cost or plans with several services";
            let heading = column.heading();
            return Err(wrong(
                format!("columns[{index}]"),
                format!("{heading}; it must be {right}"),
            ));
        }
    }
    for (index, case) in raw.cases.iter().enumerate() {
        let is_row = |name: &&String| raw.rows.iter().any(|row| row.name == **name);
        if let Some(name) = case.rows.keys().find(|name| !is_row(name)) {
            let path = format!("cases[{index}].rows");
            return Err(wrong(path, format!("{name}; it must be a row")));
        }
    }
    for (index, input) in raw.inputs.iter().enumerate() {
        let named = input.cases.iter().flatten();
        if let Some(name) = named.into_iter().find(|name| !is_case(name)) {
            let path = format!("inputs[{index}].cases");
            return Err(wrong(path, format!("{name}; it must be a case")));
        }
    }
    reference::check(raw)
}

mod reference;
#[cfg(test)]
mod tests;
