-- Tasks keep the trace that their caller gave, as traceparent and, behind a space, tracestate.
ALTER TABLE tasks ADD COLUMN trace TEXT;
