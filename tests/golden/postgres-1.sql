-- A schema of version 1 with a few threads, as pg_dump wrote it (the trigram index left out, which not every server can have).
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA "golden schema";
CREATE FUNCTION "golden schema".commit(in_thread text, in_folded text, in_any boolean, in_user text, in_commit text, in_at bigint, in_incarnation text, in_epoch bigint, in_fence bigint, in_adds boolean, drop_thread boolean, drop_state boolean, drop_namespaces text[], drop_checkpoints text[], drop_messages text[], drop_firsts bigint[], drop_ends bigint[], in_as_of bigint, in_source text, source_namespace text, source_checkpoint text, copy_id text, in_first bigint, in_count integer, in_digests bytea, in_data bytea, merge_firsts bigint[], merge_counts integer[], merge_digests bytea[], merge_datas bytea[], in_checkpoint text, in_namespace text, from_head boolean, in_parent text, in_reject boolean, in_node text, in_step bigint, in_run text, in_size bigint, in_covers bigint[], in_metadata bytea, in_body bytea, keep_attachments boolean, attachment_namespaces text[], attachment_checkpoints text[], attachment_keys text[], attachment_datas bytea[], message_ids text[], message_texts text[], message_tools integer[], message_runs text[], message_times bigint[], message_sizes bigint[], message_datas bytea[], describes boolean, in_text text, in_fields bytea, thread_run text, in_owner text, OUT outcome text, OUT named text, OUT number bigint, OUT incarnation text, OUT epoch bigint, OUT next_value bigint, OUT sequence bigint, OUT parent text, OUT created_at bigint, OUT removed bigint) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
    t "golden schema".threads;
    source "golden schema".threads;
    origin "golden schema".checkpoints;
    old record;
    there boolean;
    kept boolean;
    made_id text := coalesce(in_checkpoint, copy_id);
    made_namespace text := CASE WHEN in_checkpoint IS NULL THEN source_namespace ELSE in_namespace END;
    new_parent text;
    gone bigint := 0;
    bytes bigint := 0;
    counted bigint;
    counted_bytes bigint;
BEGIN
    removed := 0;
    IF in_source IS NOT NULL THEN
        -- Two rows are locked in one order by everybody, or two forks could wait for each other.
        PERFORM 1 FROM "golden schema".threads AS x WHERE x.thread_id IN (in_thread, in_source) ORDER BY x.thread_id FOR UPDATE;
        SELECT * INTO source FROM "golden schema".threads AS x WHERE x.thread_id = in_source;
    END IF;
    SELECT * INTO t FROM "golden schema".threads AS x WHERE x.thread_id = in_thread FOR UPDATE;
    there := t.thread_id IS NOT NULL;
    kept := there AND NOT drop_thread;
    IF there THEN
        IF t.user_id IS NOT NULL AND NOT in_any AND t.user_id IS DISTINCT FROM in_user THEN
            outcome := 'owner';
            RETURN;
        END IF;
        PERFORM 1 FROM "golden schema".checkpoints AS x
        WHERE x.thread_id = in_thread AND x.checkpoint_id = in_commit AND x.receipt;
        IF NOT FOUND THEN
            PERFORM 1 FROM "golden schema".receipts AS x WHERE x.thread_id = in_thread AND x.commit_id = in_commit;
        END IF;
        IF FOUND THEN
            outcome := 'repeated';
            SELECT x.sequence, x.parent_id, x.created_at INTO sequence, parent, created_at FROM "golden schema".checkpoints AS x
            WHERE x.thread_id = in_thread AND x.checkpoint_id = made_id AND x.namespace = made_namespace;
            incarnation := t.incarnation;
            epoch := t.epoch;
            next_value := t.next_value;
            RETURN;
        END IF;
    END IF;

    -- A deletion that comes again, because its answer was lost, finds what it wants.
    IF in_incarnation IS NOT NULL AND (there OR NOT drop_thread) THEN
        IF NOT there OR t.incarnation <> in_incarnation THEN
            outcome := 'deleted';
            RETURN;
        ELSIF t.epoch <> in_epoch THEN
            outcome := 'epoch';
            number := t.epoch;
            RETURN;
        END IF;
    END IF;
    IF in_as_of <> (CASE WHEN kept THEN t.sequence ELSE 0 END) THEN
        outcome := 'as_of';
        number := CASE WHEN kept THEN t.sequence ELSE 0 END;
        RETURN;
    END IF;
    IF in_source IS NULL AND in_first <> (CASE WHEN kept THEN t.next_value ELSE 0 END) THEN
        outcome := 'first';
        number := CASE WHEN kept THEN t.next_value ELSE 0 END;
        RETURN;
    END IF;
    IF in_fence IS NOT NULL THEN
        -- Whoever takes the lease now waits until this commit is through, and so reads what it wrote.
        SELECT x.token INTO number FROM "golden schema".leases AS x WHERE x.thread_id = in_thread FOR SHARE;
        IF number IS DISTINCT FROM in_fence THEN
            outcome := 'fence';
            RETURN;
        END IF;
    END IF;
    IF NOT kept AND NOT in_adds THEN
        outcome := 'applied';
        IF there THEN
            PERFORM "golden schema".forget(in_thread);
            removed := t.checkpoint_count + t.message_count;
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
            SELECT * INTO origin FROM "golden schema".checkpoints AS x
            WHERE x.thread_id = in_source AND x.namespace = source_namespace ORDER BY x.sequence DESC LIMIT 1;
        ELSE
            SELECT * INTO origin FROM "golden schema".checkpoints AS x
            WHERE x.thread_id = in_source AND x.checkpoint_id = source_checkpoint AND x.namespace = source_namespace;
        END IF;
        IF origin.checkpoint_id IS NULL THEN
            outcome := 'origin';
            RETURN;
        END IF;
        IF in_first <> source.next_value THEN
            outcome := 'first';
            number := source.next_value;
            RETURN;
        END IF;
    END IF;

    FOR at IN 1 .. coalesce(cardinality(merge_firsts), 0) LOOP
        SELECT min(x.first) AS first, max(x.first + x.count) AS "end", sum(x.count) AS count INTO old FROM (
            SELECT v.first, v.count FROM "golden schema".value_rows AS v
            WHERE kept AND NOT drop_state AND v.thread_id = in_thread AND v.first < merge_firsts[at] + merge_counts[at]
                AND v.first >= coalesce((
                    SELECT w.first FROM "golden schema".value_rows AS w
                    WHERE w.thread_id = in_thread AND w.first <= merge_firsts[at] ORDER BY w.first DESC LIMIT 1), 0)
                AND v.first + v.count > merge_firsts[at]
                AND NOT EXISTS (
                    SELECT FROM unnest(drop_firsts, drop_ends) AS d (first, "end")
                    WHERE d.first <= v.first AND v.first + v.count <= d."end")
            UNION ALL
            SELECT in_first, in_count WHERE in_first < merge_firsts[at] + merge_counts[at]
        ) AS x;
        IF old.first IS DISTINCT FROM merge_firsts[at] OR old."end" <> merge_firsts[at] + merge_counts[at]
            OR old.count <> merge_counts[at] THEN
            outcome := 'merge';
            number := at;
            RETURN;
        END IF;
    END LOOP;

    IF in_checkpoint IS NOT NULL THEN
        IF in_source IS NOT NULL THEN
            IF in_namespace = source_namespace THEN
                named := copy_id;
            END IF;
        ELSIF kept AND NOT drop_state THEN
            IF in_namespace = '' AND drop_checkpoints IS NULL THEN
                named := t.head;
            ELSE
                SELECT x.checkpoint_id INTO named FROM "golden schema".checkpoints AS x
                WHERE x.thread_id = in_thread AND x.namespace = in_namespace AND NOT EXISTS (
                    SELECT FROM unnest(drop_namespaces, drop_checkpoints) AS d (namespace, checkpoint_id)
                    WHERE d.namespace = x.namespace AND d.checkpoint_id = x.checkpoint_id)
                ORDER BY x.sequence DESC LIMIT 1;
            END IF;
        END IF;
        new_parent := CASE WHEN from_head THEN named ELSE in_parent END;
        IF new_parent IS DISTINCT FROM named AND (in_reject OR in_incarnation IS NULL) THEN
            -- Unless it is to be replaced, which meets no conflict; or the parent is there.
            PERFORM 1 FROM "golden schema".checkpoints AS x
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

    -- Everything is decided: from here on only the server itself can fail.
    IF kept THEN
        IF drop_messages IS NOT NULL THEN
            WITH x AS (
                DELETE FROM "golden schema".messages AS m
                WHERE m.thread_id = in_thread AND m.message_id = ANY (drop_messages) RETURNING m.size
            ) SELECT count(*), coalesce(sum(x.size), 0) INTO counted, counted_bytes FROM x;
            removed := counted;
            t.message_count := t.message_count - counted;
            bytes := bytes - counted_bytes;
        END IF;
        IF drop_state THEN
            WITH c AS (
                DELETE FROM "golden schema".checkpoints AS x WHERE x.thread_id = in_thread
                RETURNING x.checkpoint_id, x.sequence, x.receipt, octet_length(x.metadata) + octet_length(x.body) AS size
            ), kept_receipts AS (
                INSERT INTO "golden schema".receipts SELECT in_thread, c.checkpoint_id, min(c.sequence), true FROM c WHERE c.receipt
                GROUP BY c.checkpoint_id ON CONFLICT DO NOTHING
            ), a AS (
                DELETE FROM "golden schema".attachments AS x WHERE x.thread_id = in_thread RETURNING octet_length(x.data) AS size
            ), v AS (
                DELETE FROM "golden schema".value_rows AS x WHERE x.thread_id = in_thread
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
                    DELETE FROM "golden schema".checkpoints AS x USING named AS d
                    WHERE x.thread_id = in_thread AND x.checkpoint_id = d.checkpoint_id AND x.namespace = d.namespace
                    RETURNING x.checkpoint_id, x.sequence, x.receipt, octet_length(x.metadata) + octet_length(x.body) AS size
                ), kept_receipts AS (
                    INSERT INTO "golden schema".receipts SELECT in_thread, c.checkpoint_id, min(c.sequence), true
                    FROM c WHERE c.receipt GROUP BY c.checkpoint_id ON CONFLICT DO NOTHING
                ), a AS (
                    DELETE FROM "golden schema".attachments AS x USING named AS d
                    WHERE x.thread_id = in_thread AND x.namespace = d.namespace AND x.checkpoint_id = d.checkpoint_id
                    RETURNING octet_length(x.data) AS size
                )
                SELECT (SELECT count(*) FROM c),
                    coalesce((SELECT sum(c.size) FROM c), 0) + coalesce((SELECT sum(a.size) FROM a), 0)
                INTO gone, counted_bytes;
                bytes := bytes - counted_bytes;
                SELECT x.checkpoint_id INTO t.head FROM "golden schema".checkpoints AS x
                WHERE x.thread_id = in_thread AND x.namespace = '' ORDER BY x.sequence DESC LIMIT 1;
            END IF;
            IF drop_firsts IS NOT NULL THEN
                WITH v AS (
                    DELETE FROM "golden schema".value_rows AS x USING unnest(drop_firsts, drop_ends) AS d (first, "end")
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
    ELSE
        IF there THEN
            PERFORM "golden schema".forget(in_thread);
            removed := t.checkpoint_count + t.message_count;
        END IF;
        INSERT INTO "golden schema".threads VALUES (
            in_thread, t.user_id, left(translate(gen_random_uuid()::text, '-', ''), 20), nextval('"golden schema".thread_ordinals'),
            0, coalesce(source.next_value, 0), 1, coalesce(source.next_message, 0), 0, 0, 0, in_at, in_at, in_at >> 27,
            NULL, NULL, source.run_id, source.thread_id, origin.checkpoint_id, in_folded, coalesce(source.text, ''),
            coalesce(source.data, '')
        ) ON CONFLICT DO NOTHING RETURNING * INTO t;
        IF NOT FOUND THEN
            outcome := 'again';
            RETURN;
        END IF;
    END IF;

    IF in_source IS NOT NULL THEN
        -- What it brings is number 1, also for a fork of this fork.
        INSERT INTO "golden schema".checkpoints VALUES (
            in_thread, 1, origin.created_at, origin.step, origin.size, copy_id = in_commit AND in_checkpoint IS NULL,
            source_namespace, copy_id, NULL, origin.node_name, origin.run_id, origin.covers, origin.metadata, origin.body);
        bytes := bytes + octet_length(origin.metadata) + octet_length(origin.body);
        t.checkpoint_count := 1;
        IF source_namespace = '' THEN
            t.head := copy_id;
        END IF;
        WITH a AS (
            INSERT INTO "golden schema".attachments
            SELECT in_thread, x.namespace, copy_id, x.key, x.data FROM "golden schema".attachments AS x
            WHERE x.thread_id = in_source AND x.namespace = source_namespace AND x.checkpoint_id = origin.checkpoint_id
            RETURNING octet_length(data) AS size
        ), m AS (
            INSERT INTO "golden schema".messages
            SELECT in_thread, x.position, 1, x.created_at, x.size, x.tool_calls, x.message_id, x.run_id, x.text, x.data
            FROM "golden schema".messages AS x WHERE x.thread_id = in_source AND x.sequence <= origin.sequence
            RETURNING size
        ), v AS (
            INSERT INTO "golden schema".value_rows
            SELECT in_thread, x.first, x.count, x.digests, x.data
            FROM "golden schema".covered(in_source, origin.covers) AS x
            RETURNING octet_length(digests) + octet_length(data) AS size
        )
        SELECT (SELECT count(*) FROM m), coalesce((SELECT sum(a.size) FROM a), 0)
            + coalesce((SELECT sum(m.size) FROM m), 0) + coalesce((SELECT sum(v.size) FROM v), 0)
        INTO t.message_count, counted_bytes;
        bytes := bytes + counted_bytes;
        IF in_checkpoint IS NOT NULL THEN
            t.sequence := 2;
        END IF;
    END IF;

    IF in_first IS NOT NULL THEN
        INSERT INTO "golden schema".value_rows VALUES (in_thread, in_first, in_count, in_digests, in_data);
        bytes := bytes + octet_length(in_digests) + octet_length(in_data);
        t.next_value := in_first + in_count;
    END IF;
    IF merge_firsts IS NOT NULL THEN
        WITH v AS (
            DELETE FROM "golden schema".value_rows AS x USING unnest(merge_firsts, merge_counts) AS d (first, count)
            WHERE x.thread_id = in_thread AND x.first >= d.first AND x.first < d.first + d.count
            RETURNING octet_length(x.digests) + octet_length(x.data) AS size
        ) SELECT coalesce(sum(v.size), 0) INTO counted_bytes FROM v;
        bytes := bytes - counted_bytes;
        WITH v AS (
            INSERT INTO "golden schema".value_rows
            SELECT in_thread, x.* FROM unnest(merge_firsts, merge_counts, merge_digests, merge_datas) AS x
            RETURNING octet_length(digests) + octet_length(data) AS size
        ) SELECT coalesce(sum(v.size), 0) INTO counted_bytes FROM v;
        bytes := bytes + counted_bytes;
    END IF;

    IF in_checkpoint IS NOT NULL THEN
        bytes := bytes + octet_length(in_metadata) + octet_length(in_body);
        SELECT octet_length(x.metadata) + octet_length(x.body) INTO counted_bytes FROM "golden schema".checkpoints AS x
        WHERE x.thread_id = in_thread AND x.checkpoint_id = in_checkpoint AND x.namespace = in_namespace;
        IF FOUND THEN
            bytes := bytes - counted_bytes;
            UPDATE "golden schema".checkpoints AS x SET created_at = in_at, step = in_step, size = in_size,
                receipt = x.receipt OR in_commit = in_checkpoint, node_name = in_node, run_id = in_run, covers = in_covers,
                metadata = in_metadata, body = in_body
            WHERE x.thread_id = in_thread AND x.checkpoint_id = in_checkpoint AND x.namespace = in_namespace;
        ELSE
            INSERT INTO "golden schema".checkpoints VALUES (
                in_thread, t.sequence, in_at, in_step, in_size, in_commit = in_checkpoint, in_namespace, in_checkpoint,
                new_parent, in_node, in_run, in_covers, in_metadata, in_body);
            t.checkpoint_count := t.checkpoint_count + 1;
            IF in_namespace = '' THEN
                t.head := in_checkpoint;
            END IF;
        END IF;
    END IF;
    IF made_id IS DISTINCT FROM in_commit THEN
        INSERT INTO "golden schema".receipts VALUES (in_thread, in_commit, t.sequence, made_id IS NOT NULL);
        IF t.sequence % 64 = 0 THEN
            DELETE FROM "golden schema".receipts AS x
            WHERE x.thread_id = in_thread AND NOT x.lasting AND x.sequence < t.sequence - 256;
        END IF;
    END IF;

    IF attachment_keys IS NOT NULL THEN
        SELECT coalesce(sum(octet_length(a.data) - coalesce(octet_length(x.data), 0)), 0) INTO counted_bytes
        FROM unnest(attachment_namespaces, attachment_checkpoints, attachment_keys, attachment_datas)
            AS a (namespace, checkpoint_id, key, data)
        LEFT JOIN "golden schema".attachments AS x ON x.thread_id = in_thread AND x.namespace = a.namespace
            AND x.checkpoint_id = a.checkpoint_id AND x.key = a.key
        WHERE x.key IS NULL OR NOT keep_attachments;
        bytes := bytes + counted_bytes;
        IF keep_attachments THEN
            INSERT INTO "golden schema".attachments
            SELECT in_thread, x.* FROM unnest(attachment_namespaces, attachment_checkpoints, attachment_keys, attachment_datas) AS x
            ON CONFLICT DO NOTHING;
        ELSE
            INSERT INTO "golden schema".attachments AS old
            SELECT in_thread, x.* FROM unnest(attachment_namespaces, attachment_checkpoints, attachment_keys, attachment_datas) AS x
            ON CONFLICT (thread_id, namespace, checkpoint_id, key) DO UPDATE SET data = excluded.data;
        END IF;
    END IF;

    IF message_ids IS NOT NULL THEN
        WITH new AS MATERIALIZED (
            SELECT m.*, x.position AS known, x.size AS known_size
            FROM unnest(message_ids, message_texts, message_tools, message_runs, message_times, message_sizes, message_datas)
                WITH ORDINALITY AS m (message_id, text, tool_calls, run_id, created_at, size, data, n)
            LEFT JOIN "golden schema".messages AS x ON x.thread_id = in_thread AND x.message_id = m.message_id
        ), replaced AS (
            UPDATE "golden schema".messages AS x SET text = new.text, tool_calls = new.tool_calls, run_id = new.run_id,
                created_at = new.created_at, size = new.size, data = new.data
            FROM new WHERE x.thread_id = in_thread AND x.position = new.known
        ), added AS (
            INSERT INTO "golden schema".messages
            SELECT in_thread, t.next_message + row_number() OVER (ORDER BY new.n) - 1, t.sequence, new.created_at, new.size,
                new.tool_calls, new.message_id, new.run_id, new.text, new.data
            FROM new WHERE new.known IS NULL ORDER BY new.n
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
    END IF;
    t.updated_at := greatest(t.updated_at, in_at);
    UPDATE "golden schema".threads AS x SET user_id = t.user_id, epoch = t.epoch, next_value = t.next_value, sequence = t.sequence,
        next_message = t.next_message, message_count = t.message_count, checkpoint_count = t.checkpoint_count,
        size = t.size + bytes, updated_at = t.updated_at, active = t.updated_at >> 27, head = t.head, run_id = t.run_id,
        text = t.text, data = t.data
    WHERE x.thread_id = in_thread;

    outcome := 'applied';
    incarnation := t.incarnation;
    epoch := t.epoch;
    next_value := t.next_value;
    IF made_id IS NOT NULL THEN
        SELECT x.sequence, x.parent_id, x.created_at INTO sequence, parent, created_at FROM "golden schema".checkpoints AS x
        WHERE x.thread_id = in_thread AND x.checkpoint_id = made_id AND x.namespace = made_namespace;
    END IF;
END $$;
CREATE FUNCTION "golden schema".commit_alone(in_thread text, in_any boolean, in_user text, in_at bigint, in_incarnation text, in_epoch bigint, in_first bigint, in_count integer, in_digests bytea, in_data bytea, in_checkpoint text, in_free boolean, in_from_head boolean, in_parent text, in_namespace text, in_node text, in_step bigint, in_run text, in_size bigint, in_covers bigint[], in_metadata bytea, in_body bytea, OUT new_incarnation text, OUT new_epoch bigint, OUT new_next_value bigint, OUT new_sequence bigint, OUT new_parent text) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
BEGIN
    -- What this finds in the thread's row, and so all that it decides by, is as the last to change it left it.
    UPDATE "golden schema".threads AS t SET sequence = t.sequence + 1, next_value = coalesce(in_first + in_count, t.next_value),
        checkpoint_count = t.checkpoint_count + 1,
        size = t.size + coalesce(octet_length(in_digests) + octet_length(in_data), 0)
            + octet_length(in_metadata) + octet_length(in_body),
        updated_at = greatest(t.updated_at, in_at), active = greatest(t.updated_at, in_at) >> 27,
        head = CASE WHEN in_namespace = '' THEN in_checkpoint ELSE t.head END, head_before = t.head
    WHERE t.thread_id = in_thread AND (in_any OR t.user_id IS NULL OR t.user_id = in_user)
        AND t.incarnation = in_incarnation AND t.epoch = in_epoch AND (in_first IS NULL OR t.next_value = in_first)
        AND (in_free OR t.head IS NOT DISTINCT FROM in_parent)
    RETURNING t.incarnation, t.epoch, t.next_value, t.sequence, CASE WHEN in_from_head THEN t.head_before ELSE in_parent END
    INTO new_incarnation, new_epoch, new_next_value, new_sequence, new_parent;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO "golden schema".checkpoints VALUES (
        in_thread, new_sequence, in_at, in_step, in_size, true, in_namespace, in_checkpoint, new_parent, in_node, in_run,
        in_covers, in_metadata, in_body);
    IF in_first IS NOT NULL THEN
        INSERT INTO "golden schema".value_rows VALUES (in_thread, in_first, in_count, in_digests, in_data);
    END IF;
    PERFORM FROM "golden schema".receipts AS r WHERE r.thread_id = in_thread AND r.commit_id = in_checkpoint;
    IF FOUND THEN
        RAISE EXCEPTION 'clew: this commit was applied before' USING ERRCODE = 'unique_violation';
    END IF;
END $$;
CREATE FUNCTION "golden schema".commit_usual(thread_ids text[], folded_ids text[], arrivals integer[], flags integer[], users text[], commit_ids text[], times bigint[], incarnations text[], epochs bigint[], fences bigint[], firsts bigint[], counts integer[], digests bytea[], datas bytea[], checkpoint_ids text[], parents text[], namespaces text[], nodes text[], steps bigint[], runs text[], sizes bigint[], covers text[], metadatas bytea[], bodies bytea[], message_counts integer[], other_bytes bigint[], attachment_of integer[], attachment_namespaces text[], attachment_checkpoints text[], attachment_keys text[], attachment_datas bytea[], message_of integer[], message_ids text[], message_texts text[], message_tools integer[], message_runs text[], message_times bigint[], message_sizes bigint[], message_datas bytea[], OUT applied integer[], OUT new_incarnations text[], OUT new_epochs bigint[], OUT new_next_values bigint[], OUT new_sequences bigint[], OUT new_parents text[]) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
    unusual integer[] := '{}';
    next_messages bigint[];
BEGIN
    IF arrivals IS NOT NULL THEN
        INSERT INTO "golden schema".threads
        SELECT n.thread_id, n.user_id, left(translate(gen_random_uuid()::text, '-', ''), 20), n.ordinal, 0, 0, 0, 0, 0, 0, 0,
            n.at, n.at, n.at >> 27, NULL, NULL, NULL, NULL, NULL, n.folded_id, '', ''
        FROM (
            SELECT a.*, nextval('"golden schema".thread_ordinals') AS ordinal FROM (
                SELECT * FROM unnest(thread_ids, folded_ids, arrivals, users, times, incarnations, firsts, parents)
                    AS u (thread_id, folded_id, arrival, user_id, at, incarnation, first, parent)
                WHERE u.incarnation IS NULL AND coalesce(u.first, 0) = 0 AND u.parent IS NULL
                    AND NOT EXISTS (SELECT FROM "golden schema".threads AS t WHERE t.thread_id = u.thread_id)
                ORDER BY u.arrival
            ) AS a
        ) AS n
        ORDER BY n.thread_id
        ON CONFLICT DO NOTHING;
    END IF;
    IF message_of IS NOT NULL THEN
        SELECT unusual || coalesce(array_agg(m.place), '{}') INTO unusual
        FROM unnest(message_of, message_ids) AS m (place, message_id)
        JOIN "golden schema".messages AS x ON x.thread_id = thread_ids[m.place] AND x.message_id = m.message_id;
    END IF;
    IF attachment_of IS NOT NULL THEN
        SELECT unusual || coalesce(array_agg(a.place), '{}') INTO unusual
        FROM unnest(attachment_of, attachment_namespaces, attachment_checkpoints, attachment_keys)
            AS a (place, namespace, checkpoint_id, key)
        JOIN "golden schema".attachments AS x ON x.thread_id = thread_ids[a.place] AND x.namespace = a.namespace
            AND x.checkpoint_id = a.checkpoint_id AND x.key = a.key;
    END IF;

    WITH changed AS (
        -- What this finds in a thread's row, and so all that it decides by, is as the last to change it left it.
        UPDATE "golden schema".threads AS t SET sequence = t.sequence + 1, next_value = coalesce(a.first + a.count, t.next_value),
            next_message = t.next_message + coalesce(a.message_count, 0),
            message_count = t.message_count + coalesce(a.message_count, 0),
            checkpoint_count = t.checkpoint_count + (a.checkpoint_id IS NOT NULL)::integer,
            size = t.size + coalesce(octet_length(a.digests) + octet_length(a.data), 0)
                + coalesce(octet_length(a.metadata), 0) + coalesce(octet_length(a.body), 0) + coalesce(a.other_bytes, 0),
            updated_at = greatest(t.updated_at, a.at), active = greatest(t.updated_at, a.at) >> 27,
            head = CASE WHEN a.namespace IS NULL THEN coalesce(a.checkpoint_id, t.head) ELSE t.head END, head_before = t.head
        FROM unnest(
            thread_ids, flags, users, commit_ids, times, incarnations, epochs, firsts, counts, digests, datas,
            checkpoint_ids, parents, namespaces, nodes, steps, runs, sizes, covers, metadatas, bodies,
            message_counts, other_bytes
        ) WITH ORDINALITY AS a (
            thread_id, flags, user_id, commit_id, at, incarnation, epoch, first, count, digests, data,
            checkpoint_id, parent, namespace, node_name, step, run_id, size, covers, metadata, body,
            message_count, other_bytes, place
        )
        WHERE t.thread_id = a.thread_id AND (t.user_id IS NULL OR t.user_id = a.user_id OR a.flags & 1 <> 0)
            AND (a.incarnation IS NULL OR (t.incarnation = a.incarnation AND t.epoch = a.epoch))
            AND (a.first IS NULL OR t.next_value = a.first)
            AND (a.flags IS NULL OR a.flags & 4 = 0 OR t.head IS NOT DISTINCT FROM a.parent)
            AND a.place <> ALL (unusual)
        RETURNING a.*, t.incarnation AS known_incarnation, t.epoch AS known_epoch, t.next_value, t.sequence,
            t.next_message - coalesce(a.message_count, 0) AS next_message,
            CASE WHEN a.flags & 2 <> 0 THEN a.parent ELSE t.head_before END AS parent_id
    ), added_checkpoints AS (
        INSERT INTO "golden schema".checkpoints
        SELECT c.thread_id, c.sequence, c.at, c.step, c.size, c.commit_id IS NULL, coalesce(c.namespace, ''), c.checkpoint_id,
            c.parent_id, c.node_name, c.run_id, c.covers::bigint[], coalesce(c.metadata, ''), c.body
        FROM changed AS c WHERE c.checkpoint_id IS NOT NULL
    ), added_values AS (
        INSERT INTO "golden schema".value_rows
        SELECT c.thread_id, c.first, c.count, c.digests, c.data FROM changed AS c WHERE c.first IS NOT NULL
    )
    SELECT array_agg(c.place::integer), array_agg(c.known_incarnation), array_agg(c.known_epoch), array_agg(c.next_value),
        array_agg(c.sequence), array_agg(c.parent_id), array_agg(c.next_message)
    INTO applied, new_incarnations, new_epochs, new_next_values, new_sequences, new_parents, next_messages
    FROM changed AS c;
    IF applied IS NULL THEN
        RETURN;
    END IF;

    PERFORM FROM unnest(thread_ids, checkpoint_ids) WITH ORDINALITY AS a (thread_id, checkpoint_id, place)
    JOIN "golden schema".receipts AS r ON r.thread_id = a.thread_id AND r.commit_id = a.checkpoint_id
    WHERE a.place = ANY (applied);
    IF FOUND THEN
        RAISE EXCEPTION 'clew: one of these commits was applied before' USING ERRCODE = 'unique_violation';
    END IF;
    IF commit_ids IS NOT NULL THEN
        PERFORM FROM unnest(thread_ids, commit_ids) WITH ORDINALITY AS a (thread_id, commit_id, place)
        JOIN "golden schema".checkpoints AS c ON c.thread_id = a.thread_id AND c.checkpoint_id = a.commit_id AND c.receipt
        WHERE a.place = ANY (applied);
        IF FOUND THEN
            RAISE EXCEPTION 'clew: one of these commits was applied before' USING ERRCODE = 'unique_violation';
        END IF;
        INSERT INTO "golden schema".receipts
        SELECT a.thread_id, a.commit_id, c.sequence, a.checkpoint_id IS NOT NULL
        FROM unnest(applied, new_sequences) AS c (place, sequence)
        JOIN unnest(thread_ids, commit_ids, checkpoint_ids) WITH ORDINALITY AS a (thread_id, commit_id, checkpoint_id, place)
            ON a.place = c.place
        WHERE a.commit_id IS NOT NULL;
        DELETE FROM "golden schema".receipts AS r USING unnest(applied, new_sequences) AS c (place, sequence)
        WHERE c.sequence % 64 = 0 AND r.thread_id = thread_ids[c.place] AND NOT r.lasting
            AND r.sequence < c.sequence - 256;
    END IF;
    IF fences IS NOT NULL THEN
        -- Whoever takes a lease now waits until the commit under the last one is through, and so reads what it wrote.
        PERFORM FROM "golden schema".leases AS l WHERE l.thread_id = ANY (thread_ids) ORDER BY l.thread_id FOR SHARE;
        PERFORM FROM unnest(thread_ids, fences) WITH ORDINALITY AS f (thread_id, token, place)
        WHERE f.token IS NOT NULL AND f.place = ANY (applied) AND NOT EXISTS (
            SELECT FROM "golden schema".leases AS l WHERE l.thread_id = f.thread_id AND l.token = f.token);
        IF FOUND THEN
            RAISE EXCEPTION 'clew: one of these commits was fenced off' USING ERRCODE = 'unique_violation';
        END IF;
    END IF;
    IF message_of IS NOT NULL THEN
        INSERT INTO "golden schema".messages
        SELECT thread_ids[m.place], c.next_message + row_number() OVER (PARTITION BY m.place ORDER BY m.n) - 1, c.sequence,
            m.created_at, m.size, m.tool_calls, m.message_id, m.run_id, m.text, m.data
        FROM unnest(applied, new_sequences, next_messages) AS c (place, sequence, next_message)
        JOIN unnest(
            message_of, message_ids, message_texts, message_tools, message_runs, message_times, message_sizes, message_datas
        ) WITH ORDINALITY AS m (place, message_id, text, tool_calls, run_id, created_at, size, data, n) ON m.place = c.place;
    END IF;
    IF attachment_of IS NOT NULL THEN
        INSERT INTO "golden schema".attachments
        SELECT thread_ids[a.place], a.namespace, a.checkpoint_id, a.key, a.data
        FROM unnest(attachment_of, attachment_namespaces, attachment_checkpoints, attachment_keys, attachment_datas)
            AS a (place, namespace, checkpoint_id, key, data)
        WHERE a.place = ANY (applied);
    END IF;
END $$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE "golden schema".value_rows (
    thread_id text NOT NULL COLLATE pg_catalog."C",
    first bigint NOT NULL,
    count integer NOT NULL,
    digests bytea NOT NULL,
    data bytea NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.05', toast.autovacuum_vacuum_scale_factor='0.05');
ALTER TABLE ONLY "golden schema".value_rows ALTER COLUMN digests SET STORAGE EXTERNAL;
ALTER TABLE ONLY "golden schema".value_rows ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE FUNCTION "golden schema".covered(of_thread text, ranges bigint[]) RETURNS SETOF "golden schema".value_rows
    LANGUAGE sql STABLE
    AS $$
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
        SELECT * FROM "golden schema".value_rows AS x
        WHERE x.thread_id = of_thread AND x.first < wanted."end" AND x.first + x.count > wanted.first
            AND x.first >= greatest(wanted.before, coalesce((
                SELECT y.first FROM "golden schema".value_rows AS y
                WHERE y.thread_id = of_thread AND y.first <= wanted.first ORDER BY y.first DESC LIMIT 1), 0))
        ORDER BY x.first
    ) AS v
$$;
CREATE FUNCTION "golden schema".forget(of_thread text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM "golden schema".checkpoints WHERE thread_id = of_thread;
    DELETE FROM "golden schema".value_rows WHERE thread_id = of_thread;
    DELETE FROM "golden schema".attachments WHERE thread_id = of_thread;
    DELETE FROM "golden schema".messages WHERE thread_id = of_thread;
    DELETE FROM "golden schema".receipts WHERE thread_id = of_thread;
    DELETE FROM "golden schema".leases WHERE thread_id = of_thread;
    DELETE FROM "golden schema".threads WHERE thread_id = of_thread;
END $$;
CREATE FUNCTION "golden schema".lease(in_thread text, in_any boolean, in_user text, in_holder text, in_now bigint, in_until bigint, in_free boolean, OUT denied boolean, OUT holder text, OUT token bigint, OUT since bigint, OUT expires_at bigint) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
BEGIN
    SELECT x.user_id IS NOT NULL AND NOT in_any AND x.user_id IS DISTINCT FROM in_user INTO denied
    FROM "golden schema".threads AS x WHERE x.thread_id = in_thread;
    denied := coalesce(denied, false);
    IF denied THEN
        RETURN;
    END IF;
    LOOP
        SELECT x.holder, x.token, x.since, x.expires_at INTO holder, token, since, expires_at
        FROM "golden schema".leases AS x WHERE x.thread_id = in_thread FOR UPDATE;
        IF FOUND AND expires_at > in_now THEN
            IF holder = in_holder THEN
                expires_at := in_until;
                UPDATE "golden schema".leases AS x SET expires_at = in_until WHERE x.thread_id = in_thread;
            END IF;
            RETURN;
        ELSIF in_free THEN
            RETURN;
        ELSIF FOUND THEN
            holder := in_holder;
            token := nextval('"golden schema".lease_tokens');
            since := in_now;
            expires_at := in_until;
            UPDATE "golden schema".leases AS x SET holder = in_holder, token = lease.token, since = in_now, expires_at = in_until
            WHERE x.thread_id = in_thread;
            RETURN;
        END IF;
        -- Of two that come at once for the first time, one finds the other's here and looks again.
        INSERT INTO "golden schema".leases AS x VALUES (in_thread, in_holder, nextval('"golden schema".lease_tokens'), in_now, in_until)
        ON CONFLICT DO NOTHING RETURNING x.holder, x.token, x.since, x.expires_at INTO holder, token, since, expires_at;
        IF FOUND THEN
            RETURN;
        END IF;
    END LOOP;
END $$;
CREATE TABLE "golden schema".attachments (
    thread_id text NOT NULL COLLATE pg_catalog."C",
    namespace text NOT NULL COLLATE pg_catalog."C",
    checkpoint_id text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    data bytea NOT NULL
);
CREATE TABLE "golden schema".checkpoints (
    thread_id text NOT NULL COLLATE pg_catalog."C",
    sequence bigint NOT NULL,
    created_at bigint NOT NULL,
    step bigint,
    size bigint NOT NULL,
    receipt boolean NOT NULL,
    namespace text NOT NULL COLLATE pg_catalog."C",
    checkpoint_id text NOT NULL COLLATE pg_catalog."C",
    parent_id text COLLATE pg_catalog."C",
    node_name text COLLATE pg_catalog."C",
    run_id text COLLATE pg_catalog."C",
    covers bigint[] NOT NULL,
    metadata bytea NOT NULL,
    body bytea NOT NULL
);
ALTER TABLE ONLY "golden schema".checkpoints ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE "golden schema".clew_schema (
    version integer NOT NULL
);
CREATE SEQUENCE "golden schema".lease_tokens
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE "golden schema".leases (
    thread_id text NOT NULL COLLATE pg_catalog."C",
    holder text NOT NULL COLLATE pg_catalog."C",
    token bigint NOT NULL,
    since bigint NOT NULL,
    expires_at bigint NOT NULL
)
WITH (fillfactor='70');
CREATE TABLE "golden schema".messages (
    thread_id text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    sequence bigint NOT NULL,
    created_at bigint NOT NULL,
    size bigint NOT NULL,
    tool_calls integer NOT NULL,
    message_id text NOT NULL COLLATE pg_catalog."C",
    run_id text COLLATE pg_catalog."C",
    text text NOT NULL COLLATE pg_catalog."C",
    data bytea NOT NULL
);
CREATE TABLE "golden schema".receipts (
    thread_id text NOT NULL COLLATE pg_catalog."C",
    commit_id text NOT NULL COLLATE pg_catalog."C",
    sequence bigint NOT NULL,
    lasting boolean NOT NULL
);
CREATE SEQUENCE "golden schema".thread_ordinals
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE "golden schema".threads (
    thread_id text NOT NULL COLLATE pg_catalog."C",
    user_id text COLLATE pg_catalog."C",
    incarnation text NOT NULL COLLATE pg_catalog."C",
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
    head text COLLATE pg_catalog."C",
    head_before text COLLATE pg_catalog."C",
    run_id text COLLATE pg_catalog."C",
    forked_thread text COLLATE pg_catalog."C",
    forked_checkpoint text COLLATE pg_catalog."C",
    folded_id text COLLATE pg_catalog."C",
    text text NOT NULL COLLATE pg_catalog."C",
    data bytea NOT NULL
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.05');
INSERT INTO "golden schema".checkpoints VALUES
	('trip', 1, 1794797461064393, 1, 307, true, '', '06gy4gyy8wsewkwgy20j', NULL, 'node', 'r1', '{0,1}', '\xc11042234f0481a16bd5019101', '\xc1105c226ba982a86d65737361676573c70a2290000001a30200000001a47475726e01'),
	('trip', 2, 1794797461116273, 2, 609, true, '', '06gy4gyyfghnxmbe644t', '06gy4gyy8wsewkwgy20j', 'node', 'r1', '{0,2}', '\xc110f872469d81a16bd5019102', '\xc1109dd0849c82a86d65737361676573c70a2290000002d10400000002a47475726e02'),
	('trip', 3, 1794797461119058, 3, 911, true, '', '06gy4gyyfrffz6c02k0a', '06gy4gyyfghnxmbe644t', 'node', 'r1', '{0,3}', '\xc1106e4241ea81a16bd5019103', '\xc1101d830e3982a86d65737361676573c70a2290000003ff0600000003a47475726e03'),
	('trip', 4, 1794797461124362, 4, 1226, true, '', '06gy4gyyggq4x11v8zqx', '06gy4gyyfrffz6c02k0a', 'node', 'r1', '{0,4}', '\xc110cdd7257481a16bd5019104', '\xc1104e1a862482a86d65737361676573c70a2290000004ba0900000004a47475726e04'),
	('trip', 5, 1794797461130091, 5, 1528, true, '', '06gy4gyyh4vvd6ghd2rm', '06gy4gyyggq4x11v8zqx', 'node', 'r1', '{0,5}', '\xc1105be7220381a16bd5019105', '\xc110bb854ca082a86d65737361676573c70a2290000005e80b00000005a47475726e05'),
	('trip', 6, 1794797461146337, 6, 1830, true, '', '06gy4gyyk8j4xhav8jjm', '06gy4gyyh4vvd6ghd2rm', 'node', 'r1', '{0,6}', '\xc110e1b62b9a81a16bd5019106', '\xc110fa5c4b0982a86d65737361676573c70a2290000006960e00000006a47475726e06'),
	('trip', 7, 1794797461151573, 7, 2132, true, '', '06gy4gyykwt2atgca3m0', '06gy4gyyk8j4xhav8jjm', 'node', 'r1', '{0,7}', '\xc11077862ced81a16bd5019107', '\xc11003956d2982a86d65737361676573c70a2290000007c41000000007a47475726e07'),
	('trip', 8, 1794797461156441, 8, 2434, true, '', '06gy4gyymgbvc95b83r9', '06gy4gyykwt2atgca3m0', 'node', 'r1', '{0,8}', '\xc110e69b937d81a16bd5019108', '\xc1106b0792cb82a86d65737361676573c70a2290000008f21200000008a47475726e08'),
	('trip', 9, 1794797461161167, 9, 2737, true, '', '06gy4gyyn4d9eg45e2a5', '06gy4gyymgbvc95b83r9', 'node', 'r1', '{0,9}', '\xc11070ab940a81a16bd5019109', '\xc110b378aaa582a86d65737361676573c70a2290000009a11500000009a47475726e09'),
	('trip', 10, 1794797461166477, 10, 3039, true, '', '06gy4gyynrjzt8wbcx8e', '06gy4gyyn4d9eg45e2a5', 'node', 'r1', '{0,10}', '\xc110cafa9d9381a16bd501910a', '\xc1108d598e2982a86d65737361676573c70a229000000acf170000000aa47475726e0a'),
	('trip', 11, 1794797461174609, 11, 3364, true, '', '06gy4gyyprbs9zqedv8m', '06gy4gyynrjzt8wbcx8e', 'node', 'r1', '{0,11}', '\xc1105cca9ae481a16bd501910b', '\xc1102f0815a382a86d65737361676573c70a229000000b941a0000000ba47475726e0b'),
	('trip', 12, 1794797461177666, 12, 3667, true, '', '06gy4gyyq4tbr2hxqwn6', '06gy4gyyprbs9zqedv8m', 'node', 'r1', '{0,12}', '\xc110ff5ffe7a81a16bd501910c', '\xc1109adcf32582a86d65737361676573c70a229000000cc31c0000000ca47475726e0c'),
	('trip', 13, 1794797461182804, 13, 3970, true, '', '06gy4gyyqrr9qm2hze0t', '06gy4gyyq4tbr2hxqwn6', 'node', 'r1', '{0,13}', '\xc110696ff90d81a16bd501910d', '\xc11097fdf5fe82a86d65737361676573c70a229000000df21e0000000da47475726e0d'),
	('trip', 14, 1794797461188018, 14, 4273, true, '', '06gy4gyyrct3e18p5jp0', '06gy4gyyqrr9qm2hze0t', 'node', 'r1', '{0,14}', '\xc110d33ef09481a16bd501910e', '\xc11058eda91b82a86d65737361676573c70a229000000ea1210000000ea47475726e0e'),
	('trip', 15, 1794797461192930, 15, 4576, true, '', '06gy4gyys0xb8cqw9bgj', '06gy4gyyrct3e18p5jp0', 'node', 'r1', '{0,15}', '\xc110450ef7e381a16bd501910f', '\xc110a57bccf082a86d65737361676573c70a229000000fd0230000000fa47475726e0f'),
	('trip', 16, 1794797461201061, 16, 4906, true, '', '06gy4gyyt0fejz34m0zk', '06gy4gyys0xb8cqw9bgj', 'node', 'r1', '{0,16}', '\xc110b003ff6e81a16bd5019110', '\xc1104b1a26d482a86d65737361676573c70a22900000109a2600000010a47475726e10'),
	('trip', 17, 1794797461204842, 17, 5209, true, '', '06gy4gyytg15ypdwae7k', '06gy4gyyt0fejz34m0zk', 'node', 'r1', '{0,17}', '\xc1102633f81981a16bd5019111', '\xc110165b53c182a86d65737361676573c70a2290000011c92800000011a47475726e11'),
	('trip', 18, 1794797461210162, 18, 5500, true, '', '06gy4gyyv8hd9s24b7ad', '06gy4gyytg15ypdwae7k', 'node', 'r1', '{0,18}', '\xc1109c62f18081a16bd5019112', '\xc110d669860c82a86d65737361676573c70a2290000012ec2a00000012a47475726e12'),
	('trip', 19, 1794797461216185, 19, 5803, true, '', '06gy4gyyw08ayfb2ryfs', '06gy4gyyv8hd9s24b7ad', 'node', 'r1', '{0,19}', '\xc1100a52f6f781a16bd5019113', '\xc11089f6897982a86d65737361676573c70a22900000139b2d00000013a47475726e13'),
	('trip', 20, 1794797461222228, 20, 6106, true, '', '06gy4gyywr941tv30jk4', '06gy4gyyw08ayfb2ryfs', 'node', 'r1', '{0,20}', '\xc110a9c7926981a16bd5019114', '\xc1105ef48ba082a86d65737361676573c70a2290000014ca2f00000014a47475726e14'),
	('trip', 21, 1794797461226837, 21, 6422, true, '', '06gy4gyyx8a9v2tmnrb9', '06gy4gyywr941tv30jk4', 'node', 'r1', '{0,21}', '\xc1103ff7951e81a16bd5019115', '\xc110446566fc82a86d65737361676573c70a2290000015863200000015a47475726e15'),
	('trip', 22, 1794797461233527, 22, 6725, true, '', '06gy4gyyy46fnpb4jx6r', '06gy4gyyx8a9v2tmnrb9', 'node', 'r1', '{0,22}', '\xc11085a69c8781a16bd5019116', '\xc1101a6c4f6282a86d65737361676573c70a2290000016b53400000016a47475726e16'),
	('trip', 23, 1794797461241134, 23, 7028, true, '', '06gy4gyyz4scqp8z4sg9', '06gy4gyyy46fnpb4jx6r', 'node', 'r1', '{0,23}', '\xc11013969bf081a16bd5019117', '\xc1101f211b9182a86d65737361676573c70a2290000017e43600000017a47475726e17'),
	('trip', 24, 1794797461243476, 24, 7331, true, '', '06gy4gyyzc8tn8aytxep', '06gy4gyyz4scqp8z4sg9', 'node', 'r1', '{0,24}', '\xc110828b246081a16bd5019118', '\xc110ef05b61382a86d65737361676573c70a2290000018933900000018a47475726e18'),
	('trip', 25, 1794797461251694, 25, 7634, true, '', '06gy4gyz0canymkynb29', '06gy4gyyzc8tn8aytxep', 'node', 'r1', '{0,25}', '\xc11014bb231781a16bd5019119', '\xc110ea48e2e082a86d65737361676573c70a2290000019c23b00000019a47475726e19'),
	('trip', 26, 1794797461255452, 26, 7938, true, '', '06gy4gyz0wpn3j395vnd', '06gy4gyz0canymkynb29', 'node', 'r1', '{0,26}', '\xc110aeea2a8e81a16bd501911a', '\xc1104493550982a86d65737361676573c70a229000001af23d0000001aa47475726e1a'),
	('trip', 27, 1794797461260127, 27, 8241, true, '', '06gy4gyz1gxfbc4vz91q', '06gy4gyz0wpn3j395vnd', 'node', 'r1', '{0,27}', '\xc11038da2df981a16bd501911b', '\xc110ebe6e07b82a86d65737361676573c70a229000001ba1400000001ba47475726e1b'),
	('trip', 28, 1794797461266153, 28, 8566, true, '', '06gy4gyz28f4r2arffh1', '06gy4gyz1gxfbc4vz91q', 'node', 'r1', '{0,28}', '\xc1109b4f496781a16bd501911c', '\xc11020acc74182a86d65737361676573c70a229000001ce6420000001ca47475726e1c'),
	('trip', 29, 1794797461282691, 29, 8869, true, '', '06gy4gyz48wcc5zfk4z1', '06gy4gyz28f4r2arffh1', 'node', 'r1', '{0,29}', '\xc1100d7f4e1081a16bd501911d', '\xc1100008ce3782a86d65737361676573c70a229000001d95450000001da47475726e1d'),
	('trip', 30, 1794797461287587, 30, 9172, true, '', '06gy4gyz4wmsc87t0nrs', '06gy4gyz48wcc5zfk4z1', 'node', 'r1', '{0,30}', '\xc110b72e478981a16bd501911e', '\xc1104b8057dd82a86d65737361676573c70a229000001ec4470000001ea47475726e1e'),
	('trip', 31, 1794797461298983, 31, 9475, true, '', '06gy4gyz68rmsm1n33k1', '06gy4gyz4wmsc87t0nrs', 'node', 'r1', '{0,31}', '\xc110211e40fe81a16bd501911f', '\xc110619676e382a86d65737361676573c70a229000001ff3490000001fa47475726e1f'),
	('trip', 32, 1794797461301965, 32, 9778, true, '', '06gy4gyz6m3y3e8tyqd1', '06gy4gyz68rmsm1n33k1', 'node', 'r1', '{0,32}', '\xc1101c33264881a16bd5019120', '\xc110dcecbbfd82a86d65737361676573c70a2290000020a24c00000020a47475726e20'),
	('trip', 33, 1794797461314578, 33, 10105, true, '', '06gy4gyz88dbh8xjxx7y', '06gy4gyz6m3y3e8tyqd1', 'node', 'r1', '{0,33}', '\xc1108a03213f81a16bd5019121', '\xc11044a4c0e882a86d65737361676573c70a2290000021e94e00000021a47475726e21'),
	('trip', 35, 1794797461384174, 34, 10408, true, '', '06gy4gyzh0y6v4tmk7z7', '06gy4gyz88dbh8xjxx7y', 'node', 'r1', '{0,34}', '\xc110305228a681a16bd5019122', '\xc1103b7e0a7f82a86d65737361676573c70a2290000022985100000022a47475726e22'),
	('trip', 36, 1794797461400107, 35, 10700, true, '', '06gy4gyzjwby4xhk068y', '06gy4gyzh0y6v4tmk7z7', 'node', 'r1', '{0,35}', '\xc110a6622fd181a16bd5019123', '\xc110dac5b73082a86d65737361676573c70a2290000023bc5300000023a47475726e23'),
	('trip', 37, 1794797461416426, 36, 11003, true, '', '06gy4gyzn0c945k1rb2b', '06gy4gyzjwby4xhk068y', 'node', 'r1', '{0,36}', '\xc11005f74b4f81a16bd5019124', '\xc1106f1151b682a86d65737361676573c70a2290000024eb5500000024a47475726e24'),
	('trip', 38, 1794797461420709, 37, 11306, true, '', '06gy4gyzngq03jw16k0p', '06gy4gyzn0c945k1rb2b', 'node', 'r1', '{0,37}', '\xc11093c74c3881a16bd5019125', '\xc1105473ccce82a86d65737361676573c70a22900000259a5800000025a47475726e25'),
	('trip', 39, 1794797461430710, 38, 11621, true, '', '06gy4gyzprgsxppe5hyz', '06gy4gyzngq03jw16k0p', 'node', 'r1', '{0,38}', '\xc110299645a181a16bd5019126', '\xc110fdc57cc182a86d65737361676573c70a2290000026d55a00000026a47475726e26'),
	('trip', 40, 1794797461432617, 39, 11924, true, '', '06gy4gyzq0esqgae77fd', '06gy4gyzprgsxppe5hyz', 'node', 'r1', '{0,39}', '\xc110bfa642d681a16bd5019127', '\xc110ba247f4382a86d65737361676573c70a2290000027845d00000027a47475726e27'),
	('trip', 41, 1794797461435835, 40, 12228, true, '', '06gy4gyzqcvws1j9h3pq', '06gy4gyzq0esqgae77fd', 'node', 'r1', '{0,40}', '\xc1102ebbfd4681a16bd5019128', '\xc1103213bd4e82a86d65737361676573c70a2290000028b45f00000028a47475726e28'),
	('trip', 42, 1794797461441757, 41, 12531, true, '', '06gy4gyzr4kkp32m23g4', '06gy4gyzqcvws1j9h3pq', 'node', 'r1', '{0,41}', '\xc110b88bfa3181a16bd5019129', '\xc1100c22a47082a86d65737361676573c70a2290000029e36100000029a47475726e29'),
	('trip', 43, 1794797461454791, 42, 12834, true, '', '06gy4gyzsr8kt237ddm5', '06gy4gyzr4kkp32m23g4', 'node', 'r1', '{0,42}', '\xc11002daf3a881a16bd501912a', '\xc1103c6437ab82a86d65737361676573c70a229000002a92640000002aa47475726e2a'),
	('trip', 44, 1794797461457030, 43, 13137, true, '', '06gy4gyzt07pcbb60sc1', '06gy4gyzsr8kt237ddm5', 'node', 'r1', '{0,43}', '\xc11094eaf4df81a16bd501912b', '\xc110a6b758b482a86d65737361676573c70a229000002bc1660000002ba47475726e2b'),
	('trip', 45, 1794797461462125, 44, 13440, true, '', '06gy4gyztr26tqpqtj1m', '06gy4gyzt07pcbb60sc1', 'node', 'r1', '{0,44}', '\xc110377f904181a16bd501912c', '\xc110be4b124f82a86d65737361676573c70a229000002cf0680000002ca47475726e2c'),
	('trip', 46, 1794797461467636, 45, 13768, true, '', '06gy4gyzvc3ftk38skbm', '06gy4gyztr26tqpqtj1m', 'node', 'r1', '{0,45}', '\xc110a14f973681a16bd501912d', '\xc110160e79ec82a86d65737361676573c70a229000002db86b0000002da47475726e2d'),
	('trip', 48, 1794797461494099, NULL, 8, true, 'sub', '06gy4gyzyrhrc8fb35e0', NULL, NULL, 'r1', '{}', '\x', '\xc11069b9b34381a5696e6e6572c3'),
	('fork', 1, 1794797461467636, 45, 13768, true, '', '06gy4gz008f4vx3ty7w5', NULL, 'node', 'r1', '{0,45}', '\xc110a14f973681a16bd501912d', '\xc110160e79ec82a86d65737361676573c70a229000002db86b0000002da47475726e2d'),
	('fork', 2, 1794797461534078, NULL, 14253, true, '', '06gy4gz03g7t6g9hxq3t', '06gy4gz008f4vx3ty7w5', NULL, 'r1', '{0,46}', '\x', '\xc1102fa7105082a86d65737361676573c70a229000002e9d6f0000002ea47475726e2d');
INSERT INTO "golden schema".clew_schema VALUES
	(1);
INSERT INTO "golden schema".messages VALUES
	('trip', 0, 1, 1794797461063166, 144, 1, 'm1', 'r1', 'message 1: grüsse', '\xc110095d8cac86a4726f6c65a475736572a7636f6e74656e74b24d65737361676520313a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e01a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3036333136362b30303a3030a672756e5f6964a27231'),
	('trip', 1, 2, 1794797461115785, 144, 1, 'm2', 'r1', 'message 2: grüsse', '\xc110a02f96fd86a4726f6c65a475736572a7636f6e74656e74b24d65737361676520323a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e02a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3131353738352b30303a3030a672756e5f6964a27231'),
	('trip', 2, 3, 1794797461118713, 144, 1, 'm3', 'r1', 'message 3: grüsse', '\xc1108141ab8986a4726f6c65a475736572a7636f6e74656e74b24d65737361676520333a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e03a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3131383731332b30303a3030a672756e5f6964a27231'),
	('trip', 3, 4, 1794797461123881, 144, 1, 'm4', 'r1', 'message 4: grüsse', '\xc110631e06cb86a4726f6c65a475736572a7636f6e74656e74b24d65737361676520343a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e04a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3132333838312b30303a3030a672756e5f6964a27231'),
	('trip', 4, 5, 1794797461128653, 144, 1, 'm5', 'r1', 'message 5: grüsse', '\xc110c80bc5d786a4726f6c65a475736572a7636f6e74656e74b24d65737361676520353a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e05a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3132383635332b30303a3030a672756e5f6964a27231'),
	('trip', 5, 6, 1794797461138163, 144, 1, 'm6', 'r1', 'message 6: grüsse', '\xc11085913a9486a4726f6c65a475736572a7636f6e74656e74b24d65737361676520363a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e06a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3133383136332b30303a3030a672756e5f6964a27231'),
	('trip', 6, 7, 1794797461151026, 144, 1, 'm7', 'r1', 'message 7: grüsse', '\xc1100c05042f86a4726f6c65a475736572a7636f6e74656e74b24d65737361676520373a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e07a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3135313032362b30303a3030a672756e5f6964a27231'),
	('trip', 7, 8, 1794797461155885, 144, 1, 'm8', 'r1', 'message 8: grüsse', '\xc110881bce7c86a4726f6c65a475736572a7636f6e74656e74b24d65737361676520383a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e08a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3135353838352b30303a3030a672756e5f6964a27231'),
	('trip', 8, 9, 1794797461160744, 144, 1, 'm9', 'r1', 'message 9: grüsse', '\xc1109aaac16986a4726f6c65a475736572a7636f6e74656e74b24d65737361676520393a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e09a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3136303734342b30303a3030a672756e5f6964a27231'),
	('trip', 9, 10, 1794797461164602, 146, 1, 'm10', 'r1', 'message 10: grüsse', '\xc110d455a6d986a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031303a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e0aa86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3136343630322b30303a3030a672756e5f6964a27231'),
	('trip', 10, 11, 1794797461173965, 146, 1, 'm11', 'r1', 'message 11: grüsse', '\xc110b0e1125786a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031313a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e0ba86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3137333936352b30303a3030a672756e5f6964a27231'),
	('trip', 11, 12, 1794797461177142, 146, 1, 'm12', 'r1', 'message 12: grüsse', '\xc110fdd4111186a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031323a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e0ca86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3137373134322b30303a3030a672756e5f6964a27231'),
	('trip', 12, 13, 1794797461182169, 146, 1, 'm13', 'r1', 'message 13: grüsse', '\xc1103c338b5b86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031333a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e0da86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3138323136392b30303a3030a672756e5f6964a27231'),
	('trip', 13, 14, 1794797461186255, 146, 1, 'm14', 'r1', 'message 14: grüsse', '\xc110c1285bf586a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031343a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e0ea86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3138363235352b30303a3030a672756e5f6964a27231'),
	('trip', 14, 15, 1794797461191317, 146, 1, 'm15', 'r1', 'message 15: grüsse', '\xc1103c0de81e86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031353a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e0fa86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3139313331372b30303a3030a672756e5f6964a27231'),
	('trip', 15, 16, 1794797461198298, 146, 1, 'm16', 'r1', 'message 16: grüsse', '\xc1109b7666cc86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031363a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e10a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3139383239382b30303a3030a672756e5f6964a27231'),
	('trip', 16, 17, 1794797461204005, 146, 1, 'm17', 'r1', 'message 17: grüsse', '\xc110bf16529f86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031373a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e11a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3230343030352b30303a3030a672756e5f6964a27231'),
	('trip', 17, 18, 1794797461208824, 146, 1, 'm18', 'r1', 'message 18: grüsse', '\xc110a74c937b86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031383a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e12a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3230383832342b30303a3030a672756e5f6964a27231'),
	('trip', 18, 19, 1794797461215568, 146, 1, 'm19', 'r1', 'message 19: grüsse', '\xc1109521d86686a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031393a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e13a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3231353536382b30303a3030a672756e5f6964a27231'),
	('trip', 19, 20, 1794797461218756, 146, 1, 'm20', 'r1', 'message 20: grüsse', '\xc110a5a1217986a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032303a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e14a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3231383735362b30303a3030a672756e5f6964a27231'),
	('trip', 20, 21, 1794797461225652, 146, 1, 'm21', 'r1', 'message 21: grüsse', '\xc1101545df8d86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032313a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e15a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3232353635322b30303a3030a672756e5f6964a27231'),
	('trip', 21, 22, 1794797461230518, 146, 1, 'm22', 'r1', 'message 22: grüsse', '\xc11098d7c0df86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032323a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e16a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3233303531382b30303a3030a672756e5f6964a27231'),
	('trip', 22, 23, 1794797461240575, 146, 1, 'm23', 'r1', 'message 23: grüsse', '\xc1103e89be3786a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032333a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e17a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3234303537352b30303a3030a672756e5f6964a27231'),
	('trip', 23, 24, 1794797461242967, 146, 1, 'm24', 'r1', 'message 24: grüsse', '\xc11028a69ff386a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032343a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e18a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3234323936372b30303a3030a672756e5f6964a27231'),
	('trip', 24, 25, 1794797461251072, 146, 1, 'm25', 'r1', 'message 25: grüsse', '\xc110a568089b86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032353a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e19a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3235313037322b30303a3030a672756e5f6964a27231'),
	('trip', 25, 26, 1794797461254905, 146, 1, 'm26', 'r1', 'message 26: grüsse', '\xc110b21ce0d386a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032363a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e1aa86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3235343930352b30303a3030a672756e5f6964a27231'),
	('trip', 26, 27, 1794797461259311, 146, 1, 'm27', 'r1', 'message 27: grüsse', '\xc1102c57a51986a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032373a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e1ba86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3235393331312b30303a3030a672756e5f6964a27231'),
	('trip', 27, 28, 1794797461263977, 146, 1, 'm28', 'r1', 'message 28: grüsse', '\xc1101d24430586a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032383a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e1ca86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3236333937372b30303a3030a672756e5f6964a27231'),
	('trip', 28, 29, 1794797461281951, 146, 1, 'm29', 'r1', 'message 29: grüsse', '\xc110c345f92386a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032393a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e1da86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3238313935312b30303a3030a672756e5f6964a27231'),
	('trip', 29, 30, 1794797461286659, 146, 1, 'm30', 'r1', 'message 30: grüsse', '\xc110093084ea86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033303a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e1ea86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3238363635392b30303a3030a672756e5f6964a27231'),
	('trip', 30, 31, 1794797461298348, 146, 1, 'm31', 'r1', 'message 31: grüsse', '\xc11081cf83a786a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033313a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e1fa86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3239383334382b30303a3030a672756e5f6964a27231'),
	('trip', 31, 32, 1794797461301327, 146, 1, 'm32', 'r1', 'message 32: grüsse', '\xc110041ff5bf86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033323a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e20a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3330313332372b30303a3030a672756e5f6964a27231'),
	('trip', 32, 33, 1794797461313686, 146, 1, 'm33', 'r1', 'message 33: grüsse', '\xc11009ae13dc86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033333a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e21a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3331333638362b30303a3030a672756e5f6964a27231'),
	('trip', 33, 35, 1794797461381353, 146, 1, 'm34', 'r1', 'message 34: grüsse', '\xc1108e3f8fa986a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033343a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e22a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3338313335332b30303a3030a672756e5f6964a27231'),
	('trip', 34, 36, 1794797461399011, 146, 1, 'm35', 'r1', 'message 35: grüsse', '\xc110a36c174a86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033353a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e23a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3339393031312b30303a3030a672756e5f6964a27231'),
	('trip', 35, 37, 1794797461408329, 146, 1, 'm36', 'r1', 'message 36: grüsse', '\xc1104123487b86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033363a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e24a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3430383332392b30303a3030a672756e5f6964a27231'),
	('trip', 36, 38, 1794797461420017, 146, 1, 'm37', 'r1', 'message 37: grüsse', '\xc110ba90f89786a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033373a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e25a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3432303031372b30303a3030a672756e5f6964a27231'),
	('trip', 37, 39, 1794797461429951, 146, 1, 'm38', 'r1', 'message 38: grüsse', '\xc1102b5abfa186a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033383a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e26a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3432393935312b30303a3030a672756e5f6964a27231'),
	('trip', 38, 40, 1794797461431933, 146, 1, 'm39', 'r1', 'message 39: grüsse', '\xc1102ce4a5e486a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033393a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e27a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3433313933332b30303a3030a672756e5f6964a27231'),
	('trip', 39, 41, 1794797461434167, 146, 1, 'm40', 'r1', 'message 40: grüsse', '\xc1106593a20a86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652034303a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e28a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3433343136372b30303a3030a672756e5f6964a27231'),
	('trip', 40, 42, 1794797461440917, 146, 1, 'm41', 'r1', 'message 41: grüsse', '\xc110ec2e7c5886a4726f6c65a475736572a7636f6e74656e74b34d6573736167652034313a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e29a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3434303931372b30303a3030a672756e5f6964a27231'),
	('trip', 41, 43, 1794797461453986, 146, 1, 'm42', 'r1', 'message 42: grüsse', '\xc110ec7c376b86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652034323a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e2aa86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3435333938362b30303a3030a672756e5f6964a27231'),
	('trip', 42, 44, 1794797461456329, 146, 1, 'm43', 'r1', 'message 43: grüsse', '\xc110b486f47486a4726f6c65a475736572a7636f6e74656e74b34d6573736167652034333a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e2ba86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3435363332392b30303a3030a672756e5f6964a27231'),
	('trip', 43, 45, 1794797461458015, 146, 1, 'm44', 'r1', 'message 44: grüsse', '\xc110d4a6a5d586a4726f6c65a475736572a7636f6e74656e74b34d6573736167652034343a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e2ca86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3435383031352b30303a3030a672756e5f6964a27231'),
	('trip', 44, 46, 1794797461463957, 146, 1, 'm45', 'r1', 'message 45: grüsse', '\xc1103aa2450086a4726f6c65a475736572a7636f6e74656e74b34d6573736167652034353a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e2da86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3436333935372b30303a3030a672756e5f6964a27231'),
	('fork', 0, 1, 1794797461063166, 144, 1, 'm1', 'r1', 'message 1: grüsse', '\xc110095d8cac86a4726f6c65a475736572a7636f6e74656e74b24d65737361676520313a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e01a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3036333136362b30303a3030a672756e5f6964a27231'),
	('fork', 1, 1, 1794797461115785, 144, 1, 'm2', 'r1', 'message 2: grüsse', '\xc110a02f96fd86a4726f6c65a475736572a7636f6e74656e74b24d65737361676520323a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e02a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3131353738352b30303a3030a672756e5f6964a27231'),
	('fork', 2, 1, 1794797461118713, 144, 1, 'm3', 'r1', 'message 3: grüsse', '\xc1108141ab8986a4726f6c65a475736572a7636f6e74656e74b24d65737361676520333a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e03a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3131383731332b30303a3030a672756e5f6964a27231'),
	('fork', 3, 1, 1794797461123881, 144, 1, 'm4', 'r1', 'message 4: grüsse', '\xc110631e06cb86a4726f6c65a475736572a7636f6e74656e74b24d65737361676520343a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e04a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3132333838312b30303a3030a672756e5f6964a27231'),
	('fork', 4, 1, 1794797461128653, 144, 1, 'm5', 'r1', 'message 5: grüsse', '\xc110c80bc5d786a4726f6c65a475736572a7636f6e74656e74b24d65737361676520353a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e05a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3132383635332b30303a3030a672756e5f6964a27231'),
	('fork', 5, 1, 1794797461138163, 144, 1, 'm6', 'r1', 'message 6: grüsse', '\xc11085913a9486a4726f6c65a475736572a7636f6e74656e74b24d65737361676520363a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e06a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3133383136332b30303a3030a672756e5f6964a27231'),
	('fork', 6, 1, 1794797461151026, 144, 1, 'm7', 'r1', 'message 7: grüsse', '\xc1100c05042f86a4726f6c65a475736572a7636f6e74656e74b24d65737361676520373a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e07a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3135313032362b30303a3030a672756e5f6964a27231'),
	('fork', 7, 1, 1794797461155885, 144, 1, 'm8', 'r1', 'message 8: grüsse', '\xc110881bce7c86a4726f6c65a475736572a7636f6e74656e74b24d65737361676520383a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e08a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3135353838352b30303a3030a672756e5f6964a27231'),
	('fork', 8, 1, 1794797461160744, 144, 1, 'm9', 'r1', 'message 9: grüsse', '\xc1109aaac16986a4726f6c65a475736572a7636f6e74656e74b24d65737361676520393a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e09a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3136303734342b30303a3030a672756e5f6964a27231'),
	('fork', 9, 1, 1794797461164602, 146, 1, 'm10', 'r1', 'message 10: grüsse', '\xc110d455a6d986a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031303a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e0aa86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3136343630322b30303a3030a672756e5f6964a27231'),
	('fork', 10, 1, 1794797461173965, 146, 1, 'm11', 'r1', 'message 11: grüsse', '\xc110b0e1125786a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031313a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e0ba86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3137333936352b30303a3030a672756e5f6964a27231'),
	('fork', 11, 1, 1794797461177142, 146, 1, 'm12', 'r1', 'message 12: grüsse', '\xc110fdd4111186a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031323a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e0ca86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3137373134322b30303a3030a672756e5f6964a27231'),
	('fork', 12, 1, 1794797461182169, 146, 1, 'm13', 'r1', 'message 13: grüsse', '\xc1103c338b5b86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031333a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e0da86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3138323136392b30303a3030a672756e5f6964a27231'),
	('fork', 13, 1, 1794797461186255, 146, 1, 'm14', 'r1', 'message 14: grüsse', '\xc110c1285bf586a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031343a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e0ea86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3138363235352b30303a3030a672756e5f6964a27231'),
	('fork', 14, 1, 1794797461191317, 146, 1, 'm15', 'r1', 'message 15: grüsse', '\xc1103c0de81e86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031353a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e0fa86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3139313331372b30303a3030a672756e5f6964a27231'),
	('fork', 15, 1, 1794797461198298, 146, 1, 'm16', 'r1', 'message 16: grüsse', '\xc1109b7666cc86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031363a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e10a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3139383239382b30303a3030a672756e5f6964a27231'),
	('fork', 16, 1, 1794797461204005, 146, 1, 'm17', 'r1', 'message 17: grüsse', '\xc110bf16529f86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031373a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e11a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3230343030352b30303a3030a672756e5f6964a27231'),
	('fork', 17, 1, 1794797461208824, 146, 1, 'm18', 'r1', 'message 18: grüsse', '\xc110a74c937b86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031383a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e12a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3230383832342b30303a3030a672756e5f6964a27231'),
	('fork', 18, 1, 1794797461215568, 146, 1, 'm19', 'r1', 'message 19: grüsse', '\xc1109521d86686a4726f6c65a475736572a7636f6e74656e74b34d6573736167652031393a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e13a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3231353536382b30303a3030a672756e5f6964a27231'),
	('fork', 19, 1, 1794797461218756, 146, 1, 'm20', 'r1', 'message 20: grüsse', '\xc110a5a1217986a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032303a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e14a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3231383735362b30303a3030a672756e5f6964a27231'),
	('fork', 20, 1, 1794797461225652, 146, 1, 'm21', 'r1', 'message 21: grüsse', '\xc1101545df8d86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032313a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e15a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3232353635322b30303a3030a672756e5f6964a27231'),
	('fork', 21, 1, 1794797461230518, 146, 1, 'm22', 'r1', 'message 22: grüsse', '\xc11098d7c0df86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032323a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e16a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3233303531382b30303a3030a672756e5f6964a27231'),
	('fork', 22, 1, 1794797461240575, 146, 1, 'm23', 'r1', 'message 23: grüsse', '\xc1103e89be3786a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032333a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e17a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3234303537352b30303a3030a672756e5f6964a27231'),
	('fork', 23, 1, 1794797461242967, 146, 1, 'm24', 'r1', 'message 24: grüsse', '\xc11028a69ff386a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032343a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e18a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3234323936372b30303a3030a672756e5f6964a27231'),
	('fork', 24, 1, 1794797461251072, 146, 1, 'm25', 'r1', 'message 25: grüsse', '\xc110a568089b86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032353a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e19a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3235313037322b30303a3030a672756e5f6964a27231'),
	('fork', 25, 1, 1794797461254905, 146, 1, 'm26', 'r1', 'message 26: grüsse', '\xc110b21ce0d386a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032363a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e1aa86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3235343930352b30303a3030a672756e5f6964a27231'),
	('fork', 26, 1, 1794797461259311, 146, 1, 'm27', 'r1', 'message 27: grüsse', '\xc1102c57a51986a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032373a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e1ba86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3235393331312b30303a3030a672756e5f6964a27231'),
	('fork', 27, 1, 1794797461263977, 146, 1, 'm28', 'r1', 'message 28: grüsse', '\xc1101d24430586a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032383a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e1ca86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3236333937372b30303a3030a672756e5f6964a27231'),
	('fork', 28, 1, 1794797461281951, 146, 1, 'm29', 'r1', 'message 29: grüsse', '\xc110c345f92386a4726f6c65a475736572a7636f6e74656e74b34d6573736167652032393a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e1da86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3238313935312b30303a3030a672756e5f6964a27231'),
	('fork', 29, 1, 1794797461286659, 146, 1, 'm30', 'r1', 'message 30: grüsse', '\xc110093084ea86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033303a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e1ea86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3238363635392b30303a3030a672756e5f6964a27231'),
	('fork', 30, 1, 1794797461298348, 146, 1, 'm31', 'r1', 'message 31: grüsse', '\xc11081cf83a786a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033313a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e1fa86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3239383334382b30303a3030a672756e5f6964a27231'),
	('fork', 31, 1, 1794797461301327, 146, 1, 'm32', 'r1', 'message 32: grüsse', '\xc110041ff5bf86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033323a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e20a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3330313332372b30303a3030a672756e5f6964a27231'),
	('fork', 32, 1, 1794797461313686, 146, 1, 'm33', 'r1', 'message 33: grüsse', '\xc11009ae13dc86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033333a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e21a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3331333638362b30303a3030a672756e5f6964a27231'),
	('fork', 33, 1, 1794797461381353, 146, 1, 'm34', 'r1', 'message 34: grüsse', '\xc1108e3f8fa986a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033343a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e22a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3338313335332b30303a3030a672756e5f6964a27231'),
	('fork', 34, 1, 1794797461399011, 146, 1, 'm35', 'r1', 'message 35: grüsse', '\xc110a36c174a86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033353a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e23a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3339393031312b30303a3030a672756e5f6964a27231'),
	('fork', 35, 1, 1794797461408329, 146, 1, 'm36', 'r1', 'message 36: grüsse', '\xc1104123487b86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033363a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e24a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3430383332392b30303a3030a672756e5f6964a27231'),
	('fork', 36, 1, 1794797461420017, 146, 1, 'm37', 'r1', 'message 37: grüsse', '\xc110ba90f89786a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033373a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e25a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3432303031372b30303a3030a672756e5f6964a27231'),
	('fork', 37, 1, 1794797461429951, 146, 1, 'm38', 'r1', 'message 38: grüsse', '\xc1102b5abfa186a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033383a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e26a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3432393935312b30303a3030a672756e5f6964a27231'),
	('fork', 38, 1, 1794797461431933, 146, 1, 'm39', 'r1', 'message 39: grüsse', '\xc1102ce4a5e486a4726f6c65a475736572a7636f6e74656e74b34d6573736167652033393a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e27a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3433313933332b30303a3030a672756e5f6964a27231'),
	('fork', 39, 1, 1794797461434167, 146, 1, 'm40', 'r1', 'message 40: grüsse', '\xc1106593a20a86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652034303a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e28a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3433343136372b30303a3030a672756e5f6964a27231'),
	('fork', 40, 1, 1794797461440917, 146, 1, 'm41', 'r1', 'message 41: grüsse', '\xc110ec2e7c5886a4726f6c65a475736572a7636f6e74656e74b34d6573736167652034313a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e29a86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3434303931372b30303a3030a672756e5f6964a27231'),
	('fork', 41, 1, 1794797461453986, 146, 1, 'm42', 'r1', 'message 42: grüsse', '\xc110ec7c376b86a4726f6c65a475736572a7636f6e74656e74b34d6573736167652034323a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e2aa86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3435333938362b30303a3030a672756e5f6964a27231'),
	('fork', 42, 1, 1794797461456329, 146, 1, 'm43', 'r1', 'message 43: grüsse', '\xc110b486f47486a4726f6c65a475736572a7636f6e74656e74b34d6573736167652034333a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e2ba86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3435363332392b30303a3030a672756e5f6964a27231'),
	('fork', 43, 1, 1794797461458015, 146, 1, 'm44', 'r1', 'message 44: grüsse', '\xc110d4a6a5d586a4726f6c65a475736572a7636f6e74656e74b34d6573736167652034343a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e2ca86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3435383031352b30303a3030a672756e5f6964a27231'),
	('fork', 44, 1, 1794797461463957, 146, 1, 'm45', 'r1', 'message 45: grüsse', '\xc1103aa2450086a4726f6c65a475736572a7636f6e74656e74b34d6573736167652034353a204772c3bcc39f65aa746f6f6c5f63616c6c739181a16e2da86d6574616461746180aa637265617465645f6174c72004323032362d31312d31365430323a35313a30312e3436333935372b30303a3030a672756e5f6964a27231');
INSERT INTO "golden schema".receipts VALUES
	('trip', '06gy4gyzamg1qby00v8x', 34, false),
	('trip', '06gy4gyzx8jfh3atp57t', 47, false);
INSERT INTO "golden schema".threads VALUES
	('trip', 'ana', '72defd96db2d41cc88a5', 1, 0, 45, 48, 45, 45, 46, 16032, 1794797461064393, 1794797461494099, 13372283, '06gy4gyzvc3ftk38skbm', '06gy4gyztr26tqpqtj1m', 'r1', NULL, NULL, NULL, 'lisbon
a
b', '\xc110f516e6e483ab7468726561645f6e616d65a64c6973626f6ea47461677392a161a162a86d6574616461746181a17801'),
	('fork', 'ana', '5c68ece6058745e9acce', 2, 0, 46, 2, 45, 45, 2, 14455, 1794797461506918, 1794797461534078, 13372283, '06gy4gz03g7t6g9hxq3t', '06gy4gz008f4vx3ty7w5', 'r1', 'trip', '06gy4gyzvc3ftk38skbm', NULL, 'lisbon
a
b', '\xc110f516e6e483ab7468726561645f6e616d65a64c6973626f6ea47461677392a161a162a86d6574616461746181a17801');
INSERT INTO "golden schema".value_rows VALUES
	('trip', 32, 1, '\x1c4545f0dc6e3efacaeb27b60c58e684', '\xc1106d03c467069291cd0147c083a26964a36d3332a4726f6c65a475736572a7636f6e74656e74da012a77666633207732333761207731303063207732333933207731303235207732336163207731303365207732336335207731303537207732336465207731303730207732336637207731303839207732343130207731306132207732343239207731306262207732343432207731306434207732343562207731306564207732343734207731313036207732343864207731313166207732346136207731313338207732346266207731313531207732346438207731313661207732346631207731313833207732353061207731313963207732353233207731316235207732353363207731316365207732353535207731316537207732353665207731323030207732353837207731323139207732356130207731323332207732356239207731323462207732356432'),
	('trip', 0, 32, '\xe2a777c2062a8db9b46f420d133754643f7063313e17344214e12d3cda0f10fe093394d3106437633a0099e88bb7aa8045bd240eccff03d3fa309ed32ba60f5b0bc0aa7497c7b6fe9930e4230f7be8afcb47dbf94bab9abccefceaefe767237e1bf707af8776dc89daf3d93bb073f4cf8846949d6d9ea881f1e2f62c78fb2765b154a817ce1e11bbf9b7b4934e5ef59baff85c8f45a637aac457a30d1ad3a0035f5a7e0238423d259127f0b99ccf3a77f8fd2d50e74376aad378e606cd159189ddd4df028b813c4c7a7007c4fc4e2fa78192dd3c4591af4dd1bf14039ee26bc694994b5ad152ea76dc69a96c94b48848f0f089699fb58bd05408b285df5cfb0b3ec310a7f4c110f7d6018da0a8260566bad30586e08f3a2d6a414280159e53b37ef1568f40b8ea14dcd37f5e267ec693f2eaf74f5145d18824e73544bd9ad1d5d38a60cce1d4ee6aaf1cdd7799592f8d56ad5024244faa6524cebda6b7c5a989e4224ebc2fc8bd83e5d828c2836d5c6b3c0289f741c457669b257f414b0abeb1710bf16c12f3d1c318e14fdf63a66f2b2bea74cf933464774883f29ce342bbefa5f6c0e30b35dba288fcb95b8912dd59c73655ffc00f4b835071677bf7010e44ccacd34abb4e844f534ae1229b7d91466d83e2af6c265e384e728e7f82a20c35b5f093f6bbce2b15f3c93dd551df727c1e6692efa4e325edaad9518d981fa110', '\xc111d06baab328b52ffd6085255d4b004ac3341a2a80b9920ee69032293e02e9208313fe239aa926ecbdf703abc2210a446e29a594b2aa81fd513480c2d450a701890192016630bbb3d27d6b769b846e7208fdc1ddc9bb70a89b94bcd786ba8be49dc450f76ede9ab6eea4799fb3756be68d66eb3e9777215b375ade366cdd45e43d8c4d780bddba8783f7c0357823dbba07c13b6b176f9306de8746dd26f12666d47d887795513731bc77187557e19d36ddad3aea4ee7ee83a36e3577e38dba0fb9bbd4a81b87bb4d8cbacbb87b406ac339f7c0b25b9873232bbb07397756d98df6dc2609bb739cfb90b0dbe4b98911761f9ebb8ab09bd8b9771076579d3b0d61f72673ab0abbd331f741616e3c61ee52c2dc26cc3d20738b93cc3d4a32371a92b97353b98da6725fa672934be52e4be55e91ca9d10aa37a874b2ee4dbbd564dde9ec3e24eb56b31b87acfb08bbcbc8ba3169d65d4edd0366dd662eeb1e48dda3b26e3124ac7b8cba1361dd280dd69d05eb36563719b0eeabba6bb16e92ee55acbbd09d10eb5e73eb61dd89dca7b06e1d6e1458f71977415737ea6de7ea2e780fe5eab6bb05b9ba87bac75edde20c1650c00005c400850a460205d0020d448012a8a040046202040701081c9820820411c18005172208704084051724442880800517025870c10054f0000ae626578494b9b784b9d3a2726b32e53e5aca8d672877c12db7255477d1720f07d56d596e6150ddc3957b1054b7b072a345750f51ee1ca86e84c86d12d59d87dc87a86e53c84d0cd57d84dc55a86eb2e4de74eaae41ee740eb9d59c523d5a7523a2db8ab9072bb730ac7b18ee21f64643ef44789bbcfbeeae716af7e6a9dde94eed563bb5fb8853bb3199da5d8ea9dd664ced1e88a9dd62b0b47b0c4bbb515a5a9a62eace1bee23a66e53c34dd6d47d62b86b98ba09da7bd3d45d67ef74a6ee2d7bab99bad3b0f711a66eddbd3195ba8fee5d4ea91b736f33a5ee727b0fa4d46db6b7184add83d87b8c52b748e34659ea1e67dc89a56e54c66dacd49d64dc57a56eb3e32689d47d63dc8548dd24c7bd86d45d38ee4448dd6be3d624c67d06a95b93dea8a4ee73f40dd00cda5daed06eb342bb075168b74802ed1e47d49d8876a322ea368676271168b7595137b921ce6e92e2ec2e1467f79a38bb931097d28d7ad25df0ec46936ebbb3bb90740f7576db906e21ceee61a47b20b35b68ba9131bb07a63b8bd98d2cdd014e7bc8ada990fb2821379e2577c1416e43a7ee92e41ecca9db90dcc2c83d8653b72872a371ea1e69b8534fdde80cb7c153779a3b64b8499dba6f10670cf7221dee644cdd8bc3adc50cf7194cbd419dbd715c1edad54864f20cb9c1d46eb2a596762f5ada9dcccaeac6932aed465469773197765b1986dad2c2ba423b849a60c188bdc9959233ee2d33eeb464dc9a76dc47c7b8f1e4b80be2b8ad90ba8b8d7b18488d5b2ca97b487a0f25486f8446ef3c5237227a9b2275e7a0f70952b7197a1334d47daa771dd47bcbe99d86d25b77a83ba5bc8f0e752bca1b73a8fb98bccb0d7563c9c14aec90d23d044a371a26dd8948ba4d0ee93e33d24dae0ec1746f5dbad356ba3525741f45e8c63483ee7205dd66667719d03d08b3db16dd2295dd83a27b9c44372a87ee24856eb365770a74df28bb0d3a37c9b2fbceb98b9473074b08de5b03de6907de9a12efa388371ec3bba06d49770f86ee163998bb872877a331dca8bb0dd2bbefe8dda4e8dd45f4ee5dbd3ba9daada9769f53bbd1d4ee22d46e4b79328728e646633077a2616e936aee33181ed228a794c4d550c31b6c551dc2b0d9506fa05e2bbb83342487662e48ea0dca95667f20ec86f2066ba45767305092db1824f7152337198adcb569b857cf70273cc3ad7786fbd439c35d90196e3b66b88762865b1053c33d560c375253f7407b679aba91d9db5cd9fb6c1066f7aea47befc9bd53b9bd95d4de674bdd2af6c651ea0d14d5d0cecac44864f2cc505b6837d9caaa3bada62ab45bf1205177c1238a2062c510294e9810e2ec03d4040b57498cde5b45efb483de9a86de47556f3ca8774123a5f41e4ce82dc680f21e02dd2879271af236b9799fd1bcc965de452eef25b62bf2d681f03e79f0462c78175b82b7d5624db0300684ee210ebad128e84e34a0dbe4a2fb8ca29b5c1972e8de3274a715e8d684ce7df49c1b4f397741726e2b7bee21093bb740e2dcc388732322ce9d8338b719c2dca7c2dc0485b9eb84b9b784b9dabb13d2ba57efd6a37527bcfb14ad5bef6e245af7a9bbcb6add28eeb6a1751764f7905ab71dbb056add43b17b98d62d88dd48a8dd99b26e7426490e3932332b1111d1c6963b9196db6496fbcc959b5c0d44947b2b910781c6a8b1346788c14c444449410a92a403110684102151cef612e0612e26123fa52dff3f3a0959e490af6e90904568a9b30caf10b088e883031429c371075844c3fcd6aa1d12c738b28830f9d6508b0cc74dc8220d4d9e6135052cd2aa09195643b0229a0fea29820c4723541141a7f5144186a30daa88a09c1eeec830b1042a7256e60ff7584c115dfa90e142842822b3c12e2dc8703702141138511f3926dcb73e1409ab6519fbec84d52cbe637cf7e3bbc8f7b59c2ff96e95f350ceffe49cf5465bbaa6b5c0aff3f2be7b827e65a987cf8156fa1e81f6d6bd81b6b5fd41db434c1568050da5fd5414e3a89f8f792985a1afeb7ffcc851ae3b82c7deacebfbf366a74fa0370b79d23e5dea046d3ac409b874681334e99026e0d141ce04068a7de86158c58e9f9cdeed75260751a3ac7539b8ba2bd0e15ce768cf9e3268d080d6978361b3aeaf5e0c75561f5174ea50b71cce8e8e0e7458612b5e65ba2aee0d1370e8c1ade0974cb5964fa434ddd4ee2df1de1af69686c4e5aeb7664438b1c289de32438c1d126387ccfabe31d49a9cb8315491df65024f2627d4e679f52e62ce44243aa41deed7adadeddfad9d689a478fd3f5766b85c4196005d1704fa4e555cc9ef6e3fde249e1fd4e9b5968a04f0abde3e5f8dee2ff269ddcab268de3df4c14c7a198208e6377098894f4d0a7b044e436a3a3ef6e6a8f944291d31f3096fcc6d4a7e0b6387d75f562a8b3f2d633d7c207444eb7238ff4b4574cc630fc723aca1848c8f4e4f7f2d1d1d5d18ddc409c0c431101e5560c73be3a7deaeac81dd0534bc4d25e891983bd3f345e0e3d0f94a42e056a5581f6063d55da6360ffaf27aade949e0115fd14545340a50090828f822a8a2cacdb3c866a14a2e9b93ed7c21fc0d37fb7be77e26f37574a08bb937502ea76e924e8f88de8c051a0b49e35c018a5825e34c39831fff3ebcfeeb0638adeaff2455747570738c3d69b082ae99fec4daf0b083d24f51422306b16f3464be043569445660ae403'),
	('trip', 33, 1, '\xfa99804084ccf3bff614578ce8ada882', '\xc110c33c12c8069291cd012fc083a26964a36d3333a4726f6c65a475736572a7636f6e74656e74da011277376564207731623734207738303620773162386420773831662077316261362077383338207731626266207738353120773162643820773836612077316266312077383833207731633061207738396320773163323320773862352077316333632077386365207731633535207738653720773163366520773930302077316338372077393139207731636130207739333220773163623920773934622077316364322077393634207731636562207739376420773164303420773939362077316431642077396166207731643336207739633820773164346620773965312077316436382077396661207731643831207761313320773164396120776132632077316462332077613435207731646363'),
	('trip', 34, 1, '\x2358e98e4bff5978bc339ad5ad296a68', '\xc110e430b765069291cd0124c083a26964a36d3334a4726f6c65a475736572a7636f6e74656e74da01077732366463207731333665207730207731333837207731392077313361302077333220773133623920773462207731336432207736342077313365622077376420773134303420773936207731343164207761662077313433362077633820773134346620776531207731343638207766612077313438312077313133207731343961207731326320773134623320773134352077313463632077313565207731346535207731373720773134666520773139302077313531372077316139207731353330207731633220773135343920773164622077313536322077316634207731353762207732306420773135393420773232362077313561642077323366207731356336'),
	('trip', 35, 1, '\x51850ab537159cecbfda873276c74112', '\xc110bff6dba3069291cd012fc083a26964a36d3335a4726f6c65a475736572a7636f6e74656e74da011277316564362077623638207731656566207762383120773166303820776239612077316632312077626233207731663361207762636320773166353320776265352077316636632077626665207731663835207763313720773166396520776333302077316662372077633439207731666430207763363220773166653920776337622077323030322077633934207732303162207763616420773230333420776363362077323034642077636466207732303636207763663820773230376620776431312077323039382077643261207732306231207764343320773230636120776435632077323065332077643735207732306663207764386520773231313520776461372077323132652077646330'),
	('trip', 36, 1, '\x2d87c2808c2321dc73573aadebd67203', '\xc110ca407c52069291cd012fc083a26964a36d3336a4726f6c65a475736572a7636f6e74656e74da011277313664302077333632207731366539207733376220773137303220773339342077313731622077336164207731373334207733633620773137346420773364662077313736362077336638207731373766207734313120773137393820773432612077313762312077343433207731376361207734356320773137653320773437352077313766632077343865207731383135207734613720773138326520773463302077313834372077346439207731383630207734663220773138373920773530622077313839322077353234207731386162207735336420773138633420773535362077313864642077353666207731386636207735383820773139306620773561312077313932382077356261'),
	('trip', 37, 1, '\xd7e90cf9fbe405d18b5e1a602431d664', '\xc110d5e82acd069291cd013bc083a26964a36d3337a4726f6c65a475736572a7636f6e74656e74da011e77656361207732323531207765653320773232366120776566632077323238332077663135207732323963207766326520773232623520776634372077323263652077663630207732326537207766373920773233303020776639322077323331392077666162207732333332207766633420773233346220776664642077323336342077666636207732333764207731303066207732333936207731303238207732336166207731303431207732336338207731303561207732336531207731303733207732336661207731303863207732343133207731306135207732343263207731306265207732343435207731306437207732343565207731306630207732343737207731313039207732343930207731313232207732346139'),
	('trip', 38, 1, '\xc5712a4e344d7883b81ac5fee3f35d3e', '\xc1104d0b9a33069291cd012fc083a26964a36d3338a4726f6c65a475736572a7636f6e74656e74da011277366334207731613462207736646420773161363420773666362077316137642077373066207731613936207737323820773161616620773734312077316163382077373561207731616531207737373320773161666120773738632077316231332077376135207731623263207737626520773162343520773764372077316235652077376630207731623737207738303920773162393020773832322077316261392077383362207731626332207738353420773162646220773836642077316266342077383836207731633064207738396620773163323620773862382077316333662077386431207731633538207738656120773163373120773930332077316338612077393163207731636133'),
	('trip', 39, 1, '\x922e46af7e5a239a7db4f77b756f7824', '\xc110e08fce48069291cd0130c083a26964a36d3339a4726f6c65a475736572a7636f6e74656e74da01137732356233207731323435207732356363207731323565207732356535207731323737207732356665207731323930207732363137207731326139207732363330207731326332207732363439207731326462207732363632207731326634207732363762207731333064207732363934207731333236207732366164207731333366207732366336207731333538207732366466207731333731207733207731333861207731632077313361332077333520773133626320773465207731336435207736372077313365652077383020773134303720773939207731343230207762322077313433392077636220773134353220776534207731343662207766642077313438342077313136207731343964'),
	('trip', 40, 1, '\x43021720c1f7944ecf7ed776d3e6b3ef', '\xc110059238ad069291cd012fc083a26964a36d3430a4726f6c65a475736572a7636f6e74656e74da011277316461642077613366207731646336207761353820773164646620776137312077316466382077613861207731653131207761613320773165326120776162632077316534332077616435207731653563207761656520773165373520776230372077316538652077623230207731656137207762333920773165633020776235322077316564392077623662207731656632207762383420773166306220776239642077316632342077626236207731663364207762636620773166353620776265382077316636662077633031207731663838207763316120773166613120776333332077316662612077633463207731666433207763363520773166656320776337652077323030352077633937'),
	('trip', 41, 1, '\x82164ec0fc3f8d6b99acf65050d91b3c', '\xc1105be3bd5e069291cd012fc083a26964a36d3431a4726f6c65a475736572a7636f6e74656e74da011277313561372077323339207731356330207732353220773135643920773236622077313566322077323834207731363062207732396420773136323420773262362077313633642077326366207731363536207732653820773136366620773330312077313638382077333161207731366131207733333320773136626120773334632077313664332077333635207731366563207733376520773137303520773339372077313731652077336230207731373337207733633920773137353020773365322077313736392077336662207731373832207734313420773137396220773432642077313762342077343436207731376364207734356620773137653620773437382077313766662077343931'),
	('trip', 42, 1, '\xd4a229328eb63e8ac226fef6a3e19e09', '\xc110f1194a0f069291cd012fc083a26964a36d3432a4726f6c65a475736572a7636f6e74656e74da011277646131207732313238207764626120773231343120776464332077323135612077646563207732313733207765303520773231386320776531652077323161352077653337207732316265207765353020773231643720776536392077323166302077653832207732323039207765396220773232323220776562342077323233622077656364207732323534207765653620773232366420776566662077323238362077663138207732323966207766333120773232623820776634612077323264312077663633207732326561207766376320773233303320776639352077323331632077666165207732333335207766633720773233346520776665302077323336372077666639207732333830'),
	('trip', 43, 1, '\x23778ef5e696bfc9b8567a3ba2658d5e', '\xc11007fec4db069291cd012fc083a26964a36d3433a4726f6c65a475736572a7636f6e74656e74da011277353962207731393232207735623420773139336220773563642077313935342077356536207731393664207735666620773139383620773631382077313939662077363331207731396238207736346120773139643120773636332077313965612077363763207731613033207736393520773161316320773661652077316133352077366337207731613465207736653020773161363720773666392077316138302077373132207731613939207737326220773161623220773734342077316163622077373564207731616534207737373620773161666420773738662077316231362077376138207731623266207737633120773162343820773764612077316236312077376633207731623761'),
	('trip', 44, 1, '\x8f027051a70a1ab5c96f1ac10a2092d3', '\xc11091a122d9069291cd0148c083a26964a36d3434a4726f6c65a475736572a7636f6e74656e74da012b7732343861207731313163207732346133207731313335207732346263207731313465207732346435207731313637207732346565207731313830207732353037207731313939207732353230207731316232207732353339207731316362207732353532207731316534207732353662207731316664207732353834207731323136207732353964207731323266207732356236207731323438207732356366207731323631207732356538207731323761207732363031207731323933207732363161207731326163207732363333207731326335207732363463207731326465207732363635207731326637207732363765207731333130207732363937207731333239207732366230207731333432207732366339207731333562207732366532207731333734'),
	('fork', 0, 32, '\xe2a777c2062a8db9b46f420d133754643f7063313e17344214e12d3cda0f10fe093394d3106437633a0099e88bb7aa8045bd240eccff03d3fa309ed32ba60f5b0bc0aa7497c7b6fe9930e4230f7be8afcb47dbf94bab9abccefceaefe767237e1bf707af8776dc89daf3d93bb073f4cf8846949d6d9ea881f1e2f62c78fb2765b154a817ce1e11bbf9b7b4934e5ef59baff85c8f45a637aac457a30d1ad3a0035f5a7e0238423d259127f0b99ccf3a77f8fd2d50e74376aad378e606cd159189ddd4df028b813c4c7a7007c4fc4e2fa78192dd3c4591af4dd1bf14039ee26bc694994b5ad152ea76dc69a96c94b48848f0f089699fb58bd05408b285df5cfb0b3ec310a7f4c110f7d6018da0a8260566bad30586e08f3a2d6a414280159e53b37ef1568f40b8ea14dcd37f5e267ec693f2eaf74f5145d18824e73544bd9ad1d5d38a60cce1d4ee6aaf1cdd7799592f8d56ad5024244faa6524cebda6b7c5a989e4224ebc2fc8bd83e5d828c2836d5c6b3c0289f741c457669b257f414b0abeb1710bf16c12f3d1c318e14fdf63a66f2b2bea74cf933464774883f29ce342bbefa5f6c0e30b35dba288fcb95b8912dd59c73655ffc00f4b835071677bf7010e44ccacd34abb4e844f534ae1229b7d91466d83e2af6c265e384e728e7f82a20c35b5f093f6bbce2b15f3c93dd551df727c1e6692efa4e325edaad9518d981fa110', '\xc111d06baab328b52ffd6085255d4b004ac3341a2a80b9920ee69032293e02e9208313fe239aa926ecbdf703abc2210a446e29a594b2aa81fd513480c2d450a701890192016630bbb3d27d6b769b846e7208fdc1ddc9bb70a89b94bcd786ba8be49dc450f76ede9ab6eea4799fb3756be68d66eb3e9777215b375ade366cdd45e43d8c4d780bddba8783f7c0357823dbba07c13b6b176f9306de8746dd26f12666d47d887795513731bc77187557e19d36ddad3aea4ee7ee83a36e3577e38dba0fb9bbd4a81b87bb4d8cbacbb87b406ac339f7c0b25b9873232bbb07397756d98df6dc2609bb739cfb90b0dbe4b98911761f9ebb8ab09bd8b9771076579d3b0d61f72673ab0abbd331f741616e3c61ee52c2dc26cc3d20738b93cc3d4a32371a92b97353b98da6725fa672934be52e4be55e91ca9d10aa37a874b2ee4dbbd564dde9ec3e24eb56b31b87acfb08bbcbc8ba3169d65d4edd0366dd662eeb1e48dda3b26e3124ac7b8cba1361dd280dd69d05eb36563719b0eeabba6bb16e92ee55acbbd09d10eb5e73eb61dd89dca7b06e1d6e1458f71977415737ea6de7ea2e780fe5eab6bb05b9ba87bac75edde20c1650c00005c400850a460205d0020d448012a8a040046202040701081c9820820411c18005172208704084051724442880800517025870c10054f0000ae626578494b9b784b9d3a2726b32e53e5aca8d672877c12db7255477d1720f07d56d596e6150ddc3957b1054b7b072a345750f51ee1ca86e84c86d12d59d87dc87a86e53c84d0cd57d84dc55a86eb2e4de74eaae41ee740eb9d59c523d5a7523a2db8ab9072bb730ac7b18ee21f64643ef44789bbcfbeeae716af7e6a9dde94eed563bb5fb8853bb3199da5d8ea9dd664ced1e88a9dd62b0b47b0c4bbb515a5a9a62eace1bee23a66e53c34dd6d47d62b86b98ba09da7bd3d45d67ef74a6ee2d7bab99bad3b0f711a66eddbd3195ba8fee5d4ea91b736f33a5ee727b0fa4d46db6b7184add83d87b8c52b748e34659ea1e67dc89a56e54c66dacd49d64dc57a56eb3e32689d47d63dc8548dd24c7bd86d45d38ee4448dd6be3d624c67d06a95b93dea8a4ee73f40dd00cda5daed06eb342bb075168b74802ed1e47d49d8876a322ea368676271168b7595137b921ce6e92e2ec2e1467f79a38bb931097d28d7ad25df0ec46936ebbb3bb90740f7576db906e21ceee61a47b20b35b68ba9131bb07a63b8bd98d2cdd014e7bc8ada990fb2821379e2577c1416e43a7ee92e41ecca9db90dcc2c83d8653b72872a371ea1e69b8534fdde80cb7c153779a3b64b8499dba6f10670cf7221dee644cdd8bc3adc50cf7194cbd419dbd715c1edad54864f20cb9c1d46eb2a596762f5ada9dcccaeac6932aed465469773197765b1986dad2c2ba423b849a60c188bdc9959233ee2d33eeb464dc9a76dc47c7b8f1e4b80be2b8ad90ba8b8d7b18488d5b2ca97b487a0f25486f8446ef3c5237227a9b2275e7a0f70952b7197a1334d47daa771dd47bcbe99d86d25b77a83ba5bc8f0e752bca1b73a8fb98bccb0d7563c9c14aec90d23d044a371a26dd8948ba4d0ee93e33d24dae0ec1746f5dbad356ba3525741f45e8c63483ee7205dd66667719d03d08b3db16dd2295dd83a27b9c44372a87ee24856eb365770a74df28bb0d3a37c9b2fbceb98b9473074b08de5b03de6907de9a12efa388371ec3bba06d49770f86ee163998bb872877a331dca8bb0dd2bbefe8dda4e8dd45f4ee5dbd3ba9daada9769f53bbd1d4ee22d46e4b79328728e646633077a2616e936aee33181ed228a794c4d550c31b6c551dc2b0d9506fa05e2bbb83342487662e48ea0dca95667f20ec86f2066ba45767305092db1824f7152337198adcb569b857cf70273cc3ad7786fbd439c35d90196e3b66b88762865b1053c33d560c375253f7407b679aba91d9db5cd9fb6c1066f7aea47befc9bd53b9bd95d4de674bdd2af6c651ea0d14d5d0cecac44864f2cc505b6837d9caaa3bada62ab45bf1205177c1238a2062c510294e9810e2ec03d4040b57498cde5b45efb483de9a86de47556f3ca8774123a5f41e4ce82dc680f21e02dd2879271af236b9799fd1bcc965de452eef25b62bf2d681f03e79f0462c78175b82b7d5624db0300684ee210ebad128e84e34a0dbe4a2fb8ca29b5c1972e8de3274a715e8d684ce7df49c1b4f397741726e2b7bee21093bb740e2dcc388732322ce9d8338b719c2dca7c2dc0485b9eb84b9b784b9dabb13d2ba57efd6a37527bcfb14ad5bef6e245af7a9bbcb6add28eeb6a1751764f7905ab71dbb056add43b17b98d62d88dd48a8dd99b26e7426490e3932332b1111d1c6963b9196db6496fbcc959b5c0d44947b2b910781c6a8b1346788c14c444449410a92a403110684102151cef612e0612e26123fa52dff3f3a0959e490af6e90904568a9b30caf10b088e883031429c371075844c3fcd6aa1d12c738b28830f9d6508b0cc74dc8220d4d9e6135052cd2aa09195643b0229a0fea29820c4723541141a7f5144186a30daa88a09c1eeec830b1042a7256e60ff7584c115dfa90e142842822b3c12e2dc8703702141138511f3926dcb73e1409ab6519fbec84d52cbe637cf7e3bbc8f7b59c2ff96e95f350ceffe49cf5465bbaa6b5c0aff3f2be7b827e65a987cf8156fa1e81f6d6bd81b6b5fd41db434c1568050da5fd5414e3a89f8f792985a1afeb7ffcc851ae3b82c7deacebfbf366a74fa0370b79d23e5dea046d3ac409b874681334e99026e0d141ce04068a7de86158c58e9f9cdeed75260751a3ac7539b8ba2bd0e15ce768cf9e3268d080d6978361b3aeaf5e0c75561f5174ea50b71cce8e8e0e7458612b5e65ba2aee0d1370e8c1ade0974cb5964fa434ddd4ee2df1de1af69686c4e5aeb7664438b1c289de32438c1d126387ccfabe31d49a9cb8315491df65024f2627d4e679f52e62ce44243aa41deed7adadeddfad9d689a478fd3f5766b85c4196005d1704fa4e555cc9ef6e3fde249e1fd4e9b5968a04f0abde3e5f8dee2ff269ddcab268de3df4c14c7a198208e6377098894f4d0a7b044e436a3a3ef6e6a8f944291d31f3096fcc6d4a7e0b6387d75f562a8b3f2d633d7c207444eb7238ff4b4574cc630fc723aca1848c8f4e4f7f2d1d1d5d18ddc409c0c431101e5560c73be3a7deaeac81dd0534bc4d25e891983bd3f345e0e3d0f94a42e056a5581f6063d55da6360ffaf27aade949e0115fd14545340a50090828f822a8a2cacdb3c866a14a2e9b93ed7c21fc0d37fb7be77e26f37574a08bb937502ea76e924e8f88de8c051a0b49e35c018a5825e34c39831fff3ebcfeeb0638adeaff2455747570738c3d69b082ae99fec4daf0b083d24f51422306b16f3464be043569445660ae403'),
	('fork', 32, 1, '\x1c4545f0dc6e3efacaeb27b60c58e684', '\xc1106d03c467069291cd0147c083a26964a36d3332a4726f6c65a475736572a7636f6e74656e74da012a77666633207732333761207731303063207732333933207731303235207732336163207731303365207732336335207731303537207732336465207731303730207732336637207731303839207732343130207731306132207732343239207731306262207732343432207731306434207732343562207731306564207732343734207731313036207732343864207731313166207732346136207731313338207732346266207731313531207732346438207731313661207732346631207731313833207732353061207731313963207732353233207731316235207732353363207731316365207732353535207731316537207732353665207731323030207732353837207731323139207732356130207731323332207732356239207731323462207732356432'),
	('fork', 33, 1, '\xfa99804084ccf3bff614578ce8ada882', '\xc110c33c12c8069291cd012fc083a26964a36d3333a4726f6c65a475736572a7636f6e74656e74da011277376564207731623734207738303620773162386420773831662077316261362077383338207731626266207738353120773162643820773836612077316266312077383833207731633061207738396320773163323320773862352077316333632077386365207731633535207738653720773163366520773930302077316338372077393139207731636130207739333220773163623920773934622077316364322077393634207731636562207739376420773164303420773939362077316431642077396166207731643336207739633820773164346620773965312077316436382077396661207731643831207761313320773164396120776132632077316462332077613435207731646363'),
	('fork', 34, 1, '\x2358e98e4bff5978bc339ad5ad296a68', '\xc110e430b765069291cd0124c083a26964a36d3334a4726f6c65a475736572a7636f6e74656e74da01077732366463207731333665207730207731333837207731392077313361302077333220773133623920773462207731336432207736342077313365622077376420773134303420773936207731343164207761662077313433362077633820773134346620776531207731343638207766612077313438312077313133207731343961207731326320773134623320773134352077313463632077313565207731346535207731373720773134666520773139302077313531372077316139207731353330207731633220773135343920773164622077313536322077316634207731353762207732306420773135393420773232362077313561642077323366207731356336'),
	('fork', 35, 1, '\x51850ab537159cecbfda873276c74112', '\xc110bff6dba3069291cd012fc083a26964a36d3335a4726f6c65a475736572a7636f6e74656e74da011277316564362077623638207731656566207762383120773166303820776239612077316632312077626233207731663361207762636320773166353320776265352077316636632077626665207731663835207763313720773166396520776333302077316662372077633439207731666430207763363220773166653920776337622077323030322077633934207732303162207763616420773230333420776363362077323034642077636466207732303636207763663820773230376620776431312077323039382077643261207732306231207764343320773230636120776435632077323065332077643735207732306663207764386520773231313520776461372077323132652077646330'),
	('fork', 36, 1, '\x2d87c2808c2321dc73573aadebd67203', '\xc110ca407c52069291cd012fc083a26964a36d3336a4726f6c65a475736572a7636f6e74656e74da011277313664302077333632207731366539207733376220773137303220773339342077313731622077336164207731373334207733633620773137346420773364662077313736362077336638207731373766207734313120773137393820773432612077313762312077343433207731376361207734356320773137653320773437352077313766632077343865207731383135207734613720773138326520773463302077313834372077346439207731383630207734663220773138373920773530622077313839322077353234207731386162207735336420773138633420773535362077313864642077353666207731386636207735383820773139306620773561312077313932382077356261'),
	('fork', 37, 1, '\xd7e90cf9fbe405d18b5e1a602431d664', '\xc110d5e82acd069291cd013bc083a26964a36d3337a4726f6c65a475736572a7636f6e74656e74da011e77656361207732323531207765653320773232366120776566632077323238332077663135207732323963207766326520773232623520776634372077323263652077663630207732326537207766373920773233303020776639322077323331392077666162207732333332207766633420773233346220776664642077323336342077666636207732333764207731303066207732333936207731303238207732336166207731303431207732336338207731303561207732336531207731303733207732336661207731303863207732343133207731306135207732343263207731306265207732343435207731306437207732343565207731306630207732343737207731313039207732343930207731313232207732346139'),
	('fork', 38, 1, '\xc5712a4e344d7883b81ac5fee3f35d3e', '\xc1104d0b9a33069291cd012fc083a26964a36d3338a4726f6c65a475736572a7636f6e74656e74da011277366334207731613462207736646420773161363420773666362077316137642077373066207731613936207737323820773161616620773734312077316163382077373561207731616531207737373320773161666120773738632077316231332077376135207731623263207737626520773162343520773764372077316235652077376630207731623737207738303920773162393020773832322077316261392077383362207731626332207738353420773162646220773836642077316266342077383836207731633064207738396620773163323620773862382077316333662077386431207731633538207738656120773163373120773930332077316338612077393163207731636133'),
	('fork', 39, 1, '\x922e46af7e5a239a7db4f77b756f7824', '\xc110e08fce48069291cd0130c083a26964a36d3339a4726f6c65a475736572a7636f6e74656e74da01137732356233207731323435207732356363207731323565207732356535207731323737207732356665207731323930207732363137207731326139207732363330207731326332207732363439207731326462207732363632207731326634207732363762207731333064207732363934207731333236207732366164207731333366207732366336207731333538207732366466207731333731207733207731333861207731632077313361332077333520773133626320773465207731336435207736372077313365652077383020773134303720773939207731343230207762322077313433392077636220773134353220776534207731343662207766642077313438342077313136207731343964'),
	('fork', 40, 1, '\x43021720c1f7944ecf7ed776d3e6b3ef', '\xc110059238ad069291cd012fc083a26964a36d3430a4726f6c65a475736572a7636f6e74656e74da011277316461642077613366207731646336207761353820773164646620776137312077316466382077613861207731653131207761613320773165326120776162632077316534332077616435207731653563207761656520773165373520776230372077316538652077623230207731656137207762333920773165633020776235322077316564392077623662207731656632207762383420773166306220776239642077316632342077626236207731663364207762636620773166353620776265382077316636662077633031207731663838207763316120773166613120776333332077316662612077633463207731666433207763363520773166656320776337652077323030352077633937'),
	('fork', 41, 1, '\x82164ec0fc3f8d6b99acf65050d91b3c', '\xc1105be3bd5e069291cd012fc083a26964a36d3431a4726f6c65a475736572a7636f6e74656e74da011277313561372077323339207731356330207732353220773135643920773236622077313566322077323834207731363062207732396420773136323420773262362077313633642077326366207731363536207732653820773136366620773330312077313638382077333161207731366131207733333320773136626120773334632077313664332077333635207731366563207733376520773137303520773339372077313731652077336230207731373337207733633920773137353020773365322077313736392077336662207731373832207734313420773137396220773432642077313762342077343436207731376364207734356620773137653620773437382077313766662077343931'),
	('fork', 42, 1, '\xd4a229328eb63e8ac226fef6a3e19e09', '\xc110f1194a0f069291cd012fc083a26964a36d3432a4726f6c65a475736572a7636f6e74656e74da011277646131207732313238207764626120773231343120776464332077323135612077646563207732313733207765303520773231386320776531652077323161352077653337207732316265207765353020773231643720776536392077323166302077653832207732323039207765396220773232323220776562342077323233622077656364207732323534207765653620773232366420776566662077323238362077663138207732323966207766333120773232623820776634612077323264312077663633207732326561207766376320773233303320776639352077323331632077666165207732333335207766633720773233346520776665302077323336372077666639207732333830'),
	('fork', 43, 1, '\x23778ef5e696bfc9b8567a3ba2658d5e', '\xc11007fec4db069291cd012fc083a26964a36d3433a4726f6c65a475736572a7636f6e74656e74da011277353962207731393232207735623420773139336220773563642077313935342077356536207731393664207735666620773139383620773631382077313939662077363331207731396238207736346120773139643120773636332077313965612077363763207731613033207736393520773161316320773661652077316133352077366337207731613465207736653020773161363720773666392077316138302077373132207731613939207737326220773161623220773734342077316163622077373564207731616534207737373620773161666420773738662077316231362077376138207731623266207737633120773162343820773764612077316236312077376633207731623761'),
	('fork', 44, 1, '\x8f027051a70a1ab5c96f1ac10a2092d3', '\xc11091a122d9069291cd0148c083a26964a36d3434a4726f6c65a475736572a7636f6e74656e74da012b7732343861207731313163207732346133207731313335207732346263207731313465207732346435207731313637207732346565207731313830207732353037207731313939207732353230207731316232207732353339207731316362207732353532207731316534207732353662207731316664207732353834207731323136207732353964207731323266207732356236207731323438207732356366207731323631207732356538207731323761207732363031207731323933207732363161207731326163207732363333207731326335207732363463207731326465207732363635207731326637207732363765207731333130207732363937207731333239207732366230207731333432207732366339207731333562207732366532207731333734'),
	('fork', 45, 1, '\x57737841f1a96ddc5d827309fef7863c', '\xc11092544281069291cd01e5c083a26964a46d393939a4726f6c65a475736572a7636f6e74656e74da01c77739626320773164343320773964352077316435632077396565207731643735207761303720773164386520776132302077316461372077613339207731646330207761353220773164643920776136622077316466322077613834207731653062207761396420773165323420776162362077316533642077616366207731653536207761653820773165366620776230312077316538382077623161207731656131207762333320773165626120776234632077316564332077623635207731656563207762376520773166303520776239372077316631652077626230207731663337207762633920773166353020776265322077316636392077626662207731663832207763313420773166396220776332642077316662342077633436207731666364207763356620773166653620776337382077316666662077633931207732303138207763616120773230333120776363332077323034612077636463207732303633207763663520773230376320776430652077323039352077643237207732306165207764343020773230633720776435392077323065302077643732207732306639207764386220773231313220776461342077323132622077646264');
SELECT pg_catalog.setval('"golden schema".lease_tokens', 1, false);
SELECT pg_catalog.setval('"golden schema".thread_ordinals', 2, true);
ALTER TABLE ONLY "golden schema".attachments
    ADD CONSTRAINT attachments_pkey PRIMARY KEY (thread_id, namespace, checkpoint_id, key);
ALTER TABLE ONLY "golden schema".checkpoints
    ADD CONSTRAINT checkpoints_pkey PRIMARY KEY (thread_id, namespace, sequence);
ALTER TABLE ONLY "golden schema".leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (thread_id);
ALTER TABLE ONLY "golden schema".messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (thread_id, "position");
ALTER TABLE ONLY "golden schema".receipts
    ADD CONSTRAINT receipts_pkey PRIMARY KEY (thread_id, commit_id);
ALTER TABLE ONLY "golden schema".threads
    ADD CONSTRAINT threads_pkey PRIMARY KEY (thread_id);
ALTER TABLE ONLY "golden schema".value_rows
    ADD CONSTRAINT value_rows_pkey PRIMARY KEY (thread_id, first);
CREATE UNIQUE INDEX checkpoints_by_id ON "golden schema".checkpoints USING btree (thread_id, checkpoint_id, namespace);
CREATE UNIQUE INDEX messages_by_id ON "golden schema".messages USING btree (thread_id, message_id);
CREATE INDEX threads_by_time ON "golden schema".threads USING btree (((active)::bigint));
CREATE INDEX threads_by_user ON "golden schema".threads USING btree (user_id, active);
