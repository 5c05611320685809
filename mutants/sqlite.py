"""Mutations of SQLite's own part: its SQL, the facts that it looks up, and its fast path."""

from __future__ import annotations

from mutants.mutation import Mutation


def _sqlite(rule: str, file: str, old: str, new: str) -> Mutation:
    return Mutation(rule, "sqlite", f"sqlite/{file}", old, new)


MUTATIONS = [
    # Whether a commit was applied: any receipt, a checkpoint with its id, a checkpoint that it made.
    _sqlite("receipt", "writes.sql", "UNION ALL SELECT 1 FROM receipts WHERE thread_no = ?2 AND commit_id = ?1\n", ""),
    _sqlite("receipt", "writes.sql", "AND thread_no = ?2 AND commit_id IS NULL\n", "AND thread_no = -?2\n"),
    _sqlite(
        "receipt", "writes.sql", "UNION ALL SELECT 1 FROM checkpoints WHERE commit_id = ?1 AND thread_no = ?2\n", ""
    ),
    _sqlite(
        "receipt",
        "writes.sql",
        "\nSELECT 1 FROM receipts WHERE thread_no = ?",
        "\nSELECT 1 FROM receipts WHERE thread_no = -?",
    ),
    _sqlite("receipt", "facts.py", "if new is None or new.checkpoint_id == commit.commit_id:", "if True:"),
    _sqlite(
        "receipt",
        "facts.py",
        "return (thread.thread_no, commit.commit_id) in self._buffered or super()",
        "return super()",
    ),
    _sqlite("receipt", "additions.py", "        keep_receipt(connection, thread, commit_id, sequence)\n", ""),
    _sqlite("receipt", "removals.py", "    keep_receipt(connection, thread, commit_id, sequence)\n", ""),
    _sqlite("receipt", "removals.py", "    keep_all_receipts(connection, thread)\n", ""),
    _sqlite("receipt", "removals.py", '    connection.execute(_SQL["drop_receipts"], number)\n', ""),
    _sqlite("kept", "writes.sql", "LIMIT -1 OFFSET ?2)", "LIMIT -1 OFFSET ?2 - 1)"),
    _sqlite("kept", "writes.sql", "ORDER BY place DESC LIMIT -1", "ORDER BY place LIMIT -1"),
    _sqlite(
        "kept",
        "receipts.py",
        "sequence > thread.sequence - RECEIPTS_KEPT:\n",
        "sequence > thread.sequence - RECEIPTS_KEPT + 2:\n",
    ),
    _sqlite(
        "kept",
        "receipts.py",
        "    since = thread.sequence - RECEIPTS_KEPT\n",
        "    since = thread.sequence - RECEIPTS_KEPT + 2\n",
    ),
    _sqlite("pruned", "receipts.py", "if thread.receipts > RECEIPTS_KEPT + RECEIPTS_PRUNED:", "if False:"),
    _sqlite("planted", "receipts.py", "        _add(connection, thread, commit_id, place)\n", "        pass\n"),
    _sqlite("planted", "applier.py", "            or commit.receipts\n", ""),
    # The other facts.
    _sqlite("owner", "writes.sql", "SET user_id = column1,", "SET user_id = nullif(column1, column1),"),
    _sqlite("deleted", "applier.py", "Begin(incarnation=new_id())", 'Begin(incarnation="same")'),
    _sqlite("epoch", "removals.py", "        thread.epoch += 1\n", ""),
    _sqlite(
        "after", "thread.py", "return self.chain if self.chained_at == self.sequence else None", "return self.chain"
    ),
    _sqlite("after", "applier.py", "            or commit.after\n", ""),
    _sqlite("after", "applier.py", "            end_chain(self.connection, commit)\n", ""),
    _sqlite("after", "writes.sql", "SET chain = excluded.chain, at = excluded.at", "SET at = excluded.at"),
    _sqlite("receipt", "applier.py", "if existing else _REPEATED\n", "if existing else Applied(basis=None)\n"),
    _sqlite(
        "fence",
        "writes.sql",
        "DELETE FROM leases WHERE thread_id = ? AND space = ?",
        "DELETE FROM leases WHERE thread_id = ? OR space = ?",
    ),
    _sqlite("fence", "writes.sql", "SET token = token + 1", "SET token = token + 0"),
    _sqlite("fence", "facts.py", "return found[1] if found else None", "return found[1] if found else 9_999"),
    _sqlite("shared", "writes.sql", "child.parent_log_no = logs.log_no)", "child.parent_log_no = -logs.log_no)"),
    _sqlite("head", "writes.sql", "AND namespace = '' ORDER BY sequence DESC", "AND namespace = '' ORDER BY sequence"),
    _sqlite(
        "head", "writes.sql", "AND namespace <> '' ORDER BY sequence DESC", "AND namespace <> '' ORDER BY sequence"
    ),
    _sqlite("head", "removals.py", "        thread.heads.clear()\n", ""),
    _sqlite(
        "parent",
        "writes.sql",
        "FROM checkpoints WHERE checkpoint_id = ? AND thread_no = ? AND namespace = ?\n",
        "FROM checkpoints WHERE checkpoint_id = ? AND thread_no = ? AND (namespace = ? OR true)\n",
    ),
    _sqlite("journal", "applier.py", "            add_journal_entry(self.connection, commit, after, existing)\n", ""),
    _sqlite("journal", "applier.py", "        add_journal_entry(self.connection, commit, after, thread)\n", ""),
    _sqlite("journal", "applier.py", "            or commit.journal is not None\n", ""),
    _sqlite(
        "branch", "applier.py", "            add_point(self.connection, kept, commit, decided)\n", "            pass\n"
    ),
    _sqlite("branch", "applier.py", "            or commit.back_to\n", ""),
    _sqlite("branch", "applier.py", " or decided.branches:", ":"),
    _sqlite(
        "feed",
        "applier.py",
        "            self.feed.add_checkpoint(thread, namespace, checkpoint_id)\n",
        "            pass\n",
    ),
    _sqlite(
        "feed",
        "applier.py",
        "            self.feed.add(commit, existing, owner, thread, removed)\n",
        "            pass\n",
    ),
    _sqlite(
        "feed",
        "applier.py",
        "                self.feed.add(commit, existing, existing.owner, None, removed)\n",
        "                pass\n",
    ),
    _sqlite(
        "nothing",
        "applier.py",
        "        except ClewError as error:\n",
        "        except ClewError as error:\n            add_journal_entry(self.connection, commit, None, None)\n",
    ),
]
