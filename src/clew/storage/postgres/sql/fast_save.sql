-- Fast path for one save: applies it atomically, or does nothing if the thread has changed.

-- A save is a commit of a checkpoint with the commit's own id, and maybe values, by a writer that
-- knows the thread (it has a basis), outside of chains and without a fence. `new_sequence` is NULL
-- if nothing was applied: then `commit` decides. Raises unique_violation if the commit was applied
-- before. `fed`: it is in the feed.
CREATE OR REPLACE FUNCTION @schema.commit_fast_save_@code(
    in_thread text, in_any boolean, in_user @user, in_at bigint, in_incarnation text, in_epoch bigint,
    in_first bigint, in_count integer, in_digests bytea, in_data bytea,
    in_checkpoint text, in_any_parent boolean, in_from_head boolean, in_parent text, in_namespace text, in_node text,
    in_step bigint, in_run text, in_size bigint, in_covers bigint[], in_metadata bytea, in_body bytea,
    OUT new_incarnation text, OUT new_epoch bigint, OUT new_next_value bigint, OUT new_sequence bigint, OUT new_parent text,
    OUT fed boolean
) LANGUAGE plpgsql SET enable_seqscan = off AS $clew$
DECLARE
    owner @user;
    known boolean;
BEGIN
    -- The UPDATE locks the row and checks its latest version, so no other read can be stale.
    UPDATE @schema.threads AS t SET @rule_advanced, size = t.size + @rule_added_bytes
    WHERE t.thread_id = in_thread AND @rule_owner AND @rule_deleted AND @rule_epoch AND @rule_first AND @rule_head
        AND @rule_sound
    RETURNING t.incarnation, t.epoch, t.next_value, t.sequence, CASE WHEN in_from_head THEN t.head_before ELSE in_parent END,
        t.user_id
    INTO new_incarnation, new_epoch, new_next_value, new_sequence, new_parent, owner;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO @schema.checkpoints VALUES (
        in_thread, new_sequence, in_at, in_step, in_size, true, in_namespace, in_checkpoint, new_parent, in_node, in_run,
        in_covers, in_metadata, in_body);
    IF in_first IS NOT NULL THEN
        INSERT INTO @schema.value_rows VALUES (in_thread, in_first, in_count, in_digests, in_data);
    END IF;
    -- One statement for both questions, because each takes as long as the whole function does per row.
    SELECT EXISTS (SELECT FROM @schema.receipts AS r WHERE r.thread_id = in_thread AND r.commit_id = in_checkpoint),
        EXISTS (SELECT FROM @rule_watched)
    INTO known, fed;
    IF known THEN
        RAISE EXCEPTION 'clew: this commit was applied before' USING ERRCODE = 'unique_violation';
    END IF;
    IF new_sequence % @receipts_pruned = 0 THEN
        PERFORM @schema.prune_@code(in_thread, new_sequence);
    END IF;
    IF fed THEN
        INSERT INTO @schema.feed VALUES (
            pg_current_xact_id(), nextval('@text_schema.feed_numbers'), new_sequence, 0, in_thread, owner, new_incarnation,
            in_namespace, in_checkpoint);
    END IF;
END $clew$;
