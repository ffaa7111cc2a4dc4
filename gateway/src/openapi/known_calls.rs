//! Lookup over the described routes: which verbs and query parameters a path takes.
//!
//! A verb that a path does not take is answered 405 and not 404, and an unknown parameter is
//! refused: a misspelt filter that is ignored would look as if it had matched.

use std::sync::LazyLock;

use a2a_protocol::nearest;

/// One described route.
struct Row {
    verb: &'static str,
    path: String,
    query: Vec<String>,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let calls = super::calls();
    let row = |(verb, path, query)| Row { verb, path, query };
    calls.into_iter().map(row).collect()
});

impl Row {
    fn has_path(&self, path: &str) -> bool {
        let (mut ours, mut theirs) = (self.path.split('/'), path.split('/'));
        loop {
            match (ours.next(), theirs.next()) {
                (None, None) => return true,
                (Some(pattern), Some(segment)) if fits(pattern, segment) => {}
                _ => return false,
            }
        }
    }
}

/// Whether a segment matches a pattern such as `tasks`, `{id}` or `{name}.json`.
fn fits(pattern: &str, segment: &str) -> bool {
    match (pattern.find('{'), pattern.rfind('}')) {
        (Some(begin), Some(end)) => segment
            .strip_prefix(&pattern[..begin])
            .and_then(|rest| rest.strip_suffix(&pattern[end + 1..]))
            .is_some_and(|value| !value.is_empty()),
        _ => pattern == segment,
    }
}

/// The verbs of a path; none for an unknown one.
pub(crate) fn verbs(path: &str) -> Vec<&'static str> {
    let mut verbs: Vec<_> =
        ROWS.iter().filter(|row| row.has_path(path)).map(|row| row.verb).collect();
    verbs.sort_unstable();
    verbs.dedup();
    verbs
}

/// Why a query is refused: it has a parameter that the route does not.
pub(crate) fn unknown_parameter(verb: &str, path: &str, query: &str) -> Option<String> {
    if query.is_empty() {
        return None;
    }
    // Where several patterns match, the most literal one is called.
    let rows = ROWS.iter().filter(|row| row.verb == verb && row.has_path(path));
    let row = rows.min_by_key(|row| row.path.matches('{').count())?;
    let given = url::form_urlencoded::parse(query.as_bytes());
    let (unknown, _) = given.into_iter().find(|(name, _)| !row.query.iter().any(|k| k == name))?;
    let unknown: String = unknown.chars().take(64).collect();
    let near = nearest(&unknown, &row.query);
    let near = near.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
    let known = match row.query.as_slice() {
        [] => "It takes no parameters.".to_owned(),
        names => format!("It takes {}.", names.join(", ")),
    };
    let stop = if near.is_empty() { "." } else { "" };
    Some(format!("`{unknown}` is no parameter of {verb} {}{near}{stop} {known}", row.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_their_verbs() {
        assert_eq!(verbs("/bus/messages"), ["POST"]);
        assert_eq!(verbs("/bus/agents/tim/inbox"), ["GET"]);
        assert_eq!(verbs("/schemas/task_request.json"), ["GET"]);
        assert!(verbs("/bus/nothing").is_empty() && verbs("/schemas/.json").is_empty());
    }

    #[test]
    fn parameters_that_no_call_has_are_named_with_near_ones() {
        let refusal = |query| unknown_parameter("GET", "/bus/agents/tim/inbox", query);
        assert_eq!(refusal("wait=1s&limit=3&peek=false"), None);
        let unknown = refusal("wiat=1s").unwrap();
        assert!(
            unknown.contains("`wiat`") && unknown.contains("did you mean `wait`?"),
            "{unknown}"
        );
        let none = unknown_parameter("GET", "/bus/circuits", "%78=1").unwrap();
        assert!(none.contains("`x`") && none.contains("takes no parameters"), "{none}");
        // The literal path, not the pattern that also matches.
        assert_eq!(unknown_parameter("GET", "/bus/tasks/a2a", "cursor=x"), None);
    }
}
