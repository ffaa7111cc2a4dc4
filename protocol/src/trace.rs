//! The trace a message belongs to, in the words of W3C Trace Context: one id from whoever called
//! first to whoever handles last.
//!
//! Who gives no trace has one all the same. The id of a conversation has the 128 bits that the id
//! of a trace has, and the last 64 bits of a message's id are as good a name for a step of it as
//! any: nothing is made, carried or kept for that, and it is the same after a restart.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};
use std::str::FromStr;
use std::sync::Arc;

use uuid::Uuid;

use crate::CorrelationId;
use crate::limits::TRACESTATE_BYTES;

/// Bytes of a `traceparent`.
const PARENT_BYTES: usize = 55;
/// The flags that are known: that it is recorded, and that its id is random.
const KNOWN_FLAGS: u8 = 0b11;
/// The flags of a trace that begins here. It is recorded: the log of the bus has it.
const RECORDED: u8 = 0b01;

/// The id of a trace: 32 hexadecimal digits, not all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(NonZeroU128);

impl TraceId {
    /// The trace of a conversation for which nobody gave another.
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

/// The id of one step of a trace: 16 hexadecimal digits, not all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(NonZeroU64);

impl SpanId {
    /// The step that a message or a task is.
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

/// A place in a trace: what comes next belongs below it.
///
/// Its text is a `traceparent` and, behind a space, the `tracestate` if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    id: TraceId,
    span: SpanId,
    flags: u8,
    /// What other systems along the way have to say to each other; passed on as it is.
    state: Option<Arc<str>>,
}

/// The text is no `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
pub struct BadTrace;

impl Trace {
    /// The place of a message or task of a conversation for which nobody gave a trace.
    #[must_use]
    pub fn of(conversation: CorrelationId, step: Uuid) -> Self {
        let (id, span) = (TraceId::of(conversation), SpanId::of(step));
        Self { id, span, flags: RECORDED, state: None }
    }

    /// Reads what a caller gave; `None` when its `traceparent` is none. A `tracestate` that cannot
    /// be passed on is left out.
    #[must_use]
    pub fn read(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let (id, span, flags) = read_parent(traceparent.trim_matches([' ', '\t']))?;
        let state = tracestate.filter(|state| is_state(state)).map(Into::into);
        Some(Self { id, span, flags, state })
    }

    /// The trace.
    #[must_use]
    pub const fn id(&self) -> TraceId {
        self.id
    }

    /// The step that this place is.
    #[must_use]
    pub const fn span(&self) -> SpanId {
        self.span
    }

    /// As the header `traceparent` says it.
    #[must_use]
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.id, self.span, self.flags)
    }

    /// As the header `tracestate` says it, if somebody along the way had something to say.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// The same trace one step on: a message or task below this place.
    #[must_use]
    pub fn step(&self, step: Uuid) -> Self {
        Self { span: SpanId::of(step), ..self.clone() }
    }

    /// Whether it says nothing that the conversation does not say by itself.
    #[must_use]
    pub fn goes_without_saying(&self, conversation: CorrelationId) -> bool {
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

/// `00-<32>-<16>-<2>` in small hexadecimal digits. Later versions begin as this one does and may
/// go on behind another hyphen.
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
    fn what_is_valid_comes_back_as_it_was() {
        for (given, read) in [
            (GIVEN, GIVEN),
            (" 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\t", GIVEN),
            (
                "00-00000000000000000000000000000001-0000000000000001-00",
                "00-00000000000000000000000000000001-0000000000000001-00",
            ),
            // Flags nobody knows are not passed on.
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-fd", GIVEN),
            // Later versions are read as this one.
            ("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", GIVEN),
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-else", GIVEN),
        ] {
            assert_eq!(Trace::read(given, None).unwrap().traceparent(), read, "{given}");
        }
    }

    #[test]
    fn what_is_not_valid_is_no_trace() {
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
    fn what_others_say_is_passed_on_within_its_limit() {
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
    fn a_conversation_is_a_trace() {
        let conversation: CorrelationId = "0192a4c8-7e1a-7b3c-9d4e-000000000002".parse().unwrap();
        let step = "0192a4c8-7e1a-7b3c-9d4e-0000000000ab".parse().unwrap();
        let trace = Trace::of(conversation, step);
        let text = "00-0192a4c87e1a7b3c9d4e000000000002-9d4e0000000000ab-01";
        assert_eq!(trace.traceparent(), text);
        assert!(trace.goes_without_saying(conversation));
        let given = Trace::read(GIVEN, None).unwrap();
        assert!(!given.goes_without_saying(conversation));
        assert_eq!(
            given.step(step).traceparent(),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-9d4e0000000000ab-01"
        );
    }
}
