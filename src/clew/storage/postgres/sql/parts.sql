-- Shared by commits and queries: the rows that ranges of values need, each once and in order; forgetting a thread; pruning its
-- receipts; and entering new threads in the journal in their order.

-- `ranges` has first and end of each, one after the other.
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
        -- What begins before the end of the range before this one was found with that.
        SELECT * FROM @schema.value_rows AS x
        WHERE x.thread_id = of_thread AND x.first < wanted."end" AND x.first + x.count > wanted.first
            AND x.first >= greatest(wanted.before, coalesce((
                SELECT y.first FROM @schema.value_rows AS y
                WHERE y.thread_id = of_thread AND y.first <= wanted.first ORDER BY y.first DESC LIMIT 1), 0))
        ORDER BY x.first
    ) AS v
$clew$;

CREATE OR REPLACE FUNCTION @schema.forget_@code(of_thread text) RETURNS void
LANGUAGE plpgsql AS $clew$
BEGIN
    DELETE FROM @schema.checkpoints WHERE thread_id = of_thread;
    DELETE FROM @schema.value_rows WHERE thread_id = of_thread;
    DELETE FROM @schema.attachments WHERE thread_id = of_thread;
    DELETE FROM @schema.messages WHERE thread_id = of_thread;
    DELETE FROM @schema.receipts WHERE thread_id = of_thread;
    DELETE FROM @schema.leases WHERE thread_id = of_thread;
    DELETE FROM @schema.threads WHERE thread_id = of_thread;
END $clew$;

-- Every commit counts `sequence` on by one, and each kind of commit calls this when that is a multiple of @receipts_pruned: so
-- a thread has at most @receipts_kept + @receipts_pruned receipts, whatever is written to it.
CREATE OR REPLACE FUNCTION @schema.prune_@code(of_thread text, at_sequence bigint) RETURNS void
LANGUAGE sql AS $clew$
    DELETE FROM @schema.receipts WHERE thread_id = of_thread AND sequence <= at_sequence - @receipts_kept
$clew$;

-- While a thread has no row to lock, whoever enters something of it in the journal waits here for those before: what comes
-- first in the journal came first in the thread. Before any row is locked, or two could wait for each other.
CREATE OR REPLACE FUNCTION @schema.queue_as_new_@code(of_thread text) RETURNS void
LANGUAGE sql AS $clew$
    SELECT pg_advisory_xact_lock(hashtextextended(of_thread, '@text_schema.journal'::regclass::oid::bigint))
$clew$;
