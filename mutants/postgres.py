"""Mutations of PostgreSQL's functions (SQL and PL/pgSQL), and of the Python code that calls them."""

from __future__ import annotations

from mutants.mutation import Mutation


def _sql(rule: str, file: str, old: str, new: str) -> Mutation:
    return Mutation(rule, "postgres", f"postgres/sql/{file}.sql", old, new)


def _python(rule: str, old: str, new: str) -> Mutation:
    return Mutation(rule, "postgres", "postgres/commits.py", old, new)


MUTATIONS = [
    # The rules that depend on the thread's row, in all three functions at once.
    _sql("owner", "rules", "(t.user_id IS NULL OR in_any OR t.user_id = in_user)", "true"),
    _sql("deleted", "rules", "(in_incarnation IS NULL OR t.incarnation = in_incarnation)", "true"),
    _sql("epoch", "rules", "(in_epoch IS NULL OR t.epoch = in_epoch)", "true"),
    _sql("after", "rules", "(NOT in_chained OR @rule_last_in_chain IS NOT DISTINCT FROM in_after)", "true"),
    _sql("after", "rules", "(CASE WHEN t.chained_at = t.sequence THEN t.chain END)", "t.chain"),
    _sql("first", "rules", "(in_first IS NULL OR t.next_value = in_first)", "true"),
    _sql("head", "rules", "(in_any_parent OR t.head IS NOT DISTINCT FROM in_parent)", "true"),
    # The same, where one function uses them.
    *(
        _sql(rule, file, f"AND @rule_{rule}", "")
        for file, rules in (
            ("fast_save", ("owner", "deleted", "epoch", "first", "head")),
            ("fast_appends", ("owner", "deleted", "epoch", "after", "first", "head")),
        )
        for rule in rules
    ),
    *(
        _sql(rule, "commit", f"IF @rule_{rule} IS NOT TRUE THEN", "IF false THEN")
        for rule in ("owner", "deleted", "epoch", "after", "first")
    ),
    # The chain of a deleted thread.
    _sql(
        "after", "commit", "            PERFORM @schema.end_chain_@code(in_thread, in_commit);\n", "            NULL;\n"
    ),
    _sql("after", "shared", "DO UPDATE SET chain = excluded.chain, at = excluded.at", "DO NOTHING"),
    _sql(
        "after",
        "fast_appends",
        "                    AND (u.chain IS NULL OR NOT EXISTS (SELECT FROM @rule_ended))\n",
        "",
    ),
    _sql("receipt", "commit", "IF t.chain = in_commit THEN", "IF false THEN"),
    # Receipts: a checkpoint with the commit's id, or an entry of the table.
    _sql("receipt", "commit", "x.checkpoint_id = in_commit AND x.receipt;", "x.checkpoint_id = in_commit AND false;"),
    _sql("receipt", "commit", "x.thread_id = in_thread AND x.commit_id = in_commit;", "false;"),
    _sql("receipt", "fast_save", "r.commit_id = in_checkpoint),", "r.commit_id = in_checkpoint AND false),"),
    _sql("receipt", "fast_appends", "AND r.commit_id = a.checkpoint_id\n", "AND false\n"),
    _sql("receipt", "fast_appends", "AND c.checkpoint_id = a.commit_id AND c.receipt\n", "AND false\n"),
    _sql(
        "receipt", "commit", "\n                FROM c WHERE c.receipt AND", "\n                FROM c WHERE false AND"
    ),
    _sql(
        "receipt",
        "commit",
        "\n                    FROM c WHERE c.receipt AND",
        "\n                    FROM c WHERE false AND",
    ),
    _sql("receipt", "commit", "IF old.receipt AND in_commit <> in_checkpoint AND", "IF false AND"),
    _sql("receipt", "commit", "receipt = (in_commit = in_checkpoint),", "receipt = false,"),
    _sql(
        "kept",
        "commit",
        "old.sequence > t.sequence - @receipts_kept THEN",
        "old.sequence > t.sequence - @receipts_kept + 1 THEN",
    ),
    _sql("receipt", "shared", "    DELETE FROM @schema.receipts WHERE thread_id = of_thread;\n", ""),
    _sql(
        "kept", "shared", "sequence <= at_sequence - @receipts_kept\n", "sequence <= at_sequence - @receipts_kept + 1\n"
    ),
    _sql(
        "kept",
        "commit",
        "\n                FROM c WHERE c.receipt AND c.sequence > t.sequence - @receipts_kept\n",
        "\n                FROM c WHERE c.receipt AND c.sequence > t.sequence - @receipts_kept + 2\n",
    ),
    _sql(
        "kept",
        "commit",
        "\n                    FROM c WHERE c.receipt AND c.sequence > t.sequence - @receipts_kept\n",
        "\n                    FROM c WHERE c.receipt AND c.sequence > t.sequence - @receipts_kept + 2\n",
    ),
    _sql("pruned", "shared", "sequence <= at_sequence - @receipts_kept\n", "sequence <= -at_sequence\n"),
    _sql("pruned", "fast_save", "IF new_sequence % @receipts_pruned = 0 THEN", "IF false THEN"),
    _sql("pruned", "fast_appends", "WHERE c.sequence % @receipts_pruned = 0;", "WHERE false;"),
    _sql("pruned", "commit", "IF t.sequence % @receipts_pruned = 0 THEN", "IF false THEN"),
    _sql("pruned", "commit", "        PERFORM @schema.prune_@code(in_thread, t.sequence - @receipts_pruned);\n", ""),
    _sql("planted", "commit", "FROM unnest(in_receipts) WITH", "FROM unnest(in_receipts[1:0]) WITH"),
    _python("planted", " or commit.receipts:", ":"),
    # The rules in `commit` only.
    _sql(
        "deleted",
        "commit",
        "coalesce(begin_incarnation, left(translate(gen_random_uuid()::text, '-', ''), 20))",
        "coalesce(begin_incarnation, 'same')",
    ),
    _sql(
        "deleted",
        "fast_appends",
        "coalesce(n.begin_incarnation, left(translate(gen_random_uuid()::text, '-', ''), 20))",
        "coalesce(n.begin_incarnation, 'same')",
    ),
    _sql("epoch", "commit", "t.epoch := t.epoch + 1;", "NULL;"),
    _sql(
        "as_of", "commit", "IF in_as_of <> coalesce(t.sequence, 0) AND (there OR NOT drop_thread) THEN", "IF false THEN"
    ),
    _sql("fence", "commit", "IF number IS DISTINCT FROM in_fence THEN", "IF false THEN"),
    _sql("fence", "fast_appends", " AND l.token = f.token);", ");"),
    _sql("fence", "commit", " AND x.space = lease_space FOR SHARE;", " FOR SHARE;"),
    _sql("fence", "fast_appends", " AND l.space = @rule_space\n", "\n"),
    _sql("fence", "commit", "IF @rule_space <> lease_space THEN", "IF false THEN"),
    _sql("fence", "shared", " AND l.space = @rule_space;", ";"),
    _sql("fence", "lease", "            token := nextval('@text_schema.lease_tokens');\n", ""),
    _python("fence", "        and commit.fence is None\n", ""),
    _sql(
        "exists",
        "commit",
        "        IF kept THEN\n            outcome := 'exists';",
        "        IF false THEN\n            outcome := 'exists';",
    ),
    _sql(
        "source",
        "commit",
        "\n            OR (source.user_id IS NOT NULL AND NOT in_any AND source.user_id IS DISTINCT FROM in_user) THEN",
        " THEN",
    ),
    _sql("origin", "commit", "IF origin.checkpoint_id IS NULL THEN", "IF false THEN"),
    _sql(
        "origin",
        "commit",
        "x.thread_id = in_source AND x.checkpoint_id = source_checkpoint AND x.namespace",
        "x.thread_id = in_source AND x.namespace",
    ),
    _sql("merge", "commit", "IF old.first IS DISTINCT FROM merge_firsts[at] OR", "IF"),
    _sql("merge", "commit", "OR old.count <> merge_counts[at] THEN", "THEN"),
    _sql(
        "merge",
        "commit",
        'OR old."end" <> merge_firsts[at] + merge_counts[at]\n            OR old.count <> merge_counts[at] THEN',
        "THEN",
    ),
    _sql(
        "head",
        "commit",
        "IF NOT FOUND AND (in_reject OR in_parent IS NOT NULL) THEN",
        "IF NOT FOUND AND NOT in_reject AND in_parent IS NOT NULL THEN",
    ),
    _sql("head", "commit", "(x.checkpoint_id = in_parent AND NOT in_reject)", "x.checkpoint_id = in_parent"),
    _sql(
        "parent",
        "commit",
        "IF NOT FOUND AND (in_reject OR in_parent IS NOT NULL) THEN",
        "IF NOT FOUND AND in_reject THEN",
    ),
    _sql(
        "new_owner",
        "commit",
        "IF describes AND NOT in_any AND in_owner IS DISTINCT FROM t.user_id THEN",
        "IF false THEN",
    ),
    # The journal.
    _sql("journal", "fast_appends", "        WHERE a.journal IS NOT NULL;\n", "        WHERE false;\n"),
    _sql(
        "journal",
        "commit",
        "        outcome := 'applied';\n        IF in_journal IS NOT NULL THEN",
        "        outcome := 'applied';\n        IF false THEN",
    ),
    _sql(
        "journal",
        "commit",
        "    END IF;\n    IF in_journal IS NOT NULL THEN\n        INSERT",
        "    END IF;\n    IF false THEN\n        INSERT",
    ),
    _python("journal", "        and next_in_chain(commit) is None\n", ""),
    # Branches of the conversation.
    _sql("branch", "commit", "            t.points := t.points || ARRAY[branch_from, t.sequence];\n", ""),
    _sql(
        "branch",
        "commit",
        "            IF branch_from >= t.points[cardinality(t.points)] THEN",
        "            IF true THEN",
    ),
    _sql(
        "branch",
        "commit",
        "        IF t.points IS NOT NULL AND move_messages THEN",
        "        IF false THEN",
    ),
    _sql(
        "branch",
        "commit",
        "        IF t.points IS NOT NULL AND move_messages THEN",
        "        IF t.points IS NOT NULL AND in_checkpoint IS NOT NULL THEN",
    ),
    _sql(
        "branch",
        "commit",
        "                AND x.sequence <@ @schema.visible_@code(coalesce(source.points, '{}'), origin.sequence)\n",
        "                AND x.sequence <= origin.sequence\n",
    ),
    # The feed.
    _sql("feed", "fast_save", "in_namespace, in_checkpoint);", "in_namespace, in_namespace);"),
    _sql("feed", "fast_appends", "    IF fed THEN\n", "    IF false THEN\n"),
    _sql(
        "feed",
        "commit",
        "in_thread, t.user_id, t.incarnation\n            FROM @rule_watched;",
        "in_thread, t.user_id, t.incarnation\n            FROM @rule_watched AND false;",
    ),
    _sql("feed", "commit", "    IF made_id IS NOT NULL OR message_ids IS NOT NULL OR describes", "    IF describes"),
    # A refusal fails the statement, which undoes earlier writes.
    _sql(
        "nothing",
        "fast_appends",
        "RAISE EXCEPTION 'clew: one of these commits was fenced off' USING ERRCODE = 'unique_violation';",
        "applied := NULL;\n            RETURN;",
    ),
    _sql(
        "receipt",
        "fast_save",
        "RAISE EXCEPTION 'clew: this commit was applied before' USING ERRCODE = 'unique_violation';",
        "new_incarnation := NULL;\n        RETURN;",
    ),
    _sql(
        "nothing",
        "commit",
        "            outcome := 'fence';\n",
        "            outcome := 'fence';\n"
        "            UPDATE @schema.threads AS x SET sequence = x.sequence + 1 WHERE x.thread_id = in_thread;\n",
    ),
]
