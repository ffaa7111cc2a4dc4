//! An agent of the bus that works when the test lets it. Sees nothing of A2A but its messages.

use serde_json::{Value, json};

use crate::server::{Answer, Client, Server};

/// An agent that takes its work over HTTP and answers when the test calls for it.
pub(crate) struct Worker {
    client: Client,
    name: String,
}

impl Worker {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        client.inbox(name, "");
        Self { client, name: name.to_owned() }
    }

    pub(crate) fn tim(server: &Server) -> Self {
        Self::new(server.client(), "tim")
    }

    /// The same, known to the server from before: nothing that waits for it is taken.
    pub(crate) fn tim_again(server: &Server) -> Self {
        Self { client: server.client(), name: "tim".to_owned() }
    }

    /// The next request; everything else that came is taken, too.
    pub(crate) fn next(&self) -> Value {
        loop {
            let received = self.client.inbox(&self.name, "wait=30s&limit=1");
            let Some(received) = received.into_iter().next() else { panic!("nothing came") };
            let id = crate::server::id_of(&received).to_owned();
            assert_eq!(self.client.settle(&self.name, &id, "ack").status, 200);
            if received["message"]["type"] == "task_request" {
                return received["message"].clone();
            }
        }
    }

    /// Whether anything waits.
    pub(crate) fn has_work(&self) -> bool {
        !self.client.inbox(&self.name, "limit=1").is_empty()
    }

    pub(crate) fn say(&self, request: &Value, kind: &str, fields: Value) -> Answer {
        let mut message = crate::server::message(&self.name, "x", "x");
        message["to"] = json!({"agentId": request["from"]["agentId"]});
        message["correlationId"] = request["correlationId"].clone();
        message["type"] = kind.into();
        message["payload"] = fields;
        message["payload"]["taskId"] = request["payload"]["taskId"].clone();
        self.client.send(&message)
    }

    fn accepted(&self, request: &Value, kind: &str, fields: Value) {
        let answer = self.say(request, kind, fields);
        assert_eq!(answer.status, 202, "{answer:?}");
    }

    pub(crate) fn complete(&self, request: &Value, text: &str) {
        let artifact = json!({"artifactId": "out", "parts": [{"text": text}]});
        let result = json!({"message": text, "artifacts": [artifact]});
        self.accepted(request, "task_response", json!({"action": "completed", "result": result}));
    }

    pub(crate) fn ask(&self, request: &Value, question: &str) {
        self.accepted(request, "task_response", json!({"action": "blocked", "reason": question}));
    }

    pub(crate) fn report(&self, request: &Value, progress: &str) {
        let fields = json!({"status": "in_progress", "progress": progress});
        self.accepted(request, "status_update", fields);
    }
}
