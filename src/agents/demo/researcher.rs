//! Researcher: writes down what was learned, shares it, and answers questions from its notes.

use std::fmt::Write as _;

use a2a_actors::Delivery;
use a2a_protocol::body::TaskRequest;

use super::adhoc_task::{self, Skill};
use super::script::{WorkItem, ticket};
use super::{LEAD, Pace, WORKER, pause, send};
use crate::{Agent, Handlers, Knowledge, SendError, TaskAnswer};

/// Shorter words are ignored in a search.
const SHORTEST_WORD: usize = 4;

const SKILL: Skill =
    Skill { artifact: "notes", steps: &["looking through the notes"], make: look_up };

pub(super) fn handlers(pace: Pace) -> Handlers {
    Handlers::new().on_task_request(
        move |me: Agent, delivery: Delivery, task: TaskRequest| async move {
            match WorkItem::of_task(&task).filter(|_| delivery.sender.as_str() == LEAD) {
                Some(item) => write_down(&me, &delivery, &task, item, pace).await,
                None => adhoc_task::run(&me, &delivery, &task, pace, &SKILL).await,
            }
        },
    )
}

/// Shares what a work item has taught with the agents concerned.
async fn write_down(
    me: &Agent,
    delivery: &Delivery,
    task: &TaskRequest,
    item: &WorkItem,
    pace: Pace,
) -> Result<(), SendError> {
    if !send(me, delivery, me.write(delivery, TaskAnswer::accepted())?).await?
        || !pause(delivery, pace.step).await
    {
        return Ok(());
    }
    let branch = task.context.as_ref().and_then(|context| context.branch.as_ref());
    let source = format!("review of {}", ticket(branch.map_or("", |branch| branch.as_str())));
    let news = Knowledge::new(item.topic, item.learned, source)
        .relevant_to([LEAD, WORKER])
        .action(item.action)
        .in_conversation(delivery.message.correlation_id);
    send(me, delivery, me.write((), news)?).await?;
    let done = TaskAnswer::completed(format!("Noted under \"{}\".", item.topic));
    send(me, delivery, me.write(delivery, done)?).await.map(drop)
}

/// Returns the notes that share a word with the text, or the list of topics.
fn look_up(text: &str) -> String {
    let asked = words(text);
    let fits = |item: &&WorkItem| {
        let noted = words(&format!("{} {} {}", item.topic, item.learned, item.action));
        asked.iter().any(|word| noted.contains(word))
    };
    let found: Vec<&WorkItem> = WorkItem::all().iter().filter(fits).collect();
    if found.is_empty() {
        let topics: Vec<_> = WorkItem::all().iter().map(|item| item.topic).collect();
        return format!(
            "I have no note on that. I am the researcher of the demo and have no model; there are \
             notes about {}.",
            topics.join(", ")
        );
    }
    let mut notes = String::from("From the team's notes:");
    for item in found {
        let _ = write!(notes, "\n- {}: {} {}.", item.topic, item.learned, item.action);
    }
    notes
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words.filter(|word| word.chars().count() >= SHORTEST_WORD).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_found_by_shared_words() {
        let found = look_up("What do we know about rounding?");
        assert!(found.contains("- rounding money:") && found.contains("half to even"), "{found}");
        assert!(!found.contains("Retry-After"), "{found}");
        let none = look_up("Who won the cup?");
        assert!(none.contains("no note") && none.contains("CSV and spreadsheets"), "{none}");
    }
}
