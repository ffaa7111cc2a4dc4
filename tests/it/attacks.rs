//! What the bus must withstand: each module takes some rows of the list of attacks, through the
//! edge they concern. An attack is answered with its word, and never costs an honest message.

use std::path::Path;

use serde_json::Value;

/// At the doors of A2A: webhooks, bodies, streams, pages, shapes.
mod a2a_edge;
/// At the doors of A2A: other people's tasks, answers, tokens, secrets.
mod a2a_tasks;
/// Messages for more, or others, than the sender may reach.
mod fan_out;
/// One sender with too many messages, or with urgent ones only.
mod floods;
/// The sender: forged names, people in an agent's name, repeats, wrong clocks.
mod identity;
/// Answers that fit no task.
mod ledger;
/// Text that tries to be a line of the log.
mod log_lines;
/// Messages that go in circles, from agents that only ever send.
mod loops;
/// Names that would be paths or patterns.
mod names;
/// Pages in a user's browser.
mod pages;
/// Recipients that are not there, do not work or take no more.
mod recipients;
/// Secrets that no log and no answer may contain.
mod secrets;
/// Bytes that are no HTTP, and sockets that only stay.
mod sockets;
/// Answers that are not taken, connections that only stay.
mod untaken;
/// Calls that wait, and clients that leave.
mod waiting;

/// Every line of the log of a bus that was stopped; each is one JSON object.
pub(crate) fn log_lines(folder: &Path) -> Vec<Value> {
    let mut files: Vec<_> = std::fs::read_dir(folder.join("a2a-log"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .collect();
    files.sort();
    let text: Vec<_> = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    assert!(text.iter().all(|text| text.is_empty() || text.ends_with('\n')));
    // Split at line feeds only, as readers of JSON Lines do.
    let lines = text.iter().flat_map(|text| text.split_terminator('\n'));
    let read = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert!(value.is_object(), "{line}");
        value
    };
    lines.map(read).collect()
}
