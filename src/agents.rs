//! What a session of the bus runs when it is not a handler of the SDK: one file for each way an
//! agent's code can be elsewhere. Nothing here knows how bytes travel.

pub(crate) mod remote;
