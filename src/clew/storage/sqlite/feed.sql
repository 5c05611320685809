-- The feed: its tables, which the first watcher creates, and all statements about it.

-- `feed_state` has one row while somebody watches; writers then add to the feed. `until` is when it ends
-- unless a watcher is seen, in µs since 1970. The last entry is never removed while the row is there, so
-- numbers only grow. `parts` is msgpack.
-- name: create_state
CREATE TABLE IF NOT EXISTS feed_state (
    generation TEXT NOT NULL,
    until INTEGER NOT NULL
) STRICT

-- name: create_feed
CREATE TABLE IF NOT EXISTS feed (
    number INTEGER PRIMARY KEY,
    thread_id TEXT NOT NULL,
    owner TEXT,
    incarnation TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    parts BLOB NOT NULL
) STRICT

-- name: exists
SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'feed_state'

-- name: until
SELECT until FROM feed_state

-- name: state
SELECT generation, until FROM feed_state

-- name: begin
INSERT INTO feed_state (generation, until) VALUES (?, ?)

-- name: renew
UPDATE feed_state SET until = ?

-- name: end
DELETE FROM feed_state

-- name: empty
DELETE FROM feed

-- name: add
INSERT INTO feed (thread_id, owner, incarnation, sequence, parts) VALUES (?, ?, ?, ?, ?)

-- name: bounds
SELECT (SELECT min(number) FROM feed), (SELECT max(number) FROM feed)

-- name: last
SELECT max(number) FROM feed

-- name: trim
DELETE FROM feed WHERE number <= ?

-- name: page
SELECT number, thread_id, owner, incarnation, sequence, parts FROM feed
WHERE number > ? AND number <= ? ORDER BY number LIMIT ?
