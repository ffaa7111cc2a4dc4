//! A corpus of storms and honest conversations, sent as real messages through the ledger and the
//! breaker with a virtual clock.
//!
//! The table in `docs/storms.md` is what this corpus measures. A change of the breaker changes the
//! table: `UPDATE_GOLDEN=1 cargo test -p a2a-policy corpus` writes it anew.

mod honest;
mod setup;
mod storms;

use std::fmt::Write as _;
use std::path::Path;

use setup::{Bus, Script, Traffic};

/// Runs of each shape, each with other agents, words and timing.
const RUNS: u64 = 6;
/// A storm that repeats itself must be cut within so many messages, one with new words within so
/// many.
const REPEATING: usize = 60;
const EVER_NEW: usize = 250;
/// A storm that is slowed to fewer messages a minute counts as stopped.
const SLOWED: f64 = 10.0;

const MARK: &str = "<!-- corpus: made by `UPDATE_GOLDEN=1 cargo test -p a2a-policy corpus` -->\n";

/// The result of one script.
struct Outcome {
    sent: usize,
    accepted: usize,
    /// The number of the first message that was refused, from 1.
    first_refusal: Option<usize>,
    minutes: f64,
}

impl Outcome {
    fn of(script: &Script) -> Self {
        let mut bus = Bus::new();
        let (mut accepted, mut first_refusal) = (0, None);
        for (i, step) in script.steps.iter().enumerate() {
            match bus.send(step) {
                true => accepted += 1,
                false => first_refusal = first_refusal.or(Some(i + 1)),
            }
        }
        let minutes = bus.minutes();
        Self { sent: script.steps.len(), accepted, first_refusal, minutes }
    }

    /// Whether a storm exceeded its bound, or afterwards faster than a slowed one may.
    fn is_missed(&self, bound: usize) -> bool {
        self.first_refusal.is_none_or(|at| at > bound + 1)
            || self.accepted as f64 > bound as f64 + SLOWED * self.minutes
    }
}

fn percent(part: usize, of: usize) -> String {
    format!("{} %", (100 * part).div_ceil(of.max(1)))
}

fn rows(traffic: &[Traffic], storms: bool) -> (String, usize, usize) {
    let (mut text, mut wrong, mut all) = (String::new(), 0, 0);
    for shape in traffic {
        let runs: Vec<Outcome> = (0..RUNS).map(|seed| Outcome::of(&shape.script(seed))).collect();
        let is_wrong = |run: &&Outcome| match storms {
            true => run.is_missed(if shape.repeats { REPEATING } else { EVER_NEW }),
            false => run.first_refusal.is_some(),
        };
        for run in runs.iter().filter(is_wrong) {
            println!(
                "{}: accepted {}, first refusal {:?}, {:.1} min",
                shape.name, run.accepted, run.first_refusal, run.minutes
            );
        }
        let bad = runs.iter().filter(is_wrong).count();
        let accepted = runs.iter().map(|run| run.accepted).max().unwrap_or(0);
        let longest = runs.iter().map(|run| run.sent).max().unwrap_or(0);
        let earliest = runs.iter().filter_map(|run| run.first_refusal).min();
        let earliest = earliest.map_or("–".to_owned(), |at| at.to_string());
        let bound = if shape.repeats { REPEATING } else { EVER_NEW };
        let last =
            if storms { format!("{accepted} of {longest}, {bound}") } else { longest.to_string() };
        let (name, share) = (shape.name, percent(bad, runs.len()));
        writeln!(text, "| {name} | {share} | {earliest} | {last} |").unwrap();
        wrong += bad;
        all += runs.len();
    }
    (text, wrong, all)
}

fn table() -> String {
    let (storms, missed, all_storms) = rows(storms::SHAPES, true);
    let (honest, refused, all_honest) = rows(honest::SHAPES, false);
    println!("storms missed: {missed} of {all_storms}; honest talk cut: {refused} of {all_honest}");
    format!(
        "{MARK}\n| storm | not stopped | first refusal, earliest | accepted at most, and the bound |\n\
         | --- | --- | --- | --- |\n{storms}| **all** | {} of {all_storms} | | |\n\n\
         | honest conversation | cut | first refusal, earliest | messages |\n\
         | --- | --- | --- | --- |\n{honest}| **all** | {refused} of {all_honest} | | |\n",
        missed
    )
}

#[test]
fn the_table_in_the_docs_is_what_the_corpus_measures() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/storms.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, documented) = page.split_once(MARK).expect("the page has the mark");
    let measured = table();
    println!("{measured}");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, format!("{head}{measured}")).unwrap();
        return;
    }
    assert_eq!(format!("{MARK}{documented}"), measured, "docs/storms.md differs from the corpus");
}
