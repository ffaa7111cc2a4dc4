//! A disk that fails when told to.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex};

use a2a_store::{Disk, LogFile, RealDisk};

/// What fails next; each fault happens once, except a failing truncation, which lasts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// The next append writes this many bytes and then fails so.
    pub append: Option<(usize, ErrorKind)>,
    pub sync: bool,
    pub truncate: bool,
    pub open: bool,
    pub sync_dir: bool,
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

struct FaultyFile {
    file: Box<dyn LogFile>,
    faults: Arc<Mutex<Faults>>,
}

fn fail_if(flag: &mut bool) -> io::Result<()> {
    if std::mem::take(flag) { Err(io::Error::other("told to fail")) } else { Ok(()) }
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

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fail_if(&mut self.faults.lock().unwrap().sync_dir)?;
        RealDisk.sync_dir(dir)
    }
}

impl LogFile for FaultyFile {
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
        if self.faults.lock().unwrap().truncate {
            return Err(io::Error::other("told to fail"));
        }
        self.file.truncate(len)
    }
}
