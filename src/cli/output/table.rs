//! Columns for people: one table for every verb that lists something.

use anstyle::Style;

use super::human::short;
use super::stdout::{Out, sanitize};

/// A text that is longer is cut off, so that lines stay lines.
const MOST: usize = 60;

/// Rows below a head; every column is as wide as its widest text.
pub(in crate::cli) struct Table<const N: usize> {
    head: [&'static str; N],
    rows: Vec<[Cell; N]>,
}

/// One text of a table: sanitize, on one line, perhaps with a colour.
#[derive(Clone)]
pub(in crate::cli) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A name that is of no use when it is cut off.
    pub(in crate::cli) fn whole(text: &str) -> Self {
        Self { text: sanitize(text), style: Style::new() }
    }

    /// The same in another look; shown on terminals only.
    pub(in crate::cli) fn styled(self, style: Style) -> Self {
        Self { style, ..self }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: short(text.as_ref(), MOST), style: Style::new() }
    }
}

impl<const N: usize> Table<N> {
    pub(in crate::cli) fn new(head: [&'static str; N]) -> Self {
        Self { head, rows: Vec::new() }
    }

    pub(in crate::cli) fn row(&mut self, cells: [Cell; N]) {
        self.rows.push(cells);
    }

    /// Writes the head and the rows, oldest call first.
    pub(in crate::cli) fn write(&self, out: &mut Out) -> anyhow::Result<()> {
        let bold = Style::new().bold();
        let head = self.head.map(|name| Cell::from(name).styled(bold));
        let rows = || std::iter::once(&head).chain(&self.rows);
        let widths: Vec<_> = (0..N)
            .map(|column| rows().map(|row| row[column].width()).max().unwrap_or_default())
            .collect();
        for row in rows() {
            // Nothing stands to the right of the last text, not even blanks.
            let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or_default();
            for (at, cell) in row.iter().enumerate().take(last + 1) {
                let Cell { text, style } = cell;
                write!(out, "{style}{text}{style:#}")?;
                if at < last {
                    write!(out, "{:1$}  ", "", widths[at] - cell.width())?;
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

/// Names and values below each other, those without a value left out.
pub(in crate::cli) fn fields(
    out: &mut Out,
    fields: &[(&str, Option<String>)],
) -> anyhow::Result<()> {
    let shown = || fields.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let width = shown().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, value) in shown() {
        writeln!(out, "  {name:<width$}  {}", short(value, 500))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other_and_end_with_their_text() {
        let mut table = Table::new(["ID", "NAME", "NOTE"]);
        table.row(["1".into(), "Wri\u{1b}te".into(), "x".into()]);
        table.row(["22".into(), "é".repeat(61).into(), "".into()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        let text = anstream::adapter::strip_bytes(&out).into_vec();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0].find("NAME"), lines[1].find("Wri"));
        assert!(lines[1].starts_with("1   Wri\\u{1b}te ") && lines[1].ends_with("  x"), "{text}");
        assert_eq!(lines[2], format!("22  {}…", "é".repeat(60)));
    }
}
