//! Statuses that a caller may set on an objective or a plan: one table each.
//!
//! `settle` derives all other changes.

use ObjectiveStatus as O;
use PlanStatus as P;
use a2a_protocol::opt::{ObjectiveStatus, PlanStatus};
use a2a_protocol::{Code, Violation};

/// For each status of an objective, the statuses that may be set.
pub const OBJECTIVE_TRANSITIONS: &[(O, &[O])] = &[
    (O::Submitted, &[O::Planning, O::Working, O::Blocked, O::Completed, O::Failed, O::Canceled]),
    (O::Planning, &[O::Working, O::Blocked, O::Completed, O::Failed, O::Canceled]),
    (O::Working, &[O::Planning, O::Blocked, O::Completed, O::Failed, O::Canceled]),
    (O::Blocked, &[O::Planning, O::Working, O::Completed, O::Failed, O::Canceled]),
    (O::Completed, &[]),
    (O::Failed, &[]),
    (O::Canceled, &[]),
];

/// For each status of a plan, the statuses that may be set.
pub const PLAN_TRANSITIONS: &[(P, &[P])] = &[
    // It begins by itself when it can; setting it to `working` has no further effect.
    (P::Pending, &[P::Working, P::Blocked, P::Completed, P::Failed, P::Skipped]),
    (P::Working, &[P::Blocked, P::Completed, P::Failed, P::Skipped]),
    (P::Blocked, &[P::Working, P::Completed, P::Failed, P::Skipped]),
    (P::Completed, &[]),
    (P::Failed, &[]),
    (P::Skipped, &[]),
];

/// The status change is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {what} is {from} and cannot be set to {to}: {}", advice(.allowed))]
pub struct TransitionRefused {
    /// `objective` or `plan`.
    pub what: &'static str,
    /// The current status.
    pub from: &'static str,
    /// The requested status.
    pub to: &'static str,
    /// The allowed statuses; empty when it has ended.
    pub allowed: Vec<&'static str>,
}

fn advice(allowed: &[&str]) -> String {
    match allowed {
        [] => "it has ended".into(),
        allowed => format!("it can be set to {}", allowed.join(", ")),
    }
}

impl From<&TransitionRefused> for Violation {
    fn from(refused: &TransitionRefused) -> Self {
        let allowed = refused.allowed.iter().map(ToString::to_string).collect();
        Self { allowed, ..Self::new("/status", Code::NotAllowed, refused.to_string()) }
    }
}

/// Checks a status change of an objective. The same status is always allowed.
///
/// # Errors
///
/// The allowed statuses.
pub fn check_objective_transition(from: O, to: O) -> Result<(), TransitionRefused> {
    let row = row(OBJECTIVE_TRANSITIONS, from);
    if from == to || row.contains(&to) {
        return Ok(());
    }
    let allowed = row.iter().map(|next| next.as_str()).collect();
    Err(TransitionRefused { what: "objective", from: from.as_str(), to: to.as_str(), allowed })
}

/// Checks a status change of a plan. The same status is always allowed.
///
/// # Errors
///
/// The allowed statuses.
pub fn check_plan_transition(from: P, to: P) -> Result<(), TransitionRefused> {
    let row = row(PLAN_TRANSITIONS, from);
    if from == to || row.contains(&to) {
        return Ok(());
    }
    let allowed = row.iter().map(|next| next.as_str()).collect();
    Err(TransitionRefused { what: "plan", from: from.as_str(), to: to.as_str(), allowed })
}

fn row<S: Copy + PartialEq>(table: &'static [(S, &'static [S])], from: S) -> &'static [S] {
    table.iter().find(|(status, _)| *status == from).map_or(&[], |(_, next)| next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_one_row_and_ended_is_final() {
        for from in O::ALL {
            let rows = OBJECTIVE_TRANSITIONS.iter().filter(|(status, _)| status == from);
            assert_eq!(rows.count(), 1, "{from}");
            for to in O::ALL {
                let step = check_objective_transition(*from, *to);
                // Nothing is set back to `submitted`.
                let may = from == to || (!from.is_terminal() && *to != O::Submitted);
                assert_eq!(step.is_ok(), may, "{from} {to}");
            }
        }
        for from in P::ALL {
            assert_eq!(
                PLAN_TRANSITIONS.iter().filter(|(status, _)| status == from).count(),
                1,
                "{from}"
            );
            for to in P::ALL {
                let may = from == to || (!from.is_terminal() && *to != P::Pending);
                assert_eq!(check_plan_transition(*from, *to).is_ok(), may, "{from} {to}");
            }
        }
    }

    #[test]
    fn refusal_lists_the_allowed_statuses() {
        let table = [
            (
                check_plan_transition(P::Working, P::Pending),
                "the plan is working and cannot be set to pending: \
                 it can be set to blocked, completed, failed, skipped",
            ),
            (
                check_plan_transition(P::Skipped, P::Working),
                "the plan is skipped and cannot be set to working: it has ended",
            ),
            (
                check_objective_transition(O::Blocked, O::Submitted),
                "the objective is blocked and cannot be set to submitted: \
                 it can be set to planning, working, completed, failed, canceled",
            ),
            (
                check_objective_transition(O::Canceled, O::Completed),
                "the objective is canceled and cannot be set to completed: it has ended",
            ),
        ];
        for (step, expected) in table {
            let refused = step.unwrap_err();
            assert_eq!(refused.to_string(), expected);
            let violation = Violation::from(&refused);
            assert_eq!(
                (violation.path.as_str(), violation.allowed.len()),
                ("/status", refused.allowed.len())
            );
        }
    }
}
