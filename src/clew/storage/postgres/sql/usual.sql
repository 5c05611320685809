-- Applies the usual commits of many threads at once, each whole or not at all; those that are not usual are left to `commit`.

-- One commit a thread. Usual is what adds values, a checkpoint, attachments and messages that are not there yet, to a thread
-- that is as the commit expects it. `applied` has the places (from 1) of those that were applied, the other arrays what came
-- of them. Attachments and messages name the place of their commit (`attachment_of`, `message_of`); arrays that no commit
-- needs are NULL, and so is a `commit_id` that is the id of the checkpoint.
-- The settings keep plans that were made while tables were small from being used on large ones.
CREATE FUNCTION @schema.commit_usual(
    thread_ids text[], folded_ids text[], anyone boolean[], users @user[], commit_ids text[], times bigint[],
    incarnations text[], epochs bigint[], fences bigint[],
    firsts bigint[], counts integer[], digests bytea[], datas bytea[],
    checkpoint_ids text[], namespaces text[], from_head boolean[], parents text[], reject boolean[], nodes text[],
    steps bigint[], runs text[], sizes bigint[], covers text[], metadatas bytea[], bodies bytea[],
    message_counts integer[], other_bytes bigint[],
    attachment_of integer[], attachment_namespaces text[], attachment_checkpoints text[], attachment_keys text[],
    attachment_datas bytea[],
    message_of integer[], message_ids text[], message_texts text[], message_tools integer[], message_runs text[],
    message_times bigint[], message_sizes bigint[], message_datas bytea[],
    OUT applied integer[], OUT new_incarnations text[], OUT new_epochs bigint[], OUT new_next_values bigint[],
    OUT new_sequences bigint[], OUT new_parents text[]
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off AS $clew$
DECLARE
    found_threads integer;
    unusual integer[] := '{}';
    next_messages bigint[];
    receipts boolean;
BEGIN
    -- Locks are taken in one order by everybody, and what is read after them is as the last holders left it.
    PERFORM FROM @schema.threads AS t WHERE t.thread_id = ANY (thread_ids) ORDER BY t.thread_id FOR UPDATE;
    GET DIAGNOSTICS found_threads = ROW_COUNT;
    IF fences IS NOT NULL THEN
        -- Whoever takes a lease now waits until the commit under the last one is through, and so reads what it wrote.
        PERFORM FROM @schema.leases AS l WHERE l.thread_id = ANY (thread_ids) ORDER BY l.thread_id FOR SHARE;
        SELECT coalesce(array_agg(f.place::integer), '{}') INTO unusual
        FROM unnest(thread_ids, fences) WITH ORDINALITY AS f (thread_id, token, place)
        WHERE f.token IS NOT NULL AND NOT EXISTS (
            SELECT FROM @schema.leases AS l WHERE l.thread_id = f.thread_id AND l.token = f.token);
    END IF;
    IF found_threads < cardinality(thread_ids) THEN
        INSERT INTO @schema.threads
        SELECT n.thread_id, n.user_id, left(translate(gen_random_uuid()::text, '-', ''), 20), n.ordinal, 0, 0, 0, 0, 0, 0, 0,
            n.at, n.at, n.at >> 28, NULL, NULL, NULL, NULL, n.folded_id, '', ''
        FROM (
            SELECT a.*, nextval('@text_schema.thread_ordinals') AS ordinal FROM (
                SELECT * FROM unnest(thread_ids, folded_ids, users, times, incarnations, firsts, from_head, parents)
                    WITH ORDINALITY
                    AS u (thread_id, folded_id, user_id, at, incarnation, first, from_head, parent, place)
                WHERE u.incarnation IS NULL AND coalesce(u.first, 0) = 0 AND (u.from_head OR u.parent IS NULL)
                    AND u.place <> ALL (unusual)
                    AND NOT EXISTS (SELECT FROM @schema.threads AS t WHERE t.thread_id = u.thread_id)
                ORDER BY u.place
            ) AS a
        ) AS n
        ORDER BY n.thread_id
        ON CONFLICT DO NOTHING;
        -- Somebody else may have made one of them meanwhile.
        PERFORM FROM @schema.threads AS t WHERE t.thread_id = ANY (thread_ids) ORDER BY t.thread_id FOR UPDATE;
    END IF;
    IF message_of IS NOT NULL THEN
        SELECT unusual || coalesce(array_agg(m.place), '{}') INTO unusual
        FROM unnest(message_of, message_ids) AS m (place, message_id)
        JOIN @schema.messages AS x ON x.thread_id = thread_ids[m.place] AND x.message_id = m.message_id;
    END IF;
    IF attachment_of IS NOT NULL THEN
        SELECT unusual || coalesce(array_agg(a.place), '{}') INTO unusual
        FROM unnest(attachment_of, attachment_namespaces, attachment_checkpoints, attachment_keys)
            AS a (place, namespace, checkpoint_id, key)
        JOIN @schema.attachments AS x ON x.thread_id = thread_ids[a.place] AND x.namespace = a.namespace
            AND x.checkpoint_id = a.checkpoint_id AND x.key = a.key;
    END IF;

    WITH good AS MATERIALIZED (
        SELECT a.*, t.incarnation AS known_incarnation, t.epoch AS known_epoch, t.sequence + 1 AS sequence, t.next_message,
            coalesce(a.first + a.count, t.next_value) AS next_value,
            CASE WHEN a.from_head THEN
                CASE WHEN a.namespace = '' THEN t.head ELSE h.head END
            ELSE a.parent END AS parent_id,
            coalesce(octet_length(a.digests) + octet_length(a.data), 0)
                + coalesce(octet_length(a.metadata) + octet_length(a.body), 0) + a.other_bytes AS bytes
        FROM unnest(
            thread_ids, anyone, users, commit_ids, times, incarnations, epochs, firsts, counts, digests, datas,
            checkpoint_ids, namespaces, from_head, parents, reject, nodes, steps, runs, sizes, covers, metadatas, bodies,
            message_counts, other_bytes
        ) WITH ORDINALITY AS a (
            thread_id, anyone, user_id, commit_id, at, incarnation, epoch, first, count, digests, data,
            checkpoint_id, namespace, from_head, parent, reject, node_name, step, run_id, size, covers, metadata, body,
            message_count, other_bytes, place
        )
        JOIN @schema.threads AS t ON t.thread_id = a.thread_id
        LEFT JOIN LATERAL (
            SELECT c.checkpoint_id AS head FROM @schema.checkpoints AS c
            WHERE a.namespace <> '' AND c.thread_id = a.thread_id AND c.namespace = a.namespace
            ORDER BY c.sequence DESC LIMIT 1
        ) AS h ON true
        WHERE (a.anyone OR t.user_id IS NULL OR t.user_id = a.user_id)
            AND (a.incarnation IS NULL OR (a.incarnation = t.incarnation AND a.epoch = t.epoch))
            AND (a.first IS NULL OR a.first = t.next_value)
            AND a.place <> ALL (unusual)
            AND NOT EXISTS (
                SELECT FROM @schema.checkpoints AS c
                WHERE c.thread_id = a.thread_id AND c.checkpoint_id = coalesce(a.commit_id, a.checkpoint_id))
            AND NOT EXISTS (
                SELECT FROM @schema.receipts AS r
                WHERE r.thread_id = a.thread_id AND r.commit_id = coalesce(a.commit_id, a.checkpoint_id))
            AND (a.checkpoint_id IS NULL OR ((
                a.commit_id IS NULL OR NOT EXISTS (
                    SELECT FROM @schema.checkpoints AS c WHERE c.thread_id = a.thread_id AND c.checkpoint_id = a.checkpoint_id)
            ) AND (
                a.from_head OR (a.incarnation IS NOT NULL AND NOT a.reject)
                OR a.parent IS NOT DISTINCT FROM CASE WHEN a.namespace = '' THEN t.head ELSE h.head END
            )))
    ), changed AS (
        UPDATE @schema.threads AS t SET sequence = g.sequence, next_value = g.next_value,
            next_message = t.next_message + g.message_count, message_count = t.message_count + g.message_count,
            checkpoint_count = t.checkpoint_count + (g.checkpoint_id IS NOT NULL)::integer,
            size = t.size + g.bytes, updated_at = greatest(t.updated_at, g.at), active = greatest(t.updated_at, g.at) >> 28,
            head = CASE WHEN g.namespace = '' THEN g.checkpoint_id ELSE t.head END
        FROM good AS g WHERE t.thread_id = g.thread_id
    ), added_checkpoints AS (
        INSERT INTO @schema.checkpoints
        SELECT g.thread_id, g.sequence, g.at, g.step, g.size, g.commit_id IS NULL, g.namespace, g.checkpoint_id, g.parent_id,
            g.node_name, g.run_id, g.covers::bigint[], g.metadata, g.body
        FROM good AS g WHERE g.checkpoint_id IS NOT NULL
    ), added_values AS (
        INSERT INTO @schema.value_rows
        SELECT g.thread_id, g.first, g.count, g.digests, g.data FROM good AS g WHERE g.first IS NOT NULL
    )
    SELECT array_agg(g.place::integer), array_agg(g.known_incarnation), array_agg(g.known_epoch), array_agg(g.next_value),
        array_agg(g.sequence), array_agg(g.parent_id), array_agg(g.next_message), bool_or(g.commit_id IS NOT NULL)
    INTO applied, new_incarnations, new_epochs, new_next_values, new_sequences, new_parents, next_messages, receipts
    FROM good AS g;

    IF receipts THEN
        INSERT INTO @schema.receipts
        SELECT thread_ids[g.place], commit_ids[g.place], g.sequence, checkpoint_ids[g.place] IS NOT NULL
        FROM unnest(applied, new_sequences) AS g (place, sequence) WHERE commit_ids[g.place] IS NOT NULL;
        DELETE FROM @schema.receipts AS r USING unnest(applied, new_sequences) AS g (place, sequence)
        WHERE g.sequence % 64 = 0 AND r.thread_id = thread_ids[g.place] AND NOT r.lasting
            AND r.sequence < g.sequence - @receipts_kept;
    END IF;
    IF message_of IS NOT NULL AND applied IS NOT NULL THEN
        INSERT INTO @schema.messages
        SELECT thread_ids[m.place], g.next_message + row_number() OVER (PARTITION BY m.place ORDER BY m.n) - 1, g.sequence,
            m.created_at, m.size, m.tool_calls, m.message_id, m.run_id, m.text, m.data
        FROM unnest(applied, new_sequences, next_messages) AS g (place, sequence, next_message)
        JOIN unnest(
            message_of, message_ids, message_texts, message_tools, message_runs, message_times, message_sizes, message_datas
        ) WITH ORDINALITY AS m (place, message_id, text, tool_calls, run_id, created_at, size, data, n) ON m.place = g.place;
    END IF;
    IF attachment_of IS NOT NULL AND applied IS NOT NULL THEN
        INSERT INTO @schema.attachments
        SELECT thread_ids[a.place], a.namespace, a.checkpoint_id, a.key, a.data
        FROM unnest(attachment_of, attachment_namespaces, attachment_checkpoints, attachment_keys, attachment_datas)
            AS a (place, namespace, checkpoint_id, key, data)
        WHERE a.place = ANY (applied);
    END IF;
END $clew$;
