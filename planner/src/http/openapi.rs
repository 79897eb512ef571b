//! `GET /v1/openapi.json`: description of this API (OpenAPI 3.1). The paths are in `openapi.json` beside
//! this file; the schemas of problems and answers are generated from their types.

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::solve::problem::{Answer, Document};

const PATHS: &str = include_str!("openapi.json");
const SCHEMAS: &str = "/components/schemas";

/// Builds the document.
///
/// # Errors
/// Fails only in a build whose `openapi.json` is not JSON, which a test excludes.
pub fn document() -> Result<Value, serde_json::Error> {
    let mut document: Value = serde_json::from_str(PATHS)?;
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = SCHEMAS.into();
    });
    let mut generator = settings.into_generator();
    // Both become definitions, with all the types they refer to.
    generator.subschema_for::<Document>();
    generator.subschema_for::<Answer>();
    let schemas = generator.take_definitions(true);
    if let Some(Value::Object(place)) = document.pointer_mut(SCHEMAS) {
        place.extend(schemas);
    }
    if let Some(version) = document.pointer_mut("/info/version") {
        *version = Value::from(env!("CARGO_PKG_VERSION"));
    }
    Ok(document)
}

/// The document as sent, built once.
static DOCUMENT: LazyLock<Result<Bytes, String>> = LazyLock::new(|| {
    let text = document().and_then(|document| serde_json::to_vec(&document));
    text.map(Bytes::from).map_err(|error| error.to_string())
});

pub(super) async fn openapi() -> Response {
    match &*DOCUMENT {
        Ok(document) => {
            let json = [(header::CONTENT_TYPE, "application/json")];
            (json, document.clone()).into_response()
        }
        Err(error) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            super::Refusal(status, error.clone()).into_response()
        }
    }
}
