//! Text tables for every verb that lists something.
//!
//! Column widths are display widths: a wide character takes two columns, a combining one none. On
//! a terminal a table is narrowed to fit. The widest columns are cut first; columns of ids and
//! times are never cut, because a part of them is of no use.

use std::io::IsTerminal;

use anstyle::Style;
use rustix::termios::tcgetwinsize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::cli::human::short;
use crate::cli::stdout::{Out, sanitize};

/// Maximum width of a cell in columns, except of [`Cell::whole`].
const MAX_WIDTH: usize = 60;
/// No column is cut below this width to fit the terminal: kinds, states and times stay whole. A
/// table with several ids may be wider than the terminal.
const MIN_WIDTH: usize = 12;
/// Columns between two cells.
const GAP: usize = 2;

/// Rows below a header.
pub(in crate::cli) struct Table<const N: usize> {
    head: [&'static str; N],
    rows: Vec<[Cell; N]>,
}

/// Sanitized text of one cell on one line, with its style.
#[derive(Clone)]
pub(in crate::cli) struct Cell {
    text: String,
    style: Style,
    /// The cell is not cut to fit the terminal.
    is_fixed: bool,
}

impl Cell {
    /// A cell of any width that is never cut, for keys that are useless otherwise.
    pub(in crate::cli) fn whole(text: &str) -> Self {
        Self { text: sanitize(text), style: Style::new(), is_fixed: true }
    }

    /// An id or a time, which is not cut to fit the terminal.
    pub(in crate::cli) fn fixed(text: impl AsRef<str>) -> Self {
        Self { is_fixed: true, ..Self::from(text) }
    }

    /// Sets the style, which only terminals show.
    pub(in crate::cli) fn styled(self, style: Style) -> Self {
        Self { style, ..self }
    }

    fn width(&self) -> usize {
        self.text.width()
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        let text = cut(&short(text.as_ref(), MAX_WIDTH), MAX_WIDTH + 1);
        Self { text, style: Style::new(), is_fixed: false }
    }
}

impl<const N: usize> Table<N> {
    pub(in crate::cli) fn new(head: [&'static str; N]) -> Self {
        Self { head, rows: Vec::new() }
    }

    pub(in crate::cli) fn row(&mut self, cells: [Cell; N]) {
        self.rows.push(cells);
    }

    /// Writes the header and the rows in the order they were added, fitted to the terminal.
    pub(in crate::cli) fn write(&self, out: &mut Out) -> anyhow::Result<()> {
        self.write_within(terminal_width(), out)
    }

    /// Writes the table within `limit` columns; without a limit no column is narrowed.
    fn write_within(&self, limit: Option<usize>, out: &mut Out) -> anyhow::Result<()> {
        let bold = Style::new().bold();
        let head = self.head.map(|name| Cell::from(name).styled(bold));
        let widths = self.widths(limit);
        for row in std::iter::once(&head).chain(&self.rows) {
            // No trailing blanks.
            let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or_default();
            for (at, cell) in row.iter().enumerate().take(last + 1) {
                let (text, style) = (cut(&cell.text, widths[at]), cell.style);
                write!(out, "{style}{text}{style:#}")?;
                if at < last {
                    write!(out, "{:1$}", "", widths[at].saturating_sub(text.width()) + GAP)?;
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }

    /// Width of each column: that of its widest cell, narrowed to fit the limit if possible.
    fn widths(&self, limit: Option<usize>) -> [usize; N] {
        let mut widths = self.head.map(UnicodeWidthStr::width);
        let mut is_fixed = [false; N];
        for row in &self.rows {
            for (at, cell) in row.iter().enumerate() {
                widths[at] = widths[at].max(cell.width());
                is_fixed[at] |= cell.is_fixed;
            }
        }
        let Some(limit) = limit else { return widths };
        let least = self.head.map(|name| name.width().max(MIN_WIDTH));
        while widths.iter().sum::<usize>() + GAP * N.saturating_sub(1) > limit {
            let flexible = (0..N).filter(|&at| !is_fixed[at] && widths[at] > least[at]);
            let Some(widest) = flexible.max_by_key(|&at| widths[at]) else { break };
            widths[widest] -= 1;
        }
        widths
    }
}

/// Width of the terminal on stdout; `None` when it is none, so that nothing is cut for a pipe.
fn terminal_width() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = tcgetwinsize(&stdout).ok().filter(|_| stdout.is_terminal())?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Cuts a text at a display width, with an ellipsis in place of what is missing.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 1);
    for c in text.chars() {
        used += c.width().unwrap_or_default();
        if used > width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

/// Pads a text with blanks to a display width.
pub(in crate::cli) fn padded(text: &str, width: usize) -> String {
    format!("{text}{:1$}", "", width.saturating_sub(text.width()))
}

/// Writes names and values below each other; fields without a value are left out.
pub(in crate::cli) fn fields(
    out: &mut Out,
    fields: &[(&str, Option<String>)],
) -> anyhow::Result<()> {
    let shown = || fields.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let width = shown().map(|(name, _)| name.width()).max().unwrap_or_default();
    for (name, value) in shown() {
        writeln!(out, "  {}  {}", padded(name, width), short(value, 500))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines<const N: usize>(table: &Table<N>, limit: Option<usize>) -> Vec<String> {
        let mut out = Vec::new();
        table.write_within(limit, &mut out).unwrap();
        let text = anstream::adapter::strip_bytes(&out).into_vec();
        String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn table_aligns_columns_without_trailing_blanks() {
        let mut table = Table::new(["ID", "NAME", "NOTE"]);
        table.row(["1".into(), "Wri\u{1b}te".into(), "x".into()]);
        table.row(["22".into(), "é".repeat(61).into(), "".into()]);
        let lines = lines(&table, None);
        assert_eq!(lines[0].find("NAME"), lines[1].find("Wri"));
        assert!(
            lines[1].starts_with("1   Wri\\u{1b}te ") && lines[1].ends_with("  x"),
            "{lines:?}"
        );
        assert_eq!(lines[2], format!("22  {}…", "é".repeat(60)));
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut table = Table::new(["NAME", "NOTE"]);
        table.row(["日本語".into(), "x".into()]);
        table.row(["e\u{301}".into(), "y".into()]);
        table.row(["漢".repeat(40).into(), "z".into()]);
        let lines = lines(&table, None);
        let column = |line: &str, note: &str| line[..line.rfind(note).unwrap()].width();
        assert_eq!(lines[3].chars().filter(|c| *c == '漢').count(), 30, "{lines:?}");
        for (line, note) in lines.iter().zip(["NOTE", "x", "y", "z"]) {
            assert_eq!(column(line, note), 61 + GAP, "{lines:?}");
        }
    }

    #[test]
    fn table_fits_a_terminal_of_80_columns() {
        let id = "0192a4c8-7e1a-7b3c-9d4e-000000000003";
        let mut table = Table::new(["ID", "STATE", "ABOUT", "NOTE"]);
        table.row([
            Cell::fixed(id),
            "working".into(),
            "語".repeat(28).into(),
            "n".repeat(50).into(),
        ]);
        table.row([Cell::fixed(id), "done".into(), "short".into(), "".into()]);
        let lines = lines(&table, Some(80));
        for line in &lines {
            assert!(line.width() <= 80, "{} columns: {line}", line.width());
        }
        assert!(lines[1].starts_with(id) && lines[1].contains("working"), "{lines:?}");
        assert!(lines[1].contains("語…") && lines[1].ends_with("n…"), "{lines:?}");
        assert!(lines[2].ends_with("short"), "{lines:?}");
    }

    #[test]
    fn fixed_columns_overflow_a_narrow_terminal() {
        let key = "pair:roman:tim:0123456789abcdef0123456789abcdef";
        let mut table = Table::new(["KEY", "STATE"]);
        table.row([Cell::whole(key), "open".into()]);
        assert!(lines(&table, Some(20))[1].starts_with(key));
    }
}
