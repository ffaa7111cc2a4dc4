-- Content hash of a caller's message: the same id with other content is a conflict, not a repeat.
-- NULL for messages of older versions.
ALTER TABLE sent_messages ADD COLUMN fingerprint INTEGER;
