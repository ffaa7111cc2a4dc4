//! `openclaw-a2a validate`: validates JSON Lines and prints one verdict per line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};

use a2a_protocol::{Envelope, Progress, Report, Violation, limits};
use anstyle::{AnsiColor, Style};
use anyhow::Context;
use serde::Serialize;

use super::stdout::sanitize;
use super::{Answer, Format};

/// Check messages, one JSON object a line, and list every violation
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a validate messages.jsonl
  openclaw-a2a schema task_request | jq -c '.examples[0]' \\
    | openclaw-a2a validate
  openclaw-a2a validate --format json *.jsonl | jq 'select(.valid | not)'

With --format json each verdict is one line:
  {\"file\",\"line\",\"valid\",\"errors\":[{\"path\",\"code\",\"message\",\"allowed\"?,\"suggestion\"?}]}
Blank lines are skipped but counted.

Exit codes: 0 all valid, 1 any invalid, 2 a file could not be read.")]
pub(super) struct Args {
    /// Files to read; - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,

    /// What the lines contain: bus messages, or payloads of the task-progress extension
    #[arg(long, value_enum, default_value_t = InputKind::Message)]
    kind: InputKind,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum InputKind {
    /// Messages of openclaw.a2a.v1
    Message,
    /// Task-progress payloads (the metadata entry)
    Progress,
}

/// A verdict as JSON.
#[derive(Serialize)]
struct LineVerdict<'a> {
    file: &'a str,
    line: u64,
    valid: bool,
    errors: &'a [Violation],
    /// Number of violations beyond the listed ones.
    #[serde(skip_serializing_if = "is_zero")]
    more: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde hands over a reference
fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[derive(Default)]
struct Totals {
    valid: u64,
    invalid: u64,
    unreadable: u64,
}

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<Answer> {
    let mut out = super::stdout::output(format);
    let mut totals = Totals::default();
    for file in &args.files {
        if let Err(error) = check_file(file, args.kind, format, &mut out, &mut totals) {
            if super::stdout::is_closed(&error) {
                // The reader has closed our output; lines checked so far count.
                return Ok(totals.answer());
            }
            out.flush()?;
            anstream::eprintln!("error: {error:#}");
            totals.unreadable += 1;
        }
    }
    out.flush()?;
    if format == Format::Text {
        anstream::eprintln!("{} valid, {} invalid", totals.valid, totals.invalid);
    }
    if totals.unreadable > 0 {
        anyhow::bail!("{} of {} inputs could not be read", totals.unreadable, args.files.len());
    }
    Ok(totals.answer())
}

impl Totals {
    fn answer(&self) -> Answer {
        if self.invalid > 0 { Answer::No } else { Answer::Yes }
    }
}

fn check_file(
    file: &Path,
    kind: InputKind,
    format: Format,
    out: &mut impl Write,
    totals: &mut Totals,
) -> anyhow::Result<()> {
    let name = file.to_string_lossy();
    let mut lines = Lines::new(open(file)?);
    while let Some(line) = lines.next_line().with_context(|| format!("cannot read {name}"))? {
        let report = match line {
            Line::TooLong { bytes } => Some(Report::too_large(bytes)),
            Line::Blank => continue,
            Line::Whole(text) => match kind {
                InputKind::Message => Envelope::parse(text).err(),
                InputKind::Progress => Progress::parse(text).err(),
            },
        };
        if report.is_some() {
            totals.invalid += 1;
        } else {
            totals.valid += 1;
        }
        write_verdict(out, format, &name, lines.number, report.as_ref())?;
    }
    Ok(())
}

fn open(file: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    const BUFFER: usize = 1 << 16;
    if file == Path::new("-") {
        if io::stdin().is_terminal() {
            anstream::eprintln!("Reading messages from the terminal, one a line; end with Ctrl-D.");
        }
        return Ok(Box::new(BufReader::with_capacity(BUFFER, io::stdin())));
    }
    let opened = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    Ok(Box::new(BufReader::with_capacity(BUFFER, opened)))
}

fn write_verdict(
    out: &mut impl Write,
    format: Format,
    file: &str,
    line: u64,
    report: Option<&Report>,
) -> anyhow::Result<()> {
    let errors = report.map(Report::violations).unwrap_or_default();
    let more = report.map_or(0, Report::more);
    if format != Format::Text {
        serde_json::to_writer(
            &mut *out,
            &LineVerdict { file, line, valid: report.is_none(), errors, more },
        )
        .map_err(io::Error::from)?;
        writeln!(out)?;
        return Ok(());
    }
    let good = Style::new().fg_color(Some(AnsiColor::Green.into()));
    let bad = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
    let file = sanitize(file);
    if report.is_none() {
        writeln!(out, "{file}:{line}: {good}valid{good:#}")?;
        return Ok(());
    }
    writeln!(out, "{file}:{line}: {bad}invalid{bad:#}")?;
    for violation in errors {
        writeln!(out, "  {}", sanitize(&violation.to_string()))?;
    }
    if more > 0 {
        writeln!(out, "  … and {more} more")?;
    }
    Ok(())
}

/// Reads lines in bounded memory, at most the size limit of a message each.
struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Number of the line returned last, from 1.
    number: u64,
}

enum Line<'a> {
    Blank,
    Whole(&'a [u8]),
    TooLong { bytes: usize },
}

impl<R: BufRead> Lines<R> {
    fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), number: 0 }
    }

    fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        let mut bytes = 0;
        let mut blank = true;
        let mut last = 0;
        let mut ended = false;
        while !ended {
            let chunk = match self.reader.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                break;
            }
            let newline = memchr::memchr(b'\n', chunk);
            ended = newline.is_some();
            let text = &chunk[..newline.unwrap_or(chunk.len())];
            bytes += text.len();
            blank &= text.iter().all(u8::is_ascii_whitespace);
            last = text.last().copied().unwrap_or(last);
            if bytes <= limits::MESSAGE_BYTES + 1 {
                self.buffer.extend_from_slice(text);
            }
            let used = text.len() + usize::from(ended);
            self.reader.consume(used);
        }
        if bytes == 0 && !ended {
            return Ok(None);
        }
        self.number += 1;
        if blank {
            return Ok(Some(Line::Blank));
        }
        if last == b'\r' {
            // Part of a CRLF line end.
            bytes -= 1;
            self.buffer.truncate(bytes);
        }
        if bytes > limits::MESSAGE_BYTES {
            return Ok(Some(Line::TooLong { bytes }));
        }
        Ok(Some(Line::Whole(&self.buffer)))
    }
}
