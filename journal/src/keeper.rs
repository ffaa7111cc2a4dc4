//! The thread that keeps the folder tidy: packs closed days, and carries out removals
//! that are on record.
//!
//! Nobody waits for it. Whatever a stop leaves undone is done after the next start, as
//! the log says what was meant to go.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::days::{day_files, packed_file, plain_file};
use crate::pack::{clean_up, pack};
use crate::state::Marks;
use crate::tail::Shared;
use crate::{Alive, Disk, Retention};

/// What the journal tells the keeper.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    disk: Arc<dyn Disk>,
    retention: Retention,
    orders: Mutex<Orders>,
    wake: Condvar,
    /// Held while tidying: the thread and the journal must not do it at once.
    at_work: Mutex<()>,
}

#[derive(Default)]
struct Orders {
    marks: Marks,
    is_due: bool,
    stop: bool,
}

impl Keeper {
    pub fn new(shared: Arc<Shared>, disk: Arc<dyn Disk>, retention: Retention) -> Self {
        let (orders, wake, at_work) = (Mutex::default(), Condvar::new(), Mutex::default());
        Self { shared, disk, retention, orders, wake, at_work }
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is on record as removed and has the thread see to it.
    pub fn see_to(&self, marks: &Marks) {
        let mut orders = self.orders();
        orders.marks = marks.clone();
        orders.is_due = true;
        drop(orders);
        self.wake.notify_one();
    }

    /// Has the thread look whether there is something to do.
    pub fn look(&self) {
        self.orders().is_due = true;
        self.wake.notify_one();
    }

    pub fn stop(&self) {
        self.orders().stop = true;
        self.wake.notify_one();
    }

    /// Starts the thread; it ends when told to stop.
    pub fn start(self: &Arc<Self>, alive: Alive) -> io::Result<JoinHandle<()>> {
        let keeper = Arc::clone(self);
        std::thread::Builder::new().name("a2a-keeper".to_owned()).spawn(move || {
            let _alive = alive;
            keeper.run();
        })
    }

    fn run(&self) {
        loop {
            let mut orders = self.orders();
            while !orders.is_due && !orders.stop {
                orders = self.wake.wait(orders).unwrap_or_else(PoisonError::into_inner);
            }
            if orders.stop {
                return;
            }
            orders.is_due = false;
            if self.shared.fault().is_some() {
                // Days are packed and removed once the index holds them. The indexer calls when
                // it can be written again.
                continue;
            }
            let marks = orders.marks.clone();
            drop(orders);
            if let Err(error) = self.tidy(&marks) {
                tracing::error!(%error, "old days could not be packed or removed; trying again later");
            }
        }
    }

    /// Removes what is on record as removed, then packs what is closed.
    pub fn tidy(&self, marks: &Marks) -> io::Result<()> {
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
        for file in day_files(dir)?.into_iter().filter(|file| file.day < newest) {
            if gone.is_some_and(|gone| file.day <= gone) {
                for path in [plain_file(dir, file.day), packed_file(dir, file.day)] {
                    match self.disk.remove(&path) {
                        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                        _ => {}
                    }
                }
                self.disk.sync_dir(dir)?;
            } else if !file.is_packed && self.retention.pack && self.retention.keep_jsonl {
                let packed = pack(dir, file.day, &*self.disk, &|| self.orders().stop)?;
                if !packed {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
