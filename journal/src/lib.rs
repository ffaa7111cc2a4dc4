//! The memory of the bus: a journal that is durable before anyone is answered.
//!
//! ```text
//! batch of Lines ─▶ encode ─▶ log (day file, and ahead of its sync a room of fixed size) ─▶ committed
//!                                 │
//!                                 ├▶ state   what is still owed to whom (for checkpoints)
//!                                 └▶ tail ─▶ indexer (own thread) ─▶ index (sled, blocks of lines)
//!
//! open:  checkpoint ─▶ scan (the log from there on) ─▶ state, index healed ─▶ Recovered
//! read:  tail, then index ─▶ StoredRecord with its events
//! ask:   query ─▶ summary (which blocks may answer) ─▶ facets, text (which records do)
//! prove: evidence (day files, or blocks) ─▶ verify (the chain, heads noted outside it)
//! keep:  retention (what is old) ─▶ a line that says so ─▶ keeper (removes it, packs days)
//! ```
//!
//! The log files are the truth. They are JSON Lines whose hashes form a chain,
//! so a person can read them and a program can prove that none was changed.
//! sled only makes them quick to search; delete it and it is rebuilt.
//!
//! Everything here blocks: the caller owns the thread. Nothing here reads the
//! clock to decide anything, knows an actor, or re-serialises a message.

mod hash;
mod head;
mod line;
mod seen;

pub mod file_mode;
mod liveness;

mod decode;
mod encode;

pub mod formats;

mod ahead;
mod days;
mod disk;
mod lines;
mod log;
mod pack;
mod watermark;

mod facets;
mod filter;
mod mark;
mod query;
mod summary;
mod text;

mod batch;
mod block;
mod checkpoint;
mod index;
mod indexer;
mod reopen;
mod tail;

mod state;

mod before;
mod recover;
mod scan;

mod evidence;
mod heads;
mod verdict;
mod verify;

mod keeper;
mod rebuild;
mod retention;

mod answer;
mod journal;
mod memory;
mod newest;
mod note;
mod offline;
mod read;
mod reader;
mod trail;

pub use ahead::lacking as bytes_missing_in_log;
pub use before::is_continued_in_index;
pub use days::{DayFile, day_files};
pub use disk::{Disk, FixedFile, LogFile, RealDisk};
pub use evidence::{verify_journal, verify_journal_in_turns, verify_log};
pub use facets::time_of;
pub use file_mode::{Exposed, close_to_others, exposed};
pub use formats::{FormatError, NewerFormat};
pub use hash::{Hash, Head};
pub use heads::{BadHead, FILE as HEADS_FILE, noted_heads};
pub use journal::{Commit, CommitError, Journal, OpenError, Options};
pub use line::{EventLine, Fact, Line, MessageLine, Received, Removed, RemovedForm};
pub use liveness::{Alive, EndedPart, Parts};
pub use log::FOLDER as LOG_FOLDER;
pub use memory::MemoryJournal;
pub use newest::newest_time;
pub use offline::{OfflineJournal, read_offline};
pub use query::{Plan, Query};
pub use read::{MAX_PAGE, Notes, Page, Read, ReadError, StoredRecord};
pub use rebuild::{REBUILT, rebuild_before, rebuild_log};
pub use recover::{DeadLetter, Pending, Recovered, RecoveryReport};
pub use retention::{Retained, Retention};
pub use seen::Seen;
pub use trail::{BadBookmark, Bookmark, Trail};
pub use verdict::{Fault, Tampering, Verified, VerifyError};
