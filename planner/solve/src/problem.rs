//! Problem of any formulation as a document, and its answer: the format shared by the command line, the
//! REST API and the browser.

mod renamed;

use std::fmt::Display;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{InputError, Outcome, Solver, TimeLimit, infaas, infadapter, ipa, sponge, themis};

/// Formulation of a problem, by the paper it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Formulation {
    /// Set of variants, their cores and shares.
    Infadapter,
    /// Cores and batch of one instance.
    Sponge,
    /// Variant, batch and replicas of each stage of a pipeline.
    Ipa,
    /// Replicas of many models' variants on several kinds of hardware.
    Infaas,
    /// Pipeline scaled vertically first, then horizontally.
    Themis,
}

/// Problem as a document; `formulation` selects the kind. The JSON schema is generated from it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "formulation", rename_all = "kebab-case")]
#[allow(clippy::large_enum_variant, reason = "one at a time, and not for long")]
pub enum Document {
    /// InfAdapter's.
    Infadapter(infadapter::Input),
    /// Sponge's.
    Sponge(sponge::Input),
    /// IPA's.
    Ipa(ipa::Input),
    /// INFaaS'.
    Infaas(infaas::Input),
    /// Themis'.
    Themis(themis::Input),
}

/// A checked problem.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "one at a time, and not for long")]
pub enum Problem {
    /// InfAdapter's.
    Infadapter(infadapter::Problem),
    /// Sponge's.
    Sponge(sponge::Problem),
    /// IPA's.
    Ipa(ipa::Problem),
    /// INFaaS'.
    Infaas(infaas::Problem),
    /// Themis'.
    Themis(themis::Problem),
}

/// Algorithm that solves a problem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum By {
    /// The formulation's own exact algorithm.
    #[default]
    Own,
    /// The same problem as an integer programme.
    Programme(Solver),
}

/// Answer to a problem.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Answer {
    /// Formulation of the problem.
    pub formulation: Formulation,
    /// Status of the solve.
    pub outcome: SolveStatus,
    /// `good` only: no plan is better by more than this, in units of the objective.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<f64>,
    /// Reason why the plan is neither proven nor good: the exceeded limit, or the part that took the
    /// time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The plan; with `infeasible` the best effort, with `out-of-time` the best found. Absent if there is
    /// no plan to follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
}

/// Status of a solve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SolveStatus {
    /// The plan is proven optimal.
    Optimal,
    /// Time ran out, or a gap was allowed; no plan is better by more than the gap.
    Good,
    /// No plan meets all constraints.
    Infeasible,
    /// Time ran out before anything was proven.
    OutOfTime,
}

/// Plan of the problem's formulation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Plan {
    /// InfAdapter's.
    Infadapter(infadapter::Plan),
    /// Sponge's.
    Sponge(sponge::Plan),
    /// IPA's.
    Ipa(ipa::Plan),
    /// INFaaS'.
    Infaas(infaas::Plan),
    /// Themis'.
    Themis(themis::Plan),
}

impl Formulation {
    /// All formulations.
    pub const ALL: [Formulation; 5] = [
        Formulation::Infadapter,
        Formulation::Sponge,
        Formulation::Ipa,
        Formulation::Infaas,
        Formulation::Themis,
    ];

    /// Name in documents and on the command line.
    pub const fn label(self) -> &'static str {
        match self {
            Formulation::Infadapter => "infadapter",
            Formulation::Sponge => "sponge",
            Formulation::Ipa => "ipa",
            Formulation::Infaas => "infaas",
            Formulation::Themis => "themis",
        }
    }
}

impl Display for Formulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.label())
    }
}

impl FromStr for Formulation {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Formulation, InputError> {
        let found = Formulation::ALL.into_iter().find(|one| one.label() == text);
        found.ok_or_else(|| InputError {
            field: "formulation".to_owned(),
            value: format!("'{}'", text.chars().take(80).collect::<String>()),
            right: format!(
                "one of {}",
                Formulation::ALL.map(Formulation::label).join(", ")
            ),
        })
    }
}

impl FromStr for By {
    type Err = InputError;

    fn from_str(text: &str) -> Result<By, InputError> {
        match text {
            "own" => Ok(By::Own),
            #[cfg(feature = "highs")]
            "highs" => Ok(By::Programme(Solver::Highs)),
            #[cfg(not(feature = "highs"))]
            "highs" => Err(InputError {
                field: "solver".to_owned(),
                value: "'highs'".to_owned(),
                right: "own or microlp; HiGHS is not in this build: `cargo build -p weir --features highs` adds it"
                    .to_owned(),
            }),
            "microlp" => Ok(By::Programme(Solver::Microlp)),
            other => Err(InputError {
                field: "solver".to_owned(),
                value: format!("'{}'", other.chars().take(80).collect::<String>()),
                right: "own, highs or microlp".to_owned(),
            }),
        }
    }
}

impl Problem {
    /// Reads and checks a document. Its `formulation` may be omitted if the argument gives it, and must
    /// not differ from the argument.
    ///
    /// # Errors
    /// The first invalid field, by its path.
    pub fn read(document: Value, formulation: Option<Formulation>) -> Result<Problem, InputError> {
        let refused = |value: String, right: &str| InputError {
            field: "the document".to_owned(),
            value,
            right: right.to_owned(),
        };
        let Value::Object(mut fields) = document else {
            return Err(refused(kind_of(&document).to_owned(), "an object"));
        };
        let written = match fields.remove("formulation") {
            None => None,
            Some(Value::String(text)) => Some(text.parse::<Formulation>()?),
            Some(other) => return Err(refused_formulation(&other)),
        };
        let formulation = match (written, formulation) {
            (Some(written), Some(requested)) if written != requested => {
                let right = format!("{requested}, which is requested, or left out");
                return Err(InputError {
                    field: "formulation".to_owned(),
                    value: written.to_string(),
                    right,
                });
            }
            (Some(one), _) | (None, Some(one)) => one,
            (None, None) => return Err(refused_formulation(&Value::Null)),
        };
        let fields = Value::Object(fields);
        renamed::check(&fields)?;
        Ok(match formulation {
            Formulation::Infadapter => {
                Problem::Infadapter(input::<infadapter::Input>(fields)?.try_into()?)
            }
            Formulation::Sponge => Problem::Sponge(input::<sponge::Input>(fields)?.try_into()?),
            Formulation::Ipa => Problem::Ipa(input::<ipa::Input>(fields)?.try_into()?),
            Formulation::Infaas => Problem::Infaas(input::<infaas::Input>(fields)?.try_into()?),
            Formulation::Themis => Problem::Themis(input::<themis::Input>(fields)?.try_into()?),
        })
    }

    /// Formulation of the problem.
    pub const fn formulation(&self) -> Formulation {
        match self {
            Problem::Infadapter(_) => Formulation::Infadapter,
            Problem::Sponge(_) => Formulation::Sponge,
            Problem::Ipa(_) => Formulation::Ipa,
            Problem::Infaas(_) => Formulation::Infaas,
            Problem::Themis(_) => Formulation::Themis,
        }
    }

    /// Solves the problem.
    ///
    /// # Errors
    /// The formulation has no integer programme.
    pub fn solve(&self, by: By, time_limit: &TimeLimit<'_>) -> Result<Answer, InputError> {
        let formulation = self.formulation();
        Ok(match (self, by) {
            (Problem::Infadapter(problem), by) => {
                let outcome = match by {
                    By::Own => infadapter::solve(problem, time_limit),
                    By::Programme(solver) => {
                        infadapter::ilp::solve_with(problem, solver, time_limit)
                    }
                };
                let plan =
                    |allocation| Plan::Infadapter(infadapter::Plan::new(problem, &allocation));
                answer(formulation, outcome, plan)
            }
            (Problem::Sponge(problem), By::Own) => answer(
                formulation,
                sponge::solve(problem, time_limit),
                Plan::Sponge,
            ),
            (Problem::Sponge(_), By::Programme(_)) => {
                return Err(InputError {
                    field: "solver".to_owned(),
                    value: "an integer programme".to_owned(),
                    right: "own for sponge, whose choices are all tried in microseconds".to_owned(),
                });
            }
            (Problem::Ipa(problem), by) => {
                let outcome = match by {
                    By::Own => ipa::solve(problem, time_limit),
                    By::Programme(solver) => ipa::ilp::solve_with(problem, solver, time_limit),
                };
                answer(formulation, outcome, Plan::Ipa)
            }
            (Problem::Infaas(problem), by) => {
                let outcome = match by {
                    By::Own => infaas::solve(problem, time_limit),
                    By::Programme(solver) => infaas::ilp::solve_with(problem, solver, time_limit),
                };
                answer(formulation, outcome, Plan::Infaas)
            }
            (Problem::Themis(problem), by) => {
                let outcome = match by {
                    By::Own => themis::solve(problem, time_limit),
                    By::Programme(solver) => themis::ilp::solve_with(problem, solver, time_limit),
                };
                answer(formulation, outcome, Plan::Themis)
            }
        })
    }
}

fn answer<P>(formulation: Formulation, outcome: Outcome<P>, plan: impl Fn(P) -> Plan) -> Answer {
    let (outcome, gap, why, found) = match outcome {
        Outcome::Optimal(best) => (SolveStatus::Optimal, None, None, Some(best)),
        Outcome::Good { best, gap } => (SolveStatus::Good, Some(gap), None, Some(best)),
        Outcome::Infeasible { why, best_effort } => {
            (SolveStatus::Infeasible, None, Some(why), best_effort)
        }
        Outcome::OutOfTime { why, best } => (SolveStatus::OutOfTime, None, Some(why), best),
    };
    Answer {
        formulation,
        outcome,
        gap,
        why,
        plan: found.map(plan),
    }
}

/// Reads the fields of a document; errors have the path of the wrong field.
fn input<I: DeserializeOwned>(fields: Value) -> Result<I, InputError> {
    serde_path_to_error::deserialize(fields).map_err(|error| {
        let path = error.path().to_string();
        let message = error.into_inner().to_string();
        let (value, right) = wrong_number(&message).unwrap_or((&message, ""));
        InputError {
            field: if path == "." {
                "the document".to_owned()
            } else {
                path
            },
            value: value.to_owned(),
            right: right.to_owned(),
        }
    })
}

/// Splits serde's message about a value that is no number into the value and the allowed ones.
fn wrong_number(message: &str) -> Option<(&str, &'static str)> {
    let (value, expected) = message
        .strip_prefix("invalid type: ")?
        .rsplit_once(", expected ")?;
    let right = match expected {
        "f64" => "a number",
        "u32" | "u64" | "usize" => "a whole number, 0 or more",
        _ => return None,
    };
    // Serde names the type before the value: string "many", floating point `2.5`.
    let quoted = value
        .strip_suffix('`')
        .and_then(|value| value.split_once('`'));
    let plain = quoted.map_or(value, |(_, value)| value);
    Some((plain.strip_prefix("string ").unwrap_or(plain), right))
}

fn refused_formulation(value: &Value) -> InputError {
    let value = match value {
        Value::Null => "missing".to_owned(),
        other => kind_of(other).to_owned(),
    };
    let right = format!(
        "one of {}",
        Formulation::ALL.map(Formulation::label).join(", ")
    );
    InputError {
        field: "formulation".to_owned(),
        value,
        right,
    }
}

const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
