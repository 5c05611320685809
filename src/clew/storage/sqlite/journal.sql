-- Version 2: a journal whose positions only grow, and for each thread the last commit of its chain.

-- A chain ends with the thread's next commit that says nothing of it: it holds as long as `chained_at` is the thread's
-- `sequence`. So other commits need not touch it, nor do those of a Clew that knows nothing of it.
ALTER TABLE threads ADD COLUMN chain TEXT;
ALTER TABLE threads ADD COLUMN chained_at INTEGER;

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
