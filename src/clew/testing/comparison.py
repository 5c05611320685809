"""Comparison of two storages: everything that can be read must be equal."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from clew.model.queries import JournalQuery, Totals
from clew.model.records import Basis, JournalEntry, ThreadRecord
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Storage
from clew.testing.driver import InlineStorage
from clew.testing.strategies import (
    CHECKPOINTS,
    NAMESPACES,
    THREADS,
    USERS,
    checkpoint_queries,
    covers_within,
    journal_queries,
    message_queries,
    search_queries,
    thread_queries,
)

ALL = 10_000


class ComparedStorages(RuleBasedStateMachine):
    """Compares the reference, `model`, with the storage under test, `real`.

    Each generates its own ids and tokens: `incarnations` maps the reference's to the other's.
    """

    exact_sizes = True
    """Whether the storage keeps records unchanged, so that sizes equal those of the reference."""

    def make_storage(self, directory: Path) -> Storage:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self.model = InlineStorage(MemoryStorage)
        self.real = InlineStorage(lambda: self.make_storage(Path(self._directory.name)))
        self.incarnations: dict[str, str] = {}
        self.bases: list[Basis] = []

    @property
    def shares(self) -> bool:
        return self.real.capabilities.shares_forks

    def teardown(self) -> None:
        self.real.close()
        self.model.close()
        self._directory.cleanup()

    def same_basis(self, expected: Basis | None, found: Basis | None) -> bool:
        if expected is None or found is None:
            return expected is found
        if expected.incarnation not in self.incarnations:
            assert found.incarnation not in self.incarnations.values(), "an incarnation was used twice"
            self.incarnations[expected.incarnation] = found.incarnation
        if expected not in self.bases:
            self.bases.append(expected)
        return replace(expected, incarnation=self.incarnations[expected.incarnation]) == found

    @invariant()
    def everything_is_the_same(self) -> None:
        expected, found = (self.without_names(store.everything()) for store in (self.model, self.real))
        assert found.keys() == expected.keys()
        for name, value in found.items():
            assert value == expected[name], f"{name}: {value}, not {expected[name]}"

    @invariant()
    def the_journal_is_the_same(self) -> None:
        if self.real.capabilities.journals:
            self.compare_journals({})

    def compare_journals(self, query: dict[str, Any]) -> None:
        """Compare journals by thread, because only the order within a thread is promised."""
        asked = JournalQuery(**{"limit": ALL, **query})
        pages = [store.run(store.storage.journal(asked)) for store in (self.model, self.real)]
        expected, found = (by_thread(page.entries) for page in pages)
        assert found == [
            replace(wanted, position=each.position, incarnation=self.incarnations.get(wanted.incarnation or ""))
            for wanted, each in zip(expected, found, strict=True)
        ]
        assert pages[1].count == pages[0].count

    def without_names(self, everything: dict[str, Any]) -> dict[str, Any]:
        """Return `everything` without incarnations and the effects of copied values in forks."""
        plain: dict[str, Any] = {}
        for name, value in everything.items():
            basis = getattr(value, "basis", None)
            plain[name] = replace(value, basis=replace(basis, incarnation="")) if basis else value
            if not self.shares and hasattr(value, "fixed_before"):
                plain[name] = replace(plain[name], fixed_before=0, inherited=0)
        if not self.exact_sizes:
            plain["by_day"] = without_bytes(everything["by_day"])
        if not (self.shares and self.exact_sizes):
            plain["threads"] = self.plain_threads(everything["threads"])
            plain["by_thread"] = self.plain_totals(everything["by_thread"])
        if not self.shares:
            forks = [found.thread_id for found in everything["threads"] if found.forked_from]
            for name in forks:
                del plain[f"values of {name}"]
        return plain

    @rule(data=st.data(), thread_id=st.sampled_from(THREADS), user=st.sampled_from(USERS))
    def ask(self, data: st.DataObject, thread_id: str, user: Any) -> None:
        """Run one query of each kind, with arbitrary arguments."""
        both = (self.model, self.real)
        query = data.draw(checkpoint_queries, label="checkpoints")
        expected, found = (store.page(thread_id, user=user, **query) for store in both)
        assert self.same_basis(expected.basis, found.basis)
        assert replace(found, basis=None) == replace(expected, basis=None)

        query = {"since": data.draw(st.integers(0, 12), label="since")}
        if data.draw(st.booleans()) or not self.shares:
            query = {"ranges": tuple(data.draw(covers_within(self.real.values(thread_id).rows), label="ranges"))}
        pages = [store.values(thread_id, user=user, **query) for store in both]
        assert self.same_basis(pages[0].basis, pages[1].basis)
        assert pages[1].rows == pages[0].rows

        of, namespace = data.draw(st.none() | st.sampled_from(CHECKPOINTS)), data.draw(st.sampled_from(NAMESPACES))
        attached = [store.attachments(of, thread_id, user=user, namespace=namespace) for store in both]
        assert attached[1] == attached[0]

        query = data.draw(message_queries, label="messages")
        messages = [store.messages(thread_id, user=user, **query) for store in both]
        assert messages[1] == messages[0]
        if self.real.capabilities.journals:
            # A storage that copies values into forks may have other counts.
            assert self.real.message_sequences(thread_id) == self.model.message_sequences(thread_id)

        query = data.draw(search_queries, label="search")
        hits = [store.search(user=user, **query) for store in both]
        assert hits[1] == hits[0]

        query = data.draw(thread_queries, label="threads")
        threads = [self.plain_threads(store.threads(user=user, **query)) for store in both]
        assert threads[1] == threads[0]

        if self.real.capabilities.journals:
            self.compare_journals(data.draw(journal_queries, label="journal"))

        totals = [store.stats(user) for store in both]
        by_day = [each.by_day if self.exact_sizes else without_bytes(each.by_day) for each in totals]
        assert by_day[1] == by_day[0]
        assert self.plain_totals(totals[1].by_thread) == self.plain_totals(totals[0].by_thread)

    def plain_threads(self, found: Sequence[ThreadRecord]) -> list[ThreadRecord]:
        return [each if self.shares and self.exact_sizes else replace(each, size=0) for each in found]

    def plain_totals(self, found: Mapping[str, Totals]) -> dict[str, Totals]:
        return dict(found) if self.shares and self.exact_sizes else without_bytes(found)


def without_bytes(totals: Mapping[str, Totals]) -> dict[str, Totals]:
    return {name: dataclasses.replace(total, bytes=0) for name, total in totals.items()}


def by_thread(entries: Sequence[JournalEntry]) -> list[JournalEntry]:
    return sorted(entries, key=lambda each: each.thread_id)
