//! Parser of the file: values with their lines, and unknown names.

use a2a_protocol::nearest;
use serde::Deserialize;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Value};

use super::assembly::Unit;
use super::keys::Section;
use super::problem::{Place, Problem};

/// Original spelling of `[tasks]`: `[a2a.tasks]` with camelCase names. It is still accepted.
const FIRST_SPELLING: (&str, &str) = ("a2a.tasks", "tasks");

/// Reads the text into values, in file order, and problems.
pub(super) fn read(text: &str, sections: &[Section]) -> (Vec<Unit>, Vec<Problem>) {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut reader = DocumentReader { text, sections, units: Vec::new(), problems: Vec::new() };
    if errors.is_empty() {
        reader.table("", document.into_inner());
    }
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        reader.complain(at, error.message().to_owned());
    }
    (reader.units, reader.problems)
}

struct DocumentReader<'a> {
    text: &'a str,
    sections: &'a [Section],
    units: Vec<Unit>,
    problems: Vec<Problem>,
}

impl<'a> DocumentReader<'a> {
    fn table(&mut self, path: &str, table: DeTable<'_>) {
        for (key, value) in in_order(table) {
            let (at, name) = (key.span().start, key.into_inner());
            let here = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
            let inside = format!("{here}.");
            let is_section =
                |section: &&Section| section.name == here || section.name.starts_with(&inside);
            match (self.sections.iter().find(is_section), value.get_ref()) {
                _ if here == FIRST_SPELLING.0 => self.first_spelling(at, value),
                (Some(section), DeValue::Array(_)) if section.name == here && section.is_list => {
                    self.list(section, value);
                }
                (Some(section), DeValue::Table(_)) if !section.is_list || section.name != here => {
                    if let DeValue::Table(table) = value.into_inner() {
                        self.table(&here, table);
                    }
                }
                (Some(_), _) => self.unit(at, here.split('.'), value, false),
                (None, _) if self.section(path).is_some_and(|own| own.key(&name).is_some()) => {
                    self.unit(at, here.split('.'), value, false);
                }
                (None, found) => {
                    let message = self.unknown(path, &name, found);
                    self.complain(at, message);
                }
            }
        }
    }

    /// Reads the entries of a list of tables. Unknown keys in them are reported and dropped.
    fn list(&mut self, section: &'a Section, value: Spanned<DeValue<'_>>) {
        let DeValue::Array(entries) = value.into_inner() else { return };
        for entry in entries {
            let at = entry.span().start;
            let span = entry.span();
            let entry = match entry.into_inner() {
                DeValue::Table(table) => {
                    let (known, unknown): (Vec<_>, Vec<_>) = in_order(table)
                        .into_iter()
                        .partition(|(key, _)| section.key(key.get_ref()).is_some());
                    for (key, value) in unknown {
                        let message = self.unknown(&section.name, key.get_ref(), value.get_ref());
                        self.complain(key.span().start, message);
                    }
                    DeValue::Table(known.into_iter().collect())
                }
                other => other,
            };
            self.unit(at, section.name.split('.'), Spanned::new(span, entry), true);
        }
    }

    fn first_spelling(&mut self, at: usize, value: Spanned<DeValue<'_>>) {
        let (written, section) = FIRST_SPELLING;
        let Some(section) = self.section(section) else { return };
        let table = match value.into_inner() {
            DeValue::Table(table) => table,
            _ => return self.complain(at, format!("[{written}] is a table")),
        };
        for (key, value) in in_order(table) {
            let (at, name) = (key.span().start, key.into_inner());
            match section.keys.iter().find(|key| camel_case(&key.name) == *name) {
                Some(key) => self.unit(at, [section.name.as_str(), &key.name], value, false),
                None => {
                    let known: Vec<_> =
                        section.keys.iter().map(|key| camel_case(&key.name)).collect();
                    let advice = advice(&name, &known);
                    self.complain(at, format!("unknown key `{name}` in [{written}]; {advice}"));
                }
            }
        }
    }

    fn unit<'p>(
        &mut self,
        at: usize,
        path: impl IntoIterator<Item = &'p str>,
        value: Spanned<DeValue<'_>>,
        is_entry: bool,
    ) {
        let path: Vec<_> = path.into_iter().map(str::to_owned).collect();
        let place = Place::Line(self.line(at));
        match Value::deserialize(ValueDeserializer::from(value)) {
            Ok(value) => self.units.push(Unit { path, value, is_entry, place }),
            Err(error) => self.complain(at, error.message().to_owned()),
        }
    }

    fn section(&self, name: &str) -> Option<&'a Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Message about an unknown name.
    fn unknown(&self, path: &str, name: &str, value: &DeValue<'_>) -> String {
        let own = self.section(path);
        let is_table = match value {
            DeValue::Table(_) => true,
            DeValue::Array(all) => all.iter().any(|each| each.get_ref().is_table()),
            _ => false,
        };
        if is_table && own.is_none_or(|section| !section.is_list) {
            let here = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let known: Vec<_> = self.sections.iter().map(|section| section.name.clone()).collect();
            let near = nearest(&here, &known).and_then(|near| self.section(&near));
            let advice = near.map(|near| format!("did you mean {}?", near.header()));
            let advice = advice.unwrap_or_else(|| format!("known are {}", known.join(", ")));
            return format!("unknown section [{here}]; {advice}");
        }
        let place = match own {
            Some(section) => format!("in {}", section.header()),
            None => "before any section".to_owned(),
        };
        let known: Vec<_> = own.iter().flat_map(|own| &own.keys).map(|k| k.name.clone()).collect();
        let elsewhere = self.sections.iter().find(|section| section.key(name).is_some());
        let advice = match (nearest(name, &known), elsewhere) {
            (None, Some(section)) => format!("did you mean the one in {}?", section.header()),
            _ => advice(name, &known),
        };
        format!("unknown key `{name}` {place}; {advice}")
    }

    fn complain(&mut self, at: usize, message: String) {
        let place = Place::Line(self.line(at));
        self.problems.push(Problem { place, message });
    }

    /// Line of a byte offset, counted from 1.
    fn line(&self, at: usize) -> usize {
        let before = self.text.as_bytes().get(..at).unwrap_or_default();
        1 + memchr::memchr_iter(b'\n', before).count()
    }
}

/// Entries of a table in file order.
fn in_order<'i>(
    table: DeTable<'i>,
) -> Vec<(Spanned<std::borrow::Cow<'i, str>>, Spanned<DeValue<'i>>)> {
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by_key(|(key, value)| key.span().start.min(value.span().start));
    entries
}

/// Suggests the nearest known name, or lists all.
pub(super) fn advice(given: &str, known: &[String]) -> String {
    match nearest(given, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "put it into its section".to_owned(),
        None => {
            let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
            format!("known are {}", known.join(", "))
        }
    }
}

/// `ttl_days` as `ttlDays`.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}
