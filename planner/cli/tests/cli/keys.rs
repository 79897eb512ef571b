//! The tables of keys in the reference of the service file and the SloService, against the resource's definition.
//! `WEIR_GOLDEN=renew` writes them anew.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;
use weir_planner::spec::resource::definition;

/// Lines around a table in its page.
const BEGIN: &str = "<!-- keys: written by the tests of planner/cli -->";
const END: &str = "<!-- end of keys -->";

#[test]
fn service_file_page_has_every_key_of_the_definition() {
    page_has("service-file.md", "spec");
}

#[test]
fn resource_page_has_every_field_of_the_status() {
    page_has("sloservice.md", "status");
}

fn page_has(page: &str, part: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference")
        .join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect(BEGIN);
    let (_, after) = rest.split_once(END).expect(END);
    let definition = definition();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut table = "| key | type | default | meaning |\n|---|---|---|---|\n".to_owned();
    add_rows(&schema["properties"][part], "", &mut table);
    assert!(table.lines().count() > 10, "{table}");
    let renewed = format!("{before}{BEGIN}\n\n{table}\n{END}{after}");
    if std::env::var_os("WEIR_GOLDEN").is_some_and(|value| value == "renew") {
        fs::write(&path, renewed).unwrap();
        return;
    }
    for (number, (shown, generated)) in (1..).zip(text.lines().zip(renewed.lines())) {
        assert_eq!(shown, generated, "{}:{number}", path.display());
    }
    assert_eq!(text, renewed);
}

/// Adds a row for each key below a schema, parents before their children.
fn add_rows(schema: &Value, above: &str, table: &mut String) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    for (name, property) in properties {
        let is_list = property["type"] == "array" && property["items"]["properties"].is_object();
        let path = format!("{above}{name}{}", if is_list { "[]" } else { "" });
        let description = property["description"].as_str().unwrap_or_default();
        let meaning = description.replace('\n', " ").replace('|', "\\|");
        let (kind, default) = (kind(property), default(schema, name, property));
        writeln!(table, "| `{path}` | {kind} | {default} | {meaning} |").unwrap();
        if path == "stages[].variants[]" {
            continue;
        }
        let inner = if is_list {
            &property["items"]
        } else {
            property
        };
        add_rows(inner, &format!("{path}."), table);
    }
}

/// Type of a value, with its limits.
fn kind(property: &Value) -> String {
    if let Some(values) = property["enum"].as_array() {
        let values: Vec<String> = values.iter().filter_map(code).collect();
        return values.join(", ");
    }
    if property["items"]["enum"].is_array() {
        return format!("list of {}", kind(&property["items"]));
    }
    let pattern = property["pattern"].as_str().unwrap_or_default();
    let range = match (&property["minimum"], &property["maximum"]) {
        (Value::Null, Value::Null) => String::new(),
        (min, Value::Null) => format!(", {} or more", number(min)),
        (Value::Null, max) => format!(", at most {}", number(max)),
        (min, max) => format!(", {} to {}", number(min), number(max)),
    };
    let rules = property["x-kubernetes-validations"].as_array();
    let rule = rules.and_then(|rules| rules.first());
    let rule = rule.and_then(|rule| rule["message"].as_str());
    let name = match property["type"].as_str() {
        _ if property["x-kubernetes-int-or-string"] == true => "integer or string",
        Some("string") if pattern.ends_with("(ns|us|ms|s|m|h))+$") => {
            let rule = rule.and_then(|rule| rule.strip_prefix("must be "));
            return rule.map_or("duration".into(), |range| format!("duration, {range}"));
        }
        Some("string") if property["format"] == "date-time" => "time",
        Some("string") => match property["maxLength"].as_u64() {
            Some(max) => return format!("string, at most {max} characters"),
            None => "string",
        },
        Some("array") => match property["maxItems"].as_u64() {
            Some(max) => return format!("list, at most {max}"),
            None => "list",
        },
        Some("object") if property["additionalProperties"].is_object() => "map",
        Some(name) => name,
        None => "any",
    };
    format!("{name}{range}")
}

/// Default of a key; of an object with keys, these have them.
fn default(of: &Value, name: &str, property: &Value) -> String {
    let required = of["required"].as_array();
    if required.is_some_and(|required| required.iter().any(|key| key == name)) {
        return "required".to_owned();
    }
    match &property["default"] {
        Value::Null | Value::Object(_) => String::new(),
        Value::String(text) if text.is_empty() => "empty".to_owned(),
        value => code(value).unwrap_or_default(),
    }
}

/// A value between backticks.
fn code(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(format!("`{text}`")),
        Value::Number(_) => Some(format!("`{}`", number(value))),
        Value::Bool(value) => Some(format!("`{value}`")),
        _ => None,
    }
}

/// A number without a fraction of zero.
fn number(value: &Value) -> String {
    value.as_f64().unwrap_or_default().to_string()
}
