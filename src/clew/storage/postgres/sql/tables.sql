-- Tables, version 1: thread ids, and a thread's checkpoint, commit and message ids, are unique.

-- Every key but that of `own` begins with the thread, so that Citus can distribute the tables by
-- it. Texts compare by bytes, because collations change with the system's libraries and would
-- reorder an index. Times are microseconds since 1970, UTC.

CREATE TABLE @schema.clew_schema (version integer NOT NULL);
INSERT INTO @schema.clew_schema VALUES (1);

-- Lease tokens, thread ordinals and journal positions never go back, not even after a deletion.
CREATE SEQUENCE @schema.thread_ordinals;
CREATE SEQUENCE @schema.lease_tokens;
CREATE SEQUENCE @schema.journal_positions;

-- Every commit updates its thread's row, and must not touch an index (a HOT update): `active` is
-- `updated_at` in steps of 134 s, and the fill factor leaves room in the page for the new row
-- version. `head` is the newest checkpoint of the main namespace. `chain` is the last commit of the
-- thread's chain, valid while `chained_at` equals `sequence`: a commit outside the chain ends it
-- without touching either column.
CREATE TABLE @schema.threads (
    thread_id text COLLATE "C" PRIMARY KEY,
    user_id @user_type,
    incarnation text COLLATE "C" NOT NULL,
    ordinal bigint NOT NULL,
    epoch bigint NOT NULL,
    next_value bigint NOT NULL,
    sequence bigint NOT NULL,
    next_message bigint NOT NULL,
    message_count bigint NOT NULL,
    checkpoint_count bigint NOT NULL,
    size bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    active integer NOT NULL,
    head text COLLATE "C",
    head_before text COLLATE "C", -- before the last commit, whose UPDATE returns it
    run_id text COLLATE "C",
    forked_thread text COLLATE "C",
    forked_checkpoint text COLLATE "C",
    folded_id text COLLATE "C", -- for searches; NULL if equal to the id
    text text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    chain text COLLATE "C",
    chained_at bigint,
    points bigint[], -- branch points, flattened (storage/branches.py); NULL if the thread never branched
    labels text[] COLLATE "C" NOT NULL DEFAULT '{}' -- digests of tags and metadata, in hexadecimal, to filter by
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX threads_by_user ON @schema.threads (user_id, active);
CREATE INDEX threads_by_label ON @schema.threads USING gin (labels) WITH (gin_pending_list_limit = 256);
-- An expression, so that the planner never uses this index for the threads of one user.
CREATE INDEX threads_by_time ON @schema.threads ((active::bigint));

-- `data` is already compressed, and digests don't compress.
CREATE TABLE @schema.value_rows (
    thread_id text COLLATE "C" NOT NULL,
    first bigint NOT NULL,
    count integer NOT NULL,
    digests bytea NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (thread_id, first)
) WITH (autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE @schema.value_rows ALTER digests SET STORAGE EXTERNAL, ALTER data SET STORAGE EXTERNAL;

-- `receipt`: the commit with the checkpoint's own id was applied (`receipts` has those of other
-- commits). `covers` is the first number and the end of each range, flattened. `created_at` is NULL if
-- the checkpoint was never replaced: then it is `saved_at`.
CREATE TABLE @schema.checkpoints (
    thread_id text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    saved_at bigint NOT NULL,
    step bigint,
    size bigint NOT NULL,
    receipt boolean NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    checkpoint_id text COLLATE "C" NOT NULL,
    parent_id text COLLATE "C",
    node_name text COLLATE "C",
    run_id text COLLATE "C",
    covers bigint[] NOT NULL,
    metadata bytea NOT NULL,
    body bytea NOT NULL,
    created_at bigint,
    PRIMARY KEY (thread_id, namespace, sequence)
);
ALTER TABLE @schema.checkpoints ALTER body SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX checkpoints_by_id ON @schema.checkpoints (thread_id, checkpoint_id, namespace);

CREATE TABLE @schema.attachments (
    thread_id text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    checkpoint_id text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (thread_id, namespace, checkpoint_id, key)
);

-- `sequence` is the thread's when the message was added. `text` is folded and escaped; `size`
-- counts the original text.
CREATE TABLE @schema.messages (
    thread_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    sequence bigint NOT NULL,
    created_at bigint NOT NULL,
    size bigint NOT NULL,
    tool_calls integer NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C",
    text text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    input_tokens bigint NOT NULL DEFAULT 0,
    output_tokens bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (thread_id, position)
);
CREATE UNIQUE INDEX messages_by_id ON @schema.messages (thread_id, message_id);

-- Ids of recent commits that no checkpoint carries: the commit had no checkpoint, or its checkpoint
-- has another id or was removed. `sequence` is the thread's after the commit.
CREATE TABLE @schema.receipts (
    thread_id text COLLATE "C" NOT NULL,
    commit_id text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    PRIMARY KEY (thread_id, commit_id)
);

-- `space` separates the leases of different owners: '-' without an owner, else '+' and the owner. A
-- thread's leases are in its owner's space; while the thread does not exist, each user who might
-- create it has a space.
CREATE TABLE @schema.leases (
    thread_id text COLLATE "C" NOT NULL,
    space text COLLATE "C" NOT NULL,
    holder text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    since bigint NOT NULL,
    expires_at bigint NOT NULL,
    PRIMARY KEY (thread_id, space)
) WITH (fillfactor = 70);

-- Commits that another store has not applied yet. Positions grow within a thread.
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

-- The end of the chain of each deleted thread: the last commit of the chain that left no thread.
CREATE TABLE @schema.ended_threads (
    thread_id text COLLATE "C" PRIMARY KEY,
    chain text COLLATE "C" NOT NULL,
    at timestamptz NOT NULL
);
CREATE INDEX ended_threads_by_time ON @schema.ended_threads (at);

-- Clew's own records, apart from the threads.
CREATE TABLE @schema.own (
    name text COLLATE "C" PRIMARY KEY,
    data bytea NOT NULL
);

-- Thread search: the index finds a superset of the threads whose text or id contains the needle,
-- and the query checks each. It needs no extension. The words are the four characters from each
-- position on, fewer at the end, so every needle is a set of words or a word's prefix. The owner is
-- a word too, so that a user's search reads only that user's threads. Texts that may not fit a
-- tsvector get one word that every search looks for. The index stores what these functions return,
-- so they must never change.
CREATE FUNCTION @schema.thread_words(of_id text, of_text text, of_user text) RETURNS tsvector
LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 10000 AS $clew$
    SELECT CASE WHEN length(of_id) + length(of_text) > 10000 THEN array_to_tsvector(ARRAY['very long'])
    ELSE array_to_tsvector(
        ARRAY(SELECT substr(of_id, n, 4) FROM generate_series(1, length(of_id)) AS n)
        || ARRAY(SELECT substr(of_text, n, 4) FROM generate_series(1, length(of_text)) AS n)
        || ('owner ' || left(coalesce(of_user, ''), 100)))
    END
$clew$;

-- A long needle needs only some of its words. The last one is always among them, because names and
-- ids mostly share their beginnings.
CREATE FUNCTION @schema.thread_sought(needle text, of_all boolean, of_user text) RETURNS tsquery
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $clew$
    SELECT (format('''very long'' | (%s%s)',
        string_agg('''' || replace(replace(substr(needle, n, 4), E'\\', E'\\\\'), '''', '''''') || '''', ' & ')
            || CASE WHEN length(needle) < 4 THEN ':*' ELSE '' END,
        CASE WHEN of_all THEN '' ELSE
            ' & ''owner ' || replace(replace(left(coalesce(of_user, ''), 100), E'\\', E'\\\\'), '''', '''''') || ''''
        END))::tsquery
    FROM generate_series(greatest(length(needle) - 3, 1), 1, -greatest((length(needle) + 2) / 6, 1)) AS n
$clew$;

-- The pending list is short because every search reads it. Statistics about the words help nobody
-- and take long.
CREATE INDEX threads_by_words ON @schema.threads
USING gin (@schema.thread_words(coalesce(folded_id, thread_id), text, user_id::text)) WITH (gin_pending_list_limit = 256);
ALTER INDEX @schema.threads_by_words ALTER COLUMN 1 SET STATISTICS 0;
