//! Texts and their drafts.

use super::{Draft, PlanRequest, Planner, StepPlanner};

fn plan(text: &str) -> Draft {
    StepPlanner.plan(&PlanRequest { text, ..PlanRequest::default() })
}

/// A draft in a line: `name | plan<0: task; task<0`.
fn line(draft: &Draft) -> String {
    let Draft::Objective { name, plans } = draft else { return "answer".into() };
    let needs = |places: &[usize]| match places {
        [] => String::new(),
        places => format!("<{}", places.iter().map(usize::to_string).collect::<Vec<_>>().join(",")),
    };
    let plans = plans.iter().map(|plan| {
        let tasks = plan.tasks.iter().map(|task| task.name.clone() + &needs(&task.dependencies));
        let tasks: Vec<String> = tasks.collect();
        format!("{}{}: {}", plan.name, needs(&plan.depends_on), tasks.join("; "))
    });
    [name.clone()].into_iter().chain(plans).collect::<Vec<_>>().join(" | ")
}

#[test]
fn plain_questions_are_answered() {
    for text in [
        "What is 2 + 2?",
        "2+2",
        "2 + 2 = ?",
        "(3 * 4) / 2",
        "calculate 2 + 2",
        "what is the capital of France",
        "Who wrote Faust?",
        "How are you?",
        "Hi",
        "Hello there!",
        "Thanks a lot!",
        "hi! how are you?",
        "yes",
        "Is it raining?",
        "Can you tell me the time?",
        "¿Cuál es la capital de Francia?",
        "日本の首都は？",
        "When is Easter",
        "Which one is better?\n- the red one\n- the blue one",
        "What is A? And what is B?",
        "",
        "   \n ",
        "…",
        "\u{0}\u{1}",
    ] {
        assert_eq!(plan(text), Draft::Answer, "{text:?}");
        let wanted = PlanRequest { text, prefer_objective: Some(true), ..PlanRequest::default() };
        assert_eq!(StepPlanner.plan(&wanted), Draft::Answer, "{text:?}");
    }
}

#[test]
fn steps_are_found_in_sentences() {
    let steps = |text: &str| {
        let Draft::Objective { plans, .. } = plan(text) else { return vec![] };
        assert_eq!(plans.len(), 1, "{text}");
        for (place, task) in plans[0].tasks.iter().enumerate() {
            let before: Vec<usize> = (0..place).rev().take(1).collect();
            assert_eq!(task.dependencies, before, "{text}");
        }
        plans[0].tasks.iter().map(|task| task.name.clone()).collect::<Vec<_>>()
    };
    let table: &[(&str, &[&str])] = &[
        (
            "Research AI safety papers and write a summary",
            &["Research AI safety papers", "write a summary"],
        ),
        (
            "First find the bug, then fix it and finally run the tests.",
            &["find the bug", "fix it", "run the tests"],
        ),
        ("Find the bug; fix it; test it", &["Find the bug", "fix it", "test it"]),
        ("Find the bug. Fix it. Then ship it.", &["Find the bug", "Fix it", "ship it"]),
        (
            "Could you please research cats and then write a poem?",
            &["research cats", "write a poem"],
        ),
        (
            "Collect the numbers, compare them, and draw a chart",
            &["Collect the numbers", "compare them", "draw a chart"],
        ),
        ("find papers\nsummarise them", &["find papers", "summarise them"]),
        ("Build, then test.", &["Build", "test"]),
        (
            "Hello! Search for papers. They should be new. Summarize them.",
            &["Search for papers", "Summarize them"],
        ),
        // Verbs with a shared object, and clauses that are no steps, are not split.
        ("Review and test the code", &["Review and test the code"]),
        (
            "Write a script to parse and validate the input",
            &["Write a script to parse and validate the input"],
        ),
        ("Write about cats and dogs", &["Write about cats and dogs"]),
        ("Write a poem e.g. about a cat", &["Write a poem e.g. about a cat"]),
        ("Set up a Next.js app. Next.js is new.", &["Set up a Next.js app. Next.js is new."]),
        ("Write a long text\nabout many\nthings", &["Write a long text about many things"]),
        ("Please write a poem", &["Please write a poem"]),
        ("Can you write a poem?", &["Can you write a poem?"]),
        ("the quarterly report", &["the quarterly report"]),
        ("Recherche des articles", &["Recherche des articles"]),
        ("When you are done, tidy up", &["When you are done, tidy up"]),
    ];
    for (text, expected) in table {
        assert_eq!(steps(text), *expected, "{text}");
    }
}

#[test]
fn steps_are_found_in_lists() {
    let table = [
        (
            "1. Find papers\n2. Read them\n3. Write a summary",
            "Find papers, and 2 more | Find papers, and 2 more: Find papers; Read them<0; Write a summary<1",
        ),
        (
            "Prepare the launch:\n- write the post\n* book a room\n• [ ] invite people",
            "Prepare the launch | Prepare the launch: write the post; book a room; invite people",
        ),
        (
            "Do this:\n1. Research\n   - competitors\n   - prices\n2. Write\n   1) draft\n   2) polish\n3. Publish",
            "Do this | Research: competitors; prices | Write<0: draft; polish<0 | Publish<1: Publish",
        ),
        (
            "1. Research\n- competitors\n- prices\n2. Write\n- draft",
            "Research, and 1 more | Research: competitors; prices | Write<0: draft",
        ),
        (
            "- Research\n  - competitors\n- Write\n  - draft\n    - short\n  - polish",
            "Research, and 1 more | Research: competitors | Write: draft; polish",
        ),
        (
            "# Blog\n## 1. Research\n- find\n- read\n## 2. Write\n1. draft\n2. polish",
            "Blog | Research: find; read | Write<0: draft; polish<0",
        ),
        (
            "Research:\n- find\n- read\n\nWriting:\n- draft",
            "Research, and 1 more | Research: find; read | Writing: draft",
        ),
        (
            "**Phase 1: Research**\n- find\n**Phase 2: Write**\n- draft",
            "Phase 1: Research, and 1 more | Phase 1: Research: find | Phase 2: Write<0: draft",
        ),
        (
            "Please (1) find papers (2) write a summary",
            "Please | Please: find papers; write a summary<0",
        ),
        (
            "1) find papers 2) write",
            "find papers, and 1 more | find papers, and 1 more: find papers; write<0",
        ),
        (
            "Step 1: find papers\nStep 2: write",
            "find papers, and 1 more | find papers, and 1 more: find papers; write<0",
        ),
        (
            "1. Find papers\n   about cats\n2. Write",
            "Find papers about cats, and 1 more | Find papers about cats, and 1 more: Find papers about cats; Write<0",
        ),
        // Qualities are no steps.
        (
            "Write a function that:\n- takes a list\n- returns its sum",
            "Write a function that: - takes a list - returns its sum | Write a function that: - takes a list - returns its sum: Write a function that: - takes a list - returns its sum",
        ),
        ("- write a poem", "- write a poem | - write a poem: - write a poem"),
    ];
    for (text, expected) in table {
        assert_eq!(line(&plan(text)), expected, "{text}");
    }
}

#[test]
fn draft_loses_no_text() {
    let described = |text: &str, place: usize| match plan(text) {
        Draft::Objective { plans, .. } => {
            let tasks: Vec<_> = plans.into_iter().flat_map(|plan| plan.tasks).collect();
            tasks[place].description.clone().unwrap_or_default()
        }
        Draft::Answer => String::new(),
    };
    assert_eq!(described("Write a poem", 0), "");
    let two = "Research AI safety papers and write a summary";
    assert_eq!(described(two, 1), format!("Part of: {two}"));
    let list = "For the blog about cats:\n1. Find pictures.\n   Five are enough.\n2. Write\n\nUntil Monday.";
    assert_eq!(
        described(list, 0),
        "Five are enough.\nPart of: For the blog about cats / Until Monday."
    );
    assert_eq!(
        described("Fix this:\n1. Run it\n```\n- no step\n```\n2. Write", 0),
        "```\n- no step\n```\nPart of: Fix this"
    );
    let long = "word ".repeat(200);
    assert_eq!(described(&long, 0), long.trim());
    assert!(described("Find A. It is red. Write B.", 0).starts_with("It is red.\n"));
}

#[test]
fn hints_are_not_binding() {
    let ask = |text, prefer_objective, in_objective| {
        let request = PlanRequest {
            text,
            prefer_objective,
            in_objective,
            suggested_name: Some("  A\nname "),
        };
        StepPlanner.plan(&request) != Draft::Answer
    };
    let (question, many, one, unclear) =
        ("Who is it?", "Find it and write it down", "Write it down", "the second one");
    let table = [
        // prefer, in an objective: question, many, one, unclear
        (None, false, [false, true, true, true]),
        (Some(true), false, [false, true, true, true]),
        (Some(false), false, [false, true, false, false]),
        (None, true, [false, true, true, false]),
        (Some(true), true, [false, true, true, true]),
        (Some(false), true, [false, true, false, false]),
    ];
    for (prefer, inside, expected) in table {
        let found = [question, many, one, unclear].map(|text| ask(text, prefer, inside));
        assert_eq!(found, expected, "{prefer:?} {inside}");
    }
    let named = |suggested_name| match StepPlanner.plan(&PlanRequest {
        text: one,
        suggested_name,
        ..PlanRequest::default()
    }) {
        Draft::Objective { name, plans } => (name, plans[0].name.clone()),
        Draft::Answer => Default::default(),
    };
    assert_eq!(named(Some("  A\nname ")), ("A name".into(), one.into()));
    assert_eq!(named(Some(" ")), (one.into(), one.into()));
}

#[test]
fn surplus_steps_go_into_the_last_task() {
    let list: String = (1..=60).map(|n| format!("{n}. do thing {n}\n")).collect();
    let Draft::Objective { plans, .. } = plan(&list) else { panic!("{list}") };
    assert_eq!((plans.len(), plans[0].tasks.len()), (1, 50));
    let last = &plans[0].tasks[49];
    assert_eq!((last.name.as_str(), &last.dependencies[..]), ("The remaining 11 steps", &[48][..]));
    let rest = last.description.as_ref().unwrap();
    assert!(rest.contains("1. do thing 50") && rest.contains("11. do thing 60"), "{rest}");

    let plans: String =
        (1..=12).map(|n| format!("{n}. Plan {n}\n   - do {n}\n   - check {n}\n")).collect();
    let Draft::Objective { plans, name } = plan(&plans) else { panic!("{plans}") };
    assert_eq!(
        (plans.len(), plans[9].tasks.len(), plans[9].name.as_str()),
        (10, 6, "The remaining 3 plans")
    );
    assert_eq!(name, "Plan 1, and 11 more");
    let long = format!("Write {}", "é".repeat(1_000));
    let Draft::Objective { name, .. } = plan(&long) else { panic!("{long}") };
    assert_eq!(name.chars().count(), 512);
}
