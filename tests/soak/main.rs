//! Everything at once for ten minutes: mixed load, random kills, slow consumers, full queues, a clock that jumps, a
//! full disk, bad input of every kind. At the end nothing that was accepted is lost, nothing that was acknowledged has
//! been redelivered, memory is flat and the chain of the log is whole.
//!
//! Not part of `cargo test --workspace`. `tests/soak/run` starts it with what it needs; by hand:
//! `cargo test --release --test soak -- --minutes 10`. The results are in docs/soak.md.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a run that cannot continue should panic

/// Requests that no client should send.
mod bad_input;
/// What was promised, taken and acknowledged, and what went wrong.
mod book;
/// A2A clients.
mod callers;
/// Agents that take messages: quick, slow, careless, on a WebSocket.
mod consumers;
/// How much memory the server has.
mod memory;
/// Where the server is right now, and speaking to it.
mod place;
/// Agents that send.
mod senders;
/// The server as a child process.
mod server;
/// What is done to the server.
mod trouble;
/// The end: is everything there?
mod verdict;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use book::Book;
use memory::Memory;
use place::Place;
use trouble::Trouble;

/// The part of the time in which the server is troubled; in the rest its memory is watched.
const TROUBLED: f64 = 0.6;

struct Wanted {
    length: Duration,
    seed: u64,
    /// A folder on a file system of its own, small enough to be filled.
    small_disk: Option<PathBuf>,
    /// The library that lets clocks jump.
    clocks: Option<PathBuf>,
}

fn main() -> ExitCode {
    let Some(wanted) = wanted() else {
        eprintln!(
            "usage: soak [--minutes N] [--seed N] [--small-disk FOLDER] [--faketime LIBRARY]"
        );
        return ExitCode::from(2);
    };
    let temporary = tempfile::tempdir().unwrap();
    let folder = match &wanted.small_disk {
        Some(disk) => disk.join("state"),
        None => temporary.path().to_owned(),
    };
    println!("seed {}, {} s", wanted.seed, wanted.length.as_secs());
    let (place, book) = (Place::default(), Book::default());
    let mut trouble = Trouble::new(&place, &book, &wanted, folder);
    let memory = run(&wanted, &place, &book, &mut trouble);
    let fine = verdict::give(&place, &book, &mut trouble, &memory);
    println!("{}", if fine { "everything is there" } else { "NOT everything is as it should be" });
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(wanted: &Wanted, place: &Place, book: &Book, trouble: &mut Trouble<'_>) -> Memory {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        trouble.start();
        for number in 1..=4 {
            scope.spawn(move || senders::run(place, book, number, wanted.seed + number));
        }
        consumers::start(scope, place, book, wanted.seed);
        for number in 1..=2 {
            scope.spawn(move || callers::run(place, book, number, wanted.seed + 100 + number));
        }
        scope.spawn(move || callers::stream(place, book, wanted.seed + 200));
        scope.spawn(move || bad_input::run(place, book, wanted.seed + 300));
        while begun.elapsed() < wanted.length.mul_f64(TROUBLED) {
            trouble.make();
        }
        trouble.begin_anew();
        let left = wanted.length.saturating_sub(begun.elapsed());
        let memory = memory::watch(place, book, trouble, left);
        place.finish();
        memory
    })
}

fn wanted() -> Option<Wanted> {
    let mut wanted = Wanted {
        length: Duration::from_secs(600),
        seed: rand_seed(),
        small_disk: None,
        clocks: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next()?;
        match name.as_str() {
            "--minutes" => {
                let minutes: f64 = value.parse().ok().filter(|n| (0.1..=60.0).contains(n))?;
                wanted.length = Duration::from_secs_f64(minutes * 60.0);
            }
            "--seed" => wanted.seed = value.parse().ok()?,
            "--small-disk" => wanted.small_disk = Some(value.into()),
            "--faketime" => wanted.clocks = Some(value.into()),
            _ => return None,
        }
    }
    Some(wanted)
}

fn rand_seed() -> u64 {
    // The random part of an id.
    uuid::Uuid::now_v7().as_u64_pair().1 >> 32 & 0xFFFF_FFFF
}
