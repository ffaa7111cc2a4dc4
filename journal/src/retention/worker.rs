//! The thread that keeps the folder run_once: packs closed days, and carries out removals
//! that are on record.
//!
//! Nobody waits for it. Whatever a stop leaves undone is done after the next start, as
//! the log says what was meant to go.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::index::tail::SharedJournal;
use crate::recovery::delivery_state::RemovalMarks;
use crate::segment::compress::{clean_up, pack};
use crate::segment::{compressed_path, list_segments, plain_path};
use crate::{Alive, Disk, Retention};

/// What the journal tells the worker.
pub(crate) struct RetentionWorker {
    shared: Arc<SharedJournal>,
    disk: Arc<dyn Disk>,
    retention: Retention,
    state: Mutex<WorkerState>,
    wake: Condvar,
    /// Held while tidying: the thread and the journal must not do it at once.
    at_work: Mutex<()>,
}

#[derive(Default)]
struct WorkerState {
    marks: RemovalMarks,
    is_due: bool,
    stop: bool,
}

impl RetentionWorker {
    pub fn new(shared: Arc<SharedJournal>, disk: Arc<dyn Disk>, retention: Retention) -> Self {
        let (state, wake, at_work) = (Mutex::default(), Condvar::new(), Mutex::default());
        Self { shared, disk, retention, state, wake, at_work }
    }

    fn state(&self) -> MutexGuard<'_, WorkerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is on record as removed and has the thread see to it.
    pub fn schedule(&self, marks: &RemovalMarks) {
        let mut state = self.state();
        state.marks = marks.clone();
        state.is_due = true;
        drop(state);
        self.wake.notify_one();
    }

    /// Has the thread look whether there is something to do.
    pub fn look(&self) {
        self.state().is_due = true;
        self.wake.notify_one();
    }

    pub fn stop(&self) {
        self.state().stop = true;
        self.wake.notify_one();
    }

    /// Starts the thread; it ends when told to stop.
    pub fn start(self: &Arc<Self>, alive: Alive) -> io::Result<JoinHandle<()>> {
        let worker = Arc::clone(self);
        std::thread::Builder::new().name("a2a-retention".to_owned()).spawn(move || {
            let _alive = alive;
            worker.run();
        })
    }

    fn run(&self) {
        loop {
            let mut state = self.state();
            while !state.is_due && !state.stop {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.stop {
                return;
            }
            state.is_due = false;
            if self.shared.fault().is_some() {
                // Days are packed and removed once the index holds them. The indexer calls when
                // it can be written again.
                continue;
            }
            let marks = state.marks.clone();
            drop(state);
            if let Err(error) = self.run_once(&marks) {
                tracing::error!(%error, "old days could not be packed or removed; trying again later");
            }
        }
    }

    /// Removes what is on record as removed, then packs what is closed.
    pub fn run_once(&self, marks: &RemovalMarks) -> io::Result<()> {
        let _alone = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = &self.shared.dir;
        let index = self.shared.index().map_err(io::Error::other)?;
        clean_up(dir, &*self.disk)?;
        let mut gone = marks.records.as_ref().map(|mark| mark.day);
        if let Some(mark) = &marks.records {
            index.remove_up_to(mark.seq)?;
        }
        if let Some(mark) = marks.files.as_ref().filter(|_| !self.retention.keep_jsonl) {
            // sled is the only copy from here on, so this once it must really be on the disk.
            index.sync(&self.shared.state_dir)?;
            gone = gone.max(Some(mark.day));
        }
        let Some(newest) = index.last().map(|meta| meta.end.day) else { return Ok(()) };
        for file in list_segments(dir)?.into_iter().filter(|file| file.day < newest) {
            if gone.is_some_and(|gone| file.day <= gone) {
                for path in [plain_path(dir, file.day), compressed_path(dir, file.day)] {
                    match self.disk.remove(&path) {
                        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                        _ => {}
                    }
                }
                self.disk.sync_dir(dir)?;
            } else if !file.is_compressed && self.retention.pack && self.retention.keep_jsonl {
                let packed = pack(dir, file.day, &*self.disk, &|| self.state().stop)?;
                if !packed {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
