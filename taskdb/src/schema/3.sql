-- What was said about a task after it was written, as long as it is open: a row each, so that one
-- that is talked about a lot is not written anew with every word. Whoever reads a history puts
-- these behind the column; when the task ends the column gets all of it.
CREATE TABLE task_messages (
  task_id TEXT NOT NULL REFERENCES tasks(id) ON DELETE CASCADE,
  number  INTEGER NOT NULL,           -- its place in the history
  message TEXT NOT NULL,              -- JSON object
  PRIMARY KEY (task_id, number)
) STRICT;

-- The version of A2A in which a task was asked for, where its agent hears of it: 0.3. It used to
-- stand in the metadata, where callers saw it.
ALTER TABLE tasks ADD COLUMN spoken_version TEXT;

UPDATE tasks SET
  spoken_version = json_extract(metadata, '$."urn:openclaw:a2a:version:v1"'),
  metadata = nullif(json_remove(metadata, '$."urn:openclaw:a2a:version:v1"'), '{}')
WHERE json_type(metadata, '$."urn:openclaw:a2a:version:v1"') = 'text';

-- Tasks keep the trace that their caller gave, as traceparent and, behind a space, tracestate.
ALTER TABLE tasks ADD COLUMN trace TEXT;
