-- Version 1. Unique: thread ids, (thread, namespace, checkpoint id), (thread, commit id) and (thread, message id).

-- The columns that every commit changes come first and are small; `text` and `data` describe the thread.
-- Times are µs since 1970, UTC.
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
    folded_id BLOB, -- for searching; NULL if it equals the id
    text BLOB NOT NULL,
    data BLOB NOT NULL,
    -- The last commit of the thread's chain. The chain holds while `chained_at` equals `sequence`, so
    -- commits outside the chain end it without touching these columns.
    chain TEXT,
    chained_at INTEGER,
    points BLOB -- branch points (storage/branches.py), packed; NULL if the thread never branched
) STRICT;
CREATE INDEX threads_by_user ON threads (user_id, updated_at);
CREATE INDEX threads_by_time ON threads (updated_at);

-- Threads whose entry in the thread index (`thread_index.py`) is missing, outdated or to be removed.
CREATE TABLE threads_to_index (
    thread_no INTEGER PRIMARY KEY
) STRICT;
CREATE TRIGGER thread_added AFTER INSERT ON threads BEGIN
    INSERT OR IGNORE INTO threads_to_index VALUES (new.thread_no);
END;
CREATE TRIGGER thread_described AFTER UPDATE OF text ON threads WHEN new.text <> old.text BEGIN
    INSERT OR IGNORE INTO threads_to_index VALUES (new.thread_no);
END;
CREATE TRIGGER thread_dropped AFTER DELETE ON threads BEGIN
    INSERT OR IGNORE INTO threads_to_index VALUES (old.thread_no);
END;

-- The text that the index has for each thread: FTS5 needs it to remove the entry.
CREATE TABLE indexed_threads (
    thread_no INTEGER PRIMARY KEY,
    text BLOB NOT NULL
) STRICT;

-- Digests of a thread's tags and metadata, in hexadecimal, to filter by.
CREATE TABLE thread_labels (
    thread_no INTEGER NOT NULL,
    label TEXT NOT NULL,
    PRIMARY KEY (thread_no, label)
) STRICT, WITHOUT ROWID;
CREATE INDEX thread_labels_by_label ON thread_labels (label);

-- A log holds the values numbered from `parent_end` on; lower numbers are in its parent. `thread_no` is
-- NULL once the thread is deleted and only forks need the log.
CREATE TABLE logs (
    log_no INTEGER PRIMARY KEY,
    thread_no INTEGER,
    parent_log_no INTEGER,
    parent_end INTEGER NOT NULL
) STRICT;
CREATE INDEX logs_by_parent ON logs (parent_log_no) WHERE parent_log_no IS NOT NULL;

CREATE TABLE value_rows (
    row_no INTEGER PRIMARY KEY,
    log_no INTEGER NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    digests BLOB NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX value_rows_by_log ON value_rows (log_no, first);

CREATE TABLE checkpoints (
    checkpoint_no INTEGER PRIMARY KEY,
    thread_no INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    checkpoint_id TEXT NOT NULL,
    commit_id TEXT, -- NULL if it equals the checkpoint's id
    parent_id TEXT,
    saved_at INTEGER NOT NULL,
    created_at INTEGER, -- NULL if it was never replaced: then it is `saved_at`
    node_name TEXT,
    step INTEGER,
    run_id TEXT,
    size INTEGER NOT NULL,
    covers BLOB NOT NULL,
    metadata BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
-- Ids come first where they are looked up whole: they are nearly sorted by time, so that inserts of many
-- threads share a page.
CREATE UNIQUE INDEX checkpoints_by_id ON checkpoints (checkpoint_id, thread_no, namespace);
CREATE UNIQUE INDEX checkpoints_by_commit ON checkpoints (commit_id, thread_no) WHERE commit_id IS NOT NULL;
-- Checkpoints of the main namespace have one entry by sequence; others have two: by sequence, and by namespace.
CREATE UNIQUE INDEX checkpoints_main ON checkpoints (thread_no, sequence) WHERE namespace = '';
CREATE INDEX checkpoints_other ON checkpoints (thread_no, sequence) WHERE namespace <> '';
CREATE INDEX checkpoints_by_namespace ON checkpoints (thread_no, namespace, sequence) WHERE namespace <> '';

CREATE TABLE attachments (
    thread_no INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    checkpoint_id TEXT NOT NULL,
    key TEXT NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX attachments_by_key ON attachments (thread_no, namespace, checkpoint_id, key);

-- `message_no` is thread_no << 32 | position: a thread's messages are stored together, in order.
-- `sequence` is the thread's when the message was added. `text` is folded UTF-8, and a BLOB because some
-- functions end a TEXT at a NUL character.
CREATE TABLE messages (
    message_no INTEGER PRIMARY KEY,
    thread_no INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    tool_calls INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    run_id TEXT,
    created_at INTEGER NOT NULL,
    text BLOB NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX messages_by_id ON messages (thread_no, message_id);

-- Receipts that no checkpoint carries (`receipts.py`). `place` orders them: the commit's sequence << 10, plus
-- the position among the receipts that came with that commit (the commit's own is the last, 1023).
CREATE TABLE receipts (
    thread_no INTEGER NOT NULL,
    commit_id TEXT NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (thread_no, commit_id)
) STRICT, WITHOUT ROWID;

-- `space` is an owner's: '-' for nobody, or '+' and the name. An existing thread's leases are in its owner's
-- space; before the thread exists, in that of each user who would create it.
CREATE TABLE leases (
    thread_id TEXT NOT NULL,
    space TEXT NOT NULL,
    holder TEXT NOT NULL,
    token INTEGER NOT NULL,
    since INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (thread_id, space)
) STRICT, WITHOUT ROWID;

CREATE TABLE last_token (
    token INTEGER NOT NULL
) STRICT;
INSERT INTO last_token VALUES (0);

-- Commits for another store. AUTOINCREMENT: positions only grow.
CREATE TABLE journal (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    thread_id TEXT NOT NULL,
    commit_id TEXT NOT NULL,
    after TEXT,
    incarnation TEXT,
    at INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE INDEX journal_by_thread ON journal (thread_id, position);

-- The end of the chain of each deleted thread: the last commit of the chain that left no thread. `at` is in
-- seconds since 1970.
CREATE TABLE ended_threads (
    thread_id TEXT PRIMARY KEY,
    chain TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX ended_threads_by_time ON ended_threads (at);

-- Records that Clew keeps for itself; they are not threads.
CREATE TABLE own (
    name TEXT PRIMARY KEY,
    data BLOB NOT NULL
) STRICT, WITHOUT ROWID;
