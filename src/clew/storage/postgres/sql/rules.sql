-- Commit rules about the thread's row, written once: all three commit functions contain them.

-- `t` is the thread's row. The commit's fields are parameters or columns: `in_user`, `in_any` (any
-- user may write), `in_incarnation` and `in_epoch` (its basis), `in_first` (its first value
-- number), `in_chained` and `in_after` (its place in the chain), `in_parent`, `in_any_parent` (the
-- parent need not be the head). A rule that is false or NULL forbids the commit. `watched` is the row
-- that says that the feed is written.

-- name: owner
(t.user_id IS NULL OR in_any OR t.user_id = in_user)

-- name: space
(coalesce('+' || t.user_id::text, '-'))

-- name: deleted
(in_incarnation IS NULL OR t.incarnation = in_incarnation)

-- name: epoch
(in_epoch IS NULL OR t.epoch = in_epoch)

-- name: after
(NOT in_chained OR @rule_last_in_chain IS NOT DISTINCT FROM in_after)

-- name: last_in_chain
(CASE WHEN t.chained_at = t.sequence THEN t.chain END)

-- The end of the chain of a deleted thread. While it is there, a new thread of that id is left to `commit`.
-- name: ended
@schema.ended_threads AS e WHERE e.thread_id = in_thread

-- name: first
(in_first IS NULL OR t.next_value = in_first)

-- name: head
(in_any_parent OR t.head IS NOT DISTINCT FROM in_parent)

-- The thread's numbers are in range, unless they are damaged. Times are those of the years 1 to 9999. With
-- a lower sequence than the head's, a new checkpoint would not be found.
-- name: sound
(least(t.epoch, t.next_value, t.sequence, t.next_message, t.message_count, t.checkpoint_count, t.size) >= 0
    AND greatest(t.epoch, t.next_value, t.sequence, t.next_message, t.message_count, t.checkpoint_count, t.size) <= @largest
    AND t.updated_at BETWEEN -62135596800000000 AND 253402300799999999
    AND t.sequence >= coalesce((
        SELECT last.sequence FROM @schema.checkpoints AS last
        WHERE last.thread_id = t.thread_id AND last.namespace = '' ORDER BY last.sequence DESC LIMIT 1), 0))

-- name: advanced
sequence = t.sequence + 1, next_value = coalesce(in_first + in_count, t.next_value),
checkpoint_count = t.checkpoint_count + (in_checkpoint IS NOT NULL)::integer,
updated_at = greatest(t.updated_at, in_at), active = greatest(t.updated_at, in_at) >> 27,
head = CASE WHEN coalesce(in_namespace, '') = '' THEN coalesce(in_checkpoint, t.head) ELSE t.head END, head_before = t.head

-- name: added_bytes
(coalesce(octet_length(in_digests) + octet_length(in_data), 0)
    + coalesce(octet_length(in_metadata), 0) + coalesce(octet_length(in_body), 0))

-- The checkpoints and messages of a thread, whose counts may be damaged.
-- name: counted
(least(greatest(t.checkpoint_count, 0), @largest) + least(greatest(t.message_count, 0), @largest))

-- name: watched
@schema.feed_state AS w WHERE w.one = 1 AND w.until > now()
