-- All queries. Each finds its rows through an index, in the order of its result.

-- name: thread
SELECT thread_no, log_no, incarnation, epoch, next_value, indexed_messages, sequence, points FROM threads
WHERE thread_id = ?1 AND (?2 OR user_id IS NULL OR user_id = ?3)

-- name: main_checkpoints
SELECT {columns} FROM checkpoints AS place INDEXED BY checkpoints_main
WHERE place.thread_no = :thread AND namespace = '' AND place.sequence < :before AND (:run IS NULL OR run_id = :run)
ORDER BY 1 DESC LIMIT :limit

-- name: other_checkpoints
SELECT {columns} FROM checkpoints AS place INDEXED BY checkpoints_by_namespace
WHERE place.thread_no = :thread AND namespace = :namespace AND namespace <> '' AND place.sequence < :before
  AND (:run IS NULL OR run_id = :run)
ORDER BY place.sequence DESC LIMIT :limit

-- name: all_checkpoints
SELECT {columns} FROM checkpoints AS place INDEXED BY checkpoints_main
WHERE place.thread_no = :thread AND namespace = '' AND place.sequence < :before AND (:run IS NULL OR run_id = :run)
UNION ALL
SELECT {columns} FROM checkpoints AS place INDEXED BY checkpoints_other
WHERE place.thread_no = :thread AND place.namespace <> '' AND place.sequence < :before AND (:run IS NULL OR run_id = :run)
ORDER BY 1 DESC LIMIT :limit

-- name: one_checkpoint
SELECT {columns} FROM checkpoints AS place
WHERE checkpoint_id = :id AND place.thread_no = :thread AND (:namespace IS NULL OR namespace = :namespace)
  AND place.sequence < :before AND (:run IS NULL OR run_id = :run)
ORDER BY place.sequence DESC LIMIT :limit

-- name: sequence
SELECT max(sequence) FROM checkpoints
WHERE checkpoint_id = :id AND thread_no = :thread AND (:namespace IS NULL OR namespace = :namespace)

-- name: log
SELECT parent_log_no, parent_end FROM logs WHERE log_no = ?

-- name: value_rows
SELECT first, count, digests, data FROM value_rows
WHERE log_no = ?1 AND first < ?3
  AND first >= coalesce((SELECT max(first) FROM value_rows WHERE log_no = ?1 AND first <= ?2), ?2)
ORDER BY first

-- name: value_digests
SELECT first, count, digests, x'' FROM value_rows
WHERE log_no = ?1 AND first < ?3
  AND first >= coalesce((SELECT max(first) FROM value_rows WHERE log_no = ?1 AND first <= ?2), ?2)
ORDER BY first

-- name: attachments_of_one
SELECT namespace, checkpoint_id, key, data FROM attachments
WHERE thread_no = ? AND namespace = ? AND checkpoint_id = ? ORDER BY namespace, checkpoint_id, key

-- name: attachments_of_all
SELECT namespace, checkpoint_id, key, data FROM attachments
WHERE thread_no = ? ORDER BY namespace, checkpoint_id, key

-- name: message_no
SELECT message_no FROM messages WHERE thread_no = ? AND message_id = ?

-- name: one_message
SELECT message_id, text, tool_calls, run_id, created_at, data, sequence, input_tokens, output_tokens FROM messages
WHERE thread_no = ? AND message_id = ? AND message_no BETWEEN ? AND ?

-- name: messages
SELECT message_id, text, tool_calls, run_id, created_at, data, sequence, input_tokens, output_tokens FROM messages
WHERE message_no BETWEEN ?1 AND ?2 ORDER BY message_no LIMIT ?3 OFFSET ?4

-- name: messages_of_branch
SELECT message_id, text, tool_calls, run_id, created_at, data, sequence, input_tokens, output_tokens FROM messages
WHERE message_no BETWEEN ?1 AND ?2 AND EXISTS (
    SELECT 1 FROM json_each(?5) AS part WHERE sequence BETWEEN json_extract(part.value, '$[0]') AND json_extract(part.value, '$[1]'))
ORDER BY message_no LIMIT ?3 OFFSET ?4

-- name: newest_messages_of_branch
SELECT message_id, text, tool_calls, run_id, created_at, data, sequence, input_tokens, output_tokens FROM messages
WHERE message_no BETWEEN ?1 AND ?2 AND EXISTS (
    SELECT 1 FROM json_each(?5) AS part WHERE sequence BETWEEN json_extract(part.value, '$[0]') AND json_extract(part.value, '$[1]'))
ORDER BY message_no DESC LIMIT ?3 OFFSET ?4

-- name: newest_messages
SELECT message_id, text, tool_calls, run_id, created_at, data, sequence, input_tokens, output_tokens FROM messages
WHERE message_no BETWEEN ? AND ? ORDER BY message_no DESC LIMIT ? OFFSET ?

-- name: scanned_messages
SELECT message_id, text, tool_calls, run_id, created_at, data, sequence, input_tokens, output_tokens FROM messages
WHERE message_no BETWEEN ? AND ? AND instr(text, ?) > 0 ORDER BY message_no

-- name: indexed_messages
SELECT message_id, messages.text, tool_calls, run_id, created_at, data, sequence, input_tokens, output_tokens, message_no
FROM message_index CROSS JOIN messages ON messages.message_no = message_index.rowid
WHERE message_index MATCH ? AND message_index.rowid BETWEEN ? AND ? AND instr(messages.text, ?) > 0
ORDER BY message_index.rowid

-- name: one_thread
SELECT {columns} FROM threads LEFT JOIN checkpoints AS head ON head.checkpoint_no = {head}
WHERE thread_id = :id AND (:any OR user_id IS NULL OR user_id = :user)
  AND (:search IS NULL OR instr(threads.text, :search) > 0
    OR instr(coalesce(folded_id, CAST(thread_id AS BLOB)), :search) > 0)
  AND {earlier} AND {labelled}
LIMIT :limit OFFSET :offset

-- name: threads_of_user
SELECT {columns} FROM threads INDEXED BY threads_by_user LEFT JOIN checkpoints AS head ON head.checkpoint_no = {head}
WHERE user_id IS :user AND updated_at >= :floor AND {earlier} AND {labelled} AND (:search IS NULL OR instr(threads.text, :search) > 0
    OR instr(coalesce(folded_id, CAST(thread_id AS BLOB)), :search) > 0)
ORDER BY updated_at DESC, threads.thread_no DESC LIMIT :limit OFFSET :offset

-- name: threads_of_all
SELECT {columns} FROM threads INDEXED BY threads_by_time LEFT JOIN checkpoints AS head ON head.checkpoint_no = {head}
WHERE updated_at >= :floor AND {earlier} AND {labelled} AND (:search IS NULL OR instr(threads.text, :search) > 0
    OR instr(coalesce(folded_id, CAST(thread_id AS BLOB)), :search) > 0)
ORDER BY updated_at DESC, threads.thread_no DESC LIMIT :limit OFFSET :offset

-- name: floor_threads_of_user
SELECT updated_at FROM threads INDEXED BY threads_by_user
WHERE user_id IS :user AND updated_at <= :before_at ORDER BY updated_at DESC LIMIT 1 OFFSET :reach

-- name: floor_threads_of_all
SELECT updated_at FROM threads INDEXED BY threads_by_time
WHERE updated_at <= :before_at ORDER BY updated_at DESC LIMIT 1 OFFSET :reach

-- name: waiting
SELECT thread_no FROM threads_to_index LIMIT :limit

-- name: with_gram
SELECT doc FROM thread_grams WHERE term = :gram LIMIT :limit

-- name: with_grams_from
SELECT doc FROM thread_grams WHERE term >= :gram AND term < :gram || 'g' LIMIT :limit

-- name: labelled
SELECT thread_no FROM thread_labels INDEXED BY thread_labels_by_label WHERE label = :label LIMIT :limit

-- name: thread_no
SELECT thread_no FROM threads WHERE thread_id = ?

-- name: matching
SELECT updated_at, threads.thread_no FROM json_each(:numbers) CROSS JOIN threads ON threads.thread_no = json_each.value
WHERE (:any OR user_id IS :user) AND {earlier} AND {labelled} AND (:search IS NULL OR instr(text, :search) > 0
    OR instr(coalesce(folded_id, CAST(thread_id AS BLOB)), :search) > 0)

-- name: numbered_threads
SELECT {columns}, threads.thread_no
FROM json_each(:numbers) CROSS JOIN threads ON threads.thread_no = json_each.value
LEFT JOIN checkpoints AS head ON head.checkpoint_no = {head}

-- name: totals_by_thread
SELECT thread_id, message_count, checkpoint_count, size,
       (SELECT json_array(CAST(total(tool_calls) AS INTEGER), CAST(total(input_tokens) AS INTEGER),
                          CAST(total(output_tokens) AS INTEGER))
        FROM messages WHERE message_no BETWEEN threads.thread_no << 32 AND threads.thread_no << 32 | 0xFFFFFFFF)
FROM threads WHERE :any OR user_id IS :user ORDER BY updated_at DESC, thread_no DESC

-- name: messages_by_day
SELECT (created_at - (created_at % 86400000000 + 86400000000) % 86400000000) / 86400000000 AS day,
       count(*), CAST(total(tool_calls) AS INTEGER), sum(length(text) + length(data)),
       CAST(total(input_tokens) AS INTEGER), CAST(total(output_tokens) AS INTEGER)
FROM messages WHERE :any OR thread_no IN (SELECT thread_no FROM threads WHERE user_id IS :user) GROUP BY day

-- name: checkpoints_by_day
SELECT (saved_at - (saved_at % 86400000000 + 86400000000) % 86400000000) / 86400000000 AS day,
       count(*), sum(length(metadata) + length(body))
FROM checkpoints WHERE :any OR thread_no IN (SELECT thread_no FROM threads WHERE user_id IS :user) GROUP BY day

-- name: journal
SELECT position, thread_id, commit_id, after, incarnation, at, data FROM journal
WHERE hex(thread_id) NOT IN (SELECT value FROM json_each(:without))
ORDER BY position LIMIT :limit

-- name: journal_of_thread
SELECT position, thread_id, commit_id, after, incarnation, at, data FROM journal
WHERE thread_id = :thread AND hex(thread_id) NOT IN (SELECT value FROM json_each(:without))
ORDER BY position LIMIT :limit

-- name: journal_count
SELECT count(*) FROM journal

-- name: own
SELECT data FROM own WHERE name = ?

-- name: receipts
SELECT commit_id, place FROM receipts JOIN threads USING (thread_no) WHERE thread_id = :thread
UNION
SELECT commit_id, checkpoints.sequence << 10 | 1023 FROM threads JOIN checkpoints USING (thread_no)
WHERE thread_id = :thread AND namespace = '' AND commit_id IS NOT NULL AND checkpoints.sequence > threads.sequence - :kept
UNION
SELECT commit_id, checkpoints.sequence << 10 | 1023 FROM threads JOIN checkpoints USING (thread_no)
WHERE thread_id = :thread AND namespace <> '' AND commit_id IS NOT NULL AND checkpoints.sequence > threads.sequence - :kept
ORDER BY 2 DESC LIMIT :limit
