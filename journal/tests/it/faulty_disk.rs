//! Test disk that injects faults.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex};

use a2a_journal::{Disk, FixedFile, LogFile, RealDisk};

/// The faults to inject. Each happens once, except those of truncations and of files of fixed size,
/// which persist.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// The next append writes this many bytes and then fails with this error.
    pub append: Option<(usize, ErrorKind)>,
    pub sync: bool,
    pub truncate: bool,
    pub open: bool,
    pub sync_dir: bool,
    /// Creating, writing and syncing files of fixed size fails.
    pub open_fixed: bool,
    pub fixed: bool,
    pub fixed_sync: bool,
}

#[derive(Default, Clone)]
pub struct FaultyDisk {
    faults: Arc<Mutex<Faults>>,
}

impl FaultyDisk {
    pub fn fail(&self, faults: Faults) {
        *self.faults.lock().unwrap() = faults;
    }
}

struct FaultyFile<F: ?Sized> {
    file: Box<F>,
    faults: Arc<Mutex<Faults>>,
}

fn failed(flag: bool) -> io::Result<()> {
    if flag { Err(io::Error::other("injected fault")) } else { Ok(()) }
}

fn fail_if(flag: &mut bool) -> io::Result<()> {
    failed(std::mem::take(flag))
}

impl Disk for FaultyDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        RealDisk.create_dir_all(dir)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        fail_if(&mut self.faults.lock().unwrap().open)?;
        let file = RealDisk.open(path)?;
        Ok(Box::new(FaultyFile { file, faults: Arc::clone(&self.faults) }))
    }

    fn open_fixed(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn FixedFile>> {
        failed(self.faults.lock().unwrap().open_fixed)?;
        let file = RealDisk.open_fixed(path, bytes)?;
        Ok(Box::new(FaultyFile { file, faults: Arc::clone(&self.faults) }))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fail_if(&mut self.faults.lock().unwrap().sync_dir)?;
        RealDisk.sync_dir(dir)
    }
}

impl FixedFile for FaultyFile<dyn FixedFile> {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        failed(self.faults.lock().unwrap().fixed)?;
        self.file.write_at(bytes, at)
    }

    fn sync(&mut self) -> io::Result<()> {
        failed(self.faults.lock().unwrap().fixed_sync)?;
        self.file.sync()
    }
}

impl LogFile for FaultyFile<dyn LogFile> {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let fault = self.faults.lock().unwrap().append.take();
        let Some((written, kind)) = fault else { return self.file.append(bytes) };
        self.file.append(&bytes[..written.min(bytes.len())])?;
        Err(kind.into())
    }

    fn sync(&mut self) -> io::Result<()> {
        fail_if(&mut self.faults.lock().unwrap().sync)?;
        self.file.sync()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        failed(self.faults.lock().unwrap().truncate)?;
        self.file.truncate(len)
    }
}
