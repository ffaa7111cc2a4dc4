//! Reviewer: returns work once with a concern, and approves the second submission.

use a2a_actors::Delivery;
use a2a_protocol::body::{ReviewRequest, Severity, TaskRequest};

use super::adhoc_task::{self, Skill};
use super::script::WorkItem;
use super::{Pace, send};
use crate::{Agent, Handlers, ReviewAnswer, SendError};

/// Longer lines get a remark.
const LONG_LINE: usize = 100;
/// Maximum number of remarks in a review.
const MOST_REMARKS: usize = 20;

const SKILL: Skill = Skill {
    artifact: "review",
    steps: &["reading line by line", "writing remarks"],
    make: remarks,
};

pub(super) fn handlers(pace: Pace) -> Handlers {
    Handlers::new()
        .on_task_request(move |me: Agent, delivery: Delivery, task: TaskRequest| async move {
            adhoc_task::run(&me, &delivery, &task, pace, &SKILL).await
        })
        .on_review_request(move |me: Agent, delivery: Delivery, asked: ReviewRequest| async move {
            judge(&me, &delivery, &asked, pace).await
        })
}

/// Requests changes on a first submission, and approves one that has notes of an earlier review.
async fn judge(
    me: &Agent,
    delivery: &Delivery,
    asked: &ReviewRequest,
    pace: Pace,
) -> Result<(), SendError> {
    tokio::time::sleep(pace.step).await;
    let file = asked.files_for_review.first().map_or("", |file| file.as_str());
    let verdict = match (&asked.prior_review_notes, WorkItem::of_branch(&asked.branch)) {
        (Some(_), _) => ReviewAnswer::approved(),
        (None, Some(WorkItem { concern: (line, what), .. })) => {
            ReviewAnswer::changes_requested().concern_at(file, *line, Severity::MustFix, *what)
        }
        (None, None) => ReviewAnswer::changes_requested().concern(
            file,
            Severity::ShouldFix,
            "I am the reviewer of the demo and send everything back once. Ask again with \
             priorReviewNotes.",
        ),
    };
    send(me, delivery, me.write(delivery, verdict)?).await.map(drop)
}

/// Remarks that need no understanding of the text.
fn remarks(text: &str) -> String {
    let lines = (1..).zip(text.lines());
    let found: Vec<String> =
        lines.flat_map(|(n, line)| about(n, line)).take(MOST_REMARKS).collect();
    let (words, rows) = (text.split_whitespace().count(), text.lines().count());
    let what = if found.is_empty() {
        "I found nothing to change.".to_owned()
    } else {
        format!("Please look at this:\n{}", found.join("\n"))
    };
    format!(
        "I have read {rows} lines with {words} words. {what}\n\nI am the reviewer of the demo and \
         have no model: I know long lines, words that are there twice, and work left to do."
    )
}

fn about(n: usize, line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let long = line.chars().count();
    if long > LONG_LINE {
        found.push(format!("line {n}: {long} characters are hard to read"));
    }
    if let Some(mark) = ["TODO", "FIXME"].into_iter().find(|mark| line.contains(mark)) {
        found.push(format!("line {n}: {mark} says that something is left to do"));
    }
    let words: Vec<_> = line.split_whitespace().collect();
    let is_twice = |pair: &[&str]| pair[0] == pair[1] && pair[0].chars().all(char::is_alphabetic);
    if words.windows(2).any(is_twice) {
        found.push(format!("line {n}: a word is there twice"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_name_repeated_words_todos_and_long_lines() {
        let good = remarks("One line.\nAnother.");
        assert!(good.starts_with("I have read 2 lines with 3 words. I found nothing"), "{good}");
        let bad = remarks(&format!("the the end\nTODO: more\n{}\n- - -", "x".repeat(101)));
        for remark in ["line 1: a word", "line 2: TODO", "line 3: 101 characters"] {
            assert!(bad.contains(remark), "{bad}");
        }
        assert!(!bad.contains("line 4"), "{bad}");
    }
}
