-- Version 2: a journal whose positions grow within a thread, and for each thread the last commit of its chain.

-- A chain ends with the thread's next commit that says nothing of it: it holds as long as `chained_at` is the thread's
-- `sequence`. So usual commits need not touch it, nor do those of a Clew that knows nothing of it.
ALTER TABLE @schema.threads ADD COLUMN chain text COLLATE "C", ADD COLUMN chained_at bigint;

CREATE SEQUENCE @schema.journal_positions;
CREATE TABLE @schema.journal (
    thread_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    commit_id text COLLATE "C" NOT NULL,
    after text COLLATE "C",
    incarnation text COLLATE "C",
    at bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (thread_id, position)
) WITH (autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE @schema.journal ALTER data SET STORAGE EXTERNAL;
CREATE INDEX journal_by_position ON @schema.journal (position);
