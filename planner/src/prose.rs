//! Steps in running text: sentences, split at "then", "and" and semicolons.

use super::words::{
    begins_asking, begins_order, begins_question, begins_work, is_greeting, is_work, one_line,
    text_after_lead,
};
use super::{Found, Group, Step};

/// The maximum length of a plain question, in bytes.
const PLAIN: usize = 300;

/// Question marks.
const MARKS: [char; 3] = ['?', '？', '؟'];

/// Words before a sum.
const SUM: [&str; 4] = ["calculate", "compute", "what's", "whats"];

/// Words between steps.
const THEN: [&str; 4] = ["then", "finally", "afterwards", "lastly"];

/// The steps of a text without lists.
pub(super) fn find(text: &str) -> Found {
    let text = text.trim();
    let sentences = sentences(text);
    let silent = !text.contains(char::is_alphanumeric);
    if silent || is_sum(text) || is_plain(text, &sentences) {
        return Found::Plain;
    }
    let mut steps: Vec<Step> = Vec::new();
    let mut about = String::new();
    let mut work = false;
    for sentence in &sentences {
        if is_greeting(sentence) {
            continue;
        }
        if !begins_work(sentence) && !begins_order(sentence) {
            // A sentence without work is a detail of the step before, or context.
            let rest = steps.last_mut().map_or(&mut about, |step| &mut step.details);
            add_line(rest, sentence);
            continue;
        }
        work = true;
        steps.extend(clauses(sentence).into_iter().map(|clause| {
            let end = |c: char| c.is_whitespace() || ".,;!?。！？".contains(c);
            Step {
                text: one_line(text_after_lead(clause.trim_end_matches(end))),
                ..Step::default()
            }
        }));
    }
    steps.retain(|step| step.text.contains(char::is_alphanumeric));
    if steps.len() < 2 {
        return Found::One { work };
    }
    let groups = vec![Group { title: None, steps, in_order: true }];
    // Each step gets the whole text as context.
    Found::Many { groups, in_order: true, about: one_line(text) }
}

/// Whether a text is a question without work.
pub(super) fn is_plain_question(text: &str) -> bool {
    is_plain(text.trim(), &sentences(text))
}

fn is_plain(text: &str, sentences: &[&str]) -> bool {
    let asks = |sentence: &&str| {
        if is_greeting(sentence) || is_sum(sentence) {
            return true;
        }
        let marked = sentence.trim_end_matches(['"', '\'', ')', '”', '!']).ends_with(MARKS);
        let asks = marked || (begins_question(sentence) && !sentence.contains(','));
        // "Can you write it?" requests work, "can you explain …?" an answer.
        let for_words = marked && begins_asking(sentence) && clauses(sentence).len() == 1;
        asks && (for_words || !begins_work(sentence))
    };
    text.len() <= PLAIN && sentences.iter().all(asks)
}

/// Whether it is only a sum, perhaps after a word such as "calculate".
fn is_sum(text: &str) -> bool {
    let text = match text.split_once(char::is_whitespace) {
        Some((first, rest)) if SUM.iter().any(|word| first.eq_ignore_ascii_case(word)) => rest,
        _ => text,
    };
    let operator = |c: char| "+-*/^%×÷=−·".contains(c);
    text.len() <= 100
        && text.contains(|c: char| c.is_ascii_digit())
        && text.contains(operator)
        && text.chars().all(|c| operator(c) || c.is_ascii_digit() || " ().,?!x".contains(c))
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line.trim());
}

/// The sentences of a text: ended by a semicolon, a mark before white space, or a line break.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let end = at + c.len_utf8();
        let before_space = chars.peek().is_none_or(|(_, next)| next.is_whitespace());
        let ends = match c {
            '。' | '？' | '！' | '؟' => true,
            '\n' => !is_wrapped(&text[end..]),
            '!' | '?' | ';' => before_space,
            '.' => before_space && !is_abbreviation(&text[start..at]),
            _ => false,
        };
        if ends {
            sentences.push(text[start..end].trim());
            start = end;
        }
    }
    sentences.push(text[start..].trim());
    sentences.retain(|sentence| sentence.contains(char::is_alphanumeric));
    sentences
}

/// Whether a line continues the sentence of the line before.
fn is_wrapped(line: &str) -> bool {
    let line = line.trim_start_matches([' ', '\t']);
    let word = line.split(char::is_whitespace).next().unwrap_or_default();
    word.starts_with(char::is_lowercase) && !is_work(word) && !begins_order(word)
}

/// Whether the text before a full stop is an abbreviation or a number: `e.g`, `Dr`, `1`.
fn is_abbreviation(before: &str) -> bool {
    // Abbreviations are short; searching further back would be quadratic.
    let start = before.len().saturating_sub(8);
    let tail = (start..=before.len()).find_map(|at| before.get(at..)).unwrap_or_default();
    let word = tail.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    let known = ["e.g", "i.e", "etc", "vs", "dr", "mr", "mrs", "ms", "no", "st", "approx"];
    known.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// The steps of a sentence: split at "then", and at "and" or a comma before a verb.
fn clauses(sentence: &str) -> Vec<&str> {
    let mut clauses = Vec::new();
    let words = words_at(sentence);
    let then = |word: &str| THEN.iter().any(|then| bare_is(word, then));
    let (mut start, mut first) = (0, 0);
    for i in 1..words.len() {
        let ((at, word), before) = (words[i], words[i - 1].1);
        let next = words.get(i + 1).map_or("", |(_, word)| word);
        let divides = if then(word) {
            let divided = i - 1 == first && bare_is(before, "and");
            !divided && (before.ends_with(',') || is_work(next))
        } else if bare_is(word, "and") {
            // In "review and test it" both verbs share the object.
            then(next) || (is_work(next) && !is_work(before) && has_object(&sentence[start..at]))
        } else {
            before.ends_with(',') && is_work(word) && has_object(&sentence[start..at])
        };
        if divides {
            clauses.push(&sentence[start..at]);
            (start, first) = (at, i);
        }
    }
    clauses.push(&sentence[start..]);
    clauses
}

/// Whether it is more than a verb.
fn has_object(clause: &str) -> bool {
    text_after_lead(clause).split_whitespace().take(2).count() == 2
}

fn bare_is(word: &str, other: &str) -> bool {
    word.trim_matches(|c: char| !c.is_alphanumeric()).eq_ignore_ascii_case(other)
}

fn words_at(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices() {
        match (c.is_whitespace(), start) {
            (true, Some(from)) => {
                words.push((from, &text[from..at]));
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
    }
    words.extend(start.map(|from| (from, &text[from..])));
    words
}
