//! Retention worker: compresses closed segments and carries out recorded removals, on its own thread.
//!
//! Commits do not wait for it. Work that a stop interrupts is done after the next start, as the
//! removals are in the log.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::index::tail::SharedJournal;
use crate::recovery::delivery_state::RemovalMarks;
use crate::segment::compress::{clean_up, compress};
use crate::segment::{compressed_path, list_segments, plain_path};
use crate::{Disk, LivenessGuard, Retention};

/// Handle of the worker thread.
pub(crate) struct RetentionWorker {
    shared: Arc<SharedJournal>,
    disk: Arc<dyn Disk>,
    retention: Retention,
    state: Mutex<WorkerState>,
    changed: Condvar,
    /// Held during a run: the thread and the journal must not run it concurrently.
    running: Mutex<()>,
}

#[derive(Default)]
struct WorkerState {
    marks: RemovalMarks,
    is_due: bool,
    stop: bool,
}

impl RetentionWorker {
    pub fn new(shared: Arc<SharedJournal>, disk: Arc<dyn Disk>, retention: Retention) -> Self {
        let (state, changed, running) = (Mutex::default(), Condvar::new(), Mutex::default());
        Self { shared, disk, retention, state, changed, running }
    }

    fn state(&self) -> MutexGuard<'_, WorkerState> {
        self.state.lock()
    }

    /// Sets the recorded removals and wakes the thread.
    pub fn schedule(&self, marks: &RemovalMarks) {
        let mut state = self.state();
        state.marks = marks.clone();
        state.is_due = true;
        drop(state);
        self.changed.notify_one();
    }

    /// Wakes the thread to check for work.
    pub fn wake(&self) {
        self.state().is_due = true;
        self.changed.notify_one();
    }

    pub fn stop(&self) {
        self.state().stop = true;
        self.changed.notify_one();
    }

    /// Starts the thread; it ends after [`RetentionWorker::stop`].
    pub fn start(self: &Arc<Self>, alive: LivenessGuard) -> io::Result<JoinHandle<()>> {
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
                self.changed.wait(&mut state);
            }
            if state.stop {
                return;
            }
            state.is_due = false;
            if self.shared.fault().is_some() {
                // Segments are compressed and removed once the index has their records. The indexer
                // wakes this thread when the index works again.
                continue;
            }
            let marks = state.marks.clone();
            drop(state);
            if let Err(error) = self.run_once(&marks) {
                tracing::error!(%error, "old days could not be packed or removed; trying again later");
            }
        }
    }

    /// Carries out the recorded removals, then compresses closed segments.
    pub fn run_once(&self, marks: &RemovalMarks) -> io::Result<()> {
        let _guard = self.running.lock();
        let dir = &self.shared.dir;
        let index = self.shared.index().map_err(io::Error::other)?;
        clean_up(dir, &*self.disk)?;
        let mut removed_up_to = marks.records.as_ref().map(|mark| mark.day);
        if let Some(mark) = &marks.records {
            index.remove_up_to(mark.seq)?;
        }
        if let Some(mark) = marks.files.as_ref().filter(|_| !self.retention.keep_jsonl) {
            // sled becomes the only copy, so that this once it must be durable.
            index.sync(&self.shared.state_dir)?;
            removed_up_to = removed_up_to.max(Some(mark.day));
        }
        let Some(newest) = index.last().map(|meta| meta.end.day) else { return Ok(()) };
        for file in list_segments(dir)?.into_iter().filter(|file| file.day < newest) {
            if removed_up_to.is_some_and(|last| file.day <= last) {
                for path in [plain_path(dir, file.day), compressed_path(dir, file.day)] {
                    match self.disk.remove(&path) {
                        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                        _ => {}
                    }
                }
                self.disk.sync_dir(dir)?;
            } else if !file.is_compressed && self.retention.compress && self.retention.keep_jsonl {
                let is_done = compress(dir, file.day, &*self.disk, &|| self.state().stop)?;
                if !is_done {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
