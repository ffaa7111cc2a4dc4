//! Session registry: limits the sessions, finds one that waits for its agent to reconnect, and
//! notifies all of them when the server stops.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use a2a_protocol::AgentId;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

use super::remote::RemoteAgent;

/// Deadline for the connection that has a session to hand it over.
const HANDING_OVER: Duration = Duration::from_secs(5);

/// Limits and deadlines of sessions.
#[derive(Debug, Clone, Copy)]
pub struct SessionSettings {
    /// Sessions of one agent.
    pub per_agent: usize,
    /// Sessions in all.
    pub total: usize,
    /// How long a connection may be silent, pongs included, before it is lost.
    pub silent: Duration,
    /// How long a peer may stall before its connection is lost.
    pub stalled: Duration,
    /// Longest grace: how long a session is kept after its connection was lost.
    pub longest_grace: Duration,
    /// Lease of a message.
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

/// Request to hand a session over to a new connection.
pub(super) type HandOver = oneshot::Sender<RemoteAgent>;

struct SessionEntry {
    agent: AgentId,
    /// Number of the entry, which distinguishes two with the same session id.
    number: u64,
    requests: mpsc::Sender<HandOver>,
}

#[derive(Default)]
struct SessionTable {
    entries: HashMap<Uuid, SessionEntry>,
    /// Connections, those in their grace time included.
    by_agent: HashMap<AgentId, usize>,
    total: usize,
    last: u64,
}

/// The sessions of all connected agents.
pub struct SessionRegistry {
    settings: SessionSettings,
    table: Mutex<SessionTable>,
    stop: watch::Sender<bool>,
}

/// No further session is admitted.
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
    /// An empty registry.
    #[must_use]
    pub fn new(settings: SessionSettings) -> Self {
        Self { settings, table: Mutex::default(), stop: watch::channel(false).0 }
    }

    /// How many sessions there are, those in their grace time included.
    #[must_use]
    pub fn open(&self) -> usize {
        self.table().total
    }

    /// Ends every session: messages in flight are returned to their inboxes.
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
        self.table.lock()
    }

    /// Admits one connection of the agent.
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
        // One is enough: a second request finds the session gone.
        let (sender, requests) = mpsc::channel(1);
        let (id, agent) = (Uuid::now_v7(), agent.clone());
        table.entries.insert(id, SessionEntry { agent: agent.clone(), number, requests: sender });
        drop(table);
        Ok(SessionPermit { registry: Arc::clone(self), agent, id, number, requests })
    }
}

/// Entry of one connection, removed on drop.
pub(super) struct SessionPermit {
    registry: Arc<SessionRegistry>,
    agent: AgentId,
    id: Uuid,
    number: u64,
    /// Requests of new connections for the session.
    pub(super) requests: mpsc::Receiver<HandOver>,
}

impl SessionPermit {
    /// The session id.
    pub(super) fn id(&self) -> Uuid {
        self.id
    }

    /// Resumes the session `id` of the same agent, from a lost or a live connection; this entry has
    /// that id from then on. `None` when there is none.
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
