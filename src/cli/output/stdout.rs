//! Standard output that a reader may close early.

use std::io::{self, BufWriter, ErrorKind, Write};

use anstream::AutoStream;

use crate::cli::Format;

/// Where everything is written to.
pub(crate) type Out = dyn Write;

/// Standard output. Whatever takes colours out for a file also takes out characters that
/// messages may hold, so it is only there for people: programs get every byte.
pub(crate) fn output(format: Format) -> BufWriter<Box<dyn Write>> {
    let out: Box<dyn Write> = match format {
        Format::Text => Box::new(AutoStream::auto(io::stdout())),
        Format::Json | Format::Jsonl => Box::new(io::stdout()),
    };
    BufWriter::with_capacity(1 << 16, out)
}

/// Tells the person something, beside the output.
pub(crate) fn note(text: &str) {
    anstream::eprintln!("note: {}", sanitize(text));
}

/// Whether `error` says that nobody reads our output any more.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    let closed = |cause: &io::Error| cause.kind() == ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(closed))
}

/// Text of unknown origin, with nothing in it that a terminal would act on and nothing that
/// cannot be seen.
pub(crate) fn sanitize(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_unseen(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// What changes the direction or the lines of a text, or hides in it, without being seen.
fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_acts_on_is_shown_instead() {
        assert_eq!(sanitize("a\u{1b}[31m\nb\u{9b}c"), r"a\u{1b}[31m\nb\u{9b}c");
        assert_eq!(sanitize("\u{202e}nimda\u{2066}\u{200b}"), r"\u{202e}nimda\u{2066}\u{200b}");
        assert_eq!(sanitize("Häuser 👩\u{200d}🚀 <b>x</b>"), "Häuser 👩\u{200d}🚀 <b>x</b>");
    }
}
