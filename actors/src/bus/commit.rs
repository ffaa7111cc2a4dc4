//! The commit path: the buffer, the journal's thread and what follows from a commit.

pub(crate) mod buffer;
pub(crate) mod effects;
pub(crate) mod write_state;
pub(crate) mod writer;
