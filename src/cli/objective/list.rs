//! `openclaw-a2a objective list`: lists objectives.

use a2a_protocol::opt::{Objective, ObjectiveStatus, PlanStatus};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::call::{OptClient, read};
use crate::cli::table::{Cell, Table};
use crate::cli::{Answer, Format, format};

/// Maximum page size of the server.
const PAGE: usize = 100;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectivePage {
    objectives: Vec<Box<RawValue>>,
    #[serde(default)]
    next_page_token: String,
}

pub(super) fn run(
    client: &OptClient,
    status: Option<ObjectiveStatus>,
    limit: usize,
    format: Format,
) -> anyhow::Result<Answer> {
    let (mut found, mut token) = (Vec::new(), String::new());
    while found.len() < limit {
        let size = PAGE.min(limit - found.len());
        let params = json!({"pageSize": size, "pageToken": token, "includePlans": true,
            "status": status});
        let page: ObjectivePage = read(&client.ask("objectives/list", &params)?)?;
        found.extend(page.objectives);
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    format::list(format, "objectives", &found, |out| {
        if found.is_empty() {
            writeln!(out, "there are no objectives")?;
            return Ok(());
        }
        let mut table = Table::new(["ID", "STATUS", "NAME", "PLANS", "UPDATED"]);
        for objective in &found {
            let objective: Objective = format::read(objective)?;
            let plans = objective.plans.as_deref().unwrap_or_default();
            let is_done = |status| matches!(status, PlanStatus::Completed | PlanStatus::Skipped);
            let done = plans.iter().filter(|plan| is_done(plan.status)).count();
            table.row([
                Cell::fixed(objective.id.as_str()),
                objective.status.to_string().into(),
                objective.name.into(),
                format!("{done}/{}", plans.len()).into(),
                Cell::fixed(objective.updated_at.to_string()),
            ]);
        }
        table.write(out)
    })?;
    Ok(Answer::Yes)
}
