//! Scripted content of the demo: work items and goals, used in rotation.
//!
//! Branches and texts contain the number of the round, because repeating identical texts would trip
//! the circuit breaker.

use a2a_protocol::body::TaskRequest;

/// One work item: the request, the reviewer's concern and the lesson.
#[derive(Debug)]
pub(super) struct WorkItem {
    /// Last part of the branch name, which identifies the item.
    slug: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) criterion: &'static str,
    pub(super) files: [&'static str; 2],
    /// Steps of the worker, in order.
    pub(super) steps: [&'static str; 3],
    /// Line and text of the first review's concern, about the first file.
    pub(super) concern: (u64, &'static str),
    pub(super) summary: &'static str,
    pub(super) topic: &'static str,
    pub(super) learned: &'static str,
    pub(super) action: &'static str,
}

const WORK_ITEMS: [WorkItem; 5] = [
    WorkItem {
        slug: "retry-after",
        title: "Retry refused uploads",
        description: "The importer gives up at the first 503. Let it wait as long as Retry-After \
                      says and try again, five times at most.",
        criterion: "A server that answers 503 twice gets the file at the third attempt",
        files: ["importer/upload.rs", "importer/tests/upload.rs"],
        steps: ["reading the importer", "waiting as Retry-After says", "testing with a stub"],
        concern: (88, "A Retry-After of several hours blocks the whole queue. Cap the wait."),
        summary: "Uploads are tried five times; a wait is a minute at most.",
        topic: "Retry-After",
        learned: "Two of our providers send Retry-After as a date instead of seconds.",
        action: "Read both forms, and cap the wait at a minute",
    },
    WorkItem {
        slug: "export-utf8",
        title: "Export names with accents",
        description: "Names such as Zoë come out broken in the CSV export. Write UTF-8, and tell \
                      spreadsheet programs so.",
        criterion: "An exported name with an accent opens unchanged in a spreadsheet",
        files: ["export/csv.rs", "docs/export.md"],
        steps: ["finding where bytes are cut", "writing UTF-8 with a mark", "comparing exports"],
        concern: (23, "The byte order mark is written before every page, not once a file."),
        summary: "The export is UTF-8, with one byte order mark at the start of a file.",
        topic: "CSV and spreadsheets",
        learned: "Spreadsheet programs guess the encoding of a CSV unless it begins with a mark.",
        action: "Begin every CSV for people with a byte order mark",
    },
    WorkItem {
        slug: "slow-search",
        title: "Make the customer search fast",
        description: "Searching customers by city takes seconds. Find out why and bring it below \
                      a tenth of a second.",
        criterion: "The search by city reads an index, not the whole table",
        files: ["search/query.sql", "migrations/0042_city.sql"],
        steps: ["asking for the query plan", "adding an index on city", "measuring again"],
        concern: (12, "lower(city) cannot use this index. Index the expression itself."),
        summary: "The search reads an index on lower(city): 40 ms instead of 3 s.",
        topic: "indexes on expressions",
        learned: "An index on a column is not used when the query calls a function on it.",
        action: "Index the expression that the query has",
    },
    WorkItem {
        slug: "session-timeout",
        title: "Keep people signed in while they type",
        description: "Whoever fills in the long form is signed out on the way and loses the text. \
                      Typing must count as being there.",
        criterion: "A form that takes 40 minutes to fill in can be sent",
        files: ["web/session.ts", "web/form.ts"],
        steps: ["measuring how long the form takes", "renewing on input", "trying 40 minutes"],
        concern: (57, "Every key press sends a request. Renew once a minute at most."),
        summary: "Input renews the session once a minute; the draft is kept as well.",
        topic: "sessions and forms",
        learned: "One in nine people needs longer for the form than a session lasts.",
        action: "Keep drafts of every form that takes longer than five minutes",
    },
    WorkItem {
        slug: "invoice-rounding",
        title: "Round invoices once",
        description: "The total of an invoice differs from the sum of its lines by a cent. Round \
                      in one place, and say in which.",
        criterion: "The lines of every invoice of last year add up to its total",
        files: ["billing/total.rs", "billing/tests/year.rs"],
        steps: ["recomputing last year", "rounding per line", "comparing every invoice"],
        concern: (31, "Credit notes are negative, and this rounds them the other way."),
        summary: "Lines are rounded half to even, totals never; 48,210 invoices agree.",
        topic: "rounding money",
        learned: "Half-up rounding of negative amounts goes the other way than people expect.",
        action: "Round half to even, per line, and never twice",
    },
];

impl WorkItem {
    /// The item of a round.
    pub(super) fn of_round(round: u32) -> &'static Self {
        &WORK_ITEMS[round.wrapping_sub(1) as usize % WORK_ITEMS.len()]
    }

    /// The item of a branch; `None` for a branch outside the demo.
    pub(super) fn of_branch(branch: &str) -> Option<&'static Self> {
        let (round, slug) = branch.strip_prefix("demo-")?.split_once('/')?;
        round.parse::<u32>().ok()?;
        WORK_ITEMS.iter().find(|item| item.slug == slug)
    }

    /// The item of a task.
    pub(super) fn of_task(task: &TaskRequest) -> Option<&'static Self> {
        Self::of_branch(task.context.as_ref()?.branch.as_ref()?)
    }

    pub(super) fn branch(&self, round: u32) -> String {
        format!("demo-{round}/{}", self.slug)
    }

    /// All items, which are the researcher's notes.
    pub(super) fn all() -> &'static [Self] {
        &WORK_ITEMS
    }
}

/// Path of the worktree of a branch.
pub(super) fn worktree(branch: &str) -> String {
    format!("worktrees/{}", branch.replace('/', "-"))
}

/// Ticket number of a branch, such as `DEMO-3`.
pub(super) fn ticket(branch: &str) -> String {
    branch.split('/').next().unwrap_or(branch).to_uppercase()
}

/// Objective with two plans; the second depends on the first.
#[derive(Debug)]
pub(super) struct Goal {
    name: &'static str,
    pub(super) description: &'static str,
    pub(super) plans: [GoalPlan; 2],
}

#[derive(Debug)]
pub(super) struct GoalPlan {
    pub(super) name: &'static str,
    pub(super) steps: [GoalStep; 2],
}

/// One step of a plan.
#[derive(Debug)]
pub(super) struct GoalStep {
    /// Agent that performs the step.
    pub(super) by: &'static str,
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// Scripted result.
    pub(super) result: &'static str,
}

const GOALS: [Goal; 3] = [
    Goal {
        name: "Release notes, issue",
        description: "Tell users what is new, in words they understand.",
        plans: [
            GoalPlan {
                name: "Find out",
                steps: [
                    GoalStep {
                        by: super::RESEARCHER,
                        name: "Collect what changed",
                        description: "Read the merged branches since the last release.",
                        result: "Nine changes: five that users see, four inside.",
                    },
                    GoalStep {
                        by: super::RESEARCHER,
                        name: "Choose what users care about",
                        description: "Leave out what nobody outside notices.",
                        result: "Uploads that retry, exports with accents, a faster search.",
                    },
                ],
            },
            GoalPlan {
                name: "Write it",
                steps: [
                    GoalStep {
                        by: super::WORKER,
                        name: "Draft the release notes",
                        description: "One sentence for each change, what it means first.",
                        result: "Uploads go through even when the server is busy. Exports keep \
                                 accents. Searching by city is instant.",
                    },
                    GoalStep {
                        by: super::REVIEWER,
                        name: "Proofread the release notes",
                        description: "Short sentences, no jargon.",
                        result: "Good. \"Instant\" became \"takes a moment\".",
                    },
                ],
            },
        ],
    },
    Goal {
        name: "Onboarding guide, edition",
        description: "A new colleague ships something on the first day.",
        plans: [
            GoalPlan {
                name: "Look at the first day",
                steps: [
                    GoalStep {
                        by: super::RESEARCHER,
                        name: "Ask the last three who joined",
                        description: "What took longest, and who helped?",
                        result: "Access to the test database took two days, each time.",
                    },
                    GoalStep {
                        by: super::LEAD,
                        name: "Decide what a first change is",
                        description: "Small, real, reviewed the same day.",
                        result: "A wrong text in the help pages: there are always some.",
                    },
                ],
            },
            GoalPlan {
                name: "Write and try it",
                steps: [
                    GoalStep {
                        by: super::WORKER,
                        name: "Write the guide",
                        description: "One page; every command can be pasted.",
                        result: "Seven steps on one page, from the clone to the merge.",
                    },
                    GoalStep {
                        by: super::REVIEWER,
                        name: "Follow the guide to the letter",
                        description: "On a clean machine, without asking anybody.",
                        result: "It works; step four wanted a newer compiler, and now says so.",
                    },
                ],
            },
        ],
    },
    Goal {
        name: "Restore drill, no.",
        description: "Know that the backups are good before they are needed.",
        plans: [
            GoalPlan {
                name: "Prepare",
                steps: [
                    GoalStep {
                        by: super::LEAD,
                        name: "Choose what is lost",
                        description: "One service, one disk, in working hours.",
                        result: "The billing database, at ten in the morning.",
                    },
                    GoalStep {
                        by: super::RESEARCHER,
                        name: "Find the newest backup",
                        description: "How old is it, and where is the key?",
                        result: "Six hours old; the key lies with two people.",
                    },
                ],
            },
            GoalPlan {
                name: "Restore",
                steps: [
                    GoalStep {
                        by: super::WORKER,
                        name: "Restore onto an empty machine",
                        description: "Follow the page, and write down where it is wrong.",
                        result: "Back after 34 minutes; the page had an old host name.",
                    },
                    GoalStep {
                        by: super::REVIEWER,
                        name: "Compare with what was there",
                        description: "Count rows, and open ten invoices.",
                        result: "All rows up to the backup are there; ten of ten invoices open.",
                    },
                ],
            },
        ],
    },
];

impl Goal {
    pub(super) fn of_round(round: u32) -> &'static Self {
        &GOALS[round.wrapping_sub(1) as usize % GOALS.len()]
    }

    pub(super) fn name(&self, round: u32) -> String {
        format!("{} {round}", self.name)
    }
}

impl GoalStep {
    /// The step that a text asks for: its first line is the name.
    pub(super) fn named(text: &str) -> Option<&'static Self> {
        let name = text.lines().next()?.trim();
        let mut all = GOALS.iter().flat_map(|goal| &goal.plans).flat_map(|plan| &plan.steps);
        all.find(|step| step.name == name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn work_item_is_identified_by_its_branch() {
        for round in 1..=12 {
            let item = WorkItem::of_round(round);
            let found = WorkItem::of_branch(&item.branch(round)).map(|item| item.slug);
            assert_eq!(found, Some(item.slug));
            assert_eq!(ticket(&item.branch(round)), format!("DEMO-{round}"));
        }
        for other in ["", "retry-after", "roman/retry-after", "demo-x/retry-after", "demo-1/router"]
        {
            assert!(WorkItem::of_branch(other).is_none(), "{other}");
        }
    }

    #[test]
    fn goal_steps_have_unique_names_and_known_assignees() {
        let mut names = HashSet::new();
        for step in GOALS.iter().flat_map(|goal| &goal.plans).flat_map(|plan| &plan.steps) {
            assert!(names.insert(step.name), "{} is there twice", step.name);
            assert!(super::super::CAST.contains(&step.by), "{}", step.by);
            let asked = format!("{}\n\n{}", step.name, step.description);
            assert_eq!(GoalStep::named(&asked).map(|found| found.result), Some(step.result));
        }
        assert!(GoalStep::named("Restore").is_none());
    }
}
