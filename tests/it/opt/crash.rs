//! Objectives under SIGKILL: whatever was acknowledged is there, no parent is found that its
//! children contradict, and what can be done is done once the server lives.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use a2a_protocol::opt::OPT_EXTENSION;
use serde_json::{Value, json};

use super::truth::{AGENTS, Asked, Dice, TOO_LONG, appear, at_rest, each, is_done, is_end, work};
use super::{OptCaller, revision, text};
use crate::a2a_caller::FAR;
use crate::server::{Client, Server};

/// How often the server is killed.
const LIVES: u64 = 5;
const CALLERS: u64 = 3;

const CONFIG: &str = "[delivery]\nattempts = 1000\nfirst_pause_ms = 1\nlongest_pause_ms = 4\n";

/// What a caller wants to come of an objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// Held plans are approved when everything is sent.
    Approve,
    /// The same, in a later life.
    ApproveLater,
    /// It is never approved.
    Hold,
    Cancel,
}

/// The answers about an objective that a caller got.
#[derive(Debug)]
struct Promise {
    wish: Wish,
    revision: u64,
    plans: HashSet<String>,
    /// Its end, when a caller got it.
    end: Option<String>,
}

#[derive(Default)]
struct Book {
    promised: HashMap<String, Promise>,
    answers: usize,
}

type Shared<'a> = &'a Mutex<Book>;

fn open(book: Shared<'_>) -> MutexGuard<'_, Book> {
    // One thread's failure is not another's: the first is what counts.
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(folder: &Path) -> Server {
    let server = Server::with_config(folder, &format!("{FAR}{CONFIG}"));
    appear(&server);
    server
}

fn caller(client: &Client) -> OptCaller {
    OptCaller(client.with("a2a-version", "1.0").with("a2a-extensions", OPT_EXTENSION))
}

/// The result; `None` when the server is gone.
fn ask(caller: &OptCaller, book: Shared<'_>, method: &str, params: &Value) -> Option<Value> {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let answer = caller.0.try_post("/agents/tim/a2a", body.to_string().as_bytes()).ok()?;
    let result = answer.body.get("result");
    let result = result.unwrap_or_else(|| panic!("{method} {params}: {answer:?}")).clone();
    open(book).answers += 1;
    Some(result)
}

/// Makes objectives until the server is gone.
fn call(caller: &OptCaller, book: Shared<'_>, mut dice: Dice) {
    while let Some(()) = make(caller, book, &mut dice) {}
}

fn make(caller: &OptCaller, book: Shared<'_>, dice: &mut Dice) -> Option<()> {
    let wishes = [Wish::Approve, Wish::ApproveLater, Wish::Hold, Wish::Cancel];
    let wish = wishes[dice.below(wishes.len())];
    let made = ask(caller, book, "objectives/create", &json!({"name": "Write a post"}))?;
    let id = text(&made["id"]);
    let promise = Promise { wish, revision: revision(&made), plans: HashSet::new(), end: None };
    open(book).promised.insert(id.clone(), promise);
    // The first is held, so that nothing ends before all is sent.
    let mut plans: Vec<String> = Vec::new();
    for at in 0..2 + dice.below(3) {
        let mut plan = dice.plan(&id, &plans);
        if at == 0 {
            plan["status"] = "blocked".into();
        }
        let made = ask(caller, book, "plans/create", &plan)?;
        plans.push(text(&made["id"]));
        open(book).promised.get_mut(&id).unwrap().plans.insert(text(&made["id"]));
    }
    match wish {
        Wish::Approve => {
            ask(caller, book, "plans/update", &json!({"id": plans[0], "status": "working"}))?;
        }
        Wish::Cancel => {
            let end = json!({"id": id, "status": "canceled"});
            let end = ask(caller, book, "objectives/update", &end)?;
            assert_eq!(end["status"], "canceled");
            let mut book = open(book);
            let promise = book.promised.get_mut(&id).unwrap();
            promise.revision = revision(&end);
            promise.end = Some("canceled".to_owned());
        }
        Wish::ApproveLater | Wish::Hold => {}
    }
    Some(())
}

fn whole(caller: &OptCaller, id: &str) -> Value {
    caller.ok("objectives/get", json!({"id": id, "includeTasks": true}))["objective"].clone()
}

/// Reads everything that was promised, and holds the server to it.
fn look(server: &Server, book: Shared<'_>) {
    let (client, caller) = (server.client(), caller(&server.client()));
    for (id, promise) in &mut open(book).promised {
        let now = at_rest(&client, || whole(&caller, id));
        let known: HashSet<String> =
            each(&now, "plans").iter().map(|plan| text(&plan["id"])).collect();
        assert!(promise.plans.is_subset(&known), "lost of {promise:?}: {now:#}");
        // One plan was on its way when the server was killed, at most.
        assert!(known.len() <= promise.plans.len() + 1, "{promise:?}: {now:#}");
        promise.plans = known;
        assert!(revision(&now) >= promise.revision, "{promise:?}: {now:#}");
        promise.revision = revision(&now);
        if let Some(end) = &promise.end {
            assert_eq!(now["status"], **end, "ended otherwise: {now:#}");
        }
        if is_end(&now["status"]) {
            promise.end = Some(text(&now["status"]));
        }
    }
}

/// Does what callers meant to do and have no answer to: approve and cancel.
fn resume(caller: &OptCaller, book: Shared<'_>) {
    let open: Vec<(String, Wish)> = {
        let book = open(book);
        let open = book.promised.iter().filter(|(_, promise)| promise.end.is_none());
        open.map(|(id, promise)| (id.clone(), promise.wish)).collect()
    };
    for (id, wish) in open {
        let now = whole(caller, &id);
        let held = each(&now, "plans").iter().find(|plan| plan["status"] == "blocked");
        match (wish, held) {
            (Wish::Approve | Wish::ApproveLater, Some(plan)) => {
                caller.ok("plans/update", json!({"id": plan["id"], "status": "working"}));
            }
            (Wish::Cancel, _) => {
                caller.ok("objectives/update", json!({"id": id, "status": "canceled"}));
            }
            _ => {}
        }
    }
}

/// One life of the server: load on every edge, then SIGKILL.
fn live(folder: &Path, book: Shared<'_>, asked: &Asked, life: u64) {
    let server = start(folder);
    look(&server, book);
    resume(&caller(&server.client()), book);
    let before = open(book).answers;
    // So many answers that it is never at the same place.
    let answers = usize::try_from(9 + (life * 11) % 23).unwrap();
    thread::scope(|scope| {
        for agent in AGENTS {
            let client = server.client();
            scope.spawn(move || work(&client, agent, asked));
        }
        for me in 0..CALLERS {
            let caller = caller(&server.client());
            scope.spawn(move || call(&caller, book, Dice(life * CALLERS + me)));
        }
        let deadline = Instant::now() + TOO_LONG;
        while open(book).answers < before + answers {
            assert!(Instant::now() < deadline, "no progress");
            thread::yield_now();
        }
        server.kill();
    });
}

#[test]
fn what_was_acknowledged_is_kept_and_never_contradicts_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (book, asked) = (Mutex::new(Book::default()), Asked::default());
    for life in 0..LIVES {
        live(folder.path(), &book, &asked, life);
    }
    let server = start(folder.path());
    look(&server, &book);
    let caller = caller(&server.client());
    resume(&caller, &book);
    thread::scope(|scope| {
        for agent in AGENTS {
            let (client, asked) = (server.client(), &asked);
            scope.spawn(move || work(&client, agent, asked));
        }
        let deadline = Instant::now() + TOO_LONG;
        let ids: Vec<String> = open(&book).promised.keys().cloned().collect();
        for id in &ids {
            while !is_settled(&whole(&caller, id)) {
                assert!(Instant::now() < deadline, "never ends: {:#}", whole(&caller, id));
            }
        }
        look(&server, &book);
        for (id, promise) in &open(&book).promised {
            as_wished(&whole(&caller, id), promise, &asked);
        }
        assert!(ids.len() > 10, "little was promised: {}", ids.len());
        server.kill();
    });
}

/// Nothing of it can continue by itself.
fn is_settled(objective: &Value) -> bool {
    each(objective, "plans").iter().all(|plan| plan["status"] != "working")
}

fn as_wished(end: &Value, promise: &Promise, asked: &Asked) {
    let held = each(end, "plans").iter().any(|plan| plan["status"] == "blocked");
    match promise.wish {
        Wish::Cancel => assert_eq!(end["status"], "canceled", "{end:#}"),
        // Killed before the first plan was there.
        _ if promise.plans.is_empty() => assert_eq!(end["status"], "submitted", "{end:#}"),
        Wish::Hold => assert!(held && end["status"] == "blocked", "{end:#}"),
        Wish::Approve | Wish::ApproveLater => is_done(end, asked),
    }
}
