-- Version 1: a thread id, a (thread, namespace, checkpoint id), a (thread, commit id) and a (thread, message id) exist once each.

-- What every commit changes comes first and is small; `text` and `data` describe the thread. Times are µs since 1970, UTC.
CREATE TABLE threads (
    thread_no INTEGER PRIMARY KEY,
    thread_id TEXT NOT NULL UNIQUE,
    user_id TEXT,
    log_no INTEGER NOT NULL,
    incarnation TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    next_value INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    next_message INTEGER NOT NULL,
    message_count INTEGER NOT NULL,
    indexed_messages INTEGER NOT NULL,
    checkpoint_count INTEGER NOT NULL,
    size INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    run_id TEXT,
    forked_thread TEXT,
    forked_checkpoint TEXT,
    folded_id BLOB, -- for searching; NULL if it is the id itself
    text BLOB NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE INDEX threads_by_user ON threads (user_id, updated_at);
CREATE INDEX threads_by_time ON threads (updated_at);

-- A log holds the values numbered from `parent_end` on; those under it are its parent's. `thread_no` is NULL once the
-- thread is gone and only forks need the log.
CREATE TABLE logs (
    log_no INTEGER PRIMARY KEY,
    thread_no INTEGER,
    parent_log_no INTEGER,
    parent_end INTEGER NOT NULL
) STRICT;
CREATE INDEX logs_by_parent ON logs (parent_log_no) WHERE parent_log_no IS NOT NULL;

-- Rows are appended in the order of arrival, and found through the places below.
CREATE TABLE value_rows (
    row_no INTEGER PRIMARY KEY,
    log_no INTEGER NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    digests BLOB NOT NULL,
    data BLOB NOT NULL
) STRICT;

CREATE TABLE checkpoints (
    checkpoint_no INTEGER PRIMARY KEY,
    thread_no INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    checkpoint_id TEXT NOT NULL,
    commit_id TEXT, -- NULL if it is the checkpoint's own id
    parent_id TEXT,
    created_at INTEGER NOT NULL,
    node_name TEXT,
    step INTEGER,
    run_id TEXT,
    size INTEGER NOT NULL,
    covers BLOB NOT NULL,
    metadata BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
-- Ids come first where they are looked up whole: they are nearly sorted by time, so that inserts of many threads meet on one page.
CREATE UNIQUE INDEX checkpoints_by_id ON checkpoints (checkpoint_id, thread_no, namespace);
CREATE UNIQUE INDEX checkpoints_by_commit ON checkpoints (commit_id, thread_no) WHERE commit_id IS NOT NULL;
-- The main namespace is found through the places below; the others have two entries: by namespace, and all by sequence.
CREATE INDEX checkpoints_other ON checkpoints (thread_no, sequence) WHERE namespace <> '';
CREATE INDEX checkpoints_by_namespace ON checkpoints (thread_no, namespace, sequence) WHERE namespace <> '';

-- Where a thread's values and its checkpoints of the main namespace are. An index ordered by thread has to touch a page
-- for each thread of a group commit, which takes more time than all else together. So the newest entries are in a small
-- table of a few pages, and move on to the large one many at a time (`Applier._settle`). Each is in one of the two.
CREATE TABLE recent_value_places (
    log_no INTEGER NOT NULL, first INTEGER NOT NULL, row_no INTEGER NOT NULL, PRIMARY KEY (log_no, first)
) STRICT, WITHOUT ROWID;
CREATE TABLE value_places (
    log_no INTEGER NOT NULL, first INTEGER NOT NULL, row_no INTEGER NOT NULL, PRIMARY KEY (log_no, first)
) STRICT, WITHOUT ROWID;
CREATE TABLE recent_checkpoint_places (
    thread_no INTEGER NOT NULL, sequence INTEGER NOT NULL, checkpoint_no INTEGER NOT NULL, PRIMARY KEY (thread_no, sequence)
) STRICT, WITHOUT ROWID;
CREATE TABLE checkpoint_places (
    thread_no INTEGER NOT NULL, sequence INTEGER NOT NULL, checkpoint_no INTEGER NOT NULL, PRIMARY KEY (thread_no, sequence)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER value_row_added AFTER INSERT ON value_rows BEGIN
    INSERT INTO recent_value_places VALUES (new.log_no, new.first, new.row_no);
END;
CREATE TRIGGER value_row_dropped AFTER DELETE ON value_rows BEGIN
    DELETE FROM recent_value_places WHERE log_no = old.log_no AND first = old.first;
    DELETE FROM value_places WHERE log_no = old.log_no AND first = old.first;
END;
CREATE TRIGGER checkpoint_added AFTER INSERT ON checkpoints WHEN new.namespace = '' BEGIN
    INSERT INTO recent_checkpoint_places VALUES (new.thread_no, new.sequence, new.checkpoint_no);
END;
CREATE TRIGGER checkpoint_dropped AFTER DELETE ON checkpoints WHEN old.namespace = '' BEGIN
    DELETE FROM recent_checkpoint_places WHERE thread_no = old.thread_no AND sequence = old.sequence;
    DELETE FROM checkpoint_places WHERE thread_no = old.thread_no AND sequence = old.sequence;
END;

CREATE TABLE attachments (
    thread_no INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    checkpoint_id TEXT NOT NULL,
    key TEXT NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX attachments_by_key ON attachments (thread_no, namespace, checkpoint_id, key);

-- `message_no` is thread_no << 32 | position: a thread's messages lie together, in their order. `sequence` is the thread's
-- when the message was added. `text` is folded UTF-8; a BLOB, because NUL characters end a TEXT in some functions.
CREATE TABLE messages (
    message_no INTEGER PRIMARY KEY,
    thread_no INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    tool_calls INTEGER NOT NULL,
    run_id TEXT,
    created_at INTEGER NOT NULL,
    text BLOB NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX messages_by_id ON messages (thread_no, message_id);

-- Commits whose id no checkpoint carries: those without one (pruned), and those whose checkpoint is gone (lasting).
CREATE TABLE receipts (
    thread_no INTEGER NOT NULL,
    commit_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    lasting INTEGER NOT NULL,
    PRIMARY KEY (thread_no, commit_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE leases (
    thread_id TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    token INTEGER NOT NULL,
    since INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE last_token (
    token INTEGER NOT NULL
) STRICT;
INSERT INTO last_token VALUES (0);
