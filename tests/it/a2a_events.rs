//! The events of a stream as a caller reads them.

use std::io::{BufRead, BufReader, Read};

use serde_json::{Value, json};

use crate::a2a_caller::{state, unwrapped};

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) number: u64,
    /// The task, the update or the message itself, without what is around it.
    pub(crate) data: Value,
}

impl Event {
    /// In a word or two.
    pub(crate) fn word(&self) -> String {
        if self.data.get("artifact").is_some() {
            return "artifact".to_owned();
        }
        match (self.data.get("taskId").is_some(), self.data.get("status").is_some()) {
            (true, true) => state(&self.data),
            (false, true) => format!("task {}", state(&self.data)),
            _ => "message".to_owned(),
        }
    }
}

/// A stream that is open.
pub(crate) struct Events {
    /// Each is the result of a call.
    is_rpc: bool,
    lines: BufReader<Box<dyn Read + Send>>,
}

impl Events {
    pub(crate) fn new(is_rpc: bool, body: Box<dyn Read + Send>) -> Self {
        Self { is_rpc, lines: BufReader::new(body) }
    }

    /// The next line with content; `None` at the end.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if line.trim_end() != "" {
                return Some(line.trim_end().to_owned());
            }
        }
    }

    /// All that is left.
    pub(crate) fn rest(self) -> Vec<Event> {
        self.collect()
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut number = None;
        loop {
            let line = self.line()?;
            if let Some(text) = line.strip_prefix("id: ") {
                number = Some(text.parse().unwrap());
            } else if let Some(text) = line.strip_prefix("data: ") {
                let mut data: Value = serde_json::from_str(text).unwrap();
                if self.is_rpc {
                    assert_eq!((&data["jsonrpc"], &data["id"]), (&json!("2.0"), &json!(7)));
                    data = data["result"].take();
                }
                let number = number.expect("every event has a number");
                return Some(Event { number, data: unwrapped(data) });
            } else {
                assert!(line.starts_with(':'), "{line}");
            }
        }
    }
}
