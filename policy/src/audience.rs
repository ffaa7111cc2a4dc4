//! [`Audience`]: one recipient or the size of a fan-out, as input of rate limits and circuits.

use a2a_protocol::AgentId;

/// The recipients of a message: one agent, or a fan-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience<'a> {
    /// One agent. Limits and circuits also apply to the pair of sender and recipient.
    One(&'a AgentId),
    /// The number of recipients of a fan-out.
    Many(usize),
}

impl<'a> Audience<'a> {
    /// The recipient, unless the message is a fan-out.
    pub(crate) const fn one(self) -> Option<&'a AgentId> {
        match self {
            Self::One(agent) => Some(agent),
            Self::Many(_) => None,
        }
    }
}
