//! `/schemas`: the published JSON Schemas, for programs that validate before they send. Public.

use crate::openapi::Operation;
use serde_json::json;
use std::collections::HashMap;
use std::sync::LazyLock;

use a2a_protocol::schema;
use actix_web::http::StatusCode;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpResponse, get, web};

use crate::problem::problem;

/// Built once: generating them takes longer than sending them.
static SCHEMAS: LazyLock<HashMap<&str, String>> = LazyLock::new(|| {
    schema::all().into_iter().map(|(name, schema)| (name, format!("{schema:#}\n"))).collect()
});

/// `GET /schemas/{name}.json`, by the names of `openclaw-a2a schema`.
#[get("/schemas/{name}.json")]
pub(crate) async fn show(name: web::Path<String>) -> HttpResponse {
    match SCHEMAS.get(name.as_str()) {
        Some(schema) => HttpResponse::Ok()
            .content_type("application/schema+json")
            .insert_header((CACHE_CONTROL, "max-age=3600"))
            .body(schema.as_str()),
        None => {
            let mut names: Vec<_> = SCHEMAS.keys().copied().collect();
            names.sort_unstable();
            let detail = format!("There is no such schema. There are: {}.", names.join(", "));
            problem(StatusCode::NOT_FOUND, "not_found", &detail)
        }
    }
}

/// Descriptions of the routes above for the OpenAPI document.
pub(crate) fn operations() -> Vec<Operation> {
    let schema = json!({ "application/schema+json": { "schema": { "type": "object" } } });
    vec![
        Operation::new(
            "GET",
            "/schemas/{name}.json",
            "showSchema",
            "server",
            "Show a JSON Schema, by the names of `openclaw-a2a schema`",
        )
        .public()
        .response(200, "The schema", schema),
    ]
}
