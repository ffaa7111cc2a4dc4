//! A caller over one of the four forms of A2A. Knows how each is written, and shows all answers
//! in one.

use serde_json::{Map, Value, json};

use crate::a2a_events::Events;
use crate::server::{Answer, Client, new_id};

/// Limits that no test reaches by accident.
pub(crate) const FAR: &str = "[limits]\nper_agent_per_minute = 1000000\n\
    per_pair_per_minute = 1000000\nurgent_per_minute = 1000000\nburst = 1000000\n";

/// How the caller speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Rpc03,
    Rpc10,
    Rest03,
    Rest10,
}

pub(crate) const FORMS: [Form; 4] = [Form::Rpc03, Form::Rpc10, Form::Rest03, Form::Rest10];

impl Form {
    fn is_rpc(self) -> bool {
        matches!(self, Self::Rpc03 | Self::Rpc10)
    }

    pub(crate) fn is_old(self) -> bool {
        matches!(self, Self::Rpc03 | Self::Rest03)
    }
}

/// A call that was refused: the code of JSON-RPC whatever the form, and the whole answer.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) code: i64,
    pub(crate) answer: Box<Answer>,
}

/// One who calls one agent in one form.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) client: Client,
    pub(crate) form: Form,
    /// Before every path: nothing for the host, `/agents/tim` for tim.
    below: String,
}

/// The codes of HTTP+JSON 1.0, which are names.
const REASONS: &[(&str, i64)] = &[
    ("TASK_NOT_FOUND", -32001),
    ("TASK_NOT_CANCELABLE", -32002),
    ("PUSH_NOTIFICATION_NOT_SUPPORTED", -32003),
    ("UNSUPPORTED_OPERATION", -32004),
    ("CONTENT_TYPE_NOT_SUPPORTED", -32005),
    ("EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007),
    ("EXTENSION_SUPPORT_REQUIRED", -32008),
    ("VERSION_NOT_SUPPORTED", -32009),
    ("INVALID_PARAMS", -32602),
    ("QUEUE_FULL", -32050),
    ("RATE_LIMITED", -32051),
    ("CIRCUIT_OPEN", -32052),
    ("FORBIDDEN", -32053),
    ("AGENT_NOT_FOUND", -32054),
    ("UNAVAILABLE", -32055),
];

/// What the forms call it.
struct Call<'a> {
    old: &'a str,
    new: &'a str,
    params: Value,
    verb: &'a str,
    path: String,
}

impl Caller {
    pub(crate) fn of(client: &Client, form: Form, agent: &str) -> Self {
        Self { client: client.clone(), form, below: format!("/agents/{agent}") }
    }

    pub(crate) fn of_host(client: &Client, form: Form) -> Self {
        Self { client: client.clone(), form, below: String::new() }
    }

    pub(crate) fn with(&self, name: &'static str, value: &str) -> Self {
        Self { client: self.client.with(name, value), ..self.clone() }
    }

    /// A message of the caller with these fields besides its id and role.
    pub(crate) fn message(&self, fields: Value) -> Value {
        let role = if self.form.is_old() { "user" } else { "ROLE_USER" };
        let mut message = json!({"messageId": new_id(), "role": role});
        let text = match self.form {
            Form::Rpc03 => json!({"kind": "text", "text": "work"}),
            _ => json!({"text": "work"}),
        };
        let parts = if self.form == Form::Rest03 { "content" } else { "parts" };
        message[parts] = json!([text]);
        if self.form == Form::Rest03 {
            message["role"] = "ROLE_USER".into();
        }
        let Value::Object(fields) = fields else { panic!("fields: {fields}") };
        for (key, value) in fields {
            match key.as_str() {
                "text" => message[parts][0]["text"] = value,
                _ => message[&key] = value,
            }
        }
        message
    }

    fn sending(&self, message: Value, wait: bool) -> Value {
        let configuration = if self.form.is_old() {
            json!({ "blocking": wait })
        } else {
            json!({ "returnImmediately": !wait })
        };
        let message_key = if self.form == Form::Rest03 { "request" } else { "message" };
        json!({ message_key: message, "configuration": configuration })
    }

    /// Sends a message with these fields and waits for what comes of it.
    pub(crate) fn ask(&self, fields: Value) -> Result<Value, Refused> {
        let params = self.sending(self.message(fields), true);
        self.send(params)
    }

    /// The same without waiting.
    pub(crate) fn begin(&self, fields: Value) -> Result<Value, Refused> {
        let params = self.sending(self.message(fields), false);
        self.send(params)
    }

    /// Sends these parameters; the task or the message.
    pub(crate) fn send(&self, params: Value) -> Result<Value, Refused> {
        let path = "message:send".to_owned();
        let (old, new) = ("message/send", "SendMessage");
        self.call(Call { old, new, params, verb: "POST", path }).map(unwrapped)
    }

    /// Sends a message with these fields and reads what happens.
    pub(crate) fn stream(&self, fields: Value) -> Result<Events, Refused> {
        self.open_stream(self.sending(self.message(fields), true))
    }

    /// The same with so many messages of the history at most.
    pub(crate) fn stream_with_history(
        &self,
        fields: Value,
        length: usize,
    ) -> Result<Events, Refused> {
        let mut params = self.sending(self.message(fields), true);
        params["configuration"]["historyLength"] = length.into();
        self.open_stream(params)
    }

    fn open_stream(&self, params: Value) -> Result<Events, Refused> {
        let path = "message:stream".to_owned();
        let (old, new) = ("message/stream", "SendStreamingMessage");
        self.open(Call { old, new, params, verb: "POST", path })
    }

    pub(crate) fn get(&self, task: &str, query: &[(&str, Value)]) -> Result<Value, Refused> {
        let (old, new) = ("tasks/get", "GetTask");
        let path = format!("tasks/{task}{}", written(query));
        let params = with_id(query, "id", task);
        self.call(Call { old, new, params, verb: "GET", path })
    }

    pub(crate) fn list(&self, query: &[(&str, Value)]) -> Result<Value, Refused> {
        let (old, new) = ("tasks/list", "ListTasks");
        let path = format!("tasks{}", written(query));
        let page = self.call(Call { old, new, params: object(query), verb: "GET", path })?;
        // 0.3 over HTTP knows no pages: it has the bare tasks.
        let count = page.as_array().map(Vec::len);
        Ok(count.map_or(page.clone(), |count| json!({"tasks": page, "totalSize": count})))
    }

    pub(crate) fn cancel(&self, task: &str) -> Result<Value, Refused> {
        let (old, new) = ("tasks/cancel", "CancelTask");
        let path = format!("tasks/{task}:cancel");
        self.call(Call { old, new, params: json!({ "id": task }), verb: "POST", path })
    }

    pub(crate) fn subscribe(&self, task: &str) -> Result<Events, Refused> {
        let (old, new) = ("tasks/resubscribe", "SubscribeToTask");
        let path = format!("tasks/{task}:subscribe");
        self.open(Call { old, new, params: json!({ "id": task }), verb: "GET", path })
    }

    /// Sets a webhook for a task; `config` as 1.0 writes it.
    pub(crate) fn set_push(&self, task: &str, config: &Value) -> Result<Value, Refused> {
        let (old, new) = ("tasks/pushNotificationConfig/set", "CreateTaskPushNotificationConfig");
        let params = match self.form {
            Form::Rpc10 | Form::Rest10 => {
                let mut flat = config.clone();
                flat["taskId"] = task.into();
                flat
            }
            Form::Rpc03 => json!({"taskId": task, "pushNotificationConfig": config}),
            Form::Rest03 => json!({"config": {"pushNotificationConfig": config}}),
        };
        let path = format!("tasks/{task}/pushNotificationConfigs");
        self.call(Call { old, new, params, verb: "POST", path })
    }

    pub(crate) fn get_push(&self, task: &str, id: &str) -> Result<Value, Refused> {
        let (old, new) = ("tasks/pushNotificationConfig/get", "GetTaskPushNotificationConfig");
        let path = format!("tasks/{task}/pushNotificationConfigs/{id}");
        self.call(Call { old, new, params: self.push_key(task, Some(id)), verb: "GET", path })
    }

    pub(crate) fn list_pushes(&self, task: &str) -> Result<Value, Refused> {
        self.page_of_pushes(task, &[])
    }

    pub(crate) fn page_of_pushes(
        &self,
        task: &str,
        query: &[(&str, Value)],
    ) -> Result<Value, Refused> {
        let (old, new) = ("tasks/pushNotificationConfig/list", "ListTaskPushNotificationConfigs");
        let path = format!("tasks/{task}/pushNotificationConfigs{}", written(query));
        let mut params = self.push_key(task, None);
        query.iter().for_each(|(key, value)| params[*key] = value.clone());
        self.call(Call { old, new, params, verb: "GET", path })
    }

    pub(crate) fn delete_push(&self, task: &str, id: &str) -> Result<Value, Refused> {
        let (old, new) =
            ("tasks/pushNotificationConfig/delete", "DeleteTaskPushNotificationConfig");
        let path = format!("tasks/{task}/pushNotificationConfigs/{id}");
        self.call(Call { old, new, params: self.push_key(task, Some(id)), verb: "DELETE", path })
    }

    fn push_key(&self, task: &str, id: Option<&str>) -> Value {
        let (task_key, id_key) = match self.form {
            Form::Rpc03 => ("id", "pushNotificationConfigId"),
            _ => ("taskId", "id"),
        };
        let mut key = json!({ task_key: task });
        if let Some(id) = id {
            key[id_key] = id.into();
        }
        key
    }

    pub(crate) fn extended_card(&self) -> Result<Value, Refused> {
        let (old, new) = ("agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard");
        let path = if self.form.is_old() { "card" } else { "extendedAgentCard" };
        self.call(Call { old, new, params: Value::Null, verb: "GET", path: path.to_owned() })
    }

    /// Verb, path and body of a call in this form.
    fn spelled<'a>(&self, call: &Call<'a>) -> (&'a str, String, Value) {
        if self.form.is_rpc() {
            let method = if self.form.is_old() { call.old } else { call.new };
            let mut body = json!({"jsonrpc": "2.0", "id": 7, "method": method});
            if !call.params.is_null() {
                body["params"] = call.params.clone();
            }
            return ("POST", format!("{}/a2a", self.below), body);
        }
        let version = if self.form.is_old() { "/v1" } else { "" };
        (call.verb, format!("{}{version}/{}", self.below, call.path), call.params.clone())
    }

    fn call(&self, call: Call<'_>) -> Result<Value, Refused> {
        let (verb, path, body) = self.spelled(&call);
        self.judged(self.client.call(verb, &path, &body))
    }

    fn judged(&self, mut answer: Answer) -> Result<Value, Refused> {
        if self.form.is_rpc() {
            let error = answer.body["error"]["code"].as_i64();
            if answer.status == 200 && error.is_none() {
                assert_eq!(answer.body["id"], 7, "{answer:?}");
                return Ok(answer.body["result"].take());
            }
            return Err(Refused { code: error.unwrap_or_default(), answer: Box::new(answer) });
        }
        if (200..300).contains(&answer.status) {
            return Ok(answer.body);
        }
        let code = answer.body["code"].as_i64().or_else(|| {
            let reason = answer.body["error"]["details"][0]["reason"].as_str()?;
            REASONS.iter().find(|(word, _)| *word == reason).map(|(_, code)| *code)
        });
        Err(Refused { code: code.unwrap_or_default(), answer: Box::new(answer) })
    }

    fn open(&self, call: Call<'_>) -> Result<Events, Refused> {
        let (verb, path, body) = self.spelled(&call);
        let response = self.client.open(verb, &path, &body).unwrap();
        let content_type = response.headers()["content-type"].to_str().unwrap();
        if content_type != "text/event-stream" {
            let answer = crate::server::read(Ok(response)).unwrap();
            let Err(refused) = self.judged(answer) else { panic!("neither stream nor error") };
            return Err(refused);
        }
        let body = response.into_body().into_with_config().limit(u64::MAX).reader();
        Ok(Events::new(self.form.is_rpc(), Box::new(body)))
    }
}

fn object(query: &[(&str, Value)]) -> Value {
    let pairs = query.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn with_id(query: &[(&str, Value)], key: &str, id: &str) -> Value {
    let mut params = object(query);
    params[key] = id.into();
    params
}

fn written(query: &[(&str, Value)]) -> String {
    let pair = |(key, value): &(&str, Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let value = value.replace('%', "%25").replace('+', "%2B").replace('&', "%26");
        format!("{key}={value}")
    };
    let pairs: Vec<_> = query.iter().map(pair).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// What is inside `{"task": …}` and the like, where there is such.
pub(crate) fn unwrapped(value: Value) -> Value {
    for key in ["task", "message", "msg", "statusUpdate", "artifactUpdate"] {
        if let Some(inner) = value.get(key).filter(|inner| inner.is_object()) {
            // A message's own fields are no wrapper; nor are those of a status.
            if value.get("id").is_none() && value.get("taskId").is_none() {
                return inner.clone();
            }
        }
    }
    value
}

/// The state of a task or of an update, in small letters.
pub(crate) fn state(value: &Value) -> String {
    let word = value["status"]["state"].as_str().unwrap_or("none");
    let word = word.trim_start_matches("TASK_STATE_").to_ascii_lowercase().replace('_', "-");
    // One form writes it with two.
    if word == "cancelled" { "canceled".to_owned() } else { word }
}

pub(crate) fn id(task: &Value) -> String {
    task["id"].as_str().unwrap_or_else(|| panic!("no task: {task}")).to_owned()
}

/// The agent's text beside the state.
pub(crate) fn agent_text(task: &Value) -> String {
    let message = &task["status"]["message"];
    let parts = message.get("parts").or_else(|| message.get("content"));
    let update = &task["status"]["update"];
    let parts = parts.or_else(|| update.get("content")).cloned().unwrap_or_default();
    parts[0]["text"].as_str().unwrap_or_default().to_owned()
}
