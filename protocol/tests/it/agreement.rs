use std::sync::LazyLock;

use a2a_protocol::{Code, Envelope, Kind, schema};
use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::Value;

use crate::generate::{apply, damage, message, reversed};

/// Compiles without formats, the default of draft 2020-12: the patterns must be sufficient.
fn compile(schema: &Value) -> Validator {
    jsonschema::options().should_validate_formats(false).build(schema).unwrap()
}

static ENVELOPE: LazyLock<Validator> = LazyLock::new(|| compile(&schema::envelope()));
static KINDS: LazyLock<Vec<(Kind, Validator)>> = LazyLock::new(|| {
    Kind::ALL.iter().map(|kind| (*kind, compile(&schema::message(*kind)))).collect()
});

/// Whether the published schemas accept a message: the envelope's and that of its kind.
fn schema_accepts(message: &Value) -> bool {
    let whole = ENVELOPE.is_valid(message);
    let kind = message["type"].as_str().and_then(Kind::from_name);
    if let Some((_, own)) = KINDS.iter().find(|(k, _)| Some(*k) == kind) {
        assert_eq!(own.is_valid(message), whole, "the two schemas disagree on {message}");
    }
    whole
}

/// Violations that a schema cannot express.
fn beyond_schema(code: Code) -> bool {
    use Code::{DuplicateKey, Mismatch, NotJson, TooDeep, TooLarge};
    matches!(code, Mismatch | NotJson | TooLarge | TooDeep | DuplicateKey)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn valid_messages_round_trip_and_the_schema_accepts_them(message in message()) {
        let envelope = match Envelope::parse(message.to_string().as_bytes()) {
            Ok(envelope) => envelope,
            Err(report) => return Err(TestCaseError::fail(format!("{report}\n{message}"))),
        };
        prop_assert!(schema_accepts(&message), "the schema refuses {message}");
        let written = serde_json::to_vec(&envelope).unwrap();
        let again = Envelope::parse(&written);
        prop_assert_eq!(again.as_ref(), Ok(&envelope));
        let value: Value = serde_json::from_slice(&written).unwrap();
        prop_assert_eq!(&value["payload"]["context"], &message["payload"]["context"]);
        prop_assert_eq!(&value["payload"]["result"], &message["payload"]["result"]);
        prop_assert_eq!(&value["payload"]["metadata"], &message["payload"]["metadata"]);
        let turned = Envelope::parse(reversed(&message).to_string().as_bytes());
        prop_assert_eq!(turned.as_ref(), Ok(&envelope));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_messages_get_one_verdict_from_types_and_schema(
        mut message in message(),
        damages in prop::collection::vec(damage(), 1..4),
    ) {
        for (at, damage) in damages {
            apply(&mut message, at, damage);
        }
        let accepted = schema_accepts(&message);
        match Envelope::parse(message.to_string().as_bytes()) {
            Ok(_) => prop_assert!(accepted, "types accept, schema refuses {message}"),
            Err(report) => {
                let in_schema = report.violations().iter().any(|v| !beyond_schema(v.code));
                prop_assert_eq!(!accepted, in_schema, "{}\n{}", report, message);
                for violation in report.violations() {
                    prop_assert!(!violation.message.is_empty());
                    let mut place = violation.path.as_str();
                    if matches!(violation.code, Code::Missing) {
                        place = place.rsplit_once('/').unwrap().0;
                    }
                    prop_assert!(message.pointer(place).is_some(), "{violation} points nowhere in {message}");
                }
            }
        }
    }
}
