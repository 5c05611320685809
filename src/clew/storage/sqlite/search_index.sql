-- The index for searches across threads. The first search of a large store creates it: until then,
-- saves pay nothing for it.

-- Segments of messages, in the order in which they were written (`storage/search_filter.py`). `checksum`
-- is that of the other columns.
-- name: segments
CREATE TABLE IF NOT EXISTS search_segments (
    segment_no INTEGER PRIMARY KEY,
    chunks INTEGER NOT NULL,
    oldest INTEGER NOT NULL,
    newest INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT

-- `place` is segment_no << 8 | the part's number.
-- name: cells
CREATE TABLE IF NOT EXISTS search_cells (place INTEGER PRIMARY KEY, cells BLOB NOT NULL) STRICT

-- The numbers of a chunk's messages.
-- name: chunks
CREATE TABLE IF NOT EXISTS search_chunks (chunk_no INTEGER PRIMARY KEY, members BLOB NOT NULL) STRICT

-- Messages that are new or changed since, in that order. A message may be here more than once.
-- name: waiting
CREATE TABLE IF NOT EXISTS search_waiting (serial INTEGER PRIMARY KEY, message_no INTEGER NOT NULL) STRICT

-- name: added
CREATE TRIGGER IF NOT EXISTS search_added AFTER INSERT ON messages BEGIN
    INSERT INTO search_waiting (message_no) VALUES (new.message_no);
END

-- name: replaced
CREATE TRIGGER IF NOT EXISTS search_replaced AFTER UPDATE OF text, created_at ON messages BEGIN
    INSERT INTO search_waiting (message_no) VALUES (new.message_no);
END
