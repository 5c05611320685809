-- Applies one commit of any kind atomically: all rules are checked under the thread's lock first.

-- `outcome` is `applied`, `repeated`, `again` (another writer has just created or deleted the
-- thread: call again), or the name of the rule that forbids the commit; `named` and `number` are
-- the conflicting id and number. The other OUT fields describe the thread and the checkpoint.
-- `in_chained`: the thread's chain has to end with `in_after`. A fork may only be combined with
-- thread fields, merged rows only with a removal. The rules about the thread's row are in
-- rules.sql. `in_back` begins a branch of the conversation: after the new checkpoint's parent ('^'),
-- before all messages ('-'), or after a message ('+' and its id).
CREATE OR REPLACE FUNCTION @schema.commit_@code(
    in_thread text, in_folded text, in_any boolean, in_user @user, in_commit text, in_at bigint,
    in_incarnation text, in_epoch bigint, in_fence bigint, in_adds boolean,
    drop_thread boolean, drop_state boolean, drop_namespaces text[], drop_checkpoints text[], drop_messages text[],
    drop_firsts bigint[], drop_ends bigint[], in_as_of bigint,
    in_source text, source_namespace text, source_checkpoint text, copy_id text,
    in_first bigint, in_count integer, in_digests bytea, in_data bytea,
    merge_firsts bigint[], merge_counts integer[], merge_digests bytea[], merge_datas bytea[],
    in_checkpoint text, in_namespace text, from_head boolean, in_parent text, in_reject boolean, in_node text,
    in_step bigint, in_run text, in_size bigint, in_covers bigint[], in_metadata bytea, in_body bytea,
    in_created bigint,
    keep_attachments boolean, attachment_namespaces text[], attachment_checkpoints text[], attachment_keys text[],
    attachment_datas bytea[],
    message_ids text[], message_texts text[], message_tools integer[], message_runs text[], message_times bigint[],
    message_sizes bigint[], message_datas bytea[], message_inputs bigint[], message_outputs bigint[],
    describes boolean, in_text text, in_fields bytea, thread_run text, in_owner @user, in_labels text[],
    begin_incarnation text, begin_epoch bigint, in_chained boolean, in_after text, in_journal bytea, in_receipts text[],
    in_back text, move_messages boolean,
    OUT outcome text, OUT named text, OUT number bigint, OUT incarnation text, OUT epoch bigint, OUT next_value bigint,
    OUT sequence bigint, OUT parent text, OUT saved_at bigint, OUT created_at bigint, OUT removed bigint,
    OUT fed boolean
) LANGUAGE plpgsql SET enable_seqscan = off AS $clew$
DECLARE
    t @schema.threads;
    source @schema.threads;
    origin @schema.checkpoints;
    old record;
    there boolean;
    kept boolean;
    replaced boolean := false;
    last_commit text;
    as_new boolean := false;
    in_chain boolean;
    made_id text := coalesce(in_checkpoint, copy_id);
    made_namespace text := CASE WHEN in_checkpoint IS NULL THEN source_namespace ELSE in_namespace END;
    new_parent text;
    gone bigint := 0;
    bytes bigint := 0;
    counted bigint;
    counted_bytes bigint;
    lease_space text;
    branch_from bigint;
    owner_before @user := NULL;
    known_sequence bigint;
BEGIN
    removed := 0;
    fed := false;
    in_chain := in_chained OR in_journal IS NOT NULL;
    IF in_chain THEN
        PERFORM FROM @schema.threads AS x WHERE x.thread_id = in_thread;
        as_new := NOT FOUND;
        IF as_new THEN
            PERFORM @schema.lock_new_thread_@code(in_thread);
        END IF;
    END IF;
    IF in_source IS NOT NULL THEN
        -- Always lock two rows in the same order, or two forks could deadlock.
        PERFORM 1 FROM @schema.threads AS x WHERE x.thread_id IN (in_thread, in_source) ORDER BY x.thread_id FOR UPDATE;
        SELECT * INTO source FROM @schema.threads AS x WHERE x.thread_id = in_source;
    END IF;
    SELECT * INTO t FROM @schema.threads AS x WHERE x.thread_id = in_thread FOR UPDATE;
    there := t.thread_id IS NOT NULL;
    IF NOT there THEN
        t.user_id := in_user;
    END IF;
    lease_space := @rule_space;
    IF in_chain AND NOT there AND NOT as_new THEN
        outcome := 'again';
        RETURN;
    END IF;
    kept := there AND NOT drop_thread;
    owner_before := t.user_id;
    IF there THEN
        IF @rule_owner IS NOT TRUE THEN
            outcome := 'owner';
            RETURN;
        END IF;
        PERFORM 1 FROM @schema.checkpoints AS x
        WHERE x.thread_id = in_thread AND x.checkpoint_id = in_commit AND x.receipt;
        IF NOT FOUND THEN
            PERFORM 1 FROM @schema.receipts AS x WHERE x.thread_id = in_thread AND x.commit_id = in_commit;
        END IF;
        IF FOUND THEN
            outcome := 'repeated';
            SELECT x.sequence, x.parent_id, x.saved_at, coalesce(x.created_at, x.saved_at)
            INTO sequence, parent, saved_at, created_at FROM @schema.checkpoints AS x
            WHERE x.thread_id = in_thread AND x.checkpoint_id = made_id AND x.namespace = made_namespace;
            incarnation := t.incarnation;
            epoch := t.epoch;
            next_value := t.next_value;
            RETURN;
        END IF;
    ELSIF in_chain THEN
        -- The row of a missing thread has no chain of its own.
        SELECT e.chain, 0, 0 INTO t.chain, t.chained_at, t.sequence FROM @rule_ended;
        IF t.chain = in_commit THEN
            outcome := 'repeated';
            RETURN;
        END IF;
    END IF;

    -- A damaged thread can only be deleted.
    IF kept AND @rule_sound IS NOT TRUE THEN
        outcome := 'damaged';
        RETURN;
    END IF;
    -- A retried deletion whose thread is gone has succeeded: its basis is not checked.
    IF in_incarnation IS NOT NULL AND (there OR NOT drop_thread) THEN
        IF @rule_deleted IS NOT TRUE THEN
            outcome := 'deleted';
            RETURN;
        ELSIF @rule_epoch IS NOT TRUE THEN
            outcome := 'epoch';
            number := t.epoch;
            RETURN;
        END IF;
    END IF;
    last_commit := @rule_last_in_chain;
    IF @rule_after IS NOT TRUE THEN
        outcome := 'after';
        named := last_commit;
        RETURN;
    END IF;
    -- A retried deletion whose thread is gone has succeeded.
    IF in_as_of <> coalesce(t.sequence, 0) AND (there OR NOT drop_thread) THEN
        outcome := 'as_of';
        number := coalesce(t.sequence, 0);
        RETURN;
    END IF;
    known_sequence := t.sequence;
    IF NOT kept THEN
        t.sequence := 0;
        t.next_value := 0;
    END IF;
    IF @rule_first IS NOT TRUE THEN
        outcome := 'first';
        number := t.next_value;
        RETURN;
    END IF;
    IF in_fence IS NOT NULL THEN
        -- The next holder of the lease waits until this transaction ends, and so reads what it
        -- wrote.
        SELECT x.token INTO number FROM @schema.leases AS x WHERE x.thread_id = in_thread AND x.space = lease_space FOR SHARE;
        IF number IS DISTINCT FROM in_fence THEN
            outcome := 'fence';
            RETURN;
        END IF;
    END IF;
    IF NOT kept AND NOT in_adds THEN
        outcome := 'applied';
        IF in_journal IS NOT NULL THEN
            INSERT INTO @schema.journal VALUES (
                in_thread, nextval('@text_schema.journal_positions'), in_commit, last_commit, t.incarnation, in_at, in_journal);
        END IF;
        IF in_chain THEN
            PERFORM @schema.end_chain_@code(in_thread, in_commit);
        END IF;
        IF there THEN
            INSERT INTO @schema.feed
            SELECT pg_current_xact_id(), nextval('@text_schema.feed_numbers'), known_sequence, 2, in_thread, t.user_id, t.incarnation
            FROM @rule_watched;
            fed := FOUND;
            PERFORM @schema.forget_@code(in_thread);
            removed := @rule_counted;
        END IF;
        RETURN;
    END IF;

    IF in_source IS NOT NULL THEN
        IF kept THEN
            outcome := 'exists';
            RETURN;
        END IF;
        IF source.thread_id IS NULL OR in_source = in_thread
            OR (source.user_id IS NOT NULL AND NOT in_any AND source.user_id IS DISTINCT FROM in_user) THEN
            outcome := 'source';
            RETURN;
        END IF;
        IF source_checkpoint IS NULL THEN
            SELECT * INTO origin FROM @schema.checkpoints AS x
            WHERE x.thread_id = in_source AND x.namespace = source_namespace ORDER BY x.sequence DESC LIMIT 1;
        ELSE
            SELECT * INTO origin FROM @schema.checkpoints AS x
            WHERE x.thread_id = in_source AND x.checkpoint_id = source_checkpoint AND x.namespace = source_namespace;
        END IF;
        IF origin.checkpoint_id IS NULL THEN
            outcome := 'origin';
            RETURN;
        END IF;
    END IF;

    FOR at IN 1 .. coalesce(cardinality(merge_firsts), 0) LOOP
        SELECT min(x.first) AS first, max(x.first + x.count) AS "end", sum(x.count) AS count INTO old FROM (
            SELECT v.first, v.count FROM @schema.value_rows AS v
            WHERE kept AND NOT drop_state AND v.thread_id = in_thread AND v.first < merge_firsts[at] + merge_counts[at]
                AND v.first >= coalesce((
                    SELECT w.first FROM @schema.value_rows AS w
                    WHERE w.thread_id = in_thread AND w.first <= merge_firsts[at] ORDER BY w.first DESC LIMIT 1), 0)
                AND v.first + v.count > merge_firsts[at]
                AND NOT EXISTS (
                    SELECT FROM unnest(drop_firsts, drop_ends) AS d (first, "end")
                    WHERE d.first <= v.first AND v.first + v.count <= d."end")
        ) AS x;
        IF old.first IS DISTINCT FROM merge_firsts[at] OR old."end" <> merge_firsts[at] + merge_counts[at]
            OR old.count <> merge_counts[at] THEN
            outcome := 'merge';
            number := at;
            RETURN;
        END IF;
    END LOOP;

    IF in_checkpoint IS NOT NULL THEN
        IF kept AND NOT drop_state THEN
            IF in_namespace = '' AND drop_checkpoints IS NULL THEN
                named := t.head;
            ELSE
                SELECT x.checkpoint_id INTO named FROM @schema.checkpoints AS x
                WHERE x.thread_id = in_thread AND x.namespace = in_namespace AND NOT EXISTS (
                    SELECT FROM unnest(drop_namespaces, drop_checkpoints) AS d (namespace, checkpoint_id)
                    WHERE d.namespace = x.namespace AND d.checkpoint_id = x.checkpoint_id)
                ORDER BY x.sequence DESC LIMIT 1;
            END IF;
        END IF;
        new_parent := CASE WHEN from_head THEN named ELSE in_parent END;
        IF new_parent IS DISTINCT FROM named AND (in_reject OR in_incarnation IS NULL) THEN
            -- Replacing a checkpoint can't conflict, and a branch only needs a parent that exists.
            PERFORM 1 FROM @schema.checkpoints AS x
            WHERE kept AND NOT drop_state AND x.thread_id = in_thread AND x.namespace = in_namespace
                AND (x.checkpoint_id = in_checkpoint OR (x.checkpoint_id = in_parent AND NOT in_reject))
                AND NOT EXISTS (
                    SELECT FROM unnest(drop_namespaces, drop_checkpoints) AS d (namespace, checkpoint_id)
                    WHERE d.namespace = x.namespace AND d.checkpoint_id = x.checkpoint_id);
            IF NOT FOUND AND (in_reject OR in_parent IS NOT NULL) THEN
                outcome := CASE WHEN in_reject THEN 'head' ELSE 'parent' END;
                RETURN;
            END IF;
        END IF;
    END IF;
    IF NOT kept THEN
        t.user_id := CASE WHEN in_any THEN source.user_id ELSE in_user END;
    END IF;
    IF describes AND NOT in_any AND in_owner IS DISTINCT FROM t.user_id THEN
        outcome := 'new_owner';
        RETURN;
    END IF;

    -- All rules passed: from here on only the server itself can fail.
    IF kept THEN
        IF drop_messages IS NOT NULL THEN
            WITH x AS (
                DELETE FROM @schema.messages AS m
                WHERE m.thread_id = in_thread AND m.message_id = ANY (drop_messages) RETURNING m.size
            ) SELECT count(*), coalesce(sum(x.size), 0) INTO counted, counted_bytes FROM x;
            removed := counted;
            t.message_count := t.message_count - counted;
            bytes := bytes - counted_bytes;
        END IF;
        IF drop_state THEN
            WITH c AS (
                DELETE FROM @schema.checkpoints AS x WHERE x.thread_id = in_thread
                RETURNING x.checkpoint_id, x.sequence, x.receipt, octet_length(x.metadata) + octet_length(x.body) AS size
            ), kept_receipts AS (
                INSERT INTO @schema.receipts SELECT in_thread, c.checkpoint_id, max(c.sequence)
                FROM c WHERE c.receipt AND c.sequence > t.sequence - @receipts_kept
                GROUP BY c.checkpoint_id ON CONFLICT DO NOTHING
            ), a AS (
                DELETE FROM @schema.attachments AS x WHERE x.thread_id = in_thread RETURNING octet_length(x.data) AS size
            ), v AS (
                DELETE FROM @schema.value_rows AS x WHERE x.thread_id = in_thread
                RETURNING octet_length(x.digests) + octet_length(x.data) AS size
            )
            SELECT (SELECT count(*) FROM c), coalesce((SELECT sum(c.size) FROM c), 0)
                + coalesce((SELECT sum(a.size) FROM a), 0) + coalesce((SELECT sum(v.size) FROM v), 0)
            INTO gone, counted_bytes;
            bytes := bytes - counted_bytes;
            t.head := NULL;
        ELSE
            IF drop_checkpoints IS NOT NULL THEN
                WITH named AS (
                    SELECT DISTINCT d.* FROM unnest(drop_namespaces, drop_checkpoints) AS d (namespace, checkpoint_id)
                ), c AS (
                    DELETE FROM @schema.checkpoints AS x USING named AS d
                    WHERE x.thread_id = in_thread AND x.checkpoint_id = d.checkpoint_id AND x.namespace = d.namespace
                    RETURNING x.checkpoint_id, x.sequence, x.receipt, octet_length(x.metadata) + octet_length(x.body) AS size
                ), kept_receipts AS (
                    INSERT INTO @schema.receipts SELECT in_thread, c.checkpoint_id, max(c.sequence)
                    FROM c WHERE c.receipt AND c.sequence > t.sequence - @receipts_kept
                    GROUP BY c.checkpoint_id ON CONFLICT DO NOTHING
                ), a AS (
                    DELETE FROM @schema.attachments AS x USING named AS d
                    WHERE x.thread_id = in_thread AND x.namespace = d.namespace AND x.checkpoint_id = d.checkpoint_id
                    RETURNING octet_length(x.data) AS size
                )
                SELECT (SELECT count(*) FROM c),
                    coalesce((SELECT sum(c.size) FROM c), 0) + coalesce((SELECT sum(a.size) FROM a), 0)
                INTO gone, counted_bytes;
                bytes := bytes - counted_bytes;
                SELECT x.checkpoint_id INTO t.head FROM @schema.checkpoints AS x
                WHERE x.thread_id = in_thread AND x.namespace = '' ORDER BY x.sequence DESC LIMIT 1;
            END IF;
            IF drop_firsts IS NOT NULL THEN
                WITH v AS (
                    DELETE FROM @schema.value_rows AS x USING unnest(drop_firsts, drop_ends) AS d (first, "end")
                    WHERE x.thread_id = in_thread AND x.first >= d.first AND x.first < d."end" AND x.first + x.count <= d."end"
                    RETURNING octet_length(x.digests) + octet_length(x.data) AS size
                ) SELECT coalesce(sum(v.size), 0) INTO counted_bytes FROM v;
                bytes := bytes - counted_bytes;
            END IF;
        END IF;
        t.checkpoint_count := t.checkpoint_count - gone;
        removed := removed + gone;
        IF drop_state OR gone > 0 OR drop_firsts IS NOT NULL THEN
            t.epoch := t.epoch + 1;
        END IF;
        t.sequence := t.sequence + 1;
        IF in_back <> '^' THEN
            IF in_back = '-' THEN
                branch_from := 0;
            ELSE
                SELECT x.sequence INTO branch_from FROM @schema.messages AS x
                WHERE x.thread_id = in_thread AND x.message_id = substr(in_back, 2);
            END IF;
        ELSIF in_checkpoint IS NOT NULL AND (in_back IS NOT NULL OR (in_namespace = '' AND new_parent IS DISTINCT FROM named))
            AND NOT EXISTS (
                SELECT FROM @schema.checkpoints AS x
                WHERE x.thread_id = in_thread AND x.checkpoint_id = in_checkpoint AND x.namespace = in_namespace) THEN
            IF new_parent IS NULL THEN
                branch_from := 0;
            ELSE
                SELECT x.sequence INTO branch_from FROM @schema.checkpoints AS x
                WHERE x.thread_id = in_thread AND x.checkpoint_id = new_parent AND x.namespace = in_namespace;
            END IF;
        ELSIF drop_checkpoints IS NOT NULL AND t.points IS NOT NULL THEN
            -- If the checkpoints of the newest branch are gone, the conversation goes back to the head's.
            SELECT max(x.sequence) INTO branch_from FROM @schema.checkpoints AS x
            WHERE x.thread_id = in_thread AND x.namespace = '';
            IF branch_from >= t.points[cardinality(t.points)] THEN
                branch_from := NULL;
            END IF;
        END IF;
        IF branch_from IS NOT NULL THEN
            t.points := t.points || ARRAY[branch_from, t.sequence];
            t.points := t.points[greatest(cardinality(t.points) - 2 * @most_points, 0) + 1 :];
        END IF;
    ELSE
        IF there THEN
            PERFORM @schema.forget_@code(in_thread);
            removed := @rule_counted;
        END IF;
        INSERT INTO @schema.threads VALUES (
            in_thread, t.user_id, coalesce(begin_incarnation, left(translate(gen_random_uuid()::text, '-', ''), 20)),
            nextval('@text_schema.thread_ordinals'), coalesce(begin_epoch, 0), coalesce(source.next_value, 0), 1,
            coalesce(source.next_message, 0), 0, 0, 0, in_at, in_at, in_at >> 27,
            NULL, NULL, source.run_id, source.thread_id, origin.checkpoint_id, in_folded, coalesce(source.text, ''),
            coalesce(source.data, ''), NULL, NULL, NULL, coalesce(source.labels, '{}')
        ) ON CONFLICT DO NOTHING RETURNING * INTO t;
        IF NOT FOUND THEN
            outcome := 'again';
            RETURN;
        END IF;
    END IF;

    IF in_source IS NOT NULL THEN
        -- Everything copied gets sequence 1, so that a fork of this fork includes it.
        INSERT INTO @schema.checkpoints VALUES (
            in_thread, 1, origin.saved_at, origin.step, origin.size, copy_id = in_commit,
            source_namespace, copy_id, NULL, origin.node_name, origin.run_id, origin.covers, origin.metadata, origin.body,
            origin.created_at);
        bytes := bytes + octet_length(origin.metadata) + octet_length(origin.body);
        t.checkpoint_count := 1;
        IF source_namespace = '' THEN
            t.head := copy_id;
        END IF;
        WITH a AS (
            INSERT INTO @schema.attachments
            SELECT in_thread, x.namespace, copy_id, x.key, x.data FROM @schema.attachments AS x
            WHERE x.thread_id = in_source AND x.namespace = source_namespace AND x.checkpoint_id = origin.checkpoint_id
            RETURNING octet_length(data) AS size
        ), m AS (
            INSERT INTO @schema.messages
            SELECT in_thread, x.position, 1, x.created_at, x.size, x.tool_calls, x.message_id, x.run_id, x.text, x.data,
                x.input_tokens, x.output_tokens
            FROM @schema.messages AS x WHERE x.thread_id = in_source
                AND x.sequence <@ @schema.visible_@code(coalesce(source.points, '{}'), origin.sequence)
            RETURNING size, position
        ), w AS (
            INSERT INTO @schema.search_waiting (thread_id, position) SELECT in_thread, m.position FROM m
        ), v AS (
            INSERT INTO @schema.value_rows
            SELECT in_thread, x.first, x.count, x.digests, x.data
            FROM @schema.covered_@code(in_source, origin.covers) AS x
            RETURNING octet_length(digests) + octet_length(data) AS size
        )
        SELECT (SELECT count(*) FROM m), coalesce((SELECT sum(a.size) FROM a), 0)
            + coalesce((SELECT sum(m.size) FROM m), 0) + coalesce((SELECT sum(v.size) FROM v), 0)
        INTO t.message_count, counted_bytes;
        bytes := bytes + counted_bytes;
    END IF;

    IF in_first IS NOT NULL THEN
        INSERT INTO @schema.value_rows VALUES (in_thread, in_first, in_count, in_digests, in_data);
        bytes := bytes + octet_length(in_digests) + octet_length(in_data);
        t.next_value := in_first + in_count;
    END IF;
    IF merge_firsts IS NOT NULL THEN
        WITH v AS (
            DELETE FROM @schema.value_rows AS x USING unnest(merge_firsts, merge_counts) AS d (first, count)
            WHERE x.thread_id = in_thread AND x.first >= d.first AND x.first < d.first + d.count
            RETURNING octet_length(x.digests) + octet_length(x.data) AS size
        ) SELECT coalesce(sum(v.size), 0) INTO counted_bytes FROM v;
        bytes := bytes - counted_bytes;
        WITH v AS (
            INSERT INTO @schema.value_rows
            SELECT in_thread, x.* FROM unnest(merge_firsts, merge_counts, merge_digests, merge_datas) AS x
            RETURNING octet_length(digests) + octet_length(data) AS size
        ) SELECT coalesce(sum(v.size), 0) INTO counted_bytes FROM v;
        bytes := bytes + counted_bytes;
    END IF;

    IF in_checkpoint IS NOT NULL THEN
        bytes := bytes + octet_length(in_metadata) + octet_length(in_body);
        SELECT octet_length(x.metadata) + octet_length(x.body) AS size, x.receipt, x.sequence,
            coalesce(in_created, x.created_at, x.saved_at) AS first INTO old
        FROM @schema.checkpoints AS x
        WHERE x.thread_id = in_thread AND x.checkpoint_id = in_checkpoint AND x.namespace = in_namespace;
        replaced := FOUND;
        IF replaced THEN
            bytes := bytes - old.size;
            IF old.receipt AND in_commit <> in_checkpoint AND old.sequence > t.sequence - @receipts_kept THEN
                INSERT INTO @schema.receipts VALUES (in_thread, in_checkpoint, old.sequence) ON CONFLICT DO NOTHING;
            END IF;
            -- A damaged time, out of the range of dates, is not kept.
            UPDATE @schema.checkpoints AS x SET saved_at = in_at,
                created_at = CASE WHEN old.first BETWEEN @first_time AND @last_time THEN old.first END, step = in_step, size = in_size,
                receipt = (in_commit = in_checkpoint), node_name = in_node, run_id = in_run, covers = in_covers,
                metadata = in_metadata, body = in_body
            WHERE x.thread_id = in_thread AND x.checkpoint_id = in_checkpoint AND x.namespace = in_namespace;
        ELSE
            INSERT INTO @schema.checkpoints VALUES (
                in_thread, t.sequence, in_at, in_step, in_size, in_commit = in_checkpoint, in_namespace, in_checkpoint,
                new_parent, in_node, in_run, in_covers, in_metadata, in_body, in_created);
            t.checkpoint_count := t.checkpoint_count + 1;
            IF in_namespace = '' THEN
                t.head := in_checkpoint;
            END IF;
        END IF;
    END IF;
    IF in_receipts IS NOT NULL THEN
        -- They get the sequence numbers before this commit's, and existing receipts move back by as
        -- many.
        UPDATE @schema.receipts AS x SET sequence = x.sequence - cardinality(in_receipts) WHERE x.thread_id = in_thread;
        INSERT INTO @schema.receipts AS x
        SELECT in_thread, r.commit_id, t.sequence - cardinality(in_receipts) + r.place - 1
        FROM unnest(in_receipts) WITH ORDINALITY AS r (commit_id, place)
        ON CONFLICT (thread_id, commit_id) DO UPDATE SET sequence = excluded.sequence;
        PERFORM @schema.prune_@code(in_thread, t.sequence - @receipts_pruned);
    END IF;
    IF replaced OR made_id IS DISTINCT FROM in_commit THEN
        -- A replaced checkpoint keeps the sequence of the commit that created it, so this commit
        -- needs a receipt.
        INSERT INTO @schema.receipts VALUES (in_thread, in_commit, t.sequence) ON CONFLICT DO NOTHING;
    END IF;
    IF t.sequence % @receipts_pruned = 0 THEN
        PERFORM @schema.prune_@code(in_thread, t.sequence);
    END IF;

    IF attachment_keys IS NOT NULL THEN
        SELECT coalesce(sum(octet_length(a.data) - coalesce(octet_length(x.data), 0)), 0) INTO counted_bytes
        FROM unnest(attachment_namespaces, attachment_checkpoints, attachment_keys, attachment_datas)
            AS a (namespace, checkpoint_id, key, data)
        LEFT JOIN @schema.attachments AS x ON x.thread_id = in_thread AND x.namespace = a.namespace
            AND x.checkpoint_id = a.checkpoint_id AND x.key = a.key
        WHERE x.key IS NULL OR NOT keep_attachments;
        bytes := bytes + counted_bytes;
        IF keep_attachments THEN
            INSERT INTO @schema.attachments
            SELECT in_thread, x.* FROM unnest(attachment_namespaces, attachment_checkpoints, attachment_keys, attachment_datas) AS x
            ON CONFLICT DO NOTHING;
        ELSE
            INSERT INTO @schema.attachments AS old
            SELECT in_thread, x.* FROM unnest(attachment_namespaces, attachment_checkpoints, attachment_keys, attachment_datas) AS x
            ON CONFLICT (thread_id, namespace, checkpoint_id, key) DO UPDATE SET data = excluded.data;
        END IF;
    END IF;

    IF message_ids IS NOT NULL THEN
        IF t.points IS NOT NULL AND move_messages THEN
            -- Messages that only other branches have move to this one.
            WITH x AS (
                DELETE FROM @schema.messages AS m WHERE m.thread_id = in_thread AND m.message_id = ANY (message_ids)
                    AND NOT m.sequence <@ @schema.visible_@code(t.points, 1::bigint << 62) RETURNING m.size
            ) SELECT count(*), coalesce(sum(x.size), 0) INTO counted, counted_bytes FROM x;
            t.message_count := t.message_count - counted;
            bytes := bytes - counted_bytes;
        END IF;
        WITH new AS MATERIALIZED (
            SELECT m.*, x.position AS known, x.size AS known_size
            FROM unnest(
                message_ids, message_texts, message_tools, message_runs, message_times, message_sizes, message_datas,
                message_inputs, message_outputs
            ) WITH ORDINALITY AS m (message_id, text, tool_calls, run_id, created_at, size, data, input_tokens, output_tokens, n)
            LEFT JOIN @schema.messages AS x ON x.thread_id = in_thread AND x.message_id = m.message_id
        ), replaced AS (
            UPDATE @schema.messages AS x SET text = new.text, tool_calls = new.tool_calls, run_id = new.run_id,
                created_at = new.created_at, size = new.size, data = new.data, input_tokens = new.input_tokens,
                output_tokens = new.output_tokens
            FROM new WHERE x.thread_id = in_thread AND x.position = new.known
        ), added AS (
            INSERT INTO @schema.messages
            SELECT in_thread, t.next_message + row_number() OVER (ORDER BY new.n) - 1, t.sequence, new.created_at, new.size,
                new.tool_calls, new.message_id, new.run_id, new.text, new.data, new.input_tokens, new.output_tokens
            FROM new WHERE new.known IS NULL ORDER BY new.n
            RETURNING position
        ), waiting AS (
            INSERT INTO @schema.search_waiting (thread_id, position)
            SELECT in_thread, added.position FROM added
            UNION ALL SELECT in_thread, new.known FROM new WHERE new.known IS NOT NULL
        )
        SELECT count(*) FILTER (WHERE new.known IS NULL), sum(new.size - coalesce(new.known_size, 0))
        INTO counted, counted_bytes FROM new;
        t.next_message := t.next_message + counted;
        t.message_count := t.message_count + counted;
        bytes := bytes + counted_bytes;
    END IF;
    IF describes THEN
        t.user_id := in_owner;
        t.run_id := thread_run;
        t.text := in_text;
        t.data := in_fields;
        t.labels := coalesce(in_labels, '{}');
    END IF;
    IF @rule_space <> lease_space THEN
        DELETE FROM @schema.leases AS x WHERE x.thread_id = in_thread;
    END IF;
    IF in_journal IS NOT NULL THEN
        INSERT INTO @schema.journal VALUES (
            in_thread, nextval('@text_schema.journal_positions'), in_commit, last_commit, t.incarnation, in_at, in_journal);
    END IF;
    IF in_chain THEN
        t.chain := in_commit;
        t.chained_at := t.sequence;
    END IF;
    t.updated_at := greatest(t.updated_at, in_at);
    UPDATE @schema.threads AS x SET user_id = t.user_id, epoch = t.epoch, next_value = t.next_value, sequence = t.sequence,
        next_message = t.next_message, message_count = t.message_count, checkpoint_count = t.checkpoint_count,
        size = t.size + bytes, updated_at = t.updated_at, active = t.updated_at >> 27, head = t.head, run_id = t.run_id,
        text = t.text, data = t.data, chain = t.chain, chained_at = t.chained_at, points = t.points, labels = t.labels
    WHERE x.thread_id = in_thread;
    IF made_id IS NOT NULL OR message_ids IS NOT NULL OR describes OR removed > 0 OR (there AND drop_thread) THEN
        INSERT INTO @schema.feed
        SELECT pg_current_xact_id(), nextval('@text_schema.feed_numbers'), t.sequence,
            (describes OR in_source IS NOT NULL)::integer + 2 * (there AND drop_thread)::integer
                + 4 * (kept AND drop_state AND removed > 0)::integer,
            in_thread, t.user_id, t.incarnation, made_namespace, made_id, message_ids,
            CASE WHEN there AND owner_before IS DISTINCT FROM t.user_id THEN coalesce('+' || owner_before::text, '-') END,
            CASE WHEN kept AND removed > 0 THEN drop_namespaces END, CASE WHEN kept AND removed > 0 THEN drop_checkpoints END,
            CASE WHEN kept AND removed > 0 THEN drop_messages END
        FROM @rule_watched;
        fed := FOUND;
    END IF;

    outcome := 'applied';
    incarnation := t.incarnation;
    epoch := t.epoch;
    next_value := t.next_value;
    IF made_id IS NOT NULL THEN
        SELECT x.sequence, x.parent_id, x.saved_at, coalesce(x.created_at, x.saved_at)
        INTO sequence, parent, saved_at, created_at FROM @schema.checkpoints AS x
        WHERE x.thread_id = in_thread AND x.checkpoint_id = made_id AND x.namespace = made_namespace;
    END IF;
END $clew$;
