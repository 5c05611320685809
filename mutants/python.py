"""Mutations of the Python code that decides for memory and SQLite, and of the memory storage."""

from __future__ import annotations

from mutants.mutation import Mutation


def _rule(rule: str, old: str, new: str) -> Mutation:
    return Mutation(rule, "memory", "rules.py", old, new)


def _memory(rule: str, file: str, old: str, new: str) -> Mutation:
    return Mutation(rule, "memory", f"memory/{file}", old, new)


MUTATIONS = [
    _rule("owner", "if owner is not None and owner != user and user is not ANY_USER:", "if False:"),
    _rule("receipt", "if facts.has_applied(existing, commit):", "if False:"),
    _rule("deleted", "elif existing.incarnation != basis.incarnation:", "elif False:"),
    _rule("deleted", "            if removal is None or not removal.thread:\n", "            if False:\n"),
    _rule("epoch", "elif existing.epoch != basis.epoch:", "elif False:"),
    _rule("after", "if commit.after.commit_id != last:", "if False:"),
    _rule("after", "ended = facts.end_of_missing(commit.thread_id)", "ended = None"),
    _rule("receipt", "if ended == commit.commit_id:", "if False:"),
    _rule("as_of", "if removal.as_of != sequence:", "if False:"),
    _rule("first", "if values.first != next_value:", "if False:"),
    _rule("fence", "if commit.fence != token:", "if False:"),
    _rule("fence", "commit.thread_id, lease_space(existing, user))", "commit.thread_id, lease_space(None, user))"),
    _rule(
        "fence",
        "decision.ends_leases = space_name(owner) != lease_space(existing, user)",
        "decision.ends_leases = False",
    ),
    _rule("exists", "    if kept is not None:\n        raise EXISTS", "    if False:\n        raise EXISTS"),
    _rule("source", "if source is None or not is_open_to(source.owner, commit.user):", "if source is None:"),
    _rule("origin", "        raise ORIGIN.refuse(commit)\n", '        checkpoint_id = ""\n'),
    _rule("shared", "for row in commit.merge]) < shared:", "for row in commit.merge]) < 0:"),
    _rule(
        "merge",
        "if not old or [first for first, _, _ in old] != borders[:-1] or borders[-1] != row.end:",
        "if False:",
    ),
    _rule("merge", "if not old or [first for first, _, _ in old] != borders[:-1] or", "if not old or"),
    _rule("head", 'if new.on_conflict == "reject":', "if False:"),
    _rule("parent", "            if not there:\n", "            if False:\n"),
    _rule(
        "new_owner",
        "if owner != decision.owner and user is not ANY_USER:",
        "if False:",
    ),
    _memory("receipt", "thread.py", " or commit.commit_id in self.own", ""),
    _memory("kept", "thread.py", "> RECEIPTS_KEPT + RECEIPTS_PRUNED:", "> RECEIPTS_KEPT - 1:"),
    _memory(
        "pruned", "thread.py", "while len(self.recent_receipts) > RECEIPTS_KEPT + RECEIPTS_PRUNED:", "while False:"
    ),
    _memory("planted", "thread.py", "(*commit.receipts, commit.commit_id):", "(commit.commit_id,):"),
    _memory("deleted", "storage.py", "Begin(incarnation=new_id())", 'Begin(incarnation="same")'),
    _memory("epoch", "thread.py", "            self.epoch += 1\n", "            pass\n"),
    _memory("after", "storage.py", "= next_in_chain(commit)\n", "= next_in_chain(commit) or thread.last_in_chain\n"),
    _memory("after", "storage.py", "            self._end_chain(commit)\n", ""),
    _memory("fence", "facts.py", "return lease.token if lease else None", "return lease.token if lease else 9_999"),
    _memory("journal", "storage.py", "        self._add_journal_entry(commit, decided.last_in_chain, thread)\n", ""),
    _memory(
        "journal", "storage.py", "            self._add_journal_entry(commit, decided.last_in_chain, existing)\n", ""
    ),
    _memory(
        "branch",
        "thread.py",
        "            self.points = with_point(self.points, number, self.sequence)\n",
        "            pass\n",
    ),
    _memory(
        "branch",
        "thread.py",
        "        said = visible(source.points, origin.sequence)\n",
        "        said = visible((), origin.sequence)\n",
    ),
    Mutation(
        "branch",
        "memory",
        "branches.py",
        "return bool(points) and head is not None and head < points[-1][1]",
        "return False",
    ),
    Mutation(
        "branch",
        "memory",
        "branches.py",
        "        return 0 if back_to.message_id is None else",
        "        return None if back_to.message_id is None else",
    ),
    Mutation(
        "branch",
        "memory",
        "branches.py",
        "return visible(points) if points and commit.messages",
        "return None if points and commit.messages",
    ),
    Mutation(
        "branch",
        "memory",
        "branches.py",
        "return commit.move_messages or commit.checkpoint is not None",
        "return commit.checkpoint is not None",
    ),
    _memory("feed", "storage.py", "        self._feed.add(commit, existing, owner, thread, removed, undo)\n", ""),
    _memory(
        "feed",
        "storage.py",
        "            self._feed.add(commit, existing, existing.owner if existing else None, None, removed, self._undo)\n",
        "",
    ),
    _memory(
        "nothing",
        "storage.py",
        "        except ClewError as error:\n            return error\n",
        "        except ClewError as error:\n"
        "            self._add_journal_entry(commit, None, None)\n            return error\n",
    ),
]
