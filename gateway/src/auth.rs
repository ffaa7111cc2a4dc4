//! Authentication: bearer tokens, the callers they prove, and the refusals of bad ones.
//!
//! ```text
//! request ─ Authorization ─▶ caller ─▶ tokens::TokenRegistry ─▶ BusCaller, A2aCaller
//!                               └─▶ failures (429 after too many bad tokens of one address)
//! ```
//!
//! Without configured tokens, authentication is off and every local caller is accepted. A grant
//! ends with its token: streams and waiting calls subscribe to [`tokens::AuthGrant`].

mod bad_token_limiter;
mod caller;
pub mod tokens;

pub(crate) use bad_token_limiter::BadTokenLimiter;
pub use caller::A2aCaller;
pub(crate) use caller::{BusCaller, counted_as, revoked, shows_operator};
