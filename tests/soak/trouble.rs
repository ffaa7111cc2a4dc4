//! What is done to the server: it is killed, stopped, its clock jumps, its disk is full.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::Wanted;
use crate::book::Book;
use crate::place::{Client, Place};
use crate::server::Server;

/// A server must be back after a full disk before this.
const RECOVERS: Duration = Duration::from_secs(30);

/// Random numbers that a seed gives again: SplitMix64.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

pub(crate) struct Trouble<'a> {
    place: &'a Place,
    book: &'a Book,
    dice: Dice,
    pub(crate) folder: PathBuf,
    /// Where the file system is that can be filled.
    small_disk: Option<PathBuf>,
    clocks: Option<PathBuf>,
    turn: u64,
    pub(crate) server: Option<Server>,
}

impl<'a> Trouble<'a> {
    pub(crate) fn new(place: &'a Place, book: &'a Book, wanted: &Wanted, folder: PathBuf) -> Self {
        let (small_disk, clocks) = (wanted.small_disk.clone(), wanted.clocks.clone());
        for (what, there) in [("a full disk", &small_disk), ("clock jumps", &clocks)] {
            if there.is_none() {
                println!("without {what}; tests/soak/run sets up what it takes");
            }
        }
        let dice = Dice::new(wanted.seed);
        Self { place, book, dice, folder, small_disk, clocks, turn: 0, server: None }
    }

    pub(crate) fn start(&mut self) {
        let mut environment = Vec::new();
        if let Some(library) = &self.clocks {
            self.set_clock(self.place.ahead.load(Relaxed));
            environment = vec![
                ("LD_PRELOAD", library.display().to_string()),
                ("FAKETIME_TIMESTAMP_FILE", self.clock_file().display().to_string()),
                ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
                ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            ];
        }
        match Server::start(&self.folder, &environment) {
            Ok(server) => {
                self.place.set(Some(server.url.clone()));
                self.server = Some(server);
            }
            Err(error) => self.book.fault("the server did not start", error),
        }
    }

    fn clock_file(&self) -> PathBuf {
        self.folder.with_extension("clock")
    }

    fn set_clock(&self, ahead: i64) {
        std::fs::write(self.clock_file(), format!("{ahead:+}\n")).unwrap();
        self.place.ahead.store(ahead, Relaxed);
    }

    /// Lets it run for a while, then does something to it.
    pub(crate) fn make(&mut self) {
        let quiet = Duration::from_millis(2_000 + self.dice.below(6_000) as u64);
        self.place.pause(quiet);
        if self.server.as_mut().is_none_or(Server::has_ended) {
            self.book.fault("the server ended by itself", "see its stderr");
            self.place.set(None);
            self.start();
        }
        // Each sort comes for certain; kills most often, and when is a matter of luck.
        self.turn += 1;
        match self.turn % 7 {
            2 | 6 => self.jump(),
            4 => self.fill(),
            0 => self.terminate(),
            _ => self.kill(),
        }
    }

    pub(crate) fn kill(&mut self) {
        self.book.count("kills");
        self.place.set(None);
        if let Some(server) = self.server.take() {
            server.kill();
        }
        self.start();
    }

    pub(crate) fn terminate(&mut self) {
        self.book.count("stops");
        self.place.set(None);
        if self.server.take().is_some_and(|server| !server.terminate()) {
            self.book.fault("the server did not stop as it should", "see its stderr");
        }
        self.start();
    }

    /// A clean start at the right time, for what comes after the trouble.
    pub(crate) fn begin_anew(&mut self) {
        self.place.ahead.store(0, Relaxed);
        self.terminate();
    }

    fn jump(&mut self) {
        if self.clocks.is_none() {
            return;
        }
        self.book.count("clock jumps");
        let ahead = [-7_200, -600, 0, 600, 7_200][self.dice.below(5)];
        self.set_clock(ahead);
    }

    /// Fills the disk, waits, and frees it again.
    fn fill(&mut self) {
        let Some(disk) = self.small_disk.clone() else { return };
        self.book.count("full disks");
        let ballast = disk.join("ballast");
        let mut file = std::fs::File::create(&ballast).unwrap();
        while file.write_all(&[0; 65_536]).is_ok() {}
        while file.write_all(&[0; 512]).is_ok() {}
        self.place.pause(Duration::from_millis(1_000 + self.dice.below(4_000) as u64));
        drop(file);
        // Sometimes it is killed while nothing can be written.
        if self.dice.below(3) == 0 {
            self.place.set(None);
            if let Some(server) = self.server.take() {
                server.kill();
            }
            self.book.count("kills on a full disk");
            std::fs::remove_file(&ballast).unwrap();
            self.start();
            return;
        }
        std::fs::remove_file(&ballast).unwrap();
        let until = Instant::now() + RECOVERS;
        while Instant::now() < until {
            let url = self.server.as_ref().map(|server| server.url.clone()).unwrap_or_default();
            if Client::new(&url).get("/readyz").is_some_and(|(status, _)| status == 200) {
                return;
            }
            self.place.pause(Duration::from_millis(100));
        }
        // It reports that it must be restarted after a failed fsync; then it is.
        self.book.count("starts anew after a full disk");
        self.kill();
    }
}
