//! One kind's schema without a server: the checks of a document that an API server makes when it is created.

use serde_json::Value;

use super::admit::check_name;
use super::rules::Rules;
use super::schema;

/// A kind's schema and its compiled rules.
#[derive(Debug)]
pub struct Definition {
    schema: Value,
    rules: Rules,
}

impl Definition {
    /// Compiles the rules of a schema, which has the form of a definition's `openAPIV3Schema`.
    pub fn new(schema: Value) -> Definition {
        let mut rules = Rules::new();
        rules.learn(&schema);
        Definition { schema, rules }
    }

    /// Returns the reasons to refuse a new document, each with its field: unknown fields, values that the schema
    /// forbids, and, if there are none of these, violated rules. An accepted document has none.
    pub fn refusals(&mut self, document: &Value) -> Vec<String> {
        let mut document = document.clone();
        let mut unknown = Vec::new();
        schema::prune(&self.schema, &mut document, "", &mut unknown);
        if !unknown.is_empty() {
            let named = unknown
                .iter()
                .map(|field| format!("unknown field {field:?}"));
            return named.collect();
        }
        schema::fill(&self.schema, &mut document);
        let name = super::object::text(&document, "/metadata/name");
        let mut causes = check_name(false, name);
        schema::check(&self.schema, &document, "", &mut causes);
        if causes.is_empty() {
            self.rules
                .check(&self.schema, &document, None, "", &mut causes);
        }
        causes.iter().map(super::status::Cause::line).collect()
    }

    /// Rules that could not be evaluated so far, each with the reason.
    pub fn unevaluated_rules(&self) -> Vec<(String, String)> {
        self.rules.unevaluated.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusals(spec_schema: Value, spec: Value) -> (Vec<String>, Vec<(String, String)>) {
        let schema = json!({"type": "object", "properties": {"spec": spec_schema}});
        let mut definition = Definition::new(schema);
        let document = json!({"kind": "Any", "metadata": {"name": "a"}, "spec": spec});
        let found = definition.refusals(&document);
        (found, definition.unevaluated_rules())
    }

    fn checked(spec_schema: Value, spec: Value) -> Vec<String> {
        let (found, unevaluated) = refusals(spec_schema, spec);
        assert_eq!(unevaluated, []);
        found
    }

    #[test]
    fn names_that_cel_reserves_are_escaped_in_rules() {
        let schema = json!({
            "type": "object",
            "properties": {"namespace": {"type": "string"}, "a-b": {"type": "string"}},
            "x-kubernetes-validations": [
                {"rule": "!has(self.__namespace__) || self.__namespace__ != 'b'", "message": "not b"},
                {"rule": "!has(self.a__dash__b)", "message": "no a-b"},
            ],
        });
        assert_eq!(checked(schema.clone(), json!({"namespace": "a"})), [""; 0]);
        let found = checked(schema, json!({"namespace": "b", "a-b": "c"}));
        assert!(found[0].ends_with("not b"), "{found:?}");
        assert!(found[1].ends_with("no a-b"), "{found:?}");
    }

    #[test]
    fn rule_with_unsupported_function_is_listed_even_if_it_is_never_reached() {
        let rule = "true || quantity('1').isGreaterThan(quantity('0'))";
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
        let (found, unevaluated) = refusals(schema, json!({}));
        assert_eq!(found, [""; 0]);
        assert_eq!(unevaluated.len(), 1);
        assert_eq!(unevaluated[0].0, rule);
    }

    #[test]
    fn formats_are_checked() {
        for (format, good, bad) in [
            ("int32", json!(2_147_483_647), json!(2_147_483_648_u64)),
            ("int64", json!(i64::MAX), json!(u64::MAX)),
            ("duration", json!("1m30s"), json!("soon")),
        ] {
            let kind = if good.is_string() {
                "string"
            } else {
                "integer"
            };
            let schema = json!({"type": kind, "format": format});
            assert_eq!(checked(schema.clone(), good), [""; 0], "{format}");
            let found = checked(schema, bad);
            assert!(
                found[0].contains(&format!("must be of type {format}")),
                "{found:?}"
            );
        }
    }
}
