//! Moves repeated parameters and responses to `components`.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// Occurrences from which on a value is moved.
const OFTEN: usize = 3;

/// Replaces parameters and responses that are the same in many operations by references.
pub(super) fn share(document: &mut Value) {
    let mut parameters = Shared::new("parameters");
    let mut responses = Shared::new("responses");
    let operations = |document: &Value| -> Vec<(String, String)> {
        let paths = document["paths"].as_object().into_iter().flatten();
        let verbs = |item: &Value| {
            item.as_object().into_iter().flatten().map(|(v, _)| v.clone()).collect::<Vec<_>>()
        };
        paths
            .flat_map(|(path, item)| verbs(item).into_iter().map(|verb| (path.clone(), verb)))
            .collect()
    };
    let operations = operations(document);
    for (path, verb) in &operations {
        let operation = &document["paths"][path][verb];
        let given = operation["parameters"].as_array().into_iter().flatten();
        given.for_each(|it| parameters.count(it));
        let given = operation["responses"].as_object().into_iter().flatten();
        given.for_each(|(_, it)| responses.count(it));
    }
    for (path, verb) in &operations {
        let operation = &mut document["paths"][path][verb];
        for parameter in
            operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten()
        {
            let text = |field: &str| parameter[field].as_str().unwrap_or_default();
            let name = format!("{}-{}", text("in"), text("name"));
            parameters.refer(parameter, &name);
        }
        for (status, response) in operation["responses"].as_object_mut().into_iter().flatten() {
            let kinds = response["content"].as_object().into_iter().flatten();
            let kinds = kinds.map(|(media, _)| {
                media.trim_start_matches("application/").replace("+json", "").replace('/', ".")
            });
            let name = [vec![status.clone()], kinds.collect()].concat().join("-");
            responses.refer(response, &name);
        }
    }
    document["components"]["parameters"] = parameters.named.into();
    document["components"]["responses"] = responses.named.into();
}

struct Shared {
    /// The section of `components`.
    section: &'static str,
    counts: HashMap<String, usize>,
    named: Map<String, Value>,
}

impl Shared {
    fn new(section: &'static str) -> Self {
        Self { section, counts: HashMap::new(), named: Map::new() }
    }

    fn count(&mut self, value: &Value) {
        *self.counts.entry(value.to_string()).or_default() += 1;
    }

    /// Replaces a repeated value by a reference. Of two different values with one name the later
    /// stays inline.
    fn refer(&mut self, value: &mut Value, name: &str) {
        if self.counts.get(&value.to_string()).is_none_or(|&count| count < OFTEN) {
            return;
        }
        let kept = self.named.entry(name).or_insert_with(|| value.clone());
        if kept == value {
            *value = json!({ "$ref": format!("#/components/{}/{name}", self.section) });
        }
    }
}
