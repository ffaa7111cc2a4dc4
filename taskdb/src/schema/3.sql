-- Messages appended to the history of an open task, one row each, so that the task is not rewritten
-- for every message. A reader appends them to the column; when the task ends, they move into it.
CREATE TABLE task_messages (
  task_id TEXT NOT NULL REFERENCES tasks(id) ON DELETE CASCADE,
  number  INTEGER NOT NULL,           -- its place in the history
  message TEXT NOT NULL,              -- JSON object
  PRIMARY KEY (task_id, number)
) STRICT;

-- The A2A version of the request, where it is passed on to the agent: 0.3. It moves here from the
-- metadata, where callers saw it.
ALTER TABLE tasks ADD COLUMN spoken_version TEXT;

UPDATE tasks SET
  spoken_version = json_extract(metadata, '$."urn:openclaw:a2a:version:v1"'),
  metadata = nullif(json_remove(metadata, '$."urn:openclaw:a2a:version:v1"'), '{}')
WHERE json_type(metadata, '$."urn:openclaw:a2a:version:v1"') = 'text';

-- The trace context of the request: traceparent and, after a space, tracestate.
ALTER TABLE tasks ADD COLUMN trace TEXT;
