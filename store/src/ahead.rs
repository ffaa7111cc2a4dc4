//! The ahead files: where a batch is durable before the day file is.
//!
//! A file that grows is slow to sync, because its size and the place of its new blocks must reach
//! the disk as well. So a busy journal writes each batch twice: to the day file, whose pages may
//! stay in memory for a while, and into a room of fixed size that is written over again and again
//! and costs one write and one flush to sync. That is what a receipt rests on. There are two rooms:
//! while one is being filled, the day file is synced in the background as far as the other goes.
//!
//! After a crash of the machine the day file may lack what only a room has; [`replay`] puts it
//! there. After a crash of the process it lacks nothing. Whoever opens a journal has no more use
//! for the rooms and removes them; a quiet journal has none. Knows nothing of lines but how their
//! chain links.

mod room;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use crate::batch::LogPos;
use crate::{Alive, Disk, FixedFile, LogFile, Parts};

pub(crate) use room::{lacking, replay};

/// The rooms, in the folder `data`.
const ROOMS: [&str; 2] = ["a2a-ahead-0.bin", "a2a-ahead-1.bin"];

fn rooms(data: &Path) -> [PathBuf; 2] {
    ROOMS.map(|name| data.join(name))
}

/// Removes the rooms: everything in them is in the day files, durably.
pub(crate) fn remove(data: &Path, disk: &dyn Disk) -> io::Result<()> {
    for room in rooms(data) {
        if fs::exists(&room)? {
            disk.remove(&room)?;
        }
    }
    Ok(())
}

/// When rooms are made, and how large.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// After so many commits: what is written little needs none.
    pub after: u64,
    /// Bytes of each.
    pub bytes: u64,
}

/// How far a journal is with its rooms.
pub(crate) enum Front {
    /// So many commits were made without.
    None(u64),
    /// They are being made.
    Preparing(Made, Helper),
    /// Batches go there first.
    Ready(Ahead),
    /// They cannot be had; what there is of them says nothing that the day file does not.
    Off,
}

impl Front {
    /// The rooms, if they are there; makes them when it is time to.
    pub fn ready(
        &mut self,
        plan: Plan,
        data: &Path,
        disk: &Arc<dyn Disk>,
        parts: &Parts,
    ) -> Option<&mut Ahead> {
        match self {
            Self::None(commits) if *commits < plan.after => *commits += 1,
            Self::None(_) => {
                let made = Helper::start(
                    rooms(data),
                    plan.bytes,
                    Arc::clone(disk),
                    parts.returning("write_ahead"),
                );
                *self = made.map_or(Self::Off, |(rooms, helper)| Self::Preparing(rooms, helper));
            }
            Self::Preparing(rooms, _) => {
                let rooms = match rooms.try_recv() {
                    Err(TryRecvError::Empty) => return None,
                    Err(TryRecvError::Disconnected) => Err(io::Error::other("it panicked")),
                    Ok(made) => made,
                };
                let before = std::mem::replace(self, Self::Off);
                match (rooms, before) {
                    (Ok(rooms), Self::Preparing(_, helper)) => {
                        *self = Self::Ready(Ahead::new(rooms, plan.bytes, helper));
                    }
                    (Err(error), _) => {
                        tracing::warn!(%error, "no files could be made to write ahead in; commits take longer");
                    }
                    _ => {}
                }
            }
            Self::Ready(_) | Self::Off => {}
        }
        match self {
            Self::Ready(ahead) => Some(ahead),
            _ => None,
        }
    }
}

/// The thread that makes the rooms and then syncs the day file behind them.
pub(crate) struct Helper {
    days: Option<Sender<Box<dyn LogFile>>>,
    synced: Receiver<io::Result<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The rooms, when they are made.
type Made = Receiver<io::Result<[Box<dyn FixedFile>; 2]>>;

impl Helper {
    fn start(
        paths: [PathBuf; 2],
        bytes: u64,
        disk: Arc<dyn Disk>,
        alive: Alive,
    ) -> io::Result<(Made, Self)> {
        let (give, made) = channel();
        let (days, asked) = channel::<Box<dyn LogFile>>();
        let (done, synced) = channel();
        let run = move || {
            let _alive = alive;
            let rooms = paths.iter().map(|path| disk.open_fixed(path, bytes));
            let rooms = rooms.collect::<io::Result<Vec<_>>>().and_then(|rooms| {
                // So that the names survive a power cut.
                paths[0].parent().map_or(Ok(()), |data| disk.sync_dir(data))?;
                rooms.try_into().map_err(|_| io::Error::other("there are two"))
            });
            if give.send(rooms).is_err() {
                return;
            }
            for mut day in asked {
                if done.send(day.sync()).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("a2a-ahead".to_owned()).spawn(run)?;
        Ok((made, Self { days: Some(days), synced, thread: Some(thread) }))
    }

    fn sync(&self, day: Box<dyn LogFile>) -> io::Result<()> {
        let sent = self.days.as_ref().is_some_and(|days| days.send(day).is_ok());
        if sent { Ok(()) } else { Err(gone()) }
    }

    fn wait(&self) -> io::Result<()> {
        self.synced.recv().unwrap_or_else(|_| Err(gone()))
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that syncs the day file is gone")
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.days = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that syncs the day file panicked");
        }
    }
}

/// Two rooms, one of which is being filled.
pub(crate) struct Ahead {
    rooms: [Box<dyn FixedFile>; 2],
    size: u64,
    current: usize,
    /// Where the next batch goes in it.
    at: u64,
    /// How often a room was begun; tells what is in it from what was there before.
    generation: u64,
    helper: Helper,
    /// The day file is being synced as far as the other room goes.
    is_syncing: bool,
    frame: Vec<u8>,
}

impl Ahead {
    fn new(rooms: [Box<dyn FixedFile>; 2], size: u64, helper: Helper) -> Self {
        let frame = Vec::new();
        Self { rooms, size, current: 0, at: 0, generation: 1, helper, is_syncing: false, frame }
    }

    /// Whether a batch of so many bytes finds room at all.
    pub fn takes(&self, bytes: usize) -> bool {
        room::HEADER as u64 + bytes as u64 <= self.size
    }

    /// Makes a batch durable that was written to the day file at `at`. `day` opens that file once
    /// more. After an error nobody knows; the day file itself can still be synced.
    pub fn write(
        &mut self,
        at: LogPos,
        bytes: &[u8],
        day: impl FnOnce() -> io::Result<Box<dyn LogFile>>,
    ) -> io::Result<()> {
        if self.at + (room::HEADER + bytes.len()) as u64 > self.size {
            self.turn(day()?)?;
        }
        room::frame(&mut self.frame, self.generation, at, bytes);
        let room = &mut self.rooms[self.current];
        room.write_at(&self.frame, self.at)?;
        room.sync()?;
        self.at += self.frame.len() as u64;
        Ok(())
    }

    /// Goes on in the other room, whose batches must be in the day file first.
    fn turn(&mut self, day: Box<dyn LogFile>) -> io::Result<()> {
        if std::mem::take(&mut self.is_syncing) {
            self.helper.wait()?;
        }
        self.helper.sync(day)?;
        self.is_syncing = true;
        self.current ^= 1;
        self.at = 0;
        self.generation += 1;
        Ok(())
    }

    /// The last batch that was tried counts for nothing: nothing of it shall be found.
    pub fn spoil(&mut self) {
        let room = &mut self.rooms[self.current];
        let spoiled = room.write_at(&[0; room::HEADER], self.at).and_then(|()| room.sync());
        if let Err(error) = spoiled {
            tracing::error!(%error, "a refused batch may be found again after a restart");
        }
    }
}
