//! Size limits of the protocol.
//!
//! String lengths are counted in code points. The published schemas contain these numbers.
//! Configuration may tighten them, never widen them.

/// Maximum bytes of one message.
pub const MESSAGE_BYTES: usize = 256 * 1024;
/// Bytes up to which an oversized message is counted; readers stop there.
pub const COUNTED_BYTES: usize = 16 * MESSAGE_BYTES;
/// Maximum code points of a string without a tighter limit of its own.
pub const STRING_CHARS: usize = 32_768;
/// Maximum code points of a title or topic.
pub const TITLE_CHARS: usize = 512;
/// Maximum items of an array.
pub const ARRAY_ITEMS: usize = 1_000;
/// Maximum nesting of objects and arrays, counting the message itself.
pub const DEPTH: usize = 32;
/// Violations listed for one message; the report only counts the rest.
pub const VIOLATIONS: usize = 1_000;
/// Maximum trackers of one progress update on this server (the extension's schema allows 100).
pub const TRACKERS: usize = 20;
/// Maximum code points of a tracker's id, from the extension's schema.
pub const TRACKER_ID_CHARS: usize = 128;
/// Maximum code points of a tracker's message, from the extension's schema.
pub const TRACKER_MESSAGE_CHARS: usize = 512;
/// Progress updates per second and task that are forwarded; faster ones are coalesced.
pub const PROGRESS_UPDATES_PER_SECOND: u32 = 2;
/// Maximum nesting in the data and metadata of an A2A message. It is below [`DEPTH`] because the
/// A2A message is carried inside a message of the bus.
pub const A2A_DEPTH: usize = 24;
/// Maximum bytes of a forwarded `tracestate`, from W3C Trace Context.
pub const TRACESTATE_BYTES: usize = 512;
