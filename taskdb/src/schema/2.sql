-- Stores objectives. Schema 1 never wrote these tables, so they are recreated instead of altered.
DROP TABLE plan_tasks;
DROP TABLE plans;
DROP TABLE objectives;

-- An objective's id is the context_id of its tasks.
CREATE TABLE objectives (
  id          TEXT PRIMARY KEY NOT NULL,
  name        TEXT NOT NULL,
  description TEXT,
  status      TEXT NOT NULL,
  metadata    TEXT,                   -- JSON object
  created_at  TEXT NOT NULL,
  updated_at  TEXT NOT NULL,          -- of it or anything below it
  owner       TEXT NOT NULL,          -- the caller, such as client:acme
  principal   TEXT NOT NULL,          -- under which name its tasks travel on the bus
  agent       TEXT NOT NULL,          -- whom the call that made it went to
  revision    INTEGER NOT NULL
) STRICT;

CREATE INDEX idx_objectives_created ON objectives(created_at DESC, id DESC);
CREATE INDEX idx_objectives_owner   ON objectives(owner, created_at DESC, id DESC);
CREATE INDEX idx_objectives_status  ON objectives(owner, status, created_at DESC, id DESC);
CREATE INDEX idx_objectives_open    ON objectives(created_at, id)
  WHERE status IN ('submitted','planning','working','blocked');
CREATE INDEX idx_objectives_ended   ON objectives(updated_at, id)
  WHERE status IN ('completed','failed','canceled');

CREATE TABLE plans (
  id           TEXT PRIMARY KEY NOT NULL,
  objective_id TEXT NOT NULL REFERENCES objectives(id) ON DELETE CASCADE,
  name         TEXT NOT NULL,
  description  TEXT,
  status       TEXT NOT NULL,
  dependencies TEXT,                  -- JSON array of plan ids
  metadata     TEXT,                  -- JSON object
  created_at   TEXT NOT NULL,
  updated_at   TEXT NOT NULL,
  plan_order   INTEGER NOT NULL,      -- of creation, within the objective
  held         INTEGER NOT NULL,      -- 1: a person wants it to wait
  UNIQUE (objective_id, plan_order)
) STRICT;

-- A plan task outlives its A2A task, so it has a status of its own.
CREATE TABLE plan_tasks (
  id           TEXT PRIMARY KEY NOT NULL,
  plan_id      TEXT NOT NULL REFERENCES plans(id) ON DELETE CASCADE,
  objective_id TEXT NOT NULL REFERENCES objectives(id) ON DELETE CASCADE,
  name         TEXT NOT NULL,
  description  TEXT,
  task_index   INTEGER NOT NULL,
  dependencies TEXT,                  -- JSON array of ids of plan tasks
  a2a_task_id  TEXT REFERENCES tasks(id) ON DELETE SET NULL,
  metadata     TEXT,                  -- JSON object
  status       TEXT NOT NULL DEFAULT 'pending',
  UNIQUE (plan_id, task_index)
) STRICT;

CREATE INDEX idx_plan_tasks_objective   ON plan_tasks(objective_id, task_index);
CREATE UNIQUE INDEX idx_plan_tasks_task ON plan_tasks(a2a_task_id) WHERE a2a_task_id IS NOT NULL;
