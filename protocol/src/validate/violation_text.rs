//! Parts of violation sentences: field names, quoted values, suggestions.

use serde_json::{Value, json};

/// Quotes text of the sender: truncated, and with control characters escaped.
pub(crate) fn quote(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown: String = text.chars().take(SHOWN).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// Whether a JSON Pointer denotes an array item.
pub(crate) fn is_item(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|token| token.parse::<usize>().is_ok())
}

/// Name for the target of a JSON Pointer: its last field, with the index of an array item.
pub(crate) fn name_of(path: &str) -> String {
    let mut tokens = path.rsplit('/');
    let last = tokens.next().unwrap_or_default();
    if is_item(path) {
        return format!("{}[{last}]", name_of(tokens.next().unwrap_or_default()));
    }
    quote(&last.replace("~1", "/").replace("~0", "~"))
}

pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

pub(crate) fn with_article(name: &str) -> String {
    match name {
        "null" => name.to_owned(),
        "integer" => "a whole number".to_owned(),
        "array" | "object" => format!("an {name}"),
        name => format!("a {name}"),
    }
}

/// The strings of a JSON array.
pub(crate) fn strings(options: &Value) -> Vec<String> {
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    options.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(crate) fn alternatives(names: &[impl ToString]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{}`", name.to_string())).collect();
    match quoted.as_slice() {
        [init @ .., a, b] => {
            let init: String = init.iter().map(|name| format!("{name}, ")).collect();
            format!("{init}{a} or {b}")
        }
        [only] => only.clone(),
        [] => "nothing".to_owned(),
    }
}

/// A correction for a value of the wrong type, as a sentence of its own.
pub(crate) fn rewritten(value: &Value, schema: &Value) -> Option<String> {
    const SHORT: usize = 60;
    let text = value.as_str().filter(|text| text.len() <= SHORT);
    match schema["type"].as_str()? {
        "array" => text.map(|text| format!(" Write {}.", json!([text]))),
        "object" if value.as_str().is_some_and(|text| text.trim_start().starts_with('{')) => {
            Some(" Write the object itself, not a string of JSON.".to_owned())
        }
        "object" if schema["required"] == json!(["agentId"]) => {
            text.map(|text| format!(" Write {}.", json!({ "agentId": text })))
        }
        _ => None,
    }
}

pub(crate) fn bad_timestamp(text: &str) -> String {
    let is_digit_at = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let has_form = [0, 5, 8, 11, 14, 17].into_iter().all(is_digit_at)
        && text.as_bytes().get(10) == Some(&b'T')
        && (text.ends_with(['Z', 'z']) || text.rfind(['+', '-']).is_some_and(|at| at > 10));
    if has_form {
        return format!(
            "{} is not a moment that exists. Check the day of the month, the time and the offset.",
            quote(text)
        );
    }
    format!(
        "{} is not a timestamp of RFC 3339. Write date, `T`, time and offset, such as \"2026-02-21T18:30:00Z\".",
        quote(text)
    )
}

pub(crate) fn bad_uuid(name: &str, text: &str) -> String {
    let version = uuid::Uuid::try_parse(text).ok().map(|uuid| uuid.get_version_num());
    let found = match version {
        Some(0) => " (it is the nil UUID)".to_owned(),
        Some(version) if version != 7 => format!(" (it is version {version})"),
        _ => String::new(),
    };
    let advice = if name == "\"messageId\"" {
        "Make a new one for every message"
    } else {
        "Copy it from the message you answer, or make a new one to begin"
    };
    format!(
        "{} is not a hyphenated UUID of version 7{found}. {advice}, with a UUIDv7 generator; it has the form xxxxxxxx-xxxx-7xxx-yxxx-xxxxxxxxxxxx, where y is 8, 9, a or b.",
        quote(text)
    )
}

/// The known name most similar to `given`, if it is similar enough to be a suggestion.
#[must_use]
pub fn nearest(given: &str, known: &[String]) -> Option<String> {
    if given.len() > 64 {
        return None;
    }
    let plain = |name: &str| name.to_ascii_lowercase().replace(['-', ' '], "_");
    let given = plain(given);
    known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&given, &plain(name)), name))
        .filter(|(distance, name)| distance * 3 <= name.len().max(given.len()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_named_by_field_and_index() {
        assert_eq!(name_of("/payload/title"), "\"title\"");
        assert_eq!(name_of("/payload/relevantTo/1"), "\"relevantTo\"[1]");
        assert_eq!(name_of("/a~1b"), "\"a/b\"");
    }

    #[test]
    fn only_similar_names_are_suggested() {
        let known = ["title", "task_request", "actionable", "urgent"].map(str::to_owned);
        for (given, near) in [
            ("titel", Some("title")),
            ("Task-Request", Some("task_request")),
            ("urgnet", Some("urgent")),
            ("action", None),
            ("task_update", None),
            ("asap", None),
        ] {
            assert_eq!(nearest(given, &known).as_deref(), near, "{given}");
        }
    }
}
