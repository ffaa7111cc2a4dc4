//! Standard output that may be closed early, and sanitizing of text for terminals.

use std::io::{self, BufWriter, ErrorKind, Write};

use anstream::AutoStream;

use crate::cli::Format;

/// Destination of all output.
pub(crate) type Out = dyn Write;

/// Buffered standard output. Stripping colours also strips other control sequences, so JSON output
/// bypasses it.
pub(crate) fn output(format: Format) -> BufWriter<Box<dyn Write>> {
    let out: Box<dyn Write> = match format {
        Format::Text => Box::new(AutoStream::auto(io::stdout())),
        Format::Json | Format::Jsonl => Box::new(io::stdout()),
    };
    BufWriter::with_capacity(1 << 16, out)
}

/// Prints a note on stderr.
pub(crate) fn note(text: &str) {
    anstream::eprintln!("note: {}", sanitize(text));
}

/// Whether an error means that the reader has closed our output.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    let closed = |cause: &io::Error| cause.kind() == ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(closed))
}

/// Escapes characters that a terminal would act on or that are invisible.
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

/// Characters that change the direction or line of a text, or are invisible.
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
    fn sanitize_escapes_control_and_invisible_characters() {
        assert_eq!(sanitize("a\u{1b}[31m\nb\u{9b}c"), r"a\u{1b}[31m\nb\u{9b}c");
        assert_eq!(sanitize("\u{202e}nimda\u{2066}\u{200b}"), r"\u{202e}nimda\u{2066}\u{200b}");
        assert_eq!(sanitize("Häuser 👩\u{200d}🚀 <b>x</b>"), "Häuser 👩\u{200d}🚀 <b>x</b>");
    }
}
