//! The ahead files: where a batch is durable before the day file is.
//!
//! A file that grows is slow to sync, because its size and the place of its new blocks must reach
//! the disk as well. So a busy journal writes each batch twice: to the day file, whose pages may
//! stay in memory for a while, and into a room of fixed size that is written over again and again
//! and costs one write and one flush to sync. That is what a receipt rests on. There are two rooms:
//! while one is being filled, the day file is synced in the background as far as the other goes.
//!
//! What holds at every moment:
//!
//! - Everything in front of the oldest frame of both rooms was synced in the day file. A room is
//!   written over only after the background sync that covers it succeeded. When that sync fails,
//!   the journal is poisoned: Linux reports a failed writeback once, drops the pages and goes on
//!   showing them, so no later sync of the day file proves anything.
//! - The descriptor that is synced in the background is opened before the first batch that relies
//!   on it, because a sync reports only failures after the opening of its descriptor.
//! - A batch larger than a room is synced in the day file, and with it all that came before.
//!
//! At a start, [`replay`] compares the frames with what the disk has, not with what the page cache
//! shows ([`crate::Disk::reread`]), and puts back what is missing. Only then are the rooms
//! removed. A room of which a frame was left out is never removed but kept under another name.
//! Knows nothing of lines but how their chain links.

mod kept;
mod replay;
mod room;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use crate::batch::LogPos;
use crate::{Alive, Disk, FixedFile, LogFile, Parts};

pub(crate) use kept::keep_aside;
pub use replay::lacking;
pub(crate) use replay::replay;

/// The rooms, in the folder `data`.
const ROOMS: [&str; 2] = ["a2a-ahead-0.bin", "a2a-ahead-1.bin"];

fn rooms(data: &Path) -> [PathBuf; 2] {
    ROOMS.map(|name| data.join(name))
}

/// What the rooms hold, as they are.
fn read_rooms(data: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for path in rooms(data) {
        match fs::read(path) {
            Ok(room) => found.push(room),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Where the last frame of the rooms ends in the log.
pub(crate) fn end(data: &Path) -> io::Result<Option<LogPos>> {
    let rooms = read_rooms(data)?;
    Ok(rooms.iter().flat_map(|room| room::frames(room)).map(|frame| frame.end()).max())
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
    /// Each comes back with what its sync said.
    synced: Receiver<(Box<dyn LogFile>, io::Result<()>)>,
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
                let result = day.sync();
                if done.send((day, result)).is_err() {
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

    /// What the background sync said, once it has ended.
    fn poll(&self) -> Option<io::Result<Box<dyn LogFile>>> {
        match self.synced.try_recv() {
            Ok((day, result)) => Some(result.map(|()| day)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(gone())),
        }
    }

    fn wait(&self) -> io::Result<Box<dyn LogFile>> {
        let (day, result) = self.synced.recv().map_err(|_| gone())?;
        result.map(|()| day)
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

/// Why a batch is not durable in a room.
#[derive(Debug)]
pub(crate) enum AheadError {
    /// The room failed. The day file can still be synced.
    Room(io::Error),
    /// The day file could not be synced as far as a room goes: what it holds is in doubt.
    Day(io::Error),
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
    /// What is synced in the background: the day file, opened once more. The helper has it while
    /// `is_syncing`.
    day: Option<Box<dyn LogFile>>,
    /// The day file is being synced as far as the other room goes.
    is_syncing: bool,
    frame: Vec<u8>,
}

impl Ahead {
    fn new(rooms: [Box<dyn FixedFile>; 2], size: u64, helper: Helper) -> Self {
        let (frame, day) = (Vec::new(), None);
        let (current, at, generation) = (0, 0, 1);
        Self { rooms, size, current, at, generation, helper, day, is_syncing: false, frame }
    }

    /// Whether a batch of so many bytes finds room at all.
    pub fn takes(&self, bytes: usize) -> bool {
        room::HEADER as u64 + bytes as u64 <= self.size
    }

    /// Makes a batch durable that was written to the day file at `at`. `day` opens that file once
    /// more. After an error the room may hold the batch or not.
    pub fn write(
        &mut self,
        at: LogPos,
        bytes: &[u8],
        day: impl FnOnce() -> io::Result<Box<dyn LogFile>>,
    ) -> Result<(), AheadError> {
        if self.is_syncing
            && let Some(ended) = self.helper.poll()
        {
            self.is_syncing = false;
            self.day = Some(ended.map_err(AheadError::Day)?);
        }
        if self.day.is_none() && !self.is_syncing {
            self.day = Some(day().map_err(AheadError::Room)?);
        }
        if self.at + (room::HEADER + bytes.len()) as u64 > self.size {
            self.turn()?;
        }
        room::frame(&mut self.frame, self.generation, at, bytes);
        let room = &mut self.rooms[self.current];
        room.write_at(&self.frame, self.at).map_err(AheadError::Room)?;
        room.sync().map_err(AheadError::Room)?;
        self.at += self.frame.len() as u64;
        Ok(())
    }

    /// Goes on in the other room, whose batches must be in the day file first.
    fn turn(&mut self) -> Result<(), AheadError> {
        self.settle().map_err(AheadError::Day)?;
        let Some(day) = self.day.take() else { return Err(AheadError::Day(gone())) };
        self.helper.sync(day).map_err(AheadError::Day)?;
        self.is_syncing = true;
        self.current ^= 1;
        self.at = 0;
        self.generation += 1;
        Ok(())
    }

    /// Waits for the background sync, if there is one.
    ///
    /// # Errors
    /// What that sync said: the day file is in doubt, and no other sync of it proves otherwise.
    pub fn settle(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_syncing) {
            self.day = Some(self.helper.wait()?);
        }
        Ok(())
    }

    /// The next batch is for another day file.
    pub fn leave_day(&mut self) {
        self.day = None;
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
