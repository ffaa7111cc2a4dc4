//! Authentication: bearer tokens, the callers they prove, and the refusals of bad ones.
//!
//! ```text
//! request ─ Authorization ─▶ caller ─▶ tokens::TokenRegistry ─▶ BusCaller, A2aCaller
//!                               └─▶ failures (429 after too many bad tokens of one address)
//! ```
//!
//! Without any token the server asks for none and every caller of this machine is let in. A grant
//! ends with its token: streams and waiting calls subscribe to [`tokens::AuthGrant`].

mod caller;
mod failures;
pub mod tokens;

pub use caller::A2aCaller;
pub(crate) use caller::{BusCaller, counted_as, revoked, shows_operator};
pub(crate) use failures::Failures;
