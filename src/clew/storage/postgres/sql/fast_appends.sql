-- Fast path for appends to many threads: applies each one atomically, or skips it.

-- An append only adds: values, a checkpoint, and messages and attachments whose ids are new. The
-- arrays have one commit per thread, in the order of the thread ids, so that concurrent calls lock
-- the rows in the same order. `applied` has the positions (from 1) of the commits that were
-- applied; the other OUT arrays are parallel to it. Skipped commits are left to `commit`. Raises
-- unique_violation, and applies nothing, if one was applied before or lost its lease. `fed`: those that
-- watchers see are in the feed.
--
-- An array is NULL if no commit needs it. `attachment_of` and `message_of` have the position of the
-- commit. `arrivals` (the order in which the commits arrived) is given if a thread may be new.
-- `commit_ids` is NULL where the commit has its checkpoint's id. `chains` has the commit's id if it
-- belongs to a chain. `flags`: 1 any user may write, 2 the parent is `parents`, not the head, 4
-- that parent has to be the head, 8 the thread's chain has to end with `afters`.
--
-- The settings prevent plans that were cached while the tables were small from being used on large
-- ones.
CREATE OR REPLACE FUNCTION @schema.commit_fast_appends_@code(
    thread_ids text[], folded_ids text[], arrivals integer[], flags integer[], users @user[], commit_ids text[],
    times bigint[], incarnations text[], epochs bigint[], fences bigint[],
    firsts bigint[], counts integer[], digests bytea[], datas bytea[],
    checkpoint_ids text[], parents text[], namespaces text[], nodes text[], steps bigint[], runs text[], sizes bigint[],
    covers text[], metadatas bytea[], bodies bytea[],
    message_counts integer[], other_bytes bigint[],
    attachment_of integer[], attachment_namespaces text[], attachment_checkpoints text[], attachment_keys text[],
    attachment_datas bytea[],
    message_of integer[], message_ids text[], message_texts text[], message_tools integer[], message_runs text[],
    message_times bigint[], message_sizes bigint[], message_datas bytea[], message_inputs bigint[], message_outputs bigint[],
    chains text[], afters text[], journals bytea[], begin_incarnations text[], begin_epochs bigint[],
    OUT applied integer[], OUT new_incarnations text[], OUT new_epochs bigint[], OUT new_next_values bigint[],
    OUT new_sequences bigint[], OUT new_parents text[], OUT fed boolean
) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $clew$
DECLARE
    skipped integer[] := '{}';
    next_messages bigint[];
    locked integer[];
    last_commits text[];
    owners @user[];
    known boolean;
BEGIN
    IF arrivals IS NOT NULL THEN
        IF chains IS NOT NULL THEN
            PERFORM @schema.lock_new_thread_@code(n.thread_id) FROM (
                SELECT u.thread_id FROM unnest(thread_ids, chains) AS u (thread_id, chain)
                WHERE u.chain IS NOT NULL AND NOT EXISTS (SELECT FROM @schema.threads AS t WHERE t.thread_id = u.thread_id)
                ORDER BY u.thread_id
            ) AS n;
        END IF;
        INSERT INTO @schema.threads
        SELECT n.in_thread, n.user_id, coalesce(n.begin_incarnation, left(translate(gen_random_uuid()::text, '-', ''), 20)),
            n.ordinal, coalesce(n.begin_epoch, 0), 0, 0, 0, 0, 0, 0, n.at, n.at, n.at >> 27, NULL, NULL, NULL, NULL, NULL,
            n.folded_id, '', ''
        FROM (
            SELECT a.*, nextval('@text_schema.thread_ordinals') AS ordinal FROM (
                SELECT * FROM unnest(
                    thread_ids, folded_ids, arrivals, users, times, incarnations, firsts, parents, chains, afters,
                    begin_incarnations, begin_epochs
                ) AS u (
                    in_thread, folded_id, arrival, user_id, at, incarnation, first, parent, chain, after, begin_incarnation,
                    begin_epoch
                )
                WHERE u.incarnation IS NULL AND coalesce(u.first, 0) = 0 AND u.parent IS NULL AND u.after IS NULL
                    AND NOT EXISTS (SELECT FROM @schema.threads AS t WHERE t.thread_id = in_thread)
                    AND (u.chain IS NULL OR NOT EXISTS (SELECT FROM @rule_ended))
                ORDER BY u.arrival
            ) AS a
        ) AS n
        ORDER BY n.in_thread
        ON CONFLICT DO NOTHING;
    END IF;
    IF journals IS NOT NULL THEN
        -- A thread that is concurrently deleted and created again is not locked here, so its commit
        -- is skipped.
        SELECT coalesce(array_agg(l.place), '{}'), array_agg(l.last) INTO locked, last_commits FROM (
            SELECT a.place::integer, @rule_last_in_chain AS last
            FROM unnest(thread_ids) WITH ORDINALITY AS a (thread_id, place)
            JOIN @schema.threads AS t ON t.thread_id = a.thread_id
            ORDER BY a.place FOR UPDATE OF t
        ) AS l;
    END IF;
    IF message_of IS NOT NULL THEN
        SELECT skipped || coalesce(array_agg(m.place), '{}') INTO skipped
        FROM unnest(message_of, message_ids) AS m (place, message_id)
        JOIN @schema.messages AS x ON x.thread_id = thread_ids[m.place] AND x.message_id = m.message_id;
    END IF;
    IF attachment_of IS NOT NULL THEN
        SELECT skipped || coalesce(array_agg(a.place), '{}') INTO skipped
        FROM unnest(attachment_of, attachment_namespaces, attachment_checkpoints, attachment_keys)
            AS a (place, namespace, checkpoint_id, key)
        JOIN @schema.attachments AS x ON x.thread_id = thread_ids[a.place] AND x.namespace = a.namespace
            AND x.checkpoint_id = a.checkpoint_id AND x.key = a.key;
    END IF;

    WITH changed AS (
        -- The UPDATE locks the row and checks its latest version, so no other read can be stale.
        UPDATE @schema.threads AS t SET @rule_advanced, size = t.size + @rule_added_bytes + coalesce(in_other_bytes, 0),
            next_message = t.next_message + coalesce(in_message_count, 0),
            message_count = t.message_count + coalesce(in_message_count, 0),
            chain = coalesce(in_chain, t.chain), chained_at = CASE WHEN in_chain IS NULL THEN t.chained_at ELSE t.sequence + 1 END
        FROM (
            SELECT u.*, coalesce(u.flags & 1 <> 0, false) AS in_any, coalesce(u.flags & 4 = 0, true) AS in_any_parent,
                coalesce(u.flags & 8 <> 0, false) AS in_chained
            FROM unnest(
                thread_ids, flags, users, commit_ids, times, incarnations, epochs, firsts, counts, digests, datas,
                checkpoint_ids, parents, namespaces, nodes, steps, runs, sizes, covers, metadatas, bodies,
                message_counts, other_bytes, chains, afters
            ) WITH ORDINALITY AS u (
                in_thread, flags, in_user, in_commit, in_at, in_incarnation, in_epoch, in_first, in_count, in_digests, in_data,
                in_checkpoint, in_parent, in_namespace, in_node, in_step, in_run, in_size, in_covers, in_metadata, in_body,
                in_message_count, in_other_bytes, in_chain, in_after, place
            )
        ) AS a
        WHERE t.thread_id = in_thread AND @rule_owner AND @rule_deleted AND @rule_epoch AND @rule_after AND @rule_first
            AND @rule_head AND @rule_sound AND a.place <> ALL (skipped) AND (locked IS NULL OR a.place = ANY (locked))
        RETURNING a.*, t.user_id AS owner, t.incarnation AS known_incarnation, t.epoch AS known_epoch, t.next_value, t.sequence,
            t.next_message - coalesce(in_message_count, 0) AS next_message,
            CASE WHEN a.flags & 2 <> 0 THEN in_parent ELSE t.head_before END AS parent_id
    ), added_checkpoints AS (
        INSERT INTO @schema.checkpoints
        SELECT c.in_thread, c.sequence, c.in_at, c.in_step, c.in_size, c.in_commit IS NULL, coalesce(c.in_namespace, ''),
            c.in_checkpoint, c.parent_id, c.in_node, c.in_run, c.in_covers::bigint[], coalesce(c.in_metadata, ''), c.in_body
        FROM changed AS c WHERE c.in_checkpoint IS NOT NULL
    ), added_values AS (
        INSERT INTO @schema.value_rows
        SELECT c.in_thread, c.in_first, c.in_count, c.in_digests, c.in_data FROM changed AS c WHERE c.in_first IS NOT NULL
    )
    SELECT array_agg(c.place::integer), array_agg(c.known_incarnation), array_agg(c.known_epoch), array_agg(c.next_value),
        array_agg(c.sequence), array_agg(c.parent_id), array_agg(c.next_message), array_agg(c.owner)
    INTO applied, new_incarnations, new_epochs, new_next_values, new_sequences, new_parents, next_messages, owners
    FROM changed AS c;
    IF applied IS NULL THEN
        RETURN;
    END IF;

    SELECT EXISTS (
        SELECT FROM unnest(thread_ids, checkpoint_ids) WITH ORDINALITY AS a (thread_id, checkpoint_id, place)
        JOIN @schema.receipts AS r ON r.thread_id = a.thread_id AND r.commit_id = a.checkpoint_id
        WHERE a.place = ANY (applied)
    ), EXISTS (SELECT FROM @rule_watched)
    INTO known, fed;
    IF known THEN
        RAISE EXCEPTION 'clew: one of these commits was applied before' USING ERRCODE = 'unique_violation';
    END IF;
    IF commit_ids IS NOT NULL THEN
        PERFORM FROM unnest(thread_ids, commit_ids) WITH ORDINALITY AS a (thread_id, commit_id, place)
        JOIN @schema.checkpoints AS c ON c.thread_id = a.thread_id AND c.checkpoint_id = a.commit_id AND c.receipt
        WHERE a.place = ANY (applied);
        IF FOUND THEN
            RAISE EXCEPTION 'clew: one of these commits was applied before' USING ERRCODE = 'unique_violation';
        END IF;
        INSERT INTO @schema.receipts
        SELECT a.thread_id, a.commit_id, c.sequence
        FROM unnest(applied, new_sequences) AS c (place, sequence)
        JOIN unnest(thread_ids, commit_ids) WITH ORDINALITY AS a (thread_id, commit_id, place) ON a.place = c.place
        WHERE a.commit_id IS NOT NULL;
    END IF;
    PERFORM @schema.prune_@code(thread_ids[c.place], c.sequence) FROM unnest(applied, new_sequences) AS c (place, sequence)
    WHERE c.sequence % @receipts_pruned = 0;
    IF journals IS NOT NULL THEN
        INSERT INTO @schema.journal
        SELECT a.thread_id, nextval('@text_schema.journal_positions'), a.chain, l.last, c.incarnation, a.at, a.journal
        FROM unnest(applied, new_incarnations) AS c (place, incarnation)
        JOIN unnest(locked, last_commits) AS l (place, last) ON l.place = c.place
        JOIN unnest(thread_ids, chains, times, journals) WITH ORDINALITY AS a (thread_id, chain, at, journal, place)
            ON a.place = c.place
        WHERE a.journal IS NOT NULL;
    END IF;
    IF fences IS NOT NULL THEN
        -- The next holder of the lease waits until this transaction ends, and so reads what it
        -- wrote.
        PERFORM FROM @schema.leases AS l WHERE l.thread_id = ANY (thread_ids) ORDER BY l.thread_id, l.space FOR SHARE;
        PERFORM FROM unnest(thread_ids, fences) WITH ORDINALITY AS f (thread_id, token, place)
        WHERE f.token IS NOT NULL AND f.place = ANY (applied) AND NOT EXISTS (
            SELECT FROM @schema.threads AS t JOIN @schema.leases AS l ON l.thread_id = t.thread_id AND l.space = @rule_space
            WHERE t.thread_id = f.thread_id AND l.token = f.token);
        IF FOUND THEN
            RAISE EXCEPTION 'clew: one of these commits was fenced off' USING ERRCODE = 'unique_violation';
        END IF;
    END IF;
    IF message_of IS NOT NULL THEN
        WITH added AS (
        INSERT INTO @schema.messages
        SELECT thread_ids[m.place], c.next_message + row_number() OVER (PARTITION BY m.place ORDER BY m.n) - 1, c.sequence,
            m.created_at, m.size, m.tool_calls, m.message_id, m.run_id, m.text, m.data, m.input_tokens, m.output_tokens
        FROM unnest(applied, new_sequences, next_messages) AS c (place, sequence, next_message)
        JOIN unnest(
            message_of, message_ids, message_texts, message_tools, message_runs, message_times, message_sizes, message_datas,
            message_inputs, message_outputs
        ) WITH ORDINALITY AS m (
            place, message_id, text, tool_calls, run_id, created_at, size, data, input_tokens, output_tokens, n
        ) ON m.place = c.place
        RETURNING thread_id, position
        )
        INSERT INTO @schema.search_waiting (thread_id, position) SELECT added.thread_id, added.position FROM added;
    END IF;
    IF attachment_of IS NOT NULL THEN
        INSERT INTO @schema.attachments
        SELECT thread_ids[a.place], a.namespace, a.checkpoint_id, a.key, a.data
        FROM unnest(attachment_of, attachment_namespaces, attachment_checkpoints, attachment_keys, attachment_datas)
            AS a (place, namespace, checkpoint_id, key, data)
        WHERE a.place = ANY (applied);
    END IF;
    IF fed THEN
        INSERT INTO @schema.feed
        SELECT pg_current_xact_id(), nextval('@text_schema.feed_numbers'), c.sequence, 0, a.thread_id, c.owner, c.incarnation,
            CASE WHEN a.checkpoint_id IS NOT NULL THEN coalesce(a.namespace, '') END, a.checkpoint_id, (
                SELECT array_agg(m.message_id ORDER BY m.n)
                FROM unnest(message_of, message_ids) WITH ORDINALITY AS m (place, message_id, n) WHERE m.place = c.place)
        FROM unnest(applied, new_sequences, new_incarnations, owners) AS c (place, sequence, incarnation, owner)
        JOIN unnest(thread_ids, namespaces, checkpoint_ids, message_counts)
            WITH ORDINALITY AS a (thread_id, namespace, checkpoint_id, message_count, place) ON a.place = c.place
        WHERE a.checkpoint_id IS NOT NULL OR a.message_count > 0;
    END IF;
END $clew$;
