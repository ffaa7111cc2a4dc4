-- What a caller's message said, as a hash: the same id with other content is a conflict and not a
-- repeat. NULL for messages that an earlier program took.
ALTER TABLE sent_messages ADD COLUMN fingerprint INTEGER;
