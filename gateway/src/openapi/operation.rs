//! Builder of one Operation Object.

use a2a_policy::CircuitKey;
use a2a_protocol::task::OpaqueId;
use a2a_protocol::{AgentId, MessageId, TaskId};
use actix_web::http::StatusCode;
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use super::{named, text};

/// Refusals that every route may return: misdirected, head too large, overloaded.
const ANYWHERE: &[u16] = &[421, 431, 503];
/// Refusals of routes that are authenticated and check the origin.
const GUARDED: &[u16] = &[401, 403, 429];

/// The description of one route.
#[derive(Clone)]
pub(crate) struct Operation {
    verb: &'static str,
    path: String,
    id: String,
    tag: &'static str,
    summary: String,
    about: Option<String>,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: Vec<(u16, Value)>,
    /// Needs no token.
    public: bool,
}

impl Operation {
    pub(crate) fn new(
        verb: &'static str,
        path: impl Into<String>,
        id: impl Into<String>,
        tag: &'static str,
        summary: impl Into<String>,
    ) -> Self {
        Self {
            verb,
            path: path.into(),
            id: id.into(),
            tag,
            summary: summary.into(),
            about: None,
            parameters: Vec::new(),
            body: None,
            answers: Vec::new(),
            public: false,
        }
    }

    pub(crate) fn path(&self) -> String {
        self.path.clone()
    }

    /// The names of its query parameters.
    pub(crate) fn parameters(&self) -> Vec<String> {
        let of_query = self.parameters.iter().filter(|parameter| parameter["in"] == "query");
        of_query.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect()
    }

    pub(crate) const fn verb(&self) -> &'static str {
        self.verb
    }

    pub(crate) fn description(mut self, about: impl Into<String>) -> Self {
        self.about = Some(about.into());
        self
    }

    pub(crate) fn public(mut self) -> Self {
        self.public = true;
        self
    }

    pub(crate) fn query(self, name: &str, schema: Value, about: &str) -> Self {
        self.parameter("query", name, schema, about, false)
    }

    pub(crate) fn required_query(self, name: &str, schema: Value, about: &str) -> Self {
        self.parameter("query", name, schema, about, true)
    }

    pub(crate) fn header(self, name: &str, schema: Value, about: &str) -> Self {
        self.parameter("header", name, schema, about, false)
    }

    fn parameter(
        mut self,
        place: &str,
        name: &str,
        schema: Value,
        about: &str,
        required: bool,
    ) -> Self {
        let mut parameter =
            json!({ "name": name, "in": place, "description": about, "schema": schema });
        if required {
            parameter["required"] = json!(true);
        }
        self.parameters.push(parameter);
        self
    }

    pub(crate) fn json_request(self, schema: &Value) -> Self {
        self.request(json!({ "application/json": { "schema": schema } }), true)
    }

    pub(crate) fn request(mut self, content: Value, required: bool) -> Self {
        self.body = Some(json!({ "required": required, "content": content }));
        self
    }

    /// An optional body `{"reason": "…"}`.
    pub(crate) fn reason(self) -> Self {
        let schema = json!({
            "type": "object",
            "properties": { "reason": { "type": "string", "description": "Cut after 2,000 characters." } },
            "additionalProperties": false,
        });
        self.request(json!({ "application/json": { "schema": schema } }), false)
            .problems(&[408, 413])
    }

    /// A JSON response.
    pub(crate) fn json(self, status: u16, about: &str, schema: &Value) -> Self {
        self.response(status, about, json!({ "application/json": { "schema": schema } }))
    }

    /// An event stream, whose data is `data`. Its schema has no type: some tools read it as that of
    /// the whole text, others as that of each event.
    pub(crate) fn events(self, about: &str, data: &str) -> Self {
        let schema = json!({ "description": data });
        self.response(200, about, json!({ "text/event-stream": { "schema": schema } }))
    }

    pub(crate) fn response(mut self, status: u16, about: &str, content: Value) -> Self {
        let mut answer = json!({ "description": about });
        if !content.is_null() {
            answer["content"] = content;
        }
        self.answers.push((status, answer));
        self
    }

    /// Adds refusals as problems.
    pub(crate) fn problems(mut self, statuses: &[u16]) -> Self {
        for &status in statuses {
            self.refused(status, "application/problem+json", &named("Problem"));
        }
        self
    }

    /// Adds a refusal of one media type.
    pub(crate) fn refused(&mut self, status: u16, media: &str, schema: &Value) {
        let at = self.answers.iter().position(|(known, _)| *known == status);
        let at = at.unwrap_or_else(|| {
            let reason = StatusCode::from_u16(status).ok().and_then(|it| it.canonical_reason());
            self.answers.push((status, json!({ "description": reason.unwrap_or("Refused") })));
            self.answers.len() - 1
        });
        self.answers[at].1["content"][media] = json!({ "schema": schema });
    }

    /// The Operation Object.
    pub(crate) fn object(&self, schemas: &mut SchemaGenerator) -> Value {
        let mut call = self.clone().problems(ANYWHERE);
        if !self.public {
            call = call.problems(GUARDED);
        }
        let named = path_parameters(&self.path, schemas);
        if !named.is_empty() {
            call = call.problems(&[400, 404]);
        } else if !self.parameters.is_empty() {
            call = call.problems(&[400]);
        }
        call.answers.sort_by_key(|(status, _)| *status);
        let answers: Map<_, _> =
            call.answers.into_iter().map(|(status, it)| (status.to_string(), it)).collect();
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
        });
        if let Some(about) = &self.about {
            operation["description"] = json!(about);
        }
        let parameters = [named, self.parameters.clone()].concat();
        if !parameters.is_empty() {
            operation["parameters"] = json!(parameters);
        }
        if let Some(body) = &self.body {
            operation["requestBody"] = body.clone();
        }
        operation["responses"] = Value::Object(answers);
        if self.public {
            operation["security"] = json!([]);
        }
        operation
    }
}

/// The parameters of a path. A name means the same in every path.
fn path_parameters(path: &str, schemas: &mut SchemaGenerator) -> Vec<Value> {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let parameter = |name: &str| {
        let (schema, about): (Value, _) = match name {
            "agent" => (schemas.subschema_for::<AgentId>().into(), "The agent"),
            "messageId" => (schemas.subschema_for::<MessageId>().into(), "The message"),
            "taskId" => (schemas.subschema_for::<TaskId>().into(), "The task"),
            "key" => (schemas.subschema_for::<CircuitKey>().into(), "The circuit"),
            "seq" => (super::number(), "The number of its record"),
            "id" => {
                (schemas.subschema_for::<OpaqueId>().into(), "The task, as the caller knows it")
            }
            "configId" => (schemas.subschema_for::<OpaqueId>().into(), "The push configuration"),
            "what" => {
                (json!({ "type": "string", "enum": ["retry", "drop"] }), "What to do with it")
            }
            "name" => {
                let all = a2a_protocol::schema::all();
                let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
                (json!({ "type": "string", "enum": names }), "The schema")
            }
            _ => (text(), ""),
        };
        json!({ "name": name, "in": "path", "required": true, "description": about, "schema": schema })
    };
    names.map(parameter).collect()
}

/// The schema of a problem; see `problem.rs`.
pub(crate) fn problem() -> Value {
    json!({
        "type": "object",
        "description": "RFC 9457. A message that was refused also has the fields of its receipt.",
        "required": ["type", "title", "status", "code"],
        "properties": {
            "type": { "type": "string" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": ["string", "null"], "description": "What is wrong, and what to do." },
            "code": { "type": "string", "description": "For programs; of a message, its outcome." },
            "errors": { "type": "array", "items": { "$ref": "#/components/schemas/Violation" } },
            "retryAfterMs": { "type": "integer", "minimum": 0 },
        },
    })
}
