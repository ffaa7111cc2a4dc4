//! Standard output that a reader may close early.

use std::io::{self, ErrorKind};

/// Whether `error` says that nobody reads our output any more.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    let closed = |cause: &io::Error| cause.kind() == ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(closed))
}

/// Text of unknown origin, with nothing in it that a terminal would act on.
pub(crate) fn harmless(text: &str) -> String {
    let show =
        |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(show).collect()
}
