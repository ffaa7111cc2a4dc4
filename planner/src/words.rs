//! Vocabulary of the planner, and word matching.

/// Verbs that begin work, in alphabetical order for binary search.
#[rustfmt::skip] // as many to a line as fit
const WORK: &[&str] = &[
    "add", "analyse", "analyze", "apply", "arrange", "assemble", "assess", "audit", "automate",
    "benchmark", "book", "brainstorm", "build", "buy", "calculate", "call", "categorise",
    "categorize", "change", "check", "choose", "clean", "collect", "combine", "compare", "compile",
    "compose", "compute", "configure", "convert", "copy", "correct", "create", "debug", "define",
    "delete", "deliver", "deploy", "describe", "design", "determine", "develop", "diagnose",
    "discover", "discuss", "document", "download", "draft", "draw", "edit", "email", "estimate",
    "evaluate", "examine", "execute", "expand", "explain", "explore", "export", "extract", "fetch",
    "file", "fill", "find", "finish", "fix", "format", "gather", "generate", "get", "give", "go",
    "group", "identify", "implement", "import", "improve", "inspect", "install", "integrate",
    "interview", "investigate", "launch", "list", "locate", "look", "make", "map", "measure",
    "merge", "migrate", "monitor", "move", "negotiate", "notify", "open", "optimise", "optimize",
    "order", "organise", "organize", "outline", "parse", "perform", "pick", "plan", "polish",
    "post", "prepare", "present", "print", "produce", "proofread", "propose", "prototype",
    "provide", "publish", "push", "rank", "read", "recommend", "record", "refactor", "refine",
    "release", "remove", "rename", "render", "replace", "reply", "report", "research", "resolve",
    "review", "revise", "rewrite", "run", "save", "schedule", "search", "select", "send", "set",
    "share", "show", "sketch", "solve", "sort", "split", "start", "store", "study", "submit",
    "suggest", "summarise", "summarize", "survey", "tell", "test", "train", "transcribe",
    "transform", "translate", "try", "update", "upgrade", "upload", "use", "validate", "verify",
    "visualise", "visualize", "watch", "write",
];

/// The length of the longest of them.
const LONGEST: usize = 12;

/// Verbs that request an answer in words, after "can you".
#[rustfmt::skip] // as many to a line as fit
const ASKING: &[&str] = &[
    "tell", "explain", "say", "describe", "define", "remind", "show", "give",
];

/// Words that begin a question.
#[rustfmt::skip] // as many to a line as fit
const QUESTION: &[&str] = &[
    "what", "what's", "whats", "who", "who's", "whom", "whose", "where", "where's", "when", "why",
    "which", "how", "how's",
];

/// Words after "when" in a question.
#[rustfmt::skip] // as many to a line as fit
const AUXILIARY: &[&str] = &[
    "is", "are", "was", "were", "do", "does", "did", "will", "can", "should", "has", "have",
];

/// Words that begin a step and relate it to another.
#[rustfmt::skip] // as many to a line as fit
const ORDER: &[&str] = &[
    "first", "firstly", "second", "secondly", "third", "thirdly", "then", "next", "afterwards",
    "after that", "finally", "lastly", "at last", "and then", "and finally", "at the end",
    "in the end", "also", "and",
];

/// Polite phrases around a request.
#[rustfmt::skip] // as many to a line as fit
const POLITE: &[&str] = &[
    "please", "kindly", "can you", "could you", "would you", "will you", "can we", "could we",
    "i want you to", "i need you to", "i would like you to", "i'd like you to", "we need to",
    "i need to", "i want to", "help me to", "help me", "let's", "let us", "you should", "just",
    "hi", "hello", "hey", "ok", "okay", "so", "now",
];

/// Greetings and other phrases without a request.
#[rustfmt::skip] // as many to a line as fit
const GREETING: &[&str] = &[
    "hi", "hello", "hey", "howdy", "hiya", "greetings", "good morning", "good afternoon",
    "good evening", "good night", "goodbye", "bye", "thanks", "thank you", "thx", "cheers", "ok",
    "okay", "yes", "no", "yep", "nope", "sure", "great", "perfect", "nice", "welcome", "sorry",
    "never mind",
];

/// Words before a list of qualities instead of work.
#[rustfmt::skip] // as many to a line as fit
const QUALITIES: &[&str] = &[
    "that", "which", "who", "with", "where", "requirements", "constraints", "criteria", "must",
    "should", "can", "about", "on", "for", "of", "including", "include", "includes", "like", "e.g.",
    "are", "is", "options", "notes", "between",
];

/// The words of a text without punctuation; some may be empty.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().map(bare)
}

/// A word without punctuation around it.
fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

fn is_in(table: &[&str], word: &str) -> bool {
    table.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// Whether the word begins work.
pub(super) fn is_work(word: &str) -> bool {
    let word = bare(word);
    // Called for every word of a text; most are too long or absent.
    word.len() <= LONGEST && WORK.binary_search(&word.to_ascii_lowercase().as_str()).is_ok()
}

/// Whether a list after this word describes qualities.
pub(super) fn is_quality(word: &str) -> bool {
    is_in(QUALITIES, bare(word))
}

/// Whether it begins like a question, with or without a question mark.
pub(super) fn begins_question(text: &str) -> bool {
    let mut words = words(text).filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    // "When you are done …" is no question.
    let when = first.eq_ignore_ascii_case("when");
    let asks = !when || words.next().is_some_and(|second| is_in(AUXILIARY, second));
    asks && is_in(QUESTION, &first.replace('’', "'"))
}

/// Whether it begins with work, after optional politeness.
pub(super) fn begins_work(text: &str) -> bool {
    text_after_lead(text).split_whitespace().next().is_some_and(is_work)
}

/// Whether it begins like a polite question for an answer: "can you explain …".
pub(super) fn begins_asking(text: &str) -> bool {
    let after = text_after_lead(text);
    after.split_whitespace().next().is_some_and(|word| is_in(ASKING, bare(word)))
}

/// Whether it begins with a word of order: "then", "finally".
pub(super) fn begins_order(text: &str) -> bool {
    // "And" and "also" alone are no order.
    lead(text, ORDER).is_some_and(|(word, _)| !matches!(word, "and" | "also"))
}

/// Whether it is a greeting.
pub(super) fn is_greeting(text: &str) -> bool {
    let few = text.split_whitespace().take(5).count() <= 4;
    few && lead(text, GREETING).is_some() && !words(text).any(is_work)
}

/// The text without leading words of order and politeness.
pub(super) fn text_after_lead(text: &str) -> &str {
    let mut text = text.trim();
    // Each round removes at least a word; the limit bounds the cost.
    for _ in 0..8 {
        let after = lead(text, ORDER).or_else(|| lead(text, POLITE));
        match after {
            Some((_, after)) if !after.is_empty() => text = after,
            _ => break,
        }
    }
    text
}

/// The longest phrase of the table that the text begins with, and the rest of the text.
fn lead<'t>(text: &'t str, table: &[&'static str]) -> Option<(&'static str, &'t str)> {
    let fits = |phrase: &&&'static str| {
        let head = text.get(..phrase.len()).is_some_and(|head| head.eq_ignore_ascii_case(phrase));
        // "Next.js" and "first-class" do not begin with one of these words.
        let mut rest = text.get(phrase.len()..).unwrap_or_default().chars();
        let ends = |c: Option<char>| c.is_none_or(char::is_whitespace);
        let next = rest.next();
        let mark = next.is_some_and(|c| ",:.;!?".contains(c));
        head && (ends(next) || (mark && ends(rest.next())))
    };
    let phrase = table.iter().filter(fits).max_by_key(|phrase| phrase.len())?;
    let rest = text.get(phrase.len()..)?;
    Some((phrase, rest.trim_start_matches(|c: char| c.is_whitespace() || ",:.;!?".contains(c))))
}

/// The text in one line.
pub(super) fn one_line(text: &str) -> String {
    let visible = text.split(|c: char| c.is_whitespace() || c.is_control());
    let mut line = String::with_capacity(text.len());
    for word in visible.filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_table_is_found() {
        for word in WORK {
            assert!(is_work(&format!("{},", word.to_uppercase())), "{word}");
        }
        assert!(WORK.is_sorted() && WORK.iter().all(|word| word.len() <= LONGEST));
        assert!(!is_work("writes") && !is_work("") && !is_work("é"));
    }
}
