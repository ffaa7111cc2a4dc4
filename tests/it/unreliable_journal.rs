//! A real journal whose disk can refuse, and whose process can die.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex};

use a2a_actors::{BusSettings, BusSystem, BusThread};
use a2a_journal::{
    Commit, CommitError, Journal, JournalReader, Liveness, Options, Record, Recovered,
};
use a2a_protocol::MessageId;

use crate::listener::SOON;

/// Which message's commit is to fail, and what it waits for before.
type RefuseAfter = (MessageId, Receiver<()>);
/// The same, and that it has begun to wait.
type HoldUp = (MessageId, SyncSender<()>, Receiver<()>);

/// What the test does to the journal.
#[derive(Clone, Default)]
pub struct Fate {
    /// So many commits from now on fail as on a full disk.
    pub refuse: Arc<AtomicUsize>,
    /// The commit with this message waits for a sign, and then fails so.
    pub refuse_after: Arc<Mutex<Option<RefuseAfter>>>,
    /// The commit with this message waits for a sign, and then succeeds.
    pub hold_up: Arc<Mutex<Option<HoldUp>>>,
    /// The process is dead: nothing is written any more, nothing closed.
    dead: Arc<AtomicBool>,
}

struct Unreliable {
    journal: Journal,
    fate: Fate,
}

fn is_in(batch: &[Record], id: MessageId) -> bool {
    batch.iter().any(|line| matches!(line, Record::Message(m) if m.message_id == Some(id)))
}

impl Commit for Unreliable {
    fn commit(&mut self, batch: &[Record]) -> Result<(), CommitError> {
        if self.fate.dead.load(SeqCst) {
            return Err(CommitError::Poisoned);
        }
        if self.fate.refuse.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok() {
            return Err(CommitError::DiskFull);
        }
        let mut refuse_after = self.fate.refuse_after.lock().unwrap();
        if let Some((_, sign)) = refuse_after.take_if(|(id, _)| is_in(batch, *id)) {
            sign.recv_timeout(SOON).expect("a sign in time");
            return Err(CommitError::DiskFull);
        }
        let mut hold_up = self.fate.hold_up.lock().unwrap();
        if let Some((_, waits, sign)) = hold_up.take_if(|(id, ..)| is_in(batch, *id)) {
            waits.send(()).unwrap();
            sign.recv_timeout(SOON).expect("a sign in time");
        }
        self.journal.commit(batch)
    }

    fn probe(&mut self) -> Result<(), CommitError> {
        if self.fate.dead.load(SeqCst) {
            return Err(CommitError::Poisoned);
        }
        if self.fate.refuse.load(SeqCst) > 0 {
            return Err(CommitError::DiskFull);
        }
        self.journal.probe()
    }

    fn liveness(&self) -> Liveness {
        self.journal.liveness()
    }

    fn close(&mut self) -> Result<(), CommitError> {
        if self.fate.dead.load(SeqCst) { Ok(()) } else { self.journal.close() }
    }

    fn reader(&self) -> Arc<dyn JournalReader> {
        self.journal.reader()
    }
}

/// A bus on such a journal.
pub struct UnreliableBus {
    pub system: BusSystem,
    pub fate: Fate,
    thread: BusThread,
}

impl UnreliableBus {
    pub fn start(folder: &Path, settings: BusSettings) -> Self {
        let (journal, recovered): (Journal, Recovered) =
            Journal::open(&Options::new(folder)).unwrap();
        let fate = Fate::default();
        let journal = Unreliable { journal, fate: fate.clone() };
        let (system, thread) = BusSystem::start(settings, Box::new(journal), recovered).unwrap();
        Self { system, fate, thread }
    }

    pub async fn stop(self) {
        self.system.stop(std::time::Duration::from_secs(5)).await;
        drop(self.system);
        self.thread.join();
    }

    /// Ends it as a crash would: what is not on disk by now never will be.
    pub async fn crash(self) {
        self.fate.dead.store(true, SeqCst);
        self.stop().await;
    }
}
