-- All statements of the writer's transaction. Each finds its rows through an index.

-- name: thread
SELECT thread_no, user_id, log_no, incarnation, epoch, next_value, sequence, next_message, message_count,
       indexed_messages, checkpoint_count, size, updated_at, chain, chained_at, points,
       (SELECT count(*) FROM receipts WHERE receipts.thread_no = threads.thread_no)
FROM threads WHERE thread_id = ?

-- name: add_thread
INSERT INTO threads (thread_no, thread_id, user_id, log_no, incarnation, epoch, next_value, sequence, next_message,
                     message_count, indexed_messages, checkpoint_count, size, created_at, updated_at, run_id,
                     forked_thread, forked_checkpoint, folded_id, text, data)
VALUES (NULL, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0, 0, ?, ?, NULL, NULL, NULL, ?, x'', x'')

-- name: change_threads
UPDATE threads SET user_id = column1, log_no = column2, epoch = column3, next_value = column4, sequence = column5,
                   next_message = column6, message_count = column7, indexed_messages = column8, checkpoint_count = column9,
                   size = column10, updated_at = column11
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) WHERE thread_no = column12

-- name: put_points
UPDATE threads SET points = ? WHERE thread_no = ?

-- name: message_sequence
SELECT sequence FROM messages WHERE thread_no = ? AND message_id = ?

-- name: describe_thread
UPDATE threads SET text = ?, data = ?, run_id = ? WHERE thread_no = ?

-- name: describe_fork
UPDATE threads SET (text, data, run_id) = (SELECT text, data, run_id FROM threads WHERE thread_no = ?),
                   forked_thread = ?, forked_checkpoint = ?
WHERE thread_no = ?

-- name: add_label
INSERT INTO thread_labels (thread_no, label) VALUES (?, ?)

-- name: fork_labels
INSERT INTO thread_labels (thread_no, label) SELECT ?, label FROM thread_labels WHERE thread_no = ?

-- name: drop_labels
DELETE FROM thread_labels WHERE thread_no = ?

-- name: drop_thread
DELETE FROM threads WHERE thread_no = ?

-- name: add_log
INSERT INTO logs (thread_no, parent_log_no, parent_end) VALUES (?, ?, ?)

-- name: give_log
UPDATE logs SET thread_no = ? WHERE log_no = ?

-- Without an index: only for a thread whose row has lost the number.
-- name: log_of
SELECT log_no FROM logs WHERE thread_no = ?

-- name: log
SELECT thread_no, parent_log_no, parent_end FROM logs WHERE log_no = ?

-- name: shared_before
SELECT parent_end, (SELECT max(child.parent_end) FROM logs AS child WHERE child.parent_log_no = logs.log_no)
FROM logs WHERE log_no = ?

-- name: children_end
SELECT max(parent_end) FROM logs WHERE parent_log_no = ?

-- name: drop_log
DELETE FROM logs WHERE log_no = ?

-- name: add_values
INSERT INTO value_rows (log_no, first, count, digests, data) VALUES (?, ?, ?, ?, ?)

-- name: values_between
SELECT first, count, length(digests) + length(data) FROM value_rows
WHERE log_no = ?1 AND first < ?3
  AND first >= coalesce((SELECT max(first) FROM value_rows WHERE log_no = ?1 AND first <= ?2), ?2)
ORDER BY first

-- name: values_size
SELECT coalesce(sum(length(digests) + length(data)), 0) FROM value_rows WHERE log_no = ?1

-- name: drop_value_row
DELETE FROM value_rows WHERE log_no = ?1 AND first = ?2

-- name: drop_values_from
DELETE FROM value_rows WHERE log_no = ?1 AND first >= ?2

-- name: main_head
SELECT checkpoint_id, sequence FROM checkpoints
WHERE thread_no = ?1 AND namespace = '' ORDER BY sequence DESC

-- name: other_head
SELECT checkpoint_id, sequence FROM checkpoints
WHERE thread_no = ? AND namespace = ? AND namespace <> '' ORDER BY sequence DESC

-- name: checkpoint
SELECT checkpoint_no, sequence, parent_id, saved_at, created_at, coalesce(commit_id, checkpoint_id),
       length(metadata) + length(body)
FROM checkpoints WHERE checkpoint_id = ? AND thread_no = ? AND namespace = ?

-- name: add_checkpoint
INSERT INTO checkpoints (checkpoint_no, thread_no, sequence, namespace, checkpoint_id, commit_id, parent_id, saved_at,
                         node_name, step, run_id, size, covers, metadata, body)
VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: set_created
UPDATE checkpoints SET created_at = ? WHERE checkpoint_no = ?

-- name: replace_checkpoint
UPDATE checkpoints SET created_at = ?, commit_id = ?, saved_at = ?, node_name = ?, step = ?, run_id = ?, size = ?,
                       covers = ?, metadata = ?, body = ?
WHERE checkpoint_no = ?

-- name: fork_checkpoint
INSERT INTO checkpoints (checkpoint_no, thread_no, sequence, namespace, checkpoint_id, commit_id, parent_id, saved_at,
                         created_at, node_name, step, run_id, size, covers, metadata, body)
SELECT NULL, ?, ?, namespace, ?, ?, NULL, saved_at, created_at, node_name, step, run_id, size, covers, metadata, body
FROM checkpoints WHERE checkpoint_no = ?

-- name: drop_checkpoint
DELETE FROM checkpoints WHERE checkpoint_no = ?

-- name: state_size
SELECT count(*), coalesce(sum(length(metadata) + length(body)), 0) FROM (
    SELECT metadata, body FROM checkpoints WHERE thread_no = ?1 AND namespace = ''
    UNION ALL SELECT metadata, body FROM checkpoints WHERE thread_no = ?1 AND namespace <> '')

-- name: keep_receipts
INSERT OR IGNORE INTO receipts (thread_no, commit_id, place)
SELECT thread_no, coalesce(commit_id, checkpoint_id), sequence << 10 | 1023 FROM checkpoints
WHERE thread_no = ?1 AND namespace = '' AND sequence > ?2
UNION ALL
SELECT thread_no, coalesce(commit_id, checkpoint_id), sequence << 10 | 1023 FROM checkpoints
WHERE thread_no = ?1 AND namespace <> '' AND sequence > ?2

-- name: drop_main_checkpoints
DELETE FROM checkpoints WHERE thread_no = ? AND namespace = ''

-- name: drop_other_checkpoints
DELETE FROM checkpoints WHERE thread_no = ? AND namespace <> ''

-- name: committed
SELECT 1 FROM checkpoints WHERE checkpoint_id = ?1 AND thread_no = ?2 AND commit_id IS NULL
UNION ALL SELECT 1 FROM checkpoints WHERE commit_id = ?1 AND thread_no = ?2
UNION ALL SELECT 1 FROM receipts WHERE thread_no = ?2 AND commit_id = ?1

-- name: receipt
SELECT 1 FROM receipts WHERE thread_no = ? AND commit_id = ?

-- name: add_receipt
INSERT OR IGNORE INTO receipts (thread_no, commit_id, place) VALUES (?, ?, ?)

-- name: prune_receipts
DELETE FROM receipts WHERE thread_no = ?1 AND commit_id IN (
    SELECT commit_id FROM receipts WHERE thread_no = ?1 ORDER BY place DESC LIMIT -1 OFFSET ?2)

-- name: drop_receipts
DELETE FROM receipts WHERE thread_no = ?

-- name: attachment_size
SELECT length(data) FROM attachments WHERE thread_no = ? AND namespace = ? AND checkpoint_id = ? AND key = ?

-- name: put_attachment
INSERT INTO attachments (thread_no, namespace, checkpoint_id, key, data) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (thread_no, namespace, checkpoint_id, key) DO UPDATE SET data = excluded.data

-- name: attachments_size
SELECT coalesce(sum(length(data)), 0) FROM attachments WHERE thread_no = ? AND namespace = ? AND checkpoint_id = ?

-- name: fork_attachments
INSERT INTO attachments (thread_no, namespace, checkpoint_id, key, data)
SELECT ?, namespace, ?, key, data FROM attachments WHERE thread_no = ? AND namespace = ? AND checkpoint_id = ?

-- name: drop_attachments
DELETE FROM attachments WHERE thread_no = ? AND namespace = ? AND checkpoint_id = ?

-- name: all_attachments_size
SELECT coalesce(sum(length(data)), 0) FROM attachments WHERE thread_no = ?

-- name: drop_all_attachments
DELETE FROM attachments WHERE thread_no = ?

-- name: message
SELECT message_no, text, length(data) FROM messages WHERE thread_no = ? AND message_id = ?

-- name: add_message
INSERT INTO messages (message_no, thread_no, sequence, message_id, tool_calls, input_tokens, output_tokens, run_id,
                      created_at, text, data)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: replace_message
UPDATE messages SET tool_calls = ?, input_tokens = ?, output_tokens = ?, run_id = ?, created_at = ?, text = ?, data = ?
WHERE message_no = ?

-- name: fork_messages
INSERT INTO messages (message_no, thread_no, sequence, message_id, tool_calls, input_tokens, output_tokens, run_id,
                      created_at, text, data)
SELECT ?1 << 32 | (message_no & 0xFFFFFFFF), ?1, ?2, message_id, tool_calls, input_tokens, output_tokens, run_id,
       created_at, text, data
FROM messages WHERE message_no BETWEEN ?3 << 32 AND ?3 << 32 | 0xFFFFFFFF AND EXISTS (
    SELECT 1 FROM json_each(?4) AS part WHERE sequence BETWEEN json_extract(part.value, '$[0]') AND json_extract(part.value, '$[1]'))
ORDER BY message_no

-- name: messages_size
SELECT count(*), coalesce(sum(length(text) + length(data)), 0) FROM messages
WHERE message_no BETWEEN ?1 << 32 AND ?1 << 32 | 0xFFFFFFFF

-- name: drop_message
DELETE FROM messages WHERE message_no = ?

-- name: drop_messages
DELETE FROM messages WHERE message_no BETWEEN ?1 << 32 AND ?1 << 32 | 0xFFFFFFFF

-- name: message_texts
SELECT message_no, text FROM messages WHERE message_no BETWEEN ? AND ? ORDER BY message_no LIMIT ?

-- name: all_messages_wait
INSERT INTO search_waiting (message_no) SELECT message_no FROM messages ORDER BY created_at

-- name: next_messages
SELECT serial, messages.message_no, created_at, text
FROM search_waiting LEFT JOIN messages USING (message_no) ORDER BY serial LIMIT ?

-- name: messages_indexed
DELETE FROM search_waiting WHERE serial <= ?

-- name: last_segment
SELECT segment_no, chunks, oldest, newest, checksum FROM search_segments ORDER BY segment_no DESC LIMIT 1

-- name: put_segment
INSERT OR REPLACE INTO search_segments (segment_no, chunks, oldest, newest, checksum) VALUES (?, ?, ?, ?, ?)

-- name: put_cells
INSERT OR REPLACE INTO search_cells (place, cells) VALUES (?, ?)

-- name: add_chunk
INSERT OR REPLACE INTO search_chunks (chunk_no, members) VALUES (?, ?)

-- name: threads_waiting
SELECT count(*) FROM (SELECT 1 FROM threads_to_index LIMIT ?)

-- name: threads_to_index
SELECT waiting.thread_no, indexed_threads.text, coalesce(folded_id, CAST(thread_id AS BLOB)), threads.text
FROM threads_to_index AS waiting LEFT JOIN indexed_threads USING (thread_no) LEFT JOIN threads USING (thread_no)
ORDER BY waiting.thread_no LIMIT ?

-- name: no_longer_waiting
DELETE FROM threads_to_index WHERE thread_no <= ?

-- name: remember_indexed
INSERT INTO indexed_threads VALUES (?, ?)

-- name: forget_indexed
DELETE FROM indexed_threads WHERE thread_no = ?

-- name: chain
UPDATE threads SET chain = ?, chained_at = ? WHERE thread_no = ?

-- name: end_of_missing
SELECT chain FROM ended_threads WHERE thread_id = ?

-- name: end_chain
INSERT INTO ended_threads (thread_id, chain, at) VALUES (?, ?, unixepoch())
ON CONFLICT (thread_id) DO UPDATE SET chain = excluded.chain, at = excluded.at

-- Removes two for each new one, so that their number stays in proportion to the rate of deletions.
-- name: forget_ends
DELETE FROM ended_threads WHERE thread_id IN (
    SELECT thread_id FROM ended_threads WHERE at < unixepoch() - ? ORDER BY at LIMIT 2)

-- name: add_entry
INSERT INTO journal (thread_id, commit_id, after, incarnation, at, data) VALUES (?, ?, ?, ?, ?, ?)

-- name: drop_entries
DELETE FROM journal WHERE position IN (SELECT value FROM json_each(?))

-- name: lease
SELECT holder, token, since, expires_at FROM leases WHERE thread_id = ? AND space = ?

-- name: next_token
UPDATE last_token SET token = token + 1 WHERE token >= ? AND token < ? RETURNING token

-- name: greatest_token
SELECT max(token) FROM leases WHERE token BETWEEN 0 AND ?

-- name: drop_token
DELETE FROM last_token

-- name: put_token
INSERT INTO last_token (token) VALUES (?)

-- name: put_lease
INSERT INTO leases (thread_id, space, holder, token, since, expires_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (thread_id, space) DO UPDATE
SET holder = excluded.holder, token = excluded.token, since = excluded.since, expires_at = excluded.expires_at

-- name: drop_lease
DELETE FROM leases WHERE thread_id = ? AND space = ?

-- name: drop_leases
DELETE FROM leases WHERE thread_id = ?

-- name: put_own
INSERT INTO own (name, data) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET data = excluded.data
