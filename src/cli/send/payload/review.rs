//! Flags of review_request and review_response.

use a2a_protocol::body::{NextAction, Severity, Verdict};
use a2a_protocol::{AgentId, Kind, TaskId};
use serde_json::{Value, json};

use super::super::{TaskParties, new_id};
use super::{Fields, Payload};
use crate::cli::human::one_of;

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  openclaw-a2a send review-request --from tim --to roman \\
    --task 0192a4c8-7e1a-7b3c-9d4e-000000000003 \\
    --title 'The validator' --branch tim/validator --file src/validator.rs \\
    --file tests/validator.rs

Without --task the review is about work that was not requested over the bus.")]
pub(in super::super) struct ReviewRequest {
    /// Title of the work in one line
    #[arg(long, value_name = "TEXT")]
    title: String,
    /// The branch that holds the work
    #[arg(long, value_name = "NAME")]
    branch: String,
    /// The worktree that holds the work
    #[arg(long, value_name = "PATH", default_value = ".")]
    worktree: String,
    /// A file to review; may be given several times
    #[arg(long = "file", value_name = "PATH", required = true)]
    files: Vec<String>,
    /// Task of the work [default: a new one]
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    /// Author of the work [default: the sender]
    #[arg(long, value_name = "ID")]
    author: Option<AgentId>,
    /// The author's tier, such as T3-Staff
    #[arg(long, value_name = "TIER")]
    author_tier: Option<String>,
    /// Required level of review
    #[arg(long, value_name = "TEXT")]
    level: Option<String>,
    /// Notes from an earlier review of the same work
    #[arg(long, value_name = "TEXT")]
    notes: Option<String>,
}

impl Payload for ReviewRequest {
    const KIND: Kind = Kind::ReviewRequest;

    fn task(&self) -> Option<TaskId> {
        self.task
    }

    fn write(&self, from: &str) -> anyhow::Result<Value> {
        Ok(Fields::default()
            .with("taskId", Some(self.task.map_or_else(new_id, |task| task.to_string())))
            .with("title", Some(&self.title))
            .with("branch", Some(&self.branch))
            .with("worktree", Some(&self.worktree))
            .with("filesForReview", Some(&self.files))
            .with("authorAgent", Some(self.author.as_ref().map_or(from, AgentId::as_str)))
            .with("authorTier", self.author_tier.as_ref())
            .with("reviewLevel", self.level.as_ref())
            .with("priorReviewNotes", self.notes.as_ref())
            .object())
    }
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a send review-response --from roman \\
    --task 0192a4c8-7e1a-7b3c-9d4e-000000000003 \\
    --verdict approved --branch tim/validator
  openclaw-a2a send review-response --from roman \\
    --task 0192a4c8-7e1a-7b3c-9d4e-000000000003 \\
    --verdict changes_requested --branch tim/validator \\
    --must-fix 'src/validator.rs:12=This panics'

Without --to it goes to the assignee of the task.")]
pub(in super::super) struct ReviewResponse {
    /// Task whose work was reviewed
    #[arg(long, value_name = "ID")]
    task: TaskId,
    /// Verdict
    #[arg(long, value_parser = one_of(Verdict::ALL, Verdict::as_str))]
    verdict: Verdict,
    /// The branch that was reviewed
    #[arg(long, value_name = "NAME")]
    branch: String,
    /// The worktree that was reviewed
    #[arg(long, value_name = "PATH", default_value = ".")]
    worktree: String,
    /// Next action [default: follows from the verdict]
    #[arg(long, value_parser = one_of(NextAction::ALL, NextAction::as_str))]
    next_action: Option<NextAction>,
    /// Concern that must be fixed; may be given several times
    #[arg(long, value_name = "FILE[:LINE]=TEXT", value_parser = remark)]
    must_fix: Vec<Remark>,
    /// Concern that should be fixed; may be given several times
    #[arg(long, value_name = "FILE[:LINE]=TEXT", value_parser = remark)]
    should_fix: Vec<Remark>,
    /// Suggestion; may be given several times
    #[arg(long, value_name = "FILE[:LINE]=TEXT", value_parser = remark)]
    suggest: Vec<Remark>,
    /// Fix made by the reviewer; may be given several times
    #[arg(long, value_name = "FILE=TEXT", value_parser = remark)]
    fixed: Vec<Remark>,
    /// Title of a follow-up task; may be given several times
    #[arg(long = "next-task", value_name = "TITLE")]
    next_tasks: Vec<String>,
}

/// A remark on a location in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Remark {
    file: String,
    line: Option<u64>,
    text: String,
}

fn remark(text: &str) -> Result<Remark, &'static str> {
    let (place, text) = text.split_once('=').ok_or("write FILE=TEXT or FILE:LINE=TEXT")?;
    let numbered = place.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
    let (file, line) = numbered.map_or((place, None), |(file, line)| (file, Some(line)));
    Ok(Remark { file: file.to_owned(), line, text: text.to_owned() })
}

impl ReviewResponse {
    fn concerns(&self) -> Vec<Value> {
        let of = |severity: Severity, remarks: &[Remark]| -> Vec<Value> {
            let concern = |Remark { file, line, text }: &Remark| {
                Fields::default()
                    .with("file", Some(file))
                    .with("line", *line)
                    .with("severity", Some(severity))
                    .with("description", Some(text))
                    .object()
            };
            remarks.iter().map(concern).collect()
        };
        [
            of(Severity::MustFix, &self.must_fix),
            of(Severity::ShouldFix, &self.should_fix),
            of(Severity::Suggestion, &self.suggest),
        ]
        .concat()
    }
}

impl Payload for ReviewResponse {
    const KIND: Kind = Kind::ReviewResponse;

    fn task(&self) -> Option<TaskId> {
        Some(self.task)
    }

    fn addressee<'a>(&self, parties: &'a TaskParties) -> Option<&'a AgentId> {
        Some(&parties.assignee)
    }

    fn write(&self, _: &str) -> anyhow::Result<Value> {
        let follows = match self.verdict {
            Verdict::Approved => NextAction::PushAndClose,
            Verdict::ChangesRequested => NextAction::SendBackToWorker,
            Verdict::Escalated => NextAction::EscalateToSenior,
        };
        let fixes = self.fixed.iter().map(|r| json!({"file": r.file, "description": r.text}));
        let next = self.next_tasks.iter().map(|title| json!({ "title": title }));
        Ok(Fields::default()
            .with("taskId", Some(self.task))
            .with("verdict", Some(self.verdict))
            .with("branch", Some(&self.branch))
            .with("worktree", Some(&self.worktree))
            .with("nextAction", Some(self.next_action.unwrap_or(follows)))
            .list("reviewerFixes", &fixes.collect::<Vec<_>>())
            .list("unresolvedConcerns", &self.concerns())
            .list("nextTasks", &next.collect::<Vec<_>>())
            .object())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remark_is_parsed_with_and_without_a_line() {
        let read = |text| remark(text).map(|r| (r.file, r.line, r.text));
        let is = |file: &str, line, text: &str| Ok((file.to_owned(), line, text.to_owned()));
        assert_eq!(read("src/a.rs:12=This = bad"), is("src/a.rs", Some(12), "This = bad"));
        assert_eq!(read("src/a.rs=x"), is("src/a.rs", None, "x"));
        assert_eq!(read("c:a.rs=x"), is("c:a.rs", None, "x"));
        assert!(read("src/a.rs").is_err());
    }
}
