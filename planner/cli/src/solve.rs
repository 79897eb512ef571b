//! `weir solve`: solves a problem from a file and prints its plan, like `POST /v1/solve`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use comfy_table::{Cell, Table, presets::UTF8_FULL_CONDENSED};
use serde_json::Value;
use weir_planner::clock::stopwatch;
use weir_planner::solve::TimeLimit;
use weir_planner::solve::problem::{Answer, By, Document, Formulation, Problem, SolveStatus};

use crate::exit::Exit;
use crate::input::read;
use crate::output;

/// Maximum time limit, in ms: an hour.
const LIMIT_MAX_MS: u64 = 3_600_000;

/// Columns that come first in a table.
const FIRST: [&str; 3] = ["name", "stage", "variant"];

/// Arguments of `weir solve`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Solve {
    /// The problem (JSON or YAML); - reads standard input.
    #[arg(value_name = "FILE", required_unless_present = "schema")]
    file: Option<PathBuf>,
    /// Formulation, if the file does not name one: infadapter, sponge, ipa, infaas or themis.
    #[arg(long, value_name = "NAME")]
    formulation: Option<Formulation>,
    /// Solver: own (the formulation's own exact algorithm), highs or microlp.
    #[arg(long, value_name = "NAME", default_value = "own")]
    solver: String,
    /// Time limit of the solver, in ms.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=LIMIT_MAX_MS))]
    time_limit_ms: u64,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
    /// Print the JSON schema of problems, and solve nothing.
    #[arg(long)]
    schema: bool,
}

impl Solve {
    /// # Errors
    /// A file that cannot be read, or an invalid problem.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        if self.schema {
            let schema = schemars::schema_for!(Document);
            print_line(&serde_json::to_string_pretty(&schema)?)?;
            return Ok(Exit::Done);
        }
        let by: By = self.solver.parse().context("--solver")?;
        let path = self.file.clone().unwrap_or_default();
        let about = || format!("problem {}", path.display());
        let document = self.document(&path).with_context(about)?;
        let problem = Problem::read(document, self.formulation).with_context(about)?;
        let elapsed = stopwatch();
        let limit = Duration::from_millis(self.time_limit_ms);
        let answer = problem.solve(by, &TimeLimit::new(limit, &elapsed));
        let answer = answer.with_context(about)?;
        eprintln!("{} in {:.3} ms", self.solver, elapsed().as_secs_f64() * 1e3);
        if self.json {
            print_line(&serde_json::to_string_pretty(&answer)?)?;
        } else {
            print_line(text(&answer)?.trim_end())?;
        }
        Ok(match answer.outcome {
            SolveStatus::Optimal | SolveStatus::Good => Exit::Done,
            SolveStatus::Infeasible | SolveStatus::OutOfTime => Exit::Unsolved,
        })
    }

    fn document(&self, path: &Path) -> anyhow::Result<Value> {
        let text = read(path)?;
        // JSON is parsed as JSON, which is faster and has better errors. YAML in flow style also starts
        // with a brace.
        if !text.trim_start().starts_with('{') {
            return serde_saphyr::from_str(&text).context("YAML");
        }
        serde_json::from_str(&text)
            .or_else(|json| serde_saphyr::from_str(&text).map_err(|_| json))
            .context("JSON")
    }
}

fn print_line(text: &str) -> anyhow::Result<()> {
    output::print(format!("{text}\n"))
}

/// Answer for people: scalars as lines, lists as tables.
fn text(answer: &Answer) -> anyhow::Result<String> {
    let mut text = String::new();
    let answer = serde_json::to_value(answer)?;
    append(&mut text, "", &answer);
    Ok(text)
}

fn append(text: &mut String, path: &str, value: &Value) {
    let Value::Object(fields) = value else { return };
    let (nested, single): (Vec<_>, Vec<_>) = fields
        .iter()
        .partition(|(_, value)| value.is_object() || value.is_array());
    for (name, value) in single {
        text.push_str(&format!("{path}{name}: {}\n", plain(value)));
    }
    for (name, value) in nested {
        match value {
            Value::Array(rows) => text.push_str(&format!("{path}{name}:\n{}\n", table(rows))),
            value => append(text, &format!("{path}{name}."), value),
        }
    }
}

fn table(rows: &[Value]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let mut names: Vec<&String> = Vec::new();
    for name in rows
        .iter()
        .filter_map(Value::as_object)
        .flat_map(|row| row.keys())
    {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    // Identifying columns first, the others by name.
    names.sort_by_key(|name| {
        FIRST
            .iter()
            .position(|first| first == name)
            .unwrap_or(FIRST.len())
    });
    table.set_header(names.iter().map(Cell::new));
    for row in rows {
        let cells: Vec<String> = match row {
            Value::Object(row) => names
                .iter()
                .map(|name| row.get(*name).map_or_else(String::new, plain))
                .collect(),
            other => vec![plain(other)],
        };
        table.add_row(cells);
    }
    table
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(value) if number.is_f64() => {
                let short = format!("{value:.4}");
                let short = short.trim_end_matches('0').trim_end_matches('.');
                short.to_owned()
            }
            _ => number.to_string(),
        },
        Value::Array(rows) => rows.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(row) => {
            let each = row
                .iter()
                .map(|(name, value)| format!("{name} {}", plain(value)));
            each.collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}
