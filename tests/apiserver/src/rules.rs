//! `x-kubernetes-validations`: a schema's CEL rules, evaluated by the `cel` crate.
//!
//! CEL's own functions, its string and list extensions and part of Kubernetes' additions ([`library`]) are supported.
//! A rule that does not parse or calls an unsupported function is not evaluated. It is listed in [`Unevaluated`]
//! instead of passing silently.

mod library;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use cel::{Context, Env, ExecutionError, Program};
use serde_json::{Value, json};

use super::status::Cause;

/// Words that CEL reserves, and that Kubernetes escapes where they name a property.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Rules that could not be evaluated: the rule and the reason.
pub(super) type Unevaluated = BTreeSet<(String, String)>;

/// Compiled rules, by their text.
pub(super) struct Rules {
    env: Arc<Env>,
    programs: BTreeMap<String, Option<Arc<Program>>>,
    pub(super) unevaluated: Unevaluated,
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rules")
            .field("unevaluated", &self.unevaluated)
            .finish_non_exhaustive()
    }
}

fn env() -> Env {
    let mut env = Env::stdlib();
    // Both extensions belong to the crate: a clash would be its bug, and show as unevaluated rules.
    let _ = env.add_extension(cel::extensions::strings);
    let _ = env.add_extension(cel::extensions::lists);
    env
}

impl Rules {
    pub(super) fn new() -> Rules {
        Rules {
            env: Arc::new(env()),
            programs: BTreeMap::new(),
            unevaluated: Unevaluated::new(),
        }
    }

    /// Compiles every rule of a schema, so that unsupported ones are known before their first use.
    pub(super) fn learn(&mut self, schema: &Value) {
        for rule in rules(schema) {
            let _ = self.program(rule);
        }
        for part in parts(schema) {
            self.learn(part);
        }
    }

    fn program(&mut self, rule: &Value) -> Option<Arc<Program>> {
        let text = rule.get("rule").and_then(Value::as_str)?;
        if let Some(known) = self.programs.get(text) {
            return known.clone();
        }
        let compiled = match self.env.compile(text) {
            Ok(program) => match library::unsupported(&program) {
                Some(name) => Err(format!("unsupported function {name}")),
                None => Ok(Arc::new(program)),
            },
            Err(error) => Err(error.to_string()),
        };
        let program = match compiled {
            Ok(program) => Some(program),
            Err(error) => {
                self.unevaluated.insert((text.to_owned(), error));
                None
            }
        };
        self.programs.insert(text.to_owned(), program.clone());
        program
    }

    /// Checks a value, and all below it, against the rules of its schema. Rules with `oldSelf` hold if there is no
    /// old value.
    pub(super) fn check(
        &mut self,
        schema: &Value,
        value: &Value,
        old: Option<&Value>,
        path: &str,
        causes: &mut Vec<Cause>,
    ) {
        for rule in rules(schema) {
            if let Some(program) = self.program(rule) {
                self.evaluate(&program, rule, schema, (value, old), path, causes);
            }
        }
        match value {
            Value::Object(map) => {
                for (field, value) in map {
                    let own = schema.get("properties").and_then(|all| all.get(field));
                    let others = || schema.get("additionalProperties");
                    if let Some(schema) = own.or_else(others) {
                        let old = old.and_then(|old| old.get(field));
                        let at = if path.is_empty() {
                            field.clone()
                        } else {
                            format!("{path}.{field}")
                        };
                        self.check(schema, value, old, &at, causes);
                    }
                }
            }
            Value::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    if let Some(schema) = schema.get("items") {
                        self.check(schema, item, None, &format!("{path}[{i}]"), causes);
                    }
                }
            }
            _ => {}
        }
    }

    fn evaluate(
        &mut self,
        program: &Program,
        rule: &Value,
        schema: &Value,
        (value, old): (&Value, Option<&Value>),
        path: &str,
        causes: &mut Vec<Cause>,
    ) {
        let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut context = Context::with_env(Arc::clone(&self.env));
        library::add(&mut context);
        context.add_variable_from_value("self", converted(schema, value));
        if program.references().has_variable("oldSelf") {
            let Some(old) = old else {
                return;
            };
            context.add_variable_from_value("oldSelf", converted(schema, old));
        }
        let why = match program.execute(&context) {
            Ok(cel::Value::Bool(true)) => return,
            Ok(_) if !text("message").is_empty() => text("message").to_owned(),
            Ok(_) => format!("failed rule: {}", text("rule")),
            Err(
                error @ (ExecutionError::UndeclaredReference(_)
                | ExecutionError::NotSupportedAsMethod { .. }),
            ) => {
                let entry = (text("rule").to_owned(), error.to_string());
                self.unevaluated.insert(entry);
                return;
            }
            Err(error) => format!("rule evaluation error: {error}"),
        };
        let kind = schema
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or("object");
        let shown = match value {
            Value::Object(_) | Value::Array(_) => json!(kind),
            other => other.clone(),
        };
        causes.push(Cause::invalid(path, &shown, &why));
    }
}

fn rules(schema: &Value) -> impl Iterator<Item = &Value> {
    let rules = schema
        .get("x-kubernetes-validations")
        .and_then(Value::as_array);
    rules.into_iter().flatten()
}

fn parts(schema: &Value) -> impl Iterator<Item = &Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let single = ["items", "additionalProperties"].into_iter();
    let single = single.filter_map(|name| schema.get(name));
    properties
        .into_iter()
        .flatten()
        .map(|(_, schema)| schema)
        .chain(single)
}

/// A value in CEL's types: an integer is an `int`, or a `double` if the schema has `number`.
fn converted(schema: &Value, value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => cel::Value::Bool(*value),
        Value::Number(number) => {
            let double = schema.get("type").and_then(Value::as_str) == Some("number");
            match number.as_i64().filter(|_| !double) {
                Some(whole) => cel::Value::Int(whole),
                None => cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            }
        }
        Value::String(text) => cel::Value::from(text.as_str()),
        Value::Array(items) => {
            let of = schema.get("items").unwrap_or(&Value::Null);
            let items: Vec<cel::Value> = items.iter().map(|item| converted(of, item)).collect();
            cel::Value::from(items)
        }
        Value::Object(map) => {
            let entries = map.iter().map(|(field, value)| {
                let own = schema.get("properties").and_then(|all| all.get(field));
                let name = own.map_or_else(|| field.clone(), |_| escaped(field));
                let others = || schema.get("additionalProperties");
                let of = own.or_else(others).unwrap_or(&Value::Null);
                (name, converted(of, value))
            });
            cel::Value::from(entries.collect::<HashMap<String, cel::Value>>())
        }
    }
}

/// A property's name in rules: Kubernetes escapes CEL's reserved words, and characters that no identifier has.
fn escaped(field: &str) -> String {
    if RESERVED.contains(&field) {
        return format!("__{field}__");
    }
    field
        .replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}
