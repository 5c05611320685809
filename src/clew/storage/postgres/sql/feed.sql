-- The feed: what each commit changed, for watchers. Commits add to it only while somebody watches.

-- `transaction` is the one that committed it: a reader's position is a snapshot, and entries of
-- transactions that the snapshot does not show are new, in whatever order they were committed. `number`
-- orders the entries of a thread. `flags`: 1 described, 2 the thread was deleted, 4 all checkpoints were
-- removed. `owner` is the one after the commit, `former` the space of the one before if that changed.
CREATE SEQUENCE IF NOT EXISTS @schema.feed_numbers;
CREATE TABLE IF NOT EXISTS @schema.feed (
    transaction xid8 NOT NULL,
    number bigint NOT NULL,
    sequence bigint NOT NULL,
    flags integer NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    owner @user_type,
    incarnation text COLLATE "C" NOT NULL,
    namespace text COLLATE "C",
    checkpoint_id text COLLATE "C",
    message_ids text[],
    former text COLLATE "C",
    gone_namespaces text[],
    gone_checkpoints text[],
    gone_messages text[],
    PRIMARY KEY (transaction, number)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- One row while somebody watches. `until` is when the feed ends unless a watcher is seen. Entries of
-- transactions up to `trimmed` were removed. The key is for commits, which must not scan: where scans are
-- disabled, one makes the planner believe that the query is expensive, and it compiles it each time.
CREATE TABLE IF NOT EXISTS @schema.feed_state (
    one integer PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    generation text COLLATE "C" NOT NULL,
    until timestamptz NOT NULL,
    trimmed xid8
);

-- Starts the feed, or records that somebody watches it. The lock waits for commits that have not seen the row,
-- and those that come later wait for it: every commit that is acknowledged afterwards is in the feed.
CREATE OR REPLACE FUNCTION @schema.watch_@code(in_generation text, in_kept interval, in_spare interval) RETURNS void
LANGUAGE plpgsql AS $clew$
BEGIN
    UPDATE @schema.feed_state SET until = clock_timestamp() + in_kept WHERE until > clock_timestamp() + in_spare;
    IF FOUND THEN
        RETURN;
    END IF;
    LOCK TABLE @schema.feed_state IN ACCESS EXCLUSIVE MODE;
    UPDATE @schema.feed_state SET until = clock_timestamp() + in_kept WHERE until > clock_timestamp() + in_spare;
    IF FOUND THEN
        RETURN;
    END IF;
    DELETE FROM @schema.feed_state;
    DELETE FROM @schema.feed;
    INSERT INTO @schema.feed_state (generation, until) VALUES (in_generation, clock_timestamp() + in_kept);
END $clew$;
