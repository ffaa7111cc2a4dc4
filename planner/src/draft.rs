//! Draft construction: from steps to plans and tasks, within the limits.

use a2a_protocol::opt::{PLANS_PER_OBJECTIVE, TASKS_PER_PLAN};

use super::words::one_line;
use super::{Draft, Group, PlanDraft, PlanRequest, Step, TaskDraft};

/// The longest name, in code points.
const NAME: usize = 512;
/// The longest description, in code points: together with the name it fits into a message.
const DESCRIPTION: usize = 30_000;
/// The length of the context in each task's description, in code points.
const ABOUT: usize = 500;

/// One plan with one task.
pub(super) fn one(request: &PlanRequest<'_>) -> Draft {
    let name = name(request.text);
    let description = (name != request.text.trim()).then(|| cut(request.text.trim(), DESCRIPTION));
    let task = TaskDraft { name: name.clone(), description, dependencies: vec![] };
    let plan = PlanDraft { name: name.clone(), tasks: vec![task], depends_on: vec![] };
    Draft::Objective { name: suggested(request).unwrap_or(name), plans: vec![plan] }
}

/// A plan for each group.
pub(super) fn many(
    request: &PlanRequest<'_>,
    groups: Vec<Group>,
    in_order: bool,
    about: &str,
) -> Draft {
    let title = title(&groups, about);
    let depends_on = |place: usize| if in_order && place > 0 { vec![place - 1] } else { vec![] };
    let plan = |(place, group): (usize, Group)| PlanDraft {
        name: group.title.as_ref().map_or_else(|| title.clone(), |step| name(&step.text)),
        depends_on: depends_on(place),
        tasks: tasks(group, about),
    };
    let plans = first_plans(groups, in_order).into_iter().enumerate().map(plan).collect();
    Draft::Objective { name: suggested(request).unwrap_or(title), plans }
}

fn suggested(request: &PlanRequest<'_>) -> Option<String> {
    request.suggested_name.map(name).filter(|name| !name.is_empty())
}

/// The objective's name: from the text around the steps, otherwise from the steps.
fn title(groups: &[Group], about: &str) -> String {
    let first_line = about.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let name_of_context = name(first_line.trim_end_matches([':', ' ']));
    if !name_of_context.is_empty() {
        return name_of_context;
    }
    let (first, more) = match groups {
        [] => return String::new(),
        [group] => (group.steps.first(), group.steps.len() - 1),
        [group, rest @ ..] => (group.title.as_ref().or(group.steps.first()), rest.len()),
    };
    let first = first.map_or("", |step| step.text.as_str());
    // The number must survive the cut.
    let first = cut(first, NAME - 40);
    if more == 0 { first } else { format!("{first}, and {more} more") }
}

/// At most as many groups as plans are allowed; the last one contains the rest.
fn first_plans(mut groups: Vec<Group>, in_order: bool) -> Vec<Group> {
    if groups.len() <= PLANS_PER_OBJECTIVE {
        return groups;
    }
    let rest = groups.split_off(PLANS_PER_OBJECTIVE - 1);
    let in_order = in_order || rest.iter().any(|group| group.in_order);
    let title = Step { text: format!("The remaining {} plans", rest.len()), ..Step::default() };
    let steps = rest.into_iter().flat_map(|group| group.steps).collect();
    groups.push(Group { title: Some(title), steps, in_order });
    groups
}

/// At most as many steps as tasks are allowed; the last one lists the rest.
fn first_tasks(mut steps: Vec<Step>) -> Vec<Step> {
    if steps.len() <= TASKS_PER_PLAN {
        return steps;
    }
    let rest = steps.split_off(TASKS_PER_PLAN - 1);
    let text = format!("The remaining {} steps", rest.len());
    let lines = rest.iter().zip(1..).map(|(step, n)| {
        let details = if step.details.is_empty() { "" } else { "\n" };
        format!("{n}. {}{details}{}", step.text, step.details)
    });
    let details = lines.collect::<Vec<_>>().join("\n");
    steps.push(Step { text, details });
    steps
}

fn tasks(group: Group, about: &str) -> Vec<TaskDraft> {
    let Group { title, steps, in_order } = group;
    let above = title.iter().flat_map(|step| [step.text.as_str(), step.details.as_str()]);
    let parts: Vec<&str> = above.chain(about.lines()).filter(|part| !part.is_empty()).collect();
    let about = cut(&one_line(&parts.join(" / ")), ABOUT);
    let task = |(place, step): (usize, Step)| TaskDraft {
        name: name(&step.text),
        description: description(&step, &about),
        dependencies: if in_order && place > 0 { vec![place - 1] } else { vec![] },
    };
    first_tasks(steps).into_iter().enumerate().map(task).collect()
}

/// What is not in the name: the rest of it, the details, and the context.
fn description(step: &Step, about: &str) -> Option<String> {
    let mut parts = Vec::new();
    if name(&step.text) != step.text {
        parts.push(step.text.clone());
    }
    if !step.details.is_empty() {
        parts.push(step.details.clone());
    }
    if !about.is_empty() && about != step.text {
        // The context comes last and is short: it must not be cut off.
        let so_far = cut(&parts.join("\n"), DESCRIPTION - ABOUT - 20);
        parts = [so_far].into_iter().filter(|text| !text.is_empty()).collect();
        parts.push(format!("Part of: {about}"));
    }
    (!parts.is_empty()).then(|| cut(&parts.join("\n"), DESCRIPTION))
}

fn name(text: &str) -> String {
    cut(&one_line(text), NAME)
}

/// At most `most` code points; a cut text ends with `…`.
fn cut(text: &str, most: usize) -> String {
    if text.char_indices().nth(most).is_none() {
        return text.into();
    }
    let mut short: String = text.chars().take(most - 1).collect();
    short.push('…');
    short
}
