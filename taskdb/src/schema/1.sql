-- One row per A2A task. Timestamps are RFC 3339 in UTC with milliseconds, states have the names of
-- A2A 0.3, JSON is A2A 1.0. The large columns come last, so that SQLite can skip them.
CREATE TABLE tasks (
  id               TEXT PRIMARY KEY NOT NULL,
  context_id       TEXT NOT NULL,
  status_state     TEXT NOT NULL,
  status_message   TEXT,              -- JSON object
  status_timestamp TEXT NOT NULL,
  created_at       TEXT NOT NULL,
  updated_at       TEXT NOT NULL,
  owner            TEXT NOT NULL,     -- the caller, such as client:acme
  principal        TEXT NOT NULL,     -- under which name it travels on the bus
  agent            TEXT NOT NULL,     -- who does it
  correlation_id   TEXT NOT NULL,     -- of its messages on the bus
  version          INTEGER NOT NULL,
  last_event       INTEGER NOT NULL,
  queue_order      INTEGER,           -- waiting: the smallest of (agent, context_id) is next
  queued_at        TEXT,
  dispatched       INTEGER NOT NULL,  -- 1: its task_request was handed to the bus
  worked_ms        INTEGER NOT NULL,  -- finished stretches
  working_since    TEXT,
  heard            TEXT,              -- JSON array: messages of the bus that are in it, the last
  plan_id          TEXT REFERENCES plans(id) ON DELETE SET NULL,
  plan_order       INTEGER,
  metadata         TEXT,              -- JSON object
  artifacts        TEXT,              -- JSON array
  history          TEXT,              -- JSON array
  CHECK ((queue_order IS NULL) = (queued_at IS NULL))
) STRICT;

CREATE INDEX idx_tasks_context ON tasks(context_id, created_at);
CREATE INDEX idx_tasks_status  ON tasks(status_state);
CREATE INDEX idx_tasks_updated ON tasks(updated_at DESC);
CREATE INDEX idx_tasks_owner   ON tasks(owner, status_timestamp DESC, id DESC);
CREATE INDEX idx_tasks_queue   ON tasks(agent, context_id, queue_order, id)
  WHERE queue_order IS NOT NULL;
CREATE INDEX idx_tasks_ended   ON tasks(status_timestamp, id)
  WHERE status_state IN ('completed','failed','canceled','rejected');
CREATE INDEX idx_tasks_plan    ON tasks(plan_id, plan_order) WHERE plan_id IS NOT NULL;

-- Events of a task, for its subscribers.
CREATE TABLE task_events (
  task_id TEXT NOT NULL REFERENCES tasks(id) ON DELETE CASCADE,
  number  INTEGER NOT NULL,
  at      TEXT NOT NULL,
  event   TEXT NOT NULL,              -- JSON object
  PRIMARY KEY (task_id, number)
) STRICT;

-- Message ids of callers, for dedup. Each belongs to a task or has an answer without one.
CREATE TABLE sent_messages (
  owner      TEXT NOT NULL,
  agent      TEXT NOT NULL,
  message_id TEXT NOT NULL,
  task_id    TEXT REFERENCES tasks(id) ON DELETE CASCADE,
  answer     TEXT,                    -- JSON object
  at         TEXT NOT NULL,
  PRIMARY KEY (owner, agent, message_id),
  CHECK ((task_id IS NULL) != (answer IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_sent_messages_task ON sent_messages(task_id) WHERE task_id IS NOT NULL;
CREATE INDEX idx_sent_messages_answered ON sent_messages(at) WHERE answer IS NOT NULL;

-- Push configurations of a task. `config` may contain secrets.
CREATE TABLE push_configs (
  position INTEGER PRIMARY KEY,       -- the order in which they were made
  task_id  TEXT NOT NULL REFERENCES tasks(id) ON DELETE CASCADE,
  id       TEXT NOT NULL,
  config   TEXT NOT NULL,             -- JSON object
  UNIQUE (task_id, id)
) STRICT;

-- Outbox of webhook deliveries. Only the oldest entry of a configuration has a `next_at`, so the
-- backlog of a webhook that does not answer costs no search.
CREATE TABLE push_outbox (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  task_id   TEXT NOT NULL,
  config_id TEXT NOT NULL,
  number    INTEGER NOT NULL,         -- of the event
  at        TEXT NOT NULL,
  attempts  INTEGER NOT NULL,
  next_at   TEXT,
  FOREIGN KEY (task_id, config_id) REFERENCES push_configs(task_id, id) ON DELETE CASCADE
) STRICT;

CREATE INDEX idx_push_outbox_config ON push_outbox(task_id, config_id, id);
CREATE INDEX idx_push_outbox_due    ON push_outbox(next_at, id) WHERE next_at IS NOT NULL;

-- Objectives of the OPT extension. An objective's id is the context_id of its tasks.
CREATE TABLE objectives (
  id          TEXT PRIMARY KEY NOT NULL,
  name        TEXT NOT NULL,
  description TEXT,
  status      TEXT NOT NULL,
  metadata    TEXT,                   -- JSON object
  created_at  TEXT NOT NULL,
  updated_at  TEXT NOT NULL,
  owner       TEXT NOT NULL,
  revision    INTEGER NOT NULL
) STRICT;

CREATE INDEX idx_objectives_owner ON objectives(owner, created_at DESC, id DESC);

CREATE TABLE plans (
  id           TEXT PRIMARY KEY NOT NULL,
  objective_id TEXT NOT NULL REFERENCES objectives(id),
  name         TEXT NOT NULL,
  description  TEXT,
  status       TEXT NOT NULL,
  dependencies TEXT,                  -- JSON array of plan ids
  metadata     TEXT,                  -- JSON object
  created_at   TEXT NOT NULL,
  updated_at   TEXT NOT NULL,
  plan_order   INTEGER NOT NULL,      -- of creation, within the objective
  UNIQUE (objective_id, plan_order)
) STRICT;

CREATE TABLE plan_tasks (
  id           TEXT PRIMARY KEY NOT NULL,
  plan_id      TEXT NOT NULL REFERENCES plans(id),
  objective_id TEXT NOT NULL REFERENCES objectives(id),
  name         TEXT NOT NULL,
  description  TEXT,
  task_index   INTEGER NOT NULL,
  dependencies TEXT,                  -- JSON array of ids of plan tasks
  a2a_task_id  TEXT REFERENCES tasks(id) ON DELETE SET NULL,
  metadata     TEXT                   -- JSON object
) STRICT;

CREATE INDEX idx_plan_tasks_plan      ON plan_tasks(plan_id, task_index);
CREATE INDEX idx_plan_tasks_objective ON plan_tasks(objective_id);
CREATE INDEX idx_plan_tasks_task      ON plan_tasks(a2a_task_id) WHERE a2a_task_id IS NOT NULL;
