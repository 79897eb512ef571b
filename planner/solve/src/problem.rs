//! A problem of any formulation as a document, and its answer: what the command line, the REST API and
//! the browser have in common. Reads and answers; decides nothing.

use std::fmt::Display;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Outcome, Patience, Refused, Solver, infaas, infadapter, ipa, sponge, themis};

/// Which paper's problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Formulation {
    /// A set of variants, their cores and shares.
    Infadapter,
    /// Cores and batch of one instance.
    Sponge,
    /// Variant, batch and replicas of each stage of a pipeline.
    Ipa,
    /// Replicas of many models' variants on several kinds of hardware.
    Infaas,
    /// A pipeline scaled vertically first, then horizontally.
    Themis,
}

/// A problem as a document; `formulation` says which. (What its schema is made of.)
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

/// Who solves it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum By {
    /// The formulation's own exact algorithm.
    #[default]
    Own,
    /// The same problem as an integer programme.
    Programme(Solver),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Answer {
    /// Whose problem it was.
    pub formulation: Formulation,
    /// How the solve went.
    pub outcome: Kind,
    /// `good` only: nothing is better than the plan by more, in units of the objective.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<f64>,
    /// What exceeds what, or what took the time; absent where there is a proven or good plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The plan; with `infeasible` the best effort, with `out-of-time` the best found. Absent where there
    /// is nothing to go by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
}

/// How a solve went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Nothing is better.
    Optimal,
    /// Time ran out, or a gap was allowed; nothing is better by more than the gap.
    Good,
    /// Nothing meets all constraints.
    Infeasible,
    /// Time ran out before anything was proven.
    OutOfTime,
}

/// A plan of the problem's formulation.
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
    /// All of them.
    pub const ALL: [Formulation; 5] = [
        Formulation::Infadapter,
        Formulation::Sponge,
        Formulation::Ipa,
        Formulation::Infaas,
        Formulation::Themis,
    ];

    /// Its name in documents and on the command line.
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
    type Err = Refused;

    fn from_str(text: &str) -> Result<Formulation, Refused> {
        let found = Formulation::ALL.into_iter().find(|one| one.label() == text);
        found.ok_or_else(|| Refused {
            field: "formulation".to_owned(),
            value: format!("'{}'", text.chars().take(80).collect::<String>()),
            right: format!(
                "one of {}",
                Formulation::ALL.map(Formulation::label).join(", ")
            ),
        })
    }
}

impl Problem {
    /// Reads and checks a document. Its `formulation` may be left out where `formulation` says it, and
    /// must not say another.
    ///
    /// # Errors
    /// What of it is wrong, by the path of the field.
    pub fn read(document: Value, formulation: Option<Formulation>) -> Result<Problem, Refused> {
        let refused = |value: String, right: &str| Refused {
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
            (Some(written), Some(asked)) if written != asked => {
                let right = format!("{asked}, which is asked for, or left out");
                return Err(Refused {
                    field: "formulation".to_owned(),
                    value: written.to_string(),
                    right,
                });
            }
            (Some(one), _) | (None, Some(one)) => one,
            (None, None) => return Err(refused_formulation(&Value::Null)),
        };
        let fields = Value::Object(fields);
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

    /// Which one it is.
    pub const fn formulation(&self) -> Formulation {
        match self {
            Problem::Infadapter(_) => Formulation::Infadapter,
            Problem::Sponge(_) => Formulation::Sponge,
            Problem::Ipa(_) => Formulation::Ipa,
            Problem::Infaas(_) => Formulation::Infaas,
            Problem::Themis(_) => Formulation::Themis,
        }
    }

    /// Solves it.
    ///
    /// # Errors
    /// Where no integer programme is made of that formulation.
    pub fn solve(&self, by: By, patience: &Patience<'_>) -> Result<Answer, Refused> {
        let formulation = self.formulation();
        Ok(match (self, by) {
            (Problem::Infadapter(problem), by) => {
                let outcome = match by {
                    By::Own => infadapter::solve(problem, patience),
                    By::Programme(solver) => infadapter::ilp::solve_with(problem, solver, patience),
                };
                let plan =
                    |allocation| Plan::Infadapter(infadapter::Plan::new(problem, &allocation));
                answer(formulation, outcome, plan)
            }
            (Problem::Sponge(problem), By::Own) => {
                answer(formulation, sponge::solve(problem, patience), Plan::Sponge)
            }
            (Problem::Sponge(_), By::Programme(_)) => {
                return Err(Refused {
                    field: "solver".to_owned(),
                    value: "an integer programme".to_owned(),
                    right: "own for sponge, whose choices are all tried in microseconds".to_owned(),
                });
            }
            (Problem::Ipa(problem), by) => {
                let outcome = match by {
                    By::Own => ipa::solve(problem, patience),
                    By::Programme(solver) => ipa::ilp::solve_with(problem, solver, patience),
                };
                answer(formulation, outcome, Plan::Ipa)
            }
            (Problem::Infaas(problem), by) => {
                let outcome = match by {
                    By::Own => infaas::solve(problem, patience),
                    By::Programme(solver) => infaas::ilp::solve_with(problem, solver, patience),
                };
                answer(formulation, outcome, Plan::Infaas)
            }
            (Problem::Themis(problem), by) => {
                let outcome = match by {
                    By::Own => themis::solve(problem, patience),
                    By::Programme(solver) => themis::ilp::solve_with(problem, solver, patience),
                };
                answer(formulation, outcome, Plan::Themis)
            }
        })
    }
}

fn answer<P>(formulation: Formulation, outcome: Outcome<P>, plan: impl Fn(P) -> Plan) -> Answer {
    let (outcome, gap, why, found) = match outcome {
        Outcome::Optimal(best) => (Kind::Optimal, None, None, Some(best)),
        Outcome::Good { best, gap } => (Kind::Good, Some(gap), None, Some(best)),
        Outcome::Infeasible { why, best_effort } => {
            (Kind::Infeasible, None, Some(why), best_effort)
        }
        Outcome::OutOfTime { why, best } => (Kind::OutOfTime, None, Some(why), best),
    };
    Answer {
        formulation,
        outcome,
        gap,
        why,
        plan: found.map(plan),
    }
}

/// The shape of the document, with the path of what does not fit.
fn input<I: DeserializeOwned>(fields: Value) -> Result<I, Refused> {
    serde_path_to_error::deserialize(fields).map_err(|error| {
        let path = error.path().to_string();
        Refused {
            field: if path == "." {
                "the document".to_owned()
            } else {
                path
            },
            value: error.into_inner().to_string(),
            right: String::new(),
        }
    })
}

fn refused_formulation(value: &Value) -> Refused {
    let value = match value {
        Value::Null => "missing".to_owned(),
        other => kind_of(other).to_owned(),
    };
    let right = format!(
        "one of {}",
        Formulation::ALL.map(Formulation::label).join(", ")
    );
    Refused {
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
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn sponge() -> Value {
        json!({
            "formulation": "sponge", "cores": 4, "batches": 4, "rate_rps": 20,
            "latency": {"law": "linear", "item_ms": 10.0, "fixed_ms": 5.0},
        })
    }

    #[test]
    fn the_formulation_is_in_the_document_or_asked_for() {
        let mut bare = sponge();
        bare.as_object_mut().unwrap().remove("formulation");
        let asked = Some(Formulation::Sponge);
        for (document, asked, message) in [
            (sponge(), None, None),
            (sponge(), asked, None),
            (bare.clone(), asked, None),
            (
                bare.clone(),
                None,
                Some("formulation: missing must be one of infadapter, sponge"),
            ),
            (
                sponge(),
                Some(Formulation::Ipa),
                Some("formulation: sponge must be ipa, which is asked for"),
            ),
            (
                json!({"formulation": "gurobi"}),
                None,
                Some("formulation: 'gurobi' must be one of"),
            ),
            (
                json!({"formulation": 3}),
                None,
                Some("formulation: a number must be one of"),
            ),
            (
                json!([1]),
                None,
                Some("the document: a list must be an object"),
            ),
            (
                bare,
                Some(Formulation::Infadapter),
                Some("batches: unknown field `batches`, expected one of `demand_rps`"),
            ),
        ] {
            let read = Problem::read(document, asked).map_err(|error| error.to_string());
            match (read, message) {
                (Ok(problem), None) => assert_eq!(problem.formulation(), Formulation::Sponge),
                (Err(error), Some(message)) => {
                    assert!(error.contains(message), "'{error}' is not '{message}'")
                }
                (read, message) => panic!("{read:?}, {message:?}"),
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_named_by_its_path() {
        let mut document = sponge();
        document["waiting"] = json!([{"slo_ms": 5}, {"slo_ms": "soon"}]);
        let error = Problem::read(document, None).unwrap_err();
        assert_eq!(error.field, "waiting[1].slo_ms");
        assert!(error.value.contains("expected f64"), "{error}");
    }

    #[test]
    fn an_answer_says_how_it_went() {
        let still = || Duration::ZERO;
        let patience = Patience::new(Duration::from_secs(1), &still);
        let solved = |document| {
            Problem::read(document, None)
                .unwrap()
                .solve(By::Own, &patience)
        };
        let answer = serde_json::to_value(solved(sponge()).unwrap()).unwrap();
        assert_eq!(answer["outcome"], "optimal");
        assert_eq!(
            (&answer["plan"]["cores"], &answer["plan"]["batch"]),
            (&json!(1), &json!(1))
        );
        assert!(answer.get("why").is_none() && answer.get("gap").is_none());
        let mut much = sponge();
        much["rate_rps"] = json!(1e6);
        let answer = serde_json::to_value(solved(much).unwrap()).unwrap();
        assert_eq!(answer["outcome"], "infeasible");
        assert!(
            answer["why"].as_str().unwrap().contains("exceeds"),
            "{answer}"
        );
    }

    #[test]
    fn the_schema_knows_every_formulation() {
        let schema = serde_json::to_string(&schemars::schema_for!(Document)).unwrap();
        for formulation in Formulation::ALL {
            assert!(
                schema.contains(&format!("\"const\":\"{formulation}\"")),
                "{formulation}: {schema}"
            );
        }
    }
}
