//! The planner on random text: it never panics, and every draft is within the limits.

use a2a_planner::{Draft, PlanRequest, Planner, StepPlanner};
use proptest::prelude::*;

/// Fragments of texts, with and without steps.
const PIECES: &[&str] = &[
    "1. ",
    "2) ",
    "(3) ",
    "- ",
    "* ",
    "  - ",
    "\t",
    "\n",
    "\n\n",
    "# ",
    "**",
    ":",
    ";",
    "; ",
    ". ",
    "? ",
    ", ",
    "and ",
    "then ",
    "and then ",
    "first ",
    "write ",
    "find papers ",
    "Research ",
    "step 1: ",
    "please ",
    "can you ",
    "what ",
    "hi",
    "2+2",
    "```\n",
    "é",
    "→",
    "\u{200b}",
    "\u{0}",
    "\r\n",
    "日本",
    "？",
    "🦀",
    "e.g. ",
    "that:\n",
    "[ ] ",
];

fn text() -> impl Strategy<Value = String> {
    let pieces = prop::collection::vec(prop::sample::select(PIECES), 0..80);
    prop_oneof![pieces.prop_map(|pieces| pieces.concat()), any::<String>()]
}

fn check(draft: &Draft) {
    let Draft::Objective { name, plans } = draft else { return };
    let is_name = |name: &str| {
        let count = name.chars().count();
        !name.trim().is_empty() && count <= 512 && !name.contains(char::is_control)
    };
    assert!(is_name(name), "{draft:?}");
    assert!((1..=10).contains(&plans.len()), "{draft:?}");
    for (place, plan) in plans.iter().enumerate() {
        assert!(
            is_name(&plan.name) && plan.depends_on.iter().all(|need| *need < place),
            "{draft:?}"
        );
        assert!((1..=50).contains(&plan.tasks.len()), "{draft:?}");
        for (place, task) in plan.tasks.iter().enumerate() {
            assert!(
                is_name(&task.name) && task.dependencies.iter().all(|need| *need < place),
                "{draft:?}"
            );
            let description = task.description.as_deref().unwrap_or("-");
            assert!(!description.is_empty() && description.chars().count() <= 30_000);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_text_gives_a_draft_within_limits(
        text in text(),
        prefer_objective in any::<Option<bool>>(),
        suggested_name in prop::option::of(text()),
        in_objective in any::<bool>(),
    ) {
        let suggested_name = suggested_name.as_deref();
        let request = PlanRequest { text: &text, prefer_objective, suggested_name, in_objective };
        let draft = StepPlanner.plan(&request);
        check(&draft);
        prop_assert_eq!(StepPlanner.plan(&request), draft, "the same text becomes the same");
    }
}

#[test]
fn long_texts_take_linear_time() {
    // The test would not end in time if any of this were quadratic.
    for piece in PIECES {
        let text = piece.repeat(200_000 / piece.len());
        check(&StepPlanner.plan(&PlanRequest { text: &text, ..PlanRequest::default() }));
    }
    let lines: String =
        (0..5_000).map(|n| format!("{n}. find a thing:\n  - and write it\n")).collect();
    check(&StepPlanner.plan(&PlanRequest { text: &lines, ..PlanRequest::default() }));
}
