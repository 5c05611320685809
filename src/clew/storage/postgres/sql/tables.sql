-- Version 1: a thread id, a (thread, namespace, checkpoint id), a (thread, commit id) and a (thread, message id) exist once each.

-- Every key begins with the thread, so all of this can be distributed by it. Texts compare by bytes: collations change with
-- the system's libraries, and would reorder what is stored. Times are µs since 1970, UTC.

-- Tokens and ordinals only grow, also over deletions.
CREATE SEQUENCE @schema.thread_ordinals;
CREATE SEQUENCE @schema.lease_tokens;

-- Every commit updates its thread's row, and no index has to follow: `active` is `updated_at` in steps of 134 s, and the
-- room that is left in the pages takes the new version. `head` is the newest checkpoint of the main namespace.
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
    head_before text COLLATE "C", -- before the last commit changed it, which is how that learns of it
    run_id text COLLATE "C",
    forked_thread text COLLATE "C",
    forked_checkpoint text COLLATE "C",
    folded_id text COLLATE "C", -- for searching; NULL if it is the id itself
    text text COLLATE "C" NOT NULL,
    data bytea NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX threads_by_user ON @schema.threads (user_id, active);
-- An expression, so that the threads of one user are never looked for among those of all.
CREATE INDEX threads_by_time ON @schema.threads ((active::bigint));

-- `data` is compressed already, and digests don't compress.
CREATE TABLE @schema.value_rows (
    thread_id text COLLATE "C" NOT NULL,
    first bigint NOT NULL,
    count integer NOT NULL,
    digests bytea NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (thread_id, first)
) WITH (autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE @schema.value_rows ALTER digests SET STORAGE EXTERNAL, ALTER data SET STORAGE EXTERNAL;

-- `receipt`: the commit with the checkpoint's own id was applied (other commits' receipts are below). `covers` has first and
-- end of each range, one after the other.
CREATE TABLE @schema.checkpoints (
    thread_id text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    created_at bigint NOT NULL,
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

-- `sequence` is the thread's when the message was added. `text` is folded and escaped; `size` counts it as it was.
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
    PRIMARY KEY (thread_id, position)
);
CREATE UNIQUE INDEX messages_by_id ON @schema.messages (thread_id, message_id);

-- The last commits whose id no checkpoint carries: those without one, and those whose checkpoint has another id or is gone.
-- `sequence` is the thread's after the commit. `lasting` is of older versions.
CREATE TABLE @schema.receipts (
    thread_id text COLLATE "C" NOT NULL,
    commit_id text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    lasting boolean NOT NULL,
    PRIMARY KEY (thread_id, commit_id)
);

CREATE TABLE @schema.leases (
    thread_id text COLLATE "C" PRIMARY KEY,
    holder text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    since bigint NOT NULL,
    expires_at bigint NOT NULL
) WITH (fillfactor = 70);
