//! Sections of the configuration file: one struct per table, and its conversion into settings.
//!
//! Each struct holds its keys as they are written, every one optional. `settings` (or a method
//! named after the setting) fills in the defaults and checks the values; `in_force` writes the
//! defaults out. The doc comment of a key is its description in `config init`,
//! docs/configuration.md and the error messages, so it ends without a full stop.

pub(super) mod a2a;
pub(super) mod access;
pub(super) mod agents;
pub(super) mod audit;
pub(super) mod auth;
pub(super) mod http;
pub(super) mod limits;
pub(super) mod logging;
pub(super) mod safeguards;
pub(super) mod sessions;
pub(super) mod tls;
