-- Helper functions: ordered value rows, deletion of threads, bounded receipts, journal order.

-- Returns the rows that `ranges` touch, each once and in order. `ranges` is the first number and
-- the end of each range, flattened.
CREATE OR REPLACE FUNCTION @schema.covered_@code(of_thread text, ranges bigint[]) RETURNS SETOF @schema.value_rows
LANGUAGE sql STABLE AS $clew$
    SELECT v.* FROM (
        SELECT lower(r.part) AS first, upper(r.part) AS "end",
            lag(upper(r.part), 1, 0::bigint) OVER (ORDER BY lower(r.part)) AS before
        FROM unnest((
            SELECT range_agg(int8range(ranges[at], ranges[at + 1]))
            FROM generate_series(1, cardinality(ranges), 2) AS at WHERE ranges[at] < ranges[at + 1]
        )) AS r (part)
    ) AS wanted
    CROSS JOIN LATERAL (
        -- A row that begins before the end of the previous range was found with that range.
        SELECT * FROM @schema.value_rows AS x
        WHERE x.thread_id = of_thread AND x.first < wanted."end" AND x.first + x.count > wanted.first
            AND x.first >= greatest(wanted.before, coalesce((
                SELECT y.first FROM @schema.value_rows AS y
                WHERE y.thread_id = of_thread AND y.first <= wanted.first ORDER BY y.first DESC LIMIT 1), 0))
        ORDER BY x.first
    ) AS v
$clew$;

-- Returns the sequence numbers of the branch that ends with `upto`, like `visible` in
-- storage/branches.py. `points` is parent and start of each branch point, flattened.
CREATE OR REPLACE FUNCTION @schema.visible_@code(points bigint[], upto bigint) RETURNS int8multirange
LANGUAGE plpgsql IMMUTABLE STRICT AS $clew$
DECLARE
    found int8multirange := '{}';
BEGIN
    FOR at IN REVERSE cardinality(points) .. 2 BY 2 LOOP
        IF points[at] <= upto THEN
            found := found + int8multirange(int8range(points[at], upto, '[]'));
            upto := points[at - 1];
        END IF;
    END LOOP;
    RETURN found + int8multirange(int8range(0, upto, '[]'));
END $clew$;

-- Deletes a thread with all that belongs to it, and its leases in its owner's space.
CREATE OR REPLACE FUNCTION @schema.forget_@code(of_thread text) RETURNS void
LANGUAGE plpgsql AS $clew$
BEGIN
    DELETE FROM @schema.checkpoints WHERE thread_id = of_thread;
    DELETE FROM @schema.value_rows WHERE thread_id = of_thread;
    DELETE FROM @schema.attachments WHERE thread_id = of_thread;
    DELETE FROM @schema.messages WHERE thread_id = of_thread;
    DELETE FROM @schema.receipts WHERE thread_id = of_thread;
    DELETE FROM @schema.leases AS l USING @schema.threads AS t
    WHERE l.thread_id = of_thread AND t.thread_id = of_thread AND l.space = @rule_space;
    DELETE FROM @schema.threads WHERE thread_id = of_thread;
END $clew$;

-- Deletes old receipts. Every commit increments `sequence`, and each commit function calls this
-- when the number is a multiple of @receipts_pruned: so a thread has at most @receipts_kept +
-- @receipts_pruned receipts.
CREATE OR REPLACE FUNCTION @schema.prune_@code(of_thread text, at_sequence bigint) RETURNS void
LANGUAGE sql AS $clew$
    DELETE FROM @schema.receipts WHERE thread_id = of_thread AND sequence <= at_sequence - @receipts_kept
$clew$;

-- Makes a commit the end of the chain of a thread that it deleted or did not find. Each call
-- removes two old records, so that their number stays in proportion to the rate of deletions.
CREATE OR REPLACE FUNCTION @schema.end_chain_@code(in_thread text, in_commit text) RETURNS void
LANGUAGE sql AS $clew$
    INSERT INTO @schema.ended_threads VALUES (in_thread, in_commit, now())
    ON CONFLICT (thread_id) DO UPDATE SET chain = excluded.chain, at = excluded.at;
    DELETE FROM @schema.ended_threads AS e USING (
        SELECT x.thread_id FROM @schema.ended_threads AS x WHERE x.at < now() - @ends_kept
        ORDER BY x.at LIMIT 2 FOR UPDATE SKIP LOCKED
    ) AS old WHERE e.thread_id = old.thread_id
$clew$;

-- Serializes journaled and chained commits of a thread that has no row to lock yet, so that the journal
-- and the chain have them in the thread's order. Must be called before any row is locked, or two commits could
-- deadlock.
CREATE OR REPLACE FUNCTION @schema.lock_new_thread_@code(of_thread text) RETURNS void
LANGUAGE sql AS $clew$
    SELECT pg_advisory_xact_lock(hashtextextended(of_thread, '@text_schema.journal'::regclass::oid::bigint))
$clew$;
