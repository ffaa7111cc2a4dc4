//! What was promised, taken and acknowledged, and what went wrong.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// A message for one of its recipients.
pub(crate) type Copy = (String, String);

/// What is known of all messages and tasks.
#[derive(Default)]
pub(crate) struct Pages {
    /// With a receipt: recipient and message.
    pub(crate) promised: HashSet<Copy>,
    pub(crate) taken: HashSet<Copy>,
    /// The answer to the taker was that this is durable.
    pub(crate) acknowledged: HashSet<Copy>,
    /// Tasks that a client got an answer for: where to look.
    pub(crate) tasks: HashMap<String, String>,
    /// How often what happened.
    pub(crate) counts: BTreeMap<String, u64>,
    /// What must not happen; the first of each sort in full.
    pub(crate) faults: BTreeMap<&'static str, (u64, String)>,
}

/// Shared by all threads.
#[derive(Default)]
pub(crate) struct Book(Mutex<Pages>);

impl Book {
    pub(crate) fn open(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self, what: &str) {
        let mut pages = self.open();
        match pages.counts.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(pages.counts.insert(what.to_owned(), 1)),
        }
    }

    pub(crate) fn fault(&self, sort: &'static str, detail: impl std::fmt::Display) {
        let mut pages = self.open();
        let fault = pages.faults.entry(sort).or_insert_with(|| (0, detail.to_string()));
        fault.0 += 1;
        if fault.0 == 1 {
            eprintln!("{sort}: {detail}");
        }
    }

    /// How many messages were accepted.
    pub(crate) fn accepted(&self) -> u64 {
        let pages = self.open();
        let of = |what| pages.counts.get(what).copied().unwrap_or(0);
        of("receipts: delivered") + of("receipts: queued")
    }

    /// A receipt was given: its recipients will get the message.
    pub(crate) fn promise(&self, id: &str, receipt: &Value) {
        let accepted = ["delivered", "queued", "duplicate"];
        let mut pages = self.open();
        for recipient in receipt["recipients"].as_array().into_iter().flatten() {
            let outcome = recipient["outcome"].as_str().unwrap_or_default();
            if let Some(agent) =
                recipient["agentId"].as_str().filter(|_| accepted.contains(&outcome))
            {
                pages.promised.insert((agent.to_owned(), id.to_owned()));
            }
        }
    }

    /// An agent has a message in its hands.
    pub(crate) fn take(&self, agent: &str, id: &str) {
        let copy = (agent.to_owned(), id.to_owned());
        let again = self.open().acknowledged.contains(&copy);
        if again {
            self.fault("came again after it was acknowledged", format!("{agent} {id}"));
        }
        self.open().taken.insert(copy);
        self.count("taken");
    }

    pub(crate) fn acknowledge(&self, agent: &str, id: &str) {
        self.open().acknowledged.insert((agent.to_owned(), id.to_owned()));
        self.count("acknowledged");
    }
}
