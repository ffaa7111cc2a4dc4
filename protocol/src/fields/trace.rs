//! W3C Trace Context of a message: one trace id from the first caller to the last handler.
//!
//! A message without a trace gets one that is derived from its ids. The conversation id has 128
//! bits, as a trace id has; the last 64 bits of the message id are the span id. The derived trace
//! needs no storage and is the same after a restart.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};
use std::str::FromStr;
use std::sync::Arc;

use uuid::Uuid;

use crate::CorrelationId;
use crate::limits::TRACESTATE_BYTES;

/// Length of a `traceparent` of version 00.
const PARENT_BYTES: usize = 55;
/// Flags that are forwarded: sampled, and random trace id.
const KNOWN_FLAGS: u8 = 0b11;
/// Flags of a derived trace: sampled, because the bus logs it.
const RECORDED: u8 = 0b01;

/// The id of a trace: 32 hexadecimal digits, not all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(NonZeroU128);

impl TraceId {
    /// The default trace of a conversation.
    #[must_use]
    pub fn of(conversation: CorrelationId) -> Self {
        Self(NonZeroU128::new(conversation.as_uuid().as_u128()).unwrap_or(NonZeroU128::MIN))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The id of one span of a trace: 16 hexadecimal digits, not all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(NonZeroU64);

impl SpanId {
    /// The span of a message or a task.
    #[must_use]
    pub fn of(id: Uuid) -> Self {
        // The last bits of a UUID begin with its variant, which is not zero.
        Self(NonZeroU64::new(id.as_u64_pair().1).unwrap_or(NonZeroU64::MIN))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A position in a trace: the parent of the spans that follow.
///
/// Its text form is the `traceparent`, followed by a space and the `tracestate` if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    id: TraceId,
    span: SpanId,
    flags: u8,
    /// Vendor data of other systems, forwarded unchanged.
    state: Option<Arc<str>>,
}

/// The text is not a `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
pub struct BadTrace;

impl Trace {
    /// The default trace of a message or task (`step`) of a conversation.
    #[must_use]
    pub fn of(conversation: CorrelationId, step: Uuid) -> Self {
        let (id, span) = (TraceId::of(conversation), SpanId::of(step));
        Self { id, span, flags: RECORDED, state: None }
    }

    /// Parses a caller's headers; `None` if the `traceparent` is invalid. A `tracestate` that is
    /// invalid or too long is dropped.
    #[must_use]
    pub fn read(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let (id, span, flags) = read_parent(traceparent.trim_matches([' ', '\t']))?;
        let state = tracestate.filter(|state| is_state(state)).map(Into::into);
        Some(Self { id, span, flags, state })
    }

    /// The trace id.
    #[must_use]
    pub const fn id(&self) -> TraceId {
        self.id
    }

    /// The span id.
    #[must_use]
    pub const fn span(&self) -> SpanId {
        self.span
    }

    /// The value of the header `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.id, self.span, self.flags)
    }

    /// The value of the header `tracestate`, if a caller sent one.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// The same trace with the span of `step`, a message or task caused by this one.
    #[must_use]
    pub fn step(&self, step: Uuid) -> Self {
        Self { span: SpanId::of(step), ..self.clone() }
    }

    /// Whether it equals the default of `conversation` apart from the span, so that it need not be
    /// stored.
    #[must_use]
    pub fn is_default_for(&self, conversation: CorrelationId) -> bool {
        self.id == TraceId::of(conversation) && self.flags == RECORDED && self.state.is_none()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.traceparent())?;
        self.state.iter().try_for_each(|state| write!(f, " {state}"))
    }
}

impl FromStr for Trace {
    type Err = BadTrace;

    fn from_str(text: &str) -> Result<Self, BadTrace> {
        let (parent, state) = match text.split_once(' ') {
            Some((parent, state)) => (parent, Some(state)),
            None => (text, None),
        };
        Self::read(parent, state).ok_or(BadTrace)
    }
}

/// Parses `00-<32>-<16>-<2>` in lower-case hexadecimal digits. Later versions start with the same
/// fields and may append more after another hyphen.
fn read_parent(text: &str) -> Option<(TraceId, SpanId, u8)> {
    let (known, more) = text.as_bytes().split_at_checked(PARENT_BYTES)?;
    let later = &known[..2] != b"00" && &known[..2] != b"ff";
    if !(more.is_empty() || later && more[0] == b'-') {
        return None;
    }
    let known = std::str::from_utf8(known).ok()?;
    let mut fields = known.split('-');
    let mut field = |digits: usize| {
        let field = fields.next()?;
        let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        (field.len() == digits && field.bytes().all(is_digit)).then_some(field)
    };
    let (version, id, span, flags) = (field(2)?, field(32)?, field(16)?, field(2)?);
    if version == "ff" {
        return None;
    }
    let id = NonZeroU128::new(u128::from_str_radix(id, 16).ok()?)?;
    let span = NonZeroU64::new(u64::from_str_radix(span, 16).ok()?)?;
    let flags = u8::from_str_radix(flags, 16).ok()? & KNOWN_FLAGS;
    Some((TraceId(id), SpanId(span), flags))
}

fn is_state(state: &str) -> bool {
    state.len() <= TRACESTATE_BYTES
        && state.contains('=')
        && state.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn valid_traceparent_round_trips() {
        for (given, read) in [
            (GIVEN, GIVEN),
            (" 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\t", GIVEN),
            (
                "00-00000000000000000000000000000001-0000000000000001-00",
                "00-00000000000000000000000000000001-0000000000000001-00",
            ),
            // Unknown flags are not forwarded.
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-fd", GIVEN),
            // Later versions are parsed like version 00.
            ("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", GIVEN),
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-else", GIVEN),
        ] {
            assert_eq!(Trace::read(given, None).unwrap().traceparent(), read, "{given}");
        }
    }

    #[test]
    fn invalid_traceparent_is_refused() {
        for bad in [
            "",
            "00",
            "4bf92f3577b34da6a3ce929d0e0e4736",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47ä-00f067aa0ba902b7-01",
            "+0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01, 00",
        ] {
            assert_eq!(Trace::read(bad, Some("a=b")), None, "{bad}");
        }
    }

    #[test]
    fn tracestate_is_forwarded_within_its_limit() {
        let long = format!("a={}", "x".repeat(TRACESTATE_BYTES - 2));
        let too_long = format!("{long}x");
        for (given, kept) in [
            ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", true),
            ("a@b=c d, e=f", true),
            (&long, true),
            (&too_long, false),
            ("", false),
            ("nothing", false),
            ("a=\r\nX: y", false),
            ("a=ä", false),
        ] {
            let trace = Trace::read(GIVEN, Some(given)).unwrap();
            assert_eq!(trace.tracestate(), kept.then_some(given), "{given}");
            assert_eq!(trace.to_string().parse(), Ok(trace), "{given}");
        }
    }

    #[test]
    fn conversation_without_trace_derives_one() {
        let conversation: CorrelationId = "0192a4c8-7e1a-7b3c-9d4e-000000000002".parse().unwrap();
        let step = "0192a4c8-7e1a-7b3c-9d4e-0000000000ab".parse().unwrap();
        let trace = Trace::of(conversation, step);
        let text = "00-0192a4c87e1a7b3c9d4e000000000002-9d4e0000000000ab-01";
        assert_eq!(trace.traceparent(), text);
        assert!(trace.is_default_for(conversation));
        let given = Trace::read(GIVEN, None).unwrap();
        assert!(!given.is_default_for(conversation));
        assert_eq!(
            given.step(step).traceparent(),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-9d4e0000000000ab-01"
        );
    }
}
