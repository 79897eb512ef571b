//! `GET /v1/openapi.json`: description of this API (OpenAPI 3.1), made of its operations and of the types that they
//! read and write.

use std::sync::OnceLock;

use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::operation::{Access, Answer, Content, Operation, OperationMethod};
use super::problem::{MEDIA_TYPE, ProblemDocument};
use super::replay::{REPLAY, ReplayRunner};
use super::request_id::REQUEST_ID_MAX;

const SCHEMAS: &str = "/components/schemas";

pub(super) const OPENAPI: Operation = Operation {
    method: OperationMethod::Get,
    path: "/v1/openapi.json",
    id: "openapi",
    summary: "This document",
    description: "Description of this API.",
    access: Access::Open,
    query: None,
    headers: &[],
    body: None,
    answers: &[Answer {
        status: 200,
        description: "OpenAPI 3.1.",
        content: Content::Json(SchemaGenerator::subschema_for::<Map<String, Value>>),
    }],
    problems: &[],
};

/// The document as sent, made at the first request.
#[derive(Debug, Default)]
pub struct ApiDocument {
    operations: OnceLock<Vec<&'static Operation>>,
    replay: OnceLock<ReplayRunner>,
    text: OnceLock<Bytes>,
}

impl ApiDocument {
    pub(super) fn describe(
        &self,
        operations: Vec<&'static Operation>,
        replay: Option<ReplayRunner>,
    ) {
        let _ = self.operations.set(operations);
        if let Some(replay) = replay {
            let _ = self.replay.set(replay);
        }
    }

    fn text(&self) -> Bytes {
        let operations = || self.operations.get().map_or(&[][..], Vec::as_slice);
        let make = || document(operations(), self.replay.get());
        let text = self.text.get_or_init(|| make().to_string().into());
        text.clone()
    }
}

pub(super) async fn openapi(
    axum::extract::State(app): axum::extract::State<std::sync::Arc<super::App>>,
) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    (json, app.document.text()).into_response()
}

/// Schemas of what is read and of what is written. A field with a default may be left out of the former, and is
/// always part of the latter.
struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

impl Schemas {
    fn new() -> Schemas {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = SCHEMAS.into();
        });
        Schemas {
            read: settings.clone().into_generator(),
            written: settings.for_serialize().into_generator(),
        }
    }

    /// Returns the definitions. What is both read and written is described as it is read.
    fn into_definitions(mut self) -> Map<String, Value> {
        let mut definitions = self.written.take_definitions(true);
        definitions.extend(self.read.take_definitions(true));
        definitions
    }
}

/// Makes the document of these operations.
pub(super) fn document(operations: &[&'static Operation], replay: Option<&ReplayRunner>) -> Value {
    let mut schemas = Schemas::new();
    let problem = schemas.written.subschema_for::<ProblemDocument<'_>>();
    let mut paths = Map::new();
    for operation in operations {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        if let Value::Object(path) = path {
            let mut described = describe(operation, &mut schemas, &problem);
            if let Some(replay) = replay.filter(|_| operation.id == REPLAY.id) {
                describe_replay(&mut described, replay, &mut schemas);
            }
            path.insert(operation.method.key().to_owned(), described);
        }
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "weir-planner",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Plans for the proxies, the status of services, and solving of the papers' problems.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key of the service; for operations without a service, any key.",
                },
            },
            "headers": {
                "x-request-id": {
                    "description": "Id of the request: the client's, or a new one.",
                    "schema": {"type": "string", "maxLength": REQUEST_ID_MAX},
                },
            },
            "schemas": schemas.into_definitions(),
        },
    });
    plain_links(&mut document);
    document
}

fn describe(operation: &Operation, schemas: &mut Schemas, problem: &Schema) -> Value {
    let mut responses = Map::new();
    for answer in operation.answers {
        let content = match &answer.content {
            Content::None => None,
            Content::Text => Some(json!({"text/plain": {"schema": {"type": "string"}}})),
            Content::EventStream(schema) => {
                Some(json!({"text/event-stream": {"schema": schema(&mut schemas.written)}}))
            }
            Content::Json(schema) => {
                Some(json!({"application/json": {"schema": schema(&mut schemas.written)}}))
            }
        };
        add_response(&mut responses, answer.status, answer.description, content);
    }
    let problems = operation.problems.iter().copied();
    for (status, description) in problems.chain(operation.common_problems()) {
        let content = json!({ MEDIA_TYPE: {"schema": problem} });
        add_response(&mut responses, status, description, Some(content));
    }
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "description": operation.description,
        "parameters": parameters(operation, schemas),
        "responses": responses,
    });
    if let Value::Object(fields) = &mut described {
        if operation.access != Access::Open {
            fields.insert("security".to_owned(), json!([{"key": []}]));
        }
        if let Some(body) = &operation.body {
            let schema = (body.schema)(&mut schemas.read);
            let body = json!({
                "required": true,
                "description": body.description,
                "content": {"application/json": {"schema": schema}},
            });
            fields.insert("requestBody".to_owned(), body);
        }
    }
    described
}

/// Replaces the schemas of the replay by those that the program provides with it.
fn describe_replay(described: &mut Value, replay: &ReplayRunner, schemas: &mut Schemas) {
    const JSON: &str = "/content/application~1json/schema";
    for (at, schema) in [
        ("/requestBody", (replay.scenario)(&mut schemas.read)),
        ("/responses/200", (replay.report)(&mut schemas.written)),
    ] {
        if let Some(value) = described.pointer_mut(&format!("{at}{JSON}")) {
            *value = schema.into();
        }
    }
}

/// Adds a response; a status that several reasons have is described by all of them.
fn add_response(
    responses: &mut Map<String, Value>,
    status: u16,
    description: &str,
    content: Option<Value>,
) {
    let before = responses.get(&status.to_string());
    let before = before.and_then(|response| response.get("description")?.as_str());
    let description = match before {
        Some(before) => format!("{before} {description}"),
        None => description.to_owned(),
    };
    let mut response = json!({
        "description": description,
        "headers": {"x-request-id": {"$ref": "#/components/headers/x-request-id"}},
    });
    if let (Value::Object(fields), Some(content)) = (&mut response, content) {
        fields.insert("content".to_owned(), content);
    }
    responses.insert(status.to_string(), response);
}

fn parameters(operation: &Operation, schemas: &mut Schemas) -> Vec<Value> {
    let mut parameters = Vec::new();
    for (name, description, schema) in operation.path_parameters() {
        parameters.push(json!({
            "name": name,
            "in": "path",
            "required": true,
            "description": description,
            "schema": schema(&mut schemas.read),
        }));
    }
    for (name, description) in operation.headers {
        parameters.push(json!({
            "name": name, "in": "header", "description": description, "schema": {"type": "string"},
        }));
    }
    let query = operation.query.map(|query| query(&mut schemas.read));
    let properties = query
        .as_ref()
        .and_then(|query| query.get("properties")?.as_object());
    for (name, schema) in properties.into_iter().flatten() {
        let mut schema = schema.clone();
        let description = schema
            .as_object_mut()
            .and_then(|it| it.remove("description"));
        parameters.push(json!({
            "name": name,
            "in": "query",
            "description": description.unwrap_or_default(),
            "schema": schema,
        }));
    }
    parameters
}

/// Removes the brackets of links that only the documentation of the code resolves.
fn plain_links(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if key == "description" => {
                        *text = text.replace("[`", "`").replace("`]", "`");
                    }
                    value => plain_links(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(plain_links),
        _ => {}
    }
}

/// Returns the inline schema of a query.
pub(super) fn query<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}
