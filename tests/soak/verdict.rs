//! The end: every promise is looked up.

use std::collections::{HashMap, HashSet};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::book::Book;
use crate::consumers::{ABSENT, BOSSES, WORKERS, drain};
use crate::memory::Memory;
use crate::place::{Client, Place};
use crate::server::Server;
use crate::trouble::Trouble;

/// Everything must have arrived by then.
const PATIENCE: Duration = Duration::from_secs(120);
/// The last quarter against the second, without what is remembered of messages; the first has the
/// start in it.
const FLAT: f64 = 1.10;

pub(crate) fn give(place: &Place, book: &Book, trouble: &mut Trouble<'_>, memory: &Memory) -> bool {
    // Once more from the disk: what counts is what is there.
    trouble.kill();
    let Some(client) = trouble.server.as_ref().map(|server| Client::new(&server.url)) else {
        return false;
    };
    empty(&client, place, book);
    tasks_end(&client, place, book);
    copies_arrived(book);
    records_are_there(&client, book);
    if trouble.server.take().is_some_and(|server: Server| !server.terminate()) {
        book.fault("the server did not stop as it should", "at the end");
    }
    chain_is_whole(trouble, book);
    is_flat(memory, book);
    let pages = book.open();
    println!("\n| what | how often |\n| --- | --- |");
    for (what, count) in &pages.counts {
        println!("| {what} | {count} |");
    }
    println!("| messages promised, by recipient | {} |", pages.promised.len());
    println!("| tasks promised | {} |", pages.tasks.len());
    for (sort, (count, first)) in &pages.faults {
        println!("\nFAULT {sort}: {count}; the first: {first}");
    }
    pages.faults.is_empty()
}

/// Takes everything from every inbox, leases that run out included.
fn empty(client: &Client, place: &Place, book: &Book) {
    let agents: Vec<&str> = WORKERS.into_iter().chain(BOSSES).chain([ABSENT]).collect();
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let taken: usize = agents.iter().map(|agent| drain(client, place, book, agent)).sum();
        let pending = client.get("/bus/agents").map(|(_, body)| pending(&body, &agents));
        if taken == 0 && pending == Some(0) {
            return;
        }
    }
    book.fault("inboxes are not empty", format!("{:?}", client.get("/bus/agents")));
}

fn pending(body: &Value, agents: &[&str]) -> u64 {
    let all = body["agents"].as_array().into_iter().flatten();
    let ours = all.filter(|view| view["agentId"].as_str().is_some_and(|id| agents.contains(&id)));
    ours.map(|view| view["pending"].as_u64().unwrap_or(0)).sum()
}

/// Every task that a client got an answer for is there and has ended.
fn tasks_end(client: &Client, place: &Place, book: &Book) {
    let mut open: HashMap<String, String> = book.open().tasks.clone();
    let until = Instant::now() + PATIENCE;
    while !open.is_empty() && Instant::now() < until {
        // A request whose lease was lost is redelivered.
        for agent in WORKERS {
            drain(client, place, book, agent);
        }
        open.retain(|id, path| {
            let Some((status, task)) = client.get(path) else { return true };
            if status != 200 {
                book.fault("a task is lost", format!("{id}: {status} {task}"));
                return false;
            }
            let state = task["status"]["state"].as_str().unwrap_or_default().to_owned();
            let ended = ["COMPLETED", "FAILED", "CANCELED", "REJECTED"];
            let ended = ended.iter().any(|end| state.ends_with(end));
            if ended {
                book.count(&format!("tasks: {state}"));
            }
            !ended
        });
    }
    if let Some((id, path)) = open.iter().next() {
        let shown = client.get(path);
        book.fault("tasks have not ended", format!("{} of them, as {id}: {shown:?}", open.len()));
    }
}

fn copies_arrived(book: &Book) {
    let lost: Vec<_> = {
        let pages = book.open();
        pages.promised.difference(&pages.taken).cloned().collect()
    };
    // Not polled at the end: agents that only broadcasts make known.
    for (agent, id) in lost {
        if WORKERS.contains(&agent.as_str()) || BOSSES.contains(&agent.as_str()) || agent == ABSENT
        {
            book.fault("a message is lost", format!("{id} for {agent}"));
        }
    }
}

/// Every accepted message is in the log.
fn records_are_there(client: &Client, book: &Book) {
    let mut missing: HashSet<String> =
        book.open().promised.iter().map(|(_, id)| id.clone()).collect();
    let mut cursor = String::new();
    loop {
        let Some((200, body)) = client.get(&format!("/bus/log?limit=1000&cursor={cursor}")) else {
            book.fault("the log cannot be read", cursor);
            return;
        };
        for record in body["records"].as_array().into_iter().flatten() {
            book.count("records in the log");
            if let Some(id) = record["messageId"].as_str() {
                missing.remove(id);
            }
        }
        cursor = body["nextCursor"].as_str().unwrap_or_default().to_owned();
        if cursor.is_empty() {
            break;
        }
    }
    if let Some(id) = missing.iter().next() {
        book.fault("messages are not in the log", format!("{} of them, as {id}", missing.len()));
    }
}

fn chain_is_whole(trouble: &Trouble<'_>, book: &Book) {
    let verify = Command::new(env!("CARGO_BIN_EXE_openclaw-a2a"))
        .args(["log", "verify", "--state-dir"])
        .arg(&trouble.folder)
        .output()
        .unwrap();
    print!("{}", String::from_utf8_lossy(&verify.stdout));
    if !verify.status.success() {
        book.fault("the chain is broken", String::from_utf8_lossy(&verify.stderr));
    }
}

fn is_flat(memory: &Memory, book: &Book) {
    let Some((all, quarters)) = memory.quarters().zip(memory.quarters_without_ids()) else {
        book.fault("memory was not watched", "too short a run");
        return;
    };
    let ratio = quarters[3] / quarters[1];
    println!("memory by quarters of the calm time: {all:.0?} MiB");
    println!("without what is remembered of messages: {quarters:.0?}, last to second {ratio:.2}");
    if ratio > FLAT {
        book.fault("memory grows", format!("{quarters:.1?} MiB"));
    }
}
