-- What was said about a task after it was written, as long as it is open: a row each, so that one
-- that is talked about a lot is not written anew with every word. Whoever reads a history puts
-- these behind the column; when the task ends the column gets all of it.
CREATE TABLE task_messages (
  task_id TEXT NOT NULL REFERENCES tasks(id) ON DELETE CASCADE,
  number  INTEGER NOT NULL,           -- its place in the history
  message TEXT NOT NULL,              -- JSON object
  PRIMARY KEY (task_id, number)
) STRICT;
