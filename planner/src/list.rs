//! Steps in lists: numbered or bulleted, below headings or nested.

use super::prose::is_plain_question;
use super::words::{begins_work, is_quality, one_line, words};
use super::{Found, Group, Step};

/// A line of a text.
enum Line<'t> {
    Blank,
    Text { indent: usize, text: &'t str },
    Heading { text: &'t str, numbered: bool },
    Item { indent: usize, numbered: bool, text: &'t str },
}

/// An item of a list and what is below it.
struct Item {
    indent: usize,
    numbered: bool,
    step: Step,
    below: Vec<Item>,
}

/// What is below one heading.
#[derive(Default)]
struct Section {
    title: Option<(Step, bool)>,
    items: Vec<Item>,
}

/// The steps of a text with a list; `None` when it has none.
pub(super) fn find(text: &str) -> Option<Found> {
    let (mut sections, mut about) = read(text);
    let count = |item: &Item| 1 + item.below.len();
    if sections.iter().flat_map(|section| &section.items).map(count).sum::<usize>() < 2 {
        return None;
    }
    sections.retain(|section| !section.items.is_empty() || section.title.is_some());
    let first_is_bare = sections.first().is_some_and(|first| first.items.is_empty());
    // A single heading, or one above the others, is context for all of it.
    if (sections.len() == 1 || first_is_bare)
        && let Some((title, _)) = sections.first_mut().and_then(|first| first.title.take())
    {
        about = [title.text, about].join("\n").trim().to_owned();
        sections.retain(|section| !section.items.is_empty() || section.title.is_some());
    }
    if let [only] = &sections[..]
        && let Some(found) = no_steps(only, &about)
    {
        return Some(found);
    }
    let (groups, in_order) = group(sections);
    Some(Found::Many { groups, in_order, about })
}

/// Whether it is a list of something else: of options, or of qualities.
fn no_steps(section: &Section, about: &str) -> Option<Found> {
    let bulleted = section.items.iter().all(|item| !item.numbered && item.below.is_empty());
    if !bulleted || section.items.iter().any(|item| begins_work(&item.step.text)) {
        return None;
    }
    if !about.is_empty() && is_plain_question(about) {
        return Some(Found::Plain);
    }
    let last = words(about).last().unwrap_or_default();
    is_quality(last).then(|| Found::One { work: begins_work(about) })
}

/// The plans of a list, and whether each depends on the one before.
fn group(sections: Vec<Section>) -> (Vec<Group>, bool) {
    let one = sections.len() == 1;
    let nested =
        sections.iter().flat_map(|section| &section.items).any(|item| !item.below.is_empty());
    if one && nested {
        let items: Vec<Item> = sections.into_iter().flat_map(|section| section.items).collect();
        let in_order = items.iter().all(|item| item.numbered);
        return (items.into_iter().map(below_item).collect(), in_order);
    }
    let numbered =
        |section: &Section| section.title.as_ref().is_some_and(|(_, numbered)| *numbered);
    let in_order = sections.iter().filter(|section| section.title.is_some()).all(numbered);
    (sections.into_iter().map(below_heading).collect(), in_order)
}

fn below_item(item: Item) -> Group {
    if item.below.is_empty() {
        return Group { title: Some(item.step.clone()), steps: vec![item.step], in_order: false };
    }
    let in_order = item.below.iter().all(|item| item.numbered);
    let steps = item.below.into_iter().map(|item| item.step).collect();
    Group { title: Some(item.step), steps, in_order }
}

fn below_heading(section: Section) -> Group {
    let title = section.title.map(|(step, _)| step);
    let in_order = section.items.iter().all(|item| item.numbered);
    let step = |item: Item| {
        let mut step = item.step;
        for below in item.below {
            add(&mut step.details, &format!("- {}", below.step.text));
            add(&mut step.details, &below.step.details);
        }
        step
    };
    let mut steps: Vec<Step> = section.items.into_iter().map(step).collect();
    if steps.is_empty() {
        steps.extend(title.clone());
    }
    Group { title, steps, in_order }
}

/// The lists of a text, and the text outside of them.
fn read(text: &str) -> (Vec<Section>, String) {
    let mut sections = vec![Section::default()];
    let mut about = String::new();
    let (mut after_blank, mut fenced) = (true, false);
    let lines: Vec<&str> = text.lines().flat_map(broken_up).collect();
    for (n, line) in lines.iter().enumerate() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        let was_blank = std::mem::take(&mut after_blank);
        let parsed = if fenced || fence { code(line) } else { parse(line) };
        match parsed {
            Line::Blank => after_blank = true,
            Line::Heading { text, numbered } => sections.push(titled(text, numbered)),
            Line::Item { indent, numbered, text } => {
                if let Some(section) = sections.last_mut() {
                    section.push(indent, numbered, text);
                }
            }
            Line::Text { text, .. } if !fenced && heads_list(text, &lines[n + 1..]) => {
                sections.push(titled(text.trim_end_matches(':'), false));
            }
            Line::Text { indent, text } => {
                let last = sections.last_mut().and_then(Section::last);
                match last.filter(|_| !was_blank || indent > 0 || fenced || fence) {
                    Some(step)
                        if was_blank || step.text.ends_with(['.', ':', '!', '?']) || fence =>
                    {
                        add(&mut step.details, text);
                    }
                    Some(step) if step.details.is_empty() => add_word(&mut step.text, text),
                    Some(step) => add(&mut step.details, text),
                    None => add(&mut about, text),
                }
            }
        }
    }
    (sections, about)
}

fn titled(text: &str, numbered: bool) -> Section {
    let step = Step { text: one_line(text), details: String::new() };
    let has_text = step.text.contains(char::is_alphanumeric);
    let numbered = numbered || has_ordinal(text);
    Section { title: has_text.then_some((step, numbered)), items: vec![] }
}

/// Whether a title has an ordinal: "Phase 1: …".
fn has_ordinal(text: &str) -> bool {
    let mut words = words(text);
    let first = words.next().unwrap_or_default();
    let counted = ["step", "phase", "stage", "part", "day", "week", "milestone", "plan"];
    counted.iter().any(|word| word.eq_ignore_ascii_case(first))
        && words.next().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a line ends with a colon and a list follows.
fn heads_list(text: &str, below: &[&str]) -> bool {
    let next = below.iter().take(2).find(|line| !line.trim().is_empty());
    text.ends_with(':') && next.is_some_and(|line| matches!(parse(line), Line::Item { .. }))
}

fn code(line: &str) -> Line<'_> {
    Line::Text { indent: 1, text: line.trim_end() }
}

impl Section {
    fn push(&mut self, indent: usize, numbered: bool, text: &str) {
        let step = Step { text: one_line(text), details: String::new() };
        if !step.text.contains(char::is_alphanumeric) {
            return;
        }
        let item = Item { indent, numbered, step, below: vec![] };
        // Bullets below a number belong to it, even without indentation.
        let is_below = self.items.first().is_some_and(|first| {
            indent > first.indent || (indent == first.indent && first.numbered && !numbered)
        });
        match self.items.last_mut() {
            Some(last) if is_below => last.take(item),
            _ => self.items.push(item),
        }
    }

    /// The step read last.
    fn last(&mut self) -> Option<&mut Step> {
        let item = self.items.last_mut()?;
        Some(match item.below.last_mut() {
            Some(below) => &mut below.step,
            None => &mut item.step,
        })
    }
}

impl Item {
    /// Adds a nested item; deeper levels become details of it.
    fn take(&mut self, item: Self) {
        let deeper = self.below.first().is_some_and(|first| item.indent > first.indent);
        match self.below.last_mut() {
            Some(last) if deeper => add(&mut last.step.details, &format!("- {}", item.step.text)),
            _ => self.below.push(item),
        }
    }
}

fn add(text: &mut String, line: &str) {
    if !text.is_empty() && !line.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

fn add_word(text: &mut String, more: &str) {
    text.push(' ');
    text.push_str(&one_line(more));
}

fn parse(line: &str) -> Line<'_> {
    let text = line.trim();
    let space = line.chars().take_while(|c| c.is_whitespace());
    let indent = space.map(|c| if c == '\t' { 4 } else { 1 }).sum();
    if text.is_empty() {
        return Line::Blank;
    }
    let hashes = text.trim_start_matches('#');
    if hashes.len() < text.len() && hashes.starts_with(' ') {
        let title = hashes.trim().trim_end_matches(['#', ' ', ':']);
        return match after_number(title) {
            Some(text) => Line::Heading { text, numbered: true },
            None => Line::Heading { text: title, numbered: false },
        };
    }
    let bold =
        text.strip_prefix("**").and_then(|text| text.trim_end_matches(':').strip_suffix("**"));
    if let Some(title) = bold.filter(|title| !title.contains("**")) {
        let title = title.trim_end_matches(':');
        let number = after_number(title);
        return Line::Heading { text: number.unwrap_or(title), numbered: number.is_some() };
    }
    if let Some(text) = after_bullet(text) {
        return Line::Item { indent, numbered: false, text };
    }
    match after_number(text) {
        Some(text) => Line::Item { indent, numbered: true, text },
        None => Line::Text { indent, text },
    }
}

fn after_bullet(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(['-', '*', '+', '•', '–', '—', '‣', '◦', '·', '▪', '●'])?;
    let rest = rest.strip_prefix(char::is_whitespace)?.trim_start();
    let boxed = ["[ ]", "[x]", "[X]"].iter().find_map(|tick| rest.strip_prefix(tick));
    Some(boxed.unwrap_or(rest).trim_start())
}

/// Returns the text after a prefix `1.`, `1)`, `(1)`, `a)` or `Step 1:`.
fn after_number(text: &str) -> Option<&str> {
    let (first, rest) = text.split_once(char::is_whitespace)?;
    if first.eq_ignore_ascii_case("step") {
        let (number, rest) = rest.trim_start().split_once(char::is_whitespace)?;
        let digits = number.strip_suffix([':', '.', ')'])?;
        return is_number(digits).then(|| rest.trim_start());
    }
    let number = first.strip_prefix('(').unwrap_or(first).strip_suffix(['.', ')', ':'])?;
    let letter =
        first.ends_with(')') && number.len() == 1 && number.chars().all(char::is_alphabetic);
    (letter || is_number(number)).then(|| rest.trim_start())
}

fn is_number(text: &str) -> bool {
    (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits a line that contains a list, `1) … 2) …`, into lines.
fn broken_up(line: &str) -> Vec<&str> {
    let mut cuts = Vec::new();
    let mut at = 0;
    for word in line.split(' ') {
        let number = word.strip_prefix('(').unwrap_or(word);
        let number = number.strip_suffix(['.', ')']).and_then(|digits| digits.parse().ok());
        if number == Some(cuts.len() + 1) {
            cuts.push(at);
        }
        at += word.len() + 1;
    }
    if cuts.len() < 2 {
        return vec![line];
    }
    let ends = cuts.iter().skip(1).copied().chain([line.len()]);
    let parts = cuts.iter().zip(ends).map(|(from, to)| &line[*from..to]);
    // Text before the first item is a line of its own; white space stays with the first item.
    match &line[..cuts[0]] {
        before if before.trim().is_empty() => {
            let first = &line[..cuts[1]];
            [first].into_iter().chain(parts.skip(1)).collect()
        }
        before => [before].into_iter().chain(parts).collect(),
    }
}
