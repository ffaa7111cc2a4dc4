//! Demo: four scripted agents that work together on this bus, so that a new installation has
//! traffic to look at.
//!
//! They use the SDK only and pass the same admission as any agent. Their texts are constants
//! (`script`). Objectives are created as an A2A client creates them (`objective`).

mod adhoc_task;
mod lead;
mod objective;
mod researcher;
mod reviewer;
mod script;
mod worker;

use std::time::Duration;

use a2a_actors::tasks::{TaskCaller, TaskSystem};
use a2a_policy::Profile;
use a2a_protocol::fault::Fault;
use a2a_protocol::opt::ObjectiveStatus;
use a2a_protocol::{AgentId, BadAgentId};

use super::{WINDOW, pause, send};
use crate::{Agent, AttachError, Bus, SendError, TaskError};
use a2a_gateway::auth::tokens::UNNAMED_CLIENT;
use objective::Client;

const LEAD: &str = "lead";
const WORKER: &str = "worker";
const REVIEWER: &str = "reviewer";
const RESEARCHER: &str = "researcher";

/// Agent ids of the cast.
pub const CAST: [&str; 4] = [LEAD, WORKER, REVIEWER, RESEARCHER];

/// Maximum duration of a round. A round takes seconds; a longer one is abandoned.
const PATIENCE: Duration = Duration::from_secs(120);

/// Speed of the cast, and number of rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Duration of one step of work.
    pub step: Duration,
    /// Pause between two rounds.
    pub rest: Duration,
    /// Number of rounds. The limit keeps a forgotten demo from filling the disk.
    pub rounds: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { step: Duration::from_millis(500), rest: Duration::from_secs(30), rounds: 20 }
    }
}

/// The cast could not be added to the directory.
#[derive(Debug, thiserror::Error)]
pub enum EnlistError {
    /// The configuration lists an agent with this name.
    #[error(
        "--demo brings an agent called `{0}`, and the configuration lists one: it would answer in the other's name. Start the demo on a folder of its own, such as --state-dir ./demo"
    )]
    Taken(AgentId),
    /// The name is not a valid agent id.
    #[error(transparent)]
    Name(#[from] BadAgentId),
}

/// Adds the cast to the configured agents, so that a closed directory admits it.
///
/// # Errors
/// When one of the names is taken. `agents` is unchanged then.
pub fn enlist(agents: &mut Vec<(AgentId, Profile)>) -> Result<(), EnlistError> {
    let cast = CAST.iter().map(|name| Ok((name.parse()?, profile(name))));
    let cast: Vec<(AgentId, Profile)> = cast.collect::<Result<_, BadAgentId>>()?;
    let is_listed = |name: &AgentId| agents.iter().any(|(agent, _)| agent == name);
    if let Some((name, _)) = cast.iter().find(|(name, _)| is_listed(name)) {
        return Err(EnlistError::Taken(name.clone()));
    }
    agents.extend(cast);
    Ok(())
}

fn profile(name: &str) -> Profile {
    let (role, tier, capabilities): (_, _, &[&str]) = match name {
        LEAD => ("Lead of the demo", "T1-Lead", &["planning"]),
        REVIEWER => ("Reviewer of the demo", "T2-Reviewer", &["review"]),
        RESEARCHER => ("Researcher of the demo", "T3-Staff", &["research"]),
        _ => ("Worker of the demo", "T3-Staff", &["implementation"]),
    };
    Profile {
        role: Some(role.to_owned()),
        squad: Some("demo".to_owned()),
        tier: Some(tier.to_owned()),
        c_suite: false,
        capabilities: capabilities.iter().map(|&word| word.to_owned()).collect(),
    }
}

/// Reason why a round ended early.
#[derive(Debug, thiserror::Error)]
enum RoundError {
    #[error(transparent)]
    Send(#[from] SendError),
    #[error(transparent)]
    Task(#[from] TaskError),
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("the objective is {status}")]
    Objective { status: ObjectiveStatus },
}

/// The cast, attached to a bus.
pub struct Demo {
    lead: Agent,
    others: [Agent; 3],
    tasks: TaskSystem,
    caller: TaskCaller,
    pace: Pace,
}

impl Demo {
    /// Attaches the cast. Rounds start with [`Demo::run`].
    ///
    /// With tokens (`secured`) the lead owns the objectives. Without tokens they belong to the
    /// anonymous caller, so that every caller can read them.
    ///
    /// # Errors
    /// When the bus refuses one of the agents.
    pub async fn attach(
        bus: &Bus,
        tasks: TaskSystem,
        secured: bool,
        pace: Pace,
    ) -> Result<Self, AttachError> {
        let others = [
            bus.attach_concurrent(REVIEWER, WINDOW, reviewer::handlers(pace)).await?,
            bus.attach_concurrent(RESEARCHER, WINDOW, researcher::handlers(pace)).await?,
            bus.attach_concurrent(WORKER, WINDOW, worker::handlers(pace)).await?,
        ];
        let lead = bus.attach_concurrent(LEAD, WINDOW, lead::handlers(pace)).await?;
        let bad_name = |source| AttachError::BadName { name: UNNAMED_CLIENT.to_owned(), source };
        let caller = if secured {
            TaskCaller {
                owner: format!("agent:{LEAD}").into(),
                principal: lead.id().clone(),
                is_client: false,
                sees_all: false,
                trace: None,
                version: None,
            }
        } else {
            TaskCaller {
                owner: "anonymous".into(),
                principal: UNNAMED_CLIENT.parse().map_err(bad_name)?,
                is_client: true,
                sees_all: false,
                trace: None,
                version: None,
            }
        };
        Ok(Self { lead, others, tasks, caller, pace })
    }

    /// Runs all rounds, the first one immediately.
    pub async fn run(&self) {
        for round in 1..=self.pace.rounds {
            if round > 1 {
                tokio::time::sleep(self.pace.rest).await;
            }
            match tokio::time::timeout(PATIENCE, self.play(round)).await {
                Ok(Ok(())) => tracing::debug!(round, "the demo has played a round"),
                Ok(Err(error)) => tracing::info!(round, "a round of the demo ended early: {error}"),
                Err(_) => tracing::info!(round, "a round of the demo was not finished"),
            }
        }
        if let Err(error) = lead::rest(&self.lead, self.pace.rounds).await {
            tracing::debug!(%error, "nobody was told that the demo is over");
        }
        let rounds = self.pace.rounds;
        tracing::info!("the demo stops after {rounds} rounds; start the server again for more");
    }

    /// Detaches the cast and returns its messages in flight to the mailboxes.
    pub fn leave(&self) {
        for agent in self.others.iter().chain([&self.lead]) {
            agent.clone().release();
        }
    }

    /// Runs one round: a task and an objective, concurrently.
    async fn play(&self, round: u32) -> Result<(), RoundError> {
        let Self { lead, tasks, caller, .. } = self;
        let goal = Client { tasks, caller, agent: lead.id() };
        let (work, goal) = tokio::join!(lead::play(lead, round), goal.play(round));
        work.and(goal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cast_is_listed_without_replacing_agents() {
        let mut agents = vec![("tim".parse().unwrap(), Profile::default())];
        enlist(&mut agents).unwrap();
        assert_eq!(agents.len(), 5);
        for (agent, profile) in &agents {
            assert!(profile.clone().check().is_ok(), "{agent}");
        }
        let error = enlist(&mut agents).unwrap_err().to_string();
        assert!(error.contains("`lead`") && error.contains("--state-dir"), "{error}");
        assert_eq!(agents.len(), 5);
    }
}
