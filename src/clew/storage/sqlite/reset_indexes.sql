-- Drop both substring indexes. The commits that follow rebuild them, a bounded amount at a time.

-- name: drop_view
DROP TABLE IF EXISTS thread_grams

-- name: drop_threads
DROP TABLE IF EXISTS thread_index

-- name: drop_messages
DROP TABLE IF EXISTS message_index

-- name: forget_messages
UPDATE threads SET indexed_messages = 0 WHERE indexed_messages > 0

-- name: forget_threads
DELETE FROM indexed_threads

-- name: all_wait
INSERT OR IGNORE INTO threads_to_index SELECT thread_no FROM threads
