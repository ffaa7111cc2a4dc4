//! Who has a session: how many there may be, where a session that lost its connection waits for
//! the next one, and the word to all of them that the server stops.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2a_protocol::AgentId;
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

use super::remote::RemoteAgent;

/// How long the connection that has a session may take to give it up.
const HANDING_OVER: Duration = Duration::from_secs(5);

/// What can be set about sessions of other processes.
#[derive(Debug, Clone, Copy)]
pub struct SessionSettings {
    /// Sessions of one agent.
    pub per_agent: usize,
    /// Sessions of all agents.
    pub total: usize,
    /// How long a connection may be silent, answers to pings included, before it is lost.
    pub silent: Duration,
    /// How long a connection may take nothing before it is lost.
    pub stalled: Duration,
    /// How long a session may be kept for an agent whose connection was lost.
    pub longest_grace: Duration,
    /// How long a message may be in an agent's hands.
    pub lease: Duration,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            per_agent: 16,
            total: 1_024,
            silent: Duration::from_secs(30),
            stalled: Duration::from_secs(30),
            longest_grace: Duration::from_secs(60),
            lease: a2a_actors::BusSettings::default().handler_deadline,
        }
    }
}

/// Asks whoever has a session to hand it to a new connection.
pub(super) type HandOver = oneshot::Sender<RemoteAgent>;

struct SessionEntry {
    agent: AgentId,
    /// Tells the entry of a session from the one it had under the same name before.
    number: u64,
    requests: mpsc::Sender<HandOver>,
}

#[derive(Default)]
struct SessionTable {
    entries: HashMap<Uuid, SessionEntry>,
    /// Connections, those whose session waits for a new one included.
    by_agent: HashMap<AgentId, usize>,
    total: usize,
    last: u64,
}

/// The sessions of all other processes.
pub struct SessionRegistry {
    settings: SessionSettings,
    table: Mutex<SessionTable>,
    stop: watch::Sender<bool>,
}

/// There is no place for another session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SessionRefused {
    #[error("the agent has {0} sessions, which is the limit; close one of them")]
    OfTheAgent(usize),
    #[error("the server has {0} sessions, which is the limit; try again when one has ended")]
    AtAll(usize),
    #[error("the server is stopping")]
    Stopping,
}

impl SessionRegistry {
    /// Nobody is here yet.
    #[must_use]
    pub fn new(settings: SessionSettings) -> Self {
        Self { settings, table: Mutex::default(), stop: watch::channel(false).0 }
    }

    /// How many sessions there are, those that wait for their agent to come back included.
    #[must_use]
    pub fn open(&self) -> usize {
        self.table().total
    }

    /// Ends every session: what agents have in their hands is given back.
    pub fn close(&self) {
        self.stop.send_replace(true);
    }

    pub(super) fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    pub(super) fn stops(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    fn table(&self) -> MutexGuard<'_, SessionTable> {
        // Nothing that happens under the lock can leave the table half changed.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for one connection of the agent.
    pub(super) fn enter(
        self: &Arc<Self>,
        agent: &AgentId,
    ) -> Result<SessionPermit, SessionRefused> {
        if *self.stop.borrow() {
            return Err(SessionRefused::Stopping);
        }
        let mut table = self.table();
        if table.total >= self.settings.total {
            return Err(SessionRefused::AtAll(self.settings.total));
        }
        let own = table.by_agent.entry(agent.clone()).or_default();
        if *own >= self.settings.per_agent {
            return Err(SessionRefused::OfTheAgent(self.settings.per_agent));
        }
        *own += 1;
        table.total += 1;
        table.last += 1;
        let number = table.last;
        // One is enough: a second that asks finds the session gone.
        let (sender, requests) = mpsc::channel(1);
        let (id, agent) = (Uuid::now_v7(), agent.clone());
        table.entries.insert(id, SessionEntry { agent: agent.clone(), number, requests: sender });
        drop(table);
        Ok(SessionPermit { registry: Arc::clone(self), agent, id, number, requests })
    }
}

/// One connection's place; free again when it is dropped.
pub(super) struct SessionPermit {
    registry: Arc<SessionRegistry>,
    agent: AgentId,
    id: Uuid,
    number: u64,
    /// New connections that want the session.
    pub(super) requests: mpsc::Receiver<HandOver>,
}

impl SessionPermit {
    /// The name of the session.
    pub(super) fn id(&self) -> Uuid {
        self.id
    }

    /// Takes over the session `id` of the same agent, from a lost connection or a living one;
    /// this place has its name from then on. `None` when there is none.
    pub(super) async fn resume(&mut self, id: Uuid) -> Option<RemoteAgent> {
        if id == self.id {
            return None;
        }
        let requests = {
            let table = self.registry.table();
            let entry = table.entries.get(&id).filter(|entry| entry.agent == self.agent)?;
            entry.requests.clone()
        };
        let (reply, remote) = oneshot::channel();
        requests.try_send(reply).ok()?;
        let remote = tokio::time::timeout(HANDING_OVER, remote).await.ok()?.ok()?;
        let mut table = self.registry.table();
        if let Some(entry) = table.entries.remove(&self.id) {
            table.entries.insert(id, entry);
        }
        self.id = id;
        Some(remote)
    }
}

impl Drop for SessionPermit {
    fn drop(&mut self) {
        let mut table = self.registry.table();
        table.total = table.total.saturating_sub(1);
        if let Some(own) = table.by_agent.get_mut(&self.agent) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                table.by_agent.remove(&self.agent);
            }
        }
        if table.entries.get(&self.id).is_some_and(|entry| entry.number == self.number) {
            table.entries.remove(&self.id);
        }
    }
}
