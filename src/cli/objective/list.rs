//! `openclaw-a2a objective list`: a table, or the pages as they came.

use a2a_protocol::operation::ObjectivePage;
use a2a_protocol::opt::{Objective, ObjectiveStatus, PlanStatus};
use serde_json::json;

use super::call::{Calls, print, read};
use crate::cli::stdout::harmless;
use crate::cli::{Answer, Format};

/// The most that a server gives at once.
const PAGE: usize = 100;
/// A name that is longer is cut off, so that lines stay lines.
const NAME_CHARS: usize = 40;

pub(super) fn run(
    calls: &Calls,
    status: Option<ObjectiveStatus>,
    limit: usize,
    format: Format,
) -> anyhow::Result<Answer> {
    let (mut shown, mut token) = (Vec::new(), String::new());
    let mut count = 0;
    while count < limit {
        let size = PAGE.min(limit - count);
        let params = json!({"pageSize": size, "pageToken": token, "includePlans": true,
            "status": status});
        let result = calls.ask("objectives/list", &params)?;
        let page: ObjectivePage = read(&result)?;
        count += page.objectives.len();
        match format {
            Format::Json | Format::Jsonl => print(format, &[result.to_string()])?,
            Format::Text => shown.extend(page.objectives),
        }
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    match format {
        Format::Json | Format::Jsonl => {}
        Format::Text if shown.is_empty() => print(format, &["there are no objectives".to_owned()])?,
        Format::Text => print(format, &table(&shown))?,
    }
    Ok(Answer::Yes)
}

fn table(objectives: &[Objective]) -> Vec<String> {
    let head = ["ID", "STATUS", "NAME", "PLANS", "UPDATED"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head).chain(objectives.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<_> = (0..4).map(|column| width(column).unwrap_or_default()).collect();
    let line = |row: &[String; 5]| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        let cells: Vec<_> = cells.chain([row[4].clone()]).collect();
        cells.join("  ")
    };
    rows.iter().map(line).collect()
}

fn row(objective: &Objective) -> [String; 5] {
    let plans = objective.plans.as_deref().unwrap_or_default();
    let is_done = |status| matches!(status, PlanStatus::Completed | PlanStatus::Skipped);
    let done = plans.iter().filter(|plan| is_done(plan.status)).count();
    let mut name = harmless(&objective.name);
    if name.chars().count() > NAME_CHARS {
        name = name.chars().take(NAME_CHARS - 1).chain(['…']).collect();
    }
    [
        harmless(objective.id.as_str()),
        objective.status.to_string(),
        name,
        format!("{done}/{}", plans.len()),
        objective.updated_at.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let objective = |id: &str, name: &str| -> Objective {
            let at = "2026-02-21T18:30:00.000Z";
            let plan = |status| {
                json!({"id": "plan-1", "objectiveId": id, "name": "p", "status": status,
                    "createdAt": at, "updatedAt": at})
            };
            serde_json::from_value(json!({"id": id, "name": name, "status": "working",
                "plans": [plan("completed"), plan("skipped"), plan("working")],
                "createdAt": at, "updatedAt": at}))
            .unwrap()
        };
        let lines = table(&[objective("obj-1", "Write\u{1b}"), objective("o", &"x".repeat(41))]);
        assert!(lines[1].starts_with("obj-1  working  Write\\u{1b} "), "{lines:?}");
        assert!(lines[1].contains("  2/3    2026-02-21T18:30:00"), "{lines:?}");
        assert!(lines[2].contains(&format!("{}…  2/3", "x".repeat(39))), "{lines:?}");
        let at = |line: &str| line.chars().position(|c| c == '2').unwrap_or_default();
        assert_eq!(at(&lines[1]), at(&lines[2]));
    }
}
