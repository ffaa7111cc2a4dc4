//! Every size the protocol allows, in one place.
//!
//! Lengths of strings are counted in code points. The published schemas carry
//! these numbers; configuration may tighten them, never widen them.

/// Bytes in one message.
pub const MESSAGE_BYTES: usize = 256 * 1024;
/// What is counted of a message that has too many bytes; readers stop there.
pub const COUNTED_BYTES: usize = 16 * MESSAGE_BYTES;
/// Code points in a string, where nothing tighter is said.
pub const STRING_CHARS: usize = 32_768;
/// Code points in a title or topic.
pub const TITLE_CHARS: usize = 512;
/// Items in an array.
pub const ARRAY_ITEMS: usize = 1_000;
/// Objects and arrays inside one another, the message itself included.
pub const DEPTH: usize = 32;
/// Violations listed for one message; the report counts what lies beyond.
pub const VIOLATIONS: usize = 1_000;
/// Trackers in one progress update that this server takes (the extension's schema allows 100).
pub const TRACKERS: usize = 20;
/// Code points in the name of a tracker, as the extension's schema has it.
pub const TRACKER_ID_CHARS: usize = 128;
/// Code points in the message of a tracker, as the extension's schema has it.
pub const TRACKER_MESSAGE_CHARS: usize = 512;
/// Progress updates a second and task that are passed on; what comes faster is coalesced.
pub const PROGRESS_UPDATES_PER_SECOND: u32 = 2;
/// Objects and arrays inside one another in the data and metadata of an A2A message: it travels
/// inside a message of the bus, whose own depth counts as well.
pub const A2A_DEPTH: usize = 24;
/// Bytes of a `tracestate` that is passed on, as W3C Trace Context asks for.
pub const TRACESTATE_BYTES: usize = 512;
