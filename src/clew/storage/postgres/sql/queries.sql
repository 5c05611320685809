-- Queries: each is one statement, and so one snapshot, and finds its rows by an index.

-- `covers` is returned as text: for an array, the driver would introspect the type on each new
-- connection, which takes longer than the load itself.
-- name: checkpoints
WITH thread AS MATERIALIZED (
    SELECT incarnation, epoch, next_value FROM @schema.threads
    WHERE thread_id = $1 AND ($2 OR user_id IS NULL OR user_id = $3)
), page AS MATERIALIZED (
    SELECT c.* FROM thread CROSS JOIN LATERAL (
        SELECT sequence, saved_at, created_at, step, size, namespace, checkpoint_id, parent_id, node_name, run_id, metadata, @body
        FROM @schema.checkpoints WHERE thread_id = $1 AND @which AND ($4::text IS NULL OR run_id = $4)
        ORDER BY sequence DESC LIMIT $5
    ) AS c
)
SELECT 0 AS kind, 1::bigint AS place, epoch AS n1, next_value AS n2, NULL::bigint AS n3, NULL::bigint AS n4, NULL::bigint AS n5,
    incarnation AS t1, NULL AS t2, NULL AS t3, NULL AS t4, NULL AS t5, NULL::bytea AS b1, NULL::bytea AS b2, NULL AS covers
FROM thread
UNION ALL
SELECT 1, 1, sequence, saved_at, created_at, step, size, checkpoint_id, namespace, parent_id, node_name, run_id, metadata, body,
    covers::text
FROM page

-- name: with_values
UNION ALL
SELECT 2, 1, v.first, v.count, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, v.digests, v.data, NULL
FROM (
    SELECT array_agg(u.number ORDER BY page.sequence, u.n) AS ranges
    FROM page CROSS JOIN unnest(covers) WITH ORDINALITY AS u (number, n)
    -- A damaged checkpoint with an odd count must not shift the ranges of the others.
    WHERE checkpoint_id IS DISTINCT FROM $6 AND cardinality(covers) % 2 = 0
) AS needed
CROSS JOIN LATERAL @schema.covered_@code($1, needed.ranges) AS v

-- The heads of several threads, each with its position in the arrays, and the values of those that
-- the caller lacks.
-- name: heads
WITH thread AS MATERIALIZED (
    SELECT a.place, a.thread_id, a.namespace, a.known, t.incarnation, t.epoch, t.next_value
    FROM unnest($1::text[], $2::boolean[], $3::@user[], $4::text[], $5::text[])
        WITH ORDINALITY AS a (thread_id, of_any, user_id, namespace, known, place)
    JOIN @schema.threads AS t ON t.thread_id = a.thread_id AND (a.of_any OR t.user_id IS NULL OR t.user_id = a.user_id)
), page AS MATERIALIZED (
    SELECT thread.place, thread.thread_id, thread.known, c.* FROM thread CROSS JOIN LATERAL (
        SELECT sequence, saved_at, created_at, step, size, namespace, checkpoint_id, parent_id, node_name, run_id, metadata, body,
            covers
        FROM @schema.checkpoints AS of_thread
        WHERE of_thread.thread_id = thread.thread_id AND of_thread.namespace = thread.namespace
        ORDER BY sequence DESC LIMIT 1
    ) AS c
)
SELECT 0 AS kind, place, epoch AS n1, next_value AS n2, NULL::bigint AS n3, NULL::bigint AS n4, NULL::bigint AS n5,
    incarnation AS t1, NULL AS t2, NULL AS t3, NULL AS t4, NULL AS t5, NULL::bytea AS b1, NULL::bytea AS b2, NULL AS covers
FROM thread
UNION ALL
SELECT 1, place, sequence, saved_at, created_at, step, size, checkpoint_id, namespace, parent_id, node_name, run_id, metadata, body,
    covers::text
FROM page
UNION ALL
SELECT 2, page.place, v.first, v.count, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, v.digests, v.data, NULL
FROM page CROSS JOIN LATERAL @schema.covered_@code(page.thread_id, page.covers) AS v
WHERE page.checkpoint_id IS DISTINCT FROM page.known

-- name: in_namespace
namespace = @namespace

-- name: in_all
true

-- name: named
checkpoint_id = @id AND (@namespace::text IS NULL OR namespace = @namespace)

-- name: before
sequence < coalesce((
    SELECT max(b.sequence) FROM @schema.checkpoints AS b
    WHERE b.thread_id = $1 AND b.checkpoint_id = @before AND (@namespace::text IS NULL OR b.namespace = @namespace)), 0)

-- name: before_sequence
sequence < @sequence::bigint

-- name: values
WITH thread AS MATERIALIZED (
    SELECT incarnation, epoch, next_value, sequence, points FROM @schema.threads
    WHERE thread_id = $1 AND ($2 OR user_id IS NULL OR user_id = $3)
)
SELECT epoch AS n1, next_value AS n2, sequence AS n3, incarnation AS t1, NULL::bytea AS digests, NULL::bytea AS data,
    points::text AS points
FROM thread
UNION ALL
SELECT v.first, v.count, NULL, NULL, v.digests, CASE WHEN $4 THEN v.data ELSE '' END, NULL
FROM thread CROSS JOIN @schema.covered_@code($1, $5) AS v

-- name: attachments_of_one
SELECT a.namespace, a.checkpoint_id, a.key, a.data FROM @schema.attachments AS a
WHERE a.thread_id = $1 AND a.namespace = $4 AND a.checkpoint_id = $5 AND EXISTS (
    SELECT FROM @schema.threads AS t WHERE t.thread_id = $1 AND ($2 OR t.user_id IS NULL OR t.user_id = $3))
ORDER BY a.namespace, a.checkpoint_id, a.key

-- name: attachments_of_all
SELECT a.namespace, a.checkpoint_id, a.key, a.data FROM @schema.attachments AS a
WHERE a.thread_id = $1 AND EXISTS (
    SELECT FROM @schema.threads AS t WHERE t.thread_id = $1 AND ($2 OR t.user_id IS NULL OR t.user_id = $3))
ORDER BY a.namespace, a.checkpoint_id, a.key

-- name: messages
SELECT m.message_id, m.text, m.tool_calls, m.run_id, m.created_at, m.data, m.sequence, m.input_tokens, m.output_tokens
FROM @schema.messages AS m
WHERE m.thread_id = $1 AND EXISTS (
    SELECT FROM @schema.threads AS t WHERE t.thread_id = $1 AND ($2 OR t.user_id IS NULL OR t.user_id = $3))
    AND @which
ORDER BY m.position @direction LIMIT $4 OFFSET $5

-- name: messages_all
true

-- name: messages_of_head
AND m.sequence <@ (
    SELECT CASE WHEN t.points IS NULL THEN '{(,)}' ELSE @schema.visible_@code(t.points, 1::bigint << 62) END
    FROM @schema.threads AS t WHERE t.thread_id = $1)

-- name: messages_of_checkpoint
AND m.sequence <@ (
    SELECT @schema.visible_@code(coalesce(t.points, '{}'), (
        SELECT c.sequence FROM @schema.checkpoints AS c
        WHERE c.thread_id = $1 AND c.namespace = @namespace AND c.checkpoint_id = @id))
    FROM @schema.threads AS t WHERE t.thread_id = $1)

-- name: messages_one
m.message_id = $6 AND ($7::text IS NULL OR m.text LIKE $7)

-- name: message_after
m.position > (SELECT x.position FROM @schema.messages AS x WHERE x.thread_id = $1 AND x.message_id = @id)

-- name: message_before
m.position < (SELECT x.position FROM @schema.messages AS x WHERE x.thread_id = $1 AND x.message_id = @id)

-- name: messages_found
SELECT m.message_id, m.text, m.tool_calls, m.run_id, m.created_at, m.data, m.sequence, m.input_tokens, m.output_tokens FROM (
    SELECT * FROM @schema.messages WHERE thread_id = $1 AND position < @indexed_from AND text LIKE $6
    UNION ALL
    SELECT * FROM @schema.messages WHERE thread_id = $1 AND position >= @indexed_from AND text LIKE $6
) AS m
WHERE EXISTS (
    SELECT FROM @schema.threads AS t WHERE t.thread_id = $1 AND ($2 OR t.user_id IS NULL OR t.user_id = $3))
    AND @which
ORDER BY m.position @direction LIMIT $4 OFFSET $5

-- Searches across threads. `LATERAL` and `OFFSET 0` prescribe the plan: the planner can't know how
-- many messages contain a text.
-- name: search_columns
t.thread_id, t.user_id, m.message_id, m.text, m.tool_calls, m.run_id, m.created_at, m.data, m.sequence,
m.input_tokens, m.output_tokens

-- name: search_page
(m.created_at, m.thread_id, m.message_id) < ($3::bigint, $4::text, $5::text) AND m.created_at >= $6
ORDER BY m.created_at DESC, m.thread_id DESC, m.message_id DESC LIMIT $1

-- name: search_scan
SELECT @columns FROM @schema.threads AS t JOIN @schema.messages AS m USING (thread_id)
WHERE @which AND m.text LIKE $2 AND @page

-- name: search_among
SELECT @columns FROM (@among) AS k
CROSS JOIN LATERAL (
    SELECT * FROM @schema.messages AS x
    WHERE x.thread_id = k.thread_id AND x.position = k.position AND x.text LIKE $2 OFFSET 0
) AS m
CROSS JOIN LATERAL (SELECT y.thread_id, y.user_id FROM @schema.threads AS y WHERE y.thread_id = m.thread_id OFFSET 0) AS t
WHERE @which AND @page

-- name: search_among_waiting
SELECT DISTINCT w.thread_id, w.position FROM @schema.search_waiting AS w

-- name: search_among_chunks
SELECT DISTINCT u.thread_id, u.position FROM unnest(@chunks::bigint[]) AS n (chunk_no)
CROSS JOIN LATERAL (SELECT * FROM @schema.search_chunks AS x WHERE x.chunk_no = n.chunk_no OFFSET 0) AS c
CROSS JOIN LATERAL unnest(c.thread_ids, c.positions) AS u (thread_id, position)

-- name: search_of_user
t.user_id = $7

-- name: search_of_nobody
t.user_id IS NULL

-- name: search_of_all
true

-- name: search_own
SELECT coalesce(sum(o.message_count), 0)::bigint AS messages, count(*) AS threads
FROM (SELECT t.message_count FROM @schema.threads AS t WHERE @which LIMIT $1) AS o

-- name: search_waiting
SELECT count(*) FROM (SELECT FROM @schema.search_waiting LIMIT $1) AS w

-- name: search_segments
SELECT segment_no, chunks, oldest, newest FROM @schema.search_segments

-- name: search_cells
SELECT c.segment_no, c.part, c.cells FROM unnest($1::bigint[]) AS s (segment_no) CROSS JOIN unnest($2::integer[]) AS p (part)
CROSS JOIN LATERAL (
    SELECT * FROM @schema.search_cells AS x WHERE x.segment_no = s.segment_no AND x.part = p.part OFFSET 0
) AS c

-- name: search_table
SELECT part, cells FROM @schema.search_cells WHERE segment_no = $1

-- Only one process at a time extends the index.
-- name: search_lock
SELECT pg_try_advisory_xact_lock(hashtextextended('clew search ' || $1, 0))

-- name: search_last
SELECT segment_no, chunks, oldest, newest FROM @schema.search_segments ORDER BY segment_no DESC LIMIT 1

-- name: search_next
WITH w AS (
    DELETE FROM @schema.search_waiting WHERE serial IN (SELECT serial FROM @schema.search_waiting ORDER BY serial LIMIT $1)
    RETURNING serial, thread_id, position
)
SELECT w.thread_id, w.position, m.created_at, m.text FROM w
LEFT JOIN LATERAL (
    SELECT x.created_at, x.text FROM @schema.messages AS x WHERE x.thread_id = w.thread_id AND x.position = w.position OFFSET 0
) AS m ON true
ORDER BY w.serial

-- name: search_put_segment
INSERT INTO @schema.search_segments VALUES ($1, $2, $3, $4)
ON CONFLICT (segment_no) DO UPDATE SET chunks = excluded.chunks, oldest = excluded.oldest, newest = excluded.newest

-- name: search_put_cells
INSERT INTO @schema.search_cells SELECT $1, u.part, u.cells FROM unnest($2::integer[], $3::bytea[]) AS u (part, cells)
ON CONFLICT (segment_no, part) DO UPDATE SET cells = excluded.cells

-- name: search_put_chunk
INSERT INTO @schema.search_chunks VALUES ($1, $2, $3)

-- name: threads
SELECT @thread FROM (
    SELECT * FROM @schema.threads AS t WHERE @which AND @found
    ORDER BY @order, t.updated_at DESC, t.ordinal DESC LIMIT $1 OFFSET $2
) AS t
@head
ORDER BY @order, t.updated_at DESC, t.ordinal DESC

-- Searches the newest threads first. If they fill the page, or there are no others, that is the
-- answer: a user with few threads, or a common needle, needs no index. Otherwise the index finds
-- them; `OFFSET 0` keeps the planner from choosing another plan.
-- name: threads_found
WITH newest AS MATERIALIZED (
    SELECT t.thread_id, t.updated_at, t.ordinal, @found AS found FROM @schema.threads AS t WHERE @which
    ORDER BY @order, t.updated_at DESC, t.ordinal DESC LIMIT @newest_threads
), among AS MATERIALIZED (
    SELECT count(*) < @newest_threads OR coalesce(count(*) FILTER (WHERE found) >= $1::bigint + $2::bigint, false) AS newest FROM newest
), page AS MATERIALIZED (
    SELECT thread_id, updated_at, ordinal FROM newest WHERE found AND (SELECT newest FROM among)
    UNION ALL
    SELECT thread_id, updated_at, ordinal FROM (
        SELECT * FROM @schema.threads AS t WHERE @indexed OFFSET 0
    ) AS t
    WHERE @which AND @found AND NOT (SELECT newest FROM among)
    ORDER BY updated_at DESC, ordinal DESC LIMIT $1 OFFSET $2
)
SELECT @thread FROM page
CROSS JOIN LATERAL (SELECT * FROM @schema.threads AS x WHERE x.thread_id = page.thread_id OFFSET 0) AS t
@head
ORDER BY t.updated_at DESC, t.ordinal DESC

-- name: words_indexed
@schema.thread_words(coalesce(t.folded_id, t.thread_id), t.text, t.user_id::text) @@ @schema.thread_sought(@sought)

-- name: thread_labelled
t.labels @> @labels::text[]

-- Of threads with the same time, those with a smaller ordinal than the named one's.
-- name: thread_earlier
@active <= (@at::bigint >> 27) AND (t.updated_at, t.ordinal) < (
    @at::bigint, coalesce((SELECT x.ordinal FROM @schema.threads AS x WHERE x.thread_id = @named), 9223372036854775807))

-- name: thread_columns
t.thread_id, t.user_id, t.created_at, t.updated_at, t.run_id, t.text, t.data, t.forked_thread, t.forked_checkpoint,
t.checkpoint_count, t.message_count, t.size, CASE
    WHEN t.epoch NOT BETWEEN 0 AND @largest THEN 'epoch' WHEN t.next_value NOT BETWEEN 0 AND @largest THEN 'next_value'
    WHEN t.sequence NOT BETWEEN coalesce(h.sequence, 0) AND @largest THEN 'sequence'
    WHEN t.next_message NOT BETWEEN t.message_count AND @largest THEN 'next_message' END AS unusable,
array_to_string(t.labels, '') AS labels, h.sequence, h.checkpoint_id, h.namespace, h.parent_id,
h.saved_at, h.created_at AS made_at, h.node_name, h.step, h.run_id AS made_in, h.size AS state_size, h.metadata

-- name: thread_head
LEFT JOIN LATERAL (
    SELECT * FROM @schema.checkpoints AS c
    WHERE c.thread_id = t.thread_id AND c.checkpoint_id = t.head AND c.namespace = ''
    UNION ALL
    (SELECT * FROM @schema.checkpoints AS c WHERE t.head IS NULL AND c.thread_id = t.thread_id
    ORDER BY c.sequence DESC LIMIT 1)
) AS h ON true

-- name: thread_found
($3::text IS NULL OR strpos(t.text, $3) > 0 OR strpos(coalesce(t.folded_id, t.thread_id), $3) > 0)

-- name: order_of_user
t.user_id DESC, t.active DESC

-- name: order_of_all
t.active::bigint DESC

-- name: threads_one
t.thread_id = $4 AND ($5 OR t.user_id IS NULL OR t.user_id = $6)

-- name: threads_of_user
t.user_id = $4

-- name: threads_of_nobody
t.user_id IS NULL

-- name: threads_of_all
true

-- name: stats
WITH asked AS MATERIALIZED (
    SELECT * FROM @schema.threads WHERE $1 OR user_id IS NOT DISTINCT FROM $2
)
SELECT 0 AS kind, t.thread_id, NULL::bigint AS day, t.message_count AS messages, coalesce(m.tool_calls, 0)::bigint AS tool_calls,
    t.checkpoint_count AS checkpoints, t.size AS bytes, coalesce(m.input_tokens, 0)::bigint AS input_tokens,
    coalesce(m.output_tokens, 0)::bigint AS output_tokens
FROM asked AS t LEFT JOIN LATERAL (
    SELECT sum(m.tool_calls) AS tool_calls, sum(m.input_tokens) AS input_tokens, sum(m.output_tokens) AS output_tokens
    FROM @schema.messages AS m WHERE m.thread_id = t.thread_id
) AS m ON true
UNION ALL
SELECT 1, NULL, floor(m.created_at / 86400000000.0)::bigint, count(*), sum(m.tool_calls), 0, sum(m.size)::bigint,
    sum(m.input_tokens)::bigint, sum(m.output_tokens)::bigint
FROM asked AS t JOIN @schema.messages AS m USING (thread_id) GROUP BY 3
UNION ALL
SELECT 1, NULL, floor(c.saved_at / 86400000000.0)::bigint, 0, 0, count(*),
    sum(octet_length(c.metadata) + octet_length(c.body)), 0, 0
FROM asked AS t JOIN @schema.checkpoints AS c USING (thread_id) GROUP BY 3
UNION ALL
SELECT 2, NULL, NULL, 0, 0, 0, coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint, 0, 0
FROM pg_class AS c WHERE c.relnamespace = '@text_schema'::regnamespace AND c.relkind = 'r'

-- name: journal
SELECT whole.*, e.* FROM (SELECT count(*), @receipts AS receipts FROM @schema.journal) AS whole LEFT JOIN LATERAL (
    SELECT position, thread_id, commit_id, after, incarnation, at, data FROM @schema.journal
    WHERE @which thread_id <> ALL ($2) ORDER BY position LIMIT $1
) AS e ON true
ORDER BY e.position

-- name: journal_receipts
(SELECT array_agg(r.commit_id ORDER BY r.sequence) FROM @schema.receipts AS r WHERE r.thread_id = $3)

-- name: trim
DELETE FROM @schema.journal AS j USING unnest($1::text[], $2::bigint[]) AS d (thread_id, position)
WHERE j.thread_id = d.thread_id AND j.position = d.position

-- name: commit
SELECT * FROM @schema.commit_@code(@arguments)

-- name: commit_fast_save
SELECT * FROM @schema.commit_fast_save_@code(@arguments)

-- name: commit_fast_appends
SELECT * FROM @schema.commit_fast_appends_@code(@arguments)

-- name: lease
SELECT * FROM @schema.lease_@code($1, $2, $3, $4, $5, $6, $7)

-- name: own
SELECT data FROM @schema.own WHERE name = $1

-- name: put_own
WITH replaced AS (
    UPDATE @schema.own AS o SET data = $2 WHERE o.name = $1 AND $3::bytea IS NOT NULL AND o.data IN ($2, $3) RETURNING 1
), added AS (
    INSERT INTO @schema.own AS o SELECT $1, $2 WHERE $3::bytea IS NULL
    ON CONFLICT (name) DO UPDATE SET data = $2 WHERE o.data = $2 RETURNING 1
)
SELECT FROM replaced UNION ALL SELECT FROM added

-- name: ping
SELECT version FROM @schema.clew_schema

-- `unreleased`: every layout from before the first release has this column.
-- name: version
SELECT version, EXISTS (
    SELECT FROM pg_attribute WHERE attrelid = to_regclass('@text_schema.receipts') AND attname = 'lasting') AS unreleased, (
    SELECT format_type(atttypid, NULL) FROM pg_attribute
    WHERE attrelid = to_regclass('@text_schema.threads') AND attname = 'user_id') AS user_type, (
    SELECT array_agg(concat(p.proname, ' ', array_to_string(p.proconfig, ','), ' ', md5(convert_to(p.prosrc, 'UTF8'))))
    FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE p.proname = ANY ($1::text[]::name[]) AND n.nspname = '@text_name') AS functions, (
    SELECT array_agg(name) FROM unnest($2::text[]) AS name WHERE to_regclass('@text_schema.' || name) IS NULL) AS missing
FROM @schema.clew_schema

-- name: watch
SELECT @schema.watch_@code($1, $2::text::interval, $3::text::interval)

-- The state of the feed, the present snapshot, and entries that position `$1` (its `xmax`) and `$2` (its
-- `xip`) does not show. `$3`: the page ends where this snapshot does, after entry `$4` within it.
-- name: feed
SELECT s.generation, s.until > now() AS written, s.until < now() + $6::text::interval AS note,
    s.trimmed::text AS trimmed, pg_current_snapshot()::text AS snapshot,
    (SELECT n.transaction FROM @schema.feed AS n ORDER BY n.transaction DESC, n.number DESC LIMIT 1)::text AS newest, e.*
FROM @schema.feed_state AS s LEFT JOIN LATERAL (
    SELECT number, sequence, flags, thread_id, owner, incarnation, namespace, checkpoint_id, former,
        to_json(message_ids)::text AS messages, to_json(gone_namespaces)::text AS gone_namespaces,
        to_json(gone_checkpoints)::text AS gone_checkpoints, to_json(gone_messages)::text AS gone_messages
    FROM @schema.feed
    WHERE (transaction >= $1::text::xid8 OR transaction = ANY ($2::text[]::xid8[]))
        AND ($3::text IS NULL OR pg_visible_in_snapshot(transaction, $3::text::pg_snapshot)) AND number > $4
    ORDER BY number LIMIT $5
) AS e ON true
ORDER BY e.number

-- name: feed_trim
WITH newest AS MATERIALIZED (
    SELECT transaction FROM @schema.feed ORDER BY transaction DESC, number DESC OFFSET $1 LIMIT 1
), noted AS (
    UPDATE @schema.feed_state SET trimmed = newest.transaction FROM newest
)
DELETE FROM @schema.feed AS f USING newest WHERE f.transaction <= newest.transaction
