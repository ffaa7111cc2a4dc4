//! Client side of the command line: finds the running server and calls it over HTTP.
//!
//! ```text
//! state folder ─▶ server_locator (address file, journal lock) ─▶ server (HTTP calls, event streams)
//!                                                                   └─▶ server_error (any refusal)
//! ```
//!
//! Every verb goes through here. A token is sent only after the server has identified itself.

pub(super) mod server;
pub(super) mod server_error;
pub(super) mod server_locator;
