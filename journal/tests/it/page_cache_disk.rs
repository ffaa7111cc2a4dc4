//! Test disk with the page cache of Linux: writes go to the cache, a sync brings them to the disk.
//!
//! The files themselves are the cache, since all reads use them. The content of the disk is kept in
//! memory. Pages whose writeback fails are dropped: they stay visible and are never written, unless
//! they are written to again. Each descriptor reports that once, at its next sync. Where a page had
//! no block yet, writing it again in place does not help, as on ext4, unless [`CachedDisk::heals`] is
//! set. Names are durable at once.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use a2a_journal::{Disk, FixedFile, LogFile, RealDisk};

const PAGE: u64 = 4096;

#[derive(Default, Clone)]
pub struct CachedDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    names: HashMap<PathBuf, u64>,
    files: HashMap<u64, Inode>,
    next: u64,
    refused: Refused,
    heals: bool,
}

/// The operations that fail until this is changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refused {
    /// Writing pages of segments, and of files of fixed size.
    pub days: bool,
    pub fixed: bool,
    /// Truncating files.
    pub truncate: bool,
    /// Everything, including a sync with nothing to write.
    pub all: bool,
}

#[derive(Default)]
struct Inode {
    disk: Vec<u8>,
    dirty: BTreeSet<u64>,
    /// Pages whose writeback failed and which have no block.
    lost: BTreeSet<u64>,
    /// The shortest length of a truncation since the last sync.
    cut: Option<usize>,
    errors: u64,
    /// Whether a descriptor reported the last error.
    is_reported: bool,
    is_fixed: bool,
}

fn failed() -> io::Error {
    io::Error::other("the test disk refuses")
}

impl State {
    fn file(&mut self, path: &Path) -> u64 {
        if let Some(id) = self.names.get(path) {
            return *id;
        }
        self.next += 1;
        let disk = fs::read(path).unwrap_or_default();
        self.files.insert(self.next, Inode { disk, ..Inode::default() });
        self.names.insert(path.to_owned(), self.next);
        self.next
    }

    /// Writes dirty pages to the disk, or drops them.
    fn write_back(&mut self, id: u64, cache: &File) {
        let Refused { days, fixed, all, .. } = self.refused;
        let inode = self.files.get_mut(&id).unwrap();
        if all || if inode.is_fixed { fixed } else { days } {
            inode.fail();
        } else {
            inode.write_back(cache);
        }
    }
}

impl Inode {
    fn fail(&mut self) {
        if !self.dirty.is_empty() {
            let had_none = |page: &u64| page * PAGE >= self.disk.len() as u64;
            self.lost.extend(std::mem::take(&mut self.dirty).into_iter().filter(had_none));
            self.errors += 1;
            self.is_reported = false;
        }
    }

    fn write_back(&mut self, cache: &File) {
        if let Some(cut) = self.cut.take() {
            self.disk.truncate(cut);
        }
        for page in std::mem::take(&mut self.dirty) {
            self.write_page(page, cache);
        }
        let size = cache.metadata().unwrap().len();
        self.disk.resize(size as usize, 0);
    }

    fn write_page(&mut self, page: u64, cache: &File) {
        let size = cache.metadata().unwrap().len();
        let from = page * PAGE;
        if self.lost.contains(&page) || from >= size {
            return;
        }
        let to = size.min(from + PAGE) as usize;
        if self.disk.len() < to {
            self.disk.resize(to, 0);
        }
        cache.read_exact_at(&mut self.disk[from as usize..to], from).unwrap();
    }

    fn dirty(&mut self, from: u64, len: usize) {
        if len > 0 {
            self.dirty.extend(from / PAGE..=(from + len as u64 - 1) / PAGE);
        }
    }
}

impl CachedDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn refuse(&self, refused: Refused) {
        self.state().refused = refused;
    }

    /// From now on writing in place works once the cache was dropped, as on most file systems.
    pub fn heals(&self) {
        self.state().heals = true;
    }

    /// The kernel fails to write back dirty pages of segments, or of files of fixed size.
    pub fn lose_dirty(&self, fixed: bool) {
        for inode in self.state().files.values_mut().filter(|inode| inode.is_fixed == fixed) {
            inode.fail();
        }
    }

    /// The machine reboots. Dirty pages reached the disk if `reached` returns `true`.
    pub fn reboot(&self, mut reached: impl FnMut() -> bool) {
        let mut state = self.state();
        let State { names, files, .. } = &mut *state;
        for (path, id) in names.iter().filter(|(path, _)| path.exists()) {
            let inode = files.get_mut(id).unwrap();
            let cache = File::open(path).unwrap();
            for page in std::mem::take(&mut inode.dirty) {
                if reached() {
                    inode.write_page(page, &cache);
                }
            }
            (inode.lost, inode.cut, inode.errors) = (BTreeSet::new(), None, 0);
            fs::write(path, &inode.disk).unwrap();
        }
    }

    fn handle(&self, path: &Path, file: File, is_fixed: bool) -> Handle {
        let mut state = self.state();
        let id = state.file(path);
        let inode = state.files.get_mut(&id).unwrap();
        inode.is_fixed = is_fixed;
        // An error that was never reported is reported to the next descriptor.
        let reported = inode.errors - u64::from(inode.errors > 0 && !inode.is_reported);
        Handle { disk: self.clone(), id, file, reported }
    }
}

struct Handle {
    disk: CachedDisk,
    id: u64,
    file: File,
    /// Number of reported errors.
    reported: u64,
}

impl Handle {
    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.write_back(self.id, &self.file);
        let all = state.refused.all;
        let inode = state.files.get_mut(&self.id).unwrap();
        if self.reported < inode.errors || all {
            (self.reported, inode.is_reported) = (inode.errors, true);
            return Err(failed());
        }
        Ok(())
    }
}

impl Disk for CachedDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        RealDisk.create_dir_all(dir)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        // First: existing content is on the disk.
        self.state().file(path);
        let file = OpenOptions::new().append(true).read(true).create(true).open(path)?;
        Ok(Box::new(self.handle(path, file, false)))
    }

    fn open_fixed(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn FixedFile>> {
        if self.state().refused.fixed || self.state().refused.all {
            return Err(failed());
        }
        drop(RealDisk.open_fixed(path, bytes)?);
        let mut state = self.state();
        let id = state.file(path);
        state.files.insert(id, Inode { disk: vec![0; bytes as usize], ..Inode::default() });
        drop(state);
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Box::new(self.handle(path, file, true)))
    }

    fn open_over(&self, path: &Path) -> io::Result<Box<dyn FixedFile>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let id = self.state().file(path);
        let is_fixed = self.state().files[&id].is_fixed;
        Ok(Box::new(self.handle(path, file, is_fixed)))
    }

    fn reread(&self, path: &Path, _: u64) -> io::Result<()> {
        let cache = OpenOptions::new().read(true).write(true).open(path)?;
        let mut state = self.state();
        let id = state.file(path);
        // Errors of earlier writebacks are ignored.
        state.write_back(id, &cache);
        if state.refused.all {
            return Err(failed());
        }
        let heals = state.heals;
        let inode = state.files.get_mut(&id).unwrap();
        inode.is_reported = true;
        if heals {
            inode.lost.clear();
        }
        // The size in the cache stays.
        let mut shown = inode.disk.clone();
        shown.resize(cache.metadata()?.len() as usize, 0);
        cache.write_all_at(&shown, 0)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        let mut state = self.state();
        if let Some(id) = state.names.remove(from) {
            state.names.insert(to.to_owned(), id);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)?;
        self.state().names.remove(path);
        Ok(())
    }
}

impl LogFile for Handle {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let at = self.file.metadata()?.len();
        self.file.write_all(bytes)?;
        self.disk.state().files.get_mut(&self.id).unwrap().dirty(at, bytes.len());
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Self::sync(self)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        if state.refused.truncate || state.refused.all {
            return Err(failed());
        }
        self.file.set_len(len)?;
        let inode = state.files.get_mut(&self.id).unwrap();
        // Truncated blocks are freed; later writes get new ones.
        inode.dirty.retain(|page| page * PAGE < len);
        inode.lost.retain(|page| page * PAGE < len);
        inode.cut = Some(inode.cut.map_or(len as usize, |cut| cut.min(len as usize)));
        Ok(())
    }
}

impl FixedFile for Handle {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, at)?;
        self.disk.state().files.get_mut(&self.id).unwrap().dirty(at, bytes.len());
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Self::sync(self)
    }
}
