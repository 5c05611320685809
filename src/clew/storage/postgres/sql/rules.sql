-- The rules that a thread's row decides, each written once: `commit`, `commit_usual` and `commit_alone` all contain this text.

-- `t` is the thread's row. What the commit says is a parameter or a column: `in_user`, `in_any` (it is anybody's), `in_incarnation`
-- and `in_epoch` (its basis), `in_first` (of its values), `in_chained` and `in_after`, `in_parent`, `in_free` (it may have any).
-- A rule that is not true (NULL, too) forbids the commit.

-- name: owner
(t.user_id IS NULL OR in_any OR t.user_id = in_user)

-- name: deleted
(in_incarnation IS NULL OR t.incarnation = in_incarnation)

-- name: epoch
(in_epoch IS NULL OR t.epoch = in_epoch)

-- name: after
(NOT in_chained OR @rule_last_in_chain IS NOT DISTINCT FROM in_after)

-- name: last_in_chain
(CASE WHEN t.chained_at = t.sequence THEN t.chain END)

-- name: first
(in_first IS NULL OR t.next_value = in_first)

-- name: head
(in_free OR t.head IS NOT DISTINCT FROM in_parent)

-- name: advanced
sequence = t.sequence + 1, next_value = coalesce(in_first + in_count, t.next_value),
checkpoint_count = t.checkpoint_count + (in_checkpoint IS NOT NULL)::integer,
updated_at = greatest(t.updated_at, in_at), active = greatest(t.updated_at, in_at) >> 27,
head = CASE WHEN coalesce(in_namespace, '') = '' THEN coalesce(in_checkpoint, t.head) ELSE t.head END, head_before = t.head

-- name: added_bytes
(coalesce(octet_length(in_digests) + octet_length(in_data), 0)
    + coalesce(octet_length(in_metadata), 0) + coalesce(octet_length(in_body), 0))
