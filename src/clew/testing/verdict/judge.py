"""Judgement of a run: pure decisions from the writers' notes and the stores' final content."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal

from clew.testing.verdict.branches import Crossing
from clew.testing.verdict.history import Entry, History, Kind, Part, Read, View, Write, out_of_rows

Fault = Literal[
    "lost", "doubled", "stale", "revived", "late", "refused", "not_ancestor", "torn", "disordered", "strange", "damaged",
    "different", "crossed", "stuck",
]  # fmt: skip
"""`lost`: acknowledged, but not in the store. `doubled`: in the store twice. `stale`: a read
without what was acknowledged before it began. `revived`: there after its acknowledged removal.
`late`: a write that succeeded although its thread had been deleted under it. `refused`: there
although its writer got ConflictError. `not_ancestor`: a rejecting save that is no ancestor of the head.
`torn`: half of a commit. `disordered`: one writer's commits in the wrong order. `strange`: content
that nobody wrote. `damaged`: the store can't read it. `different`: two stores that should be equal
are not. `crossed`: a checkpoint whose branch has other messages than its state. `stuck`: something does not end."""
REFUSED: Final = "ThreadDeletedError"
CONFLICT: Final = "ConflictError"
_PARTS: Final[Mapping[Kind, tuple[Part, ...]]] = {
    "save": ("checkpoints", "messages"),
    "append": ("checkpoints", "messages"),
    "follow": ("checkpoints", "messages"),
    "message": ("messages",),
    "state": ("checkpoints",),
    "attach": ("attachments",),
}
"""What commits add that stays until it is removed. A description is replaced by the next one, so
only reads are judged by it."""
_REMOVES: Final[Mapping[Kind, tuple[Part, ...]]] = {
    "clear": ("checkpoints", "attachments"),
    "delete": ("checkpoints", "messages", "attachments", "description"),
}
_SHOWN: Final[Mapping[View, Part]] = {
    "head": "checkpoints",
    "log": "checkpoints",
    "messages": "messages",
    "description": "description",
}


@dataclass(slots=True)
class Findings:
    """Faults that were found: counts by kind, and texts for the first of each kind."""

    counts: Counter[Fault] = field(default_factory=Counter)
    texts: list[str] = field(default_factory=list)
    crossings: list[Crossing] = field(default_factory=list)
    """Branches to judge when it is known which commits were acknowledged."""
    hidden: int = 0
    """Reads that lacked what the lost store had not shipped yet, as documented for async mode."""

    def add(self, fault: Fault, text: str) -> None:
        self.counts[fault] += 1
        if self.counts[fault] <= 5:
            self.texts.append(f"{fault}: {text}")


@dataclass(frozen=True, slots=True)
class Found:
    """The final content of one thread in a store, in the store's order."""

    checkpoints: list[Entry] = field(default_factory=list)
    messages: list[Entry] = field(default_factory=list)
    log: frozenset[Entry] = frozenset()
    """The entries in the head's log."""
    attachments: list[Entry] = field(default_factory=list)


@dataclass(slots=True)
class _Thread:
    """The actions of the writers on one thread."""

    name: str
    writes: dict[Entry, Write] = field(default_factory=dict)
    removals: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)

    def may_be_gone(self, write: Write, part: Part, by: float) -> bool:
        """Return whether a removal that began before `by` may have followed `write`. An unacknowledged
        removal may take effect at any time."""
        return any(
            each.begun < by and (each.ended > write.begun or not each.acknowledged)
            for each in self.removals
            if _removes(each, part, write.entry)
        )

    def is_gone(self, write: Write, part: Part, by: float) -> bool:
        """Return whether `write` was acknowledged, and then a removal of it began and ended before `by`."""
        return write.acknowledged and any(
            each.acknowledged and each.kind != "thin" and write.ended < each.begun and each.ended < by
            for each in self.removals
            if _removes(each, part, write.entry)
        )


def _removes(removal: Write, part: Part, entry: Entry) -> bool:
    return part in _REMOVES.get(removal.kind, ()) or (part, entry) in removal.removes


def judge(
    history: History, found: Mapping[str, Found], *, may_hide: bool = False, loose: tuple[str, ...] = ()
) -> Findings:
    """Return what is wrong with the reads and with the final content.

    With `may_hide`, a read that the secondary served may lack an addition or a removal for a while,
    and what was hidden while others wrote may have become a sibling of the head. For threads whose
    name begins with one of `loose`, only the origin of the content is checked: somebody wrote it,
    once.
    """
    findings = Findings()
    for thread in _by_thread(history).values():
        held = found.get(thread.name, Found())
        if loose and thread.name.startswith(loose):
            _judge_origin(thread, held, findings)
            continue
        _judge_content(thread, held, findings, may_hide=may_hide)
        for read in thread.reads:
            _judge_read(thread, read, held, findings, may_hide=may_hide)
        _judge_late_writers(thread, history.starts, findings)
    return findings


def _by_thread(history: History) -> dict[str, _Thread]:
    threads: dict[str, _Thread] = {}
    for write in history.writes:
        thread = threads.setdefault(write.thread, _Thread(write.thread))
        thread.writes[write.entry] = write
        if write.kind in _REMOVES or write.removes:
            thread.removals.append(write)
    for read in history.reads:
        threads.setdefault(read.thread, _Thread(read.thread)).reads.append(read)
    return threads


# Final content


def _counted(found: Found) -> dict[Part, Counter[Entry]]:
    return {
        "checkpoints": Counter(found.checkpoints),
        "messages": Counter(found.messages),
        "attachments": Counter(found.attachments),
    }


def _judge_origin(thread: _Thread, found: Found, findings: Findings) -> None:
    """Check that the content was written by somebody, and is there once."""
    for part, entries in _counted(found).items():
        for entry, count in entries.items():
            write = thread.writes.get(entry)
            if write is None or part not in _PARTS.get(write.kind, ()):
                findings.add("strange", f"{_named(thread, entry)} is in the {part}, but nobody wrote it")
            elif count > 1:
                findings.add("doubled", f"{_named(thread, entry)} is in the {part} {count} times")


def _judge_content(thread: _Thread, found: Found, findings: Findings, *, may_hide: bool) -> None:
    _judge_origin(thread, found, findings)
    held = _counted(found)
    for write in thread.writes.values():
        parts = _PARTS.get(write.kind, ())
        for part in parts:
            count = held[part][write.entry]
            _judge_part(thread, write, part, count, findings)
            # In the secondary, a thread that it has not received yet looks deleted.
            if count and write.error == REFUSED and not may_hide:
                text = f"{_named(thread, write.entry)} is in the {part}, but its writer got ThreadDeletedError"
                findings.add("late", text)
            if count and write.error == CONFLICT and not may_hide:
                text = f"{_named(thread, write.entry)} is in the {part}, but its writer got ConflictError"
                findings.add("refused", text)
        # An unacknowledged fork may be applied late, when its source has lost some of the content.
        if len({bool(held[part][write.entry]) for part in parts}) > 1 and not (
            write.acknowledged
            or thread.name.startswith("fork-")
            or any(thread.may_be_gone(write, part, float("inf")) for part in parts)
        ):
            findings.add("torn", f"only a part of {_named(thread, write.entry)} is there")
    for listed in (found.checkpoints, found.messages):
        for one, other in _out_of_order(entry for entry in dict.fromkeys(listed) if _is_acknowledged(thread, entry)):
            if may_hide and (thread.writes[one].alone or thread.writes[other].alone):
                # Each store acknowledged one of them while it did not know of the other: no order
                # is promised.
                continue
            findings.add("disordered", f"{_named(thread, one)} comes before {_named(thread, other)}")
    # In async mode, each store may have acknowledged one of two saves that start from the same head.
    for entry in () if may_hide else dict.fromkeys(found.checkpoints):
        made = thread.writes.get(entry)
        if made is not None and made.kind == "follow" and entry not in found.log:
            findings.add(
                "not_ancestor", f"{_named(thread, entry)} is a checkpoint, but the head does not follow from it"
            )


def _judge_part(thread: _Thread, write: Write, part: Part, count: int, findings: Findings) -> None:
    name = _named(thread, write.entry)
    if count and thread.is_gone(write, part, float("inf")):
        findings.add("revived", f"{name} is in the {part} after it was removed")
    if not count and write.acknowledged and not thread.may_be_gone(write, part, float("inf")):
        findings.add("lost", f"{name} is not in the {part}")


def _is_acknowledged(thread: _Thread, entry: Entry) -> bool:
    write = thread.writes.get(entry)
    return write is not None and write.acknowledged


def _out_of_order(entries: Iterable[Entry]) -> list[tuple[Entry, Entry]]:
    """Return adjacent pairs of one writer's entries in which the first has the higher number."""
    by_writer: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_writer[entry[0]].append(entry)
    return [(one, other) for mine in by_writer.values() for one, other in pairwise(mine) if one[1] > other[1]]


# Reads


def _judge_read(thread: _Thread, read: Read, held: Found, findings: Findings, *, may_hide: bool) -> None:
    seen = set() if read.seen is None else out_of_rows(read.seen)
    part = _SHOWN[read.view]
    back = [
        entry for entry in seen if entry in thread.writes and thread.is_gone(thread.writes[entry], part, read.begun)
    ]
    if back and may_hide and read.elsewhere:
        # The removal was hidden, like anything that the lost store had not shipped.
        findings.hidden += 1
        return
    if back:
        findings.add("revived", f"{_named(thread, back[0])} was read by writer {read.writer} after it was removed")
        return
    alone = read.view in ("head", "description")
    missing = _passed(thread, seen, read, part) if alone else _missing(thread, seen, read, part)
    if missing is None:
        return
    # A commit that one store acknowledged alone, while the other may have served, becomes a sibling
    # of the head.
    alone = missing.alone and read.view != "messages"
    if may_hide and (read.elsewhere or alone or (read.view == "log" and missing.entry not in held.log)):
        findings.hidden += 1
        return
    waited = read.begun - missing.ended
    findings.add(
        "stale",
        f"writer {read.writer} did not see {_named(thread, missing.entry)} ({read.view}), acknowledged {waited:.3f} s earlier",
    )


def _missing(thread: _Thread, seen: set[Entry], read: Read, part: Part) -> Write | None:
    """Return a write that the read must show but does not, if there is one."""
    for write in thread.writes.values():
        if (
            write.entry not in seen
            and write.acknowledged
            and write.ended < read.begun
            and part in _PARTS.get(write.kind, ())
            and not thread.may_be_gone(write, part, read.ended)
        ):
            return write
    return None


def _passed(thread: _Thread, seen: set[Entry], read: Read, part: Part) -> Write | None:
    """Return the last acknowledged save if the read shows an older one, or none at all.

    For the head of a thread with one writer, and for its description.
    """
    before = [
        each
        for each in thread.writes.values()
        if each.acknowledged and each.ended < read.begun and (_shows(each, part) or part in _REMOVES.get(each.kind, ()))
    ]
    last = max(before, key=lambda each: each.entry[1], default=None)
    if last is None or last.kind in _REMOVES:
        return None
    if not seen:
        return None if thread.may_be_gone(last, part, read.ended) else last
    shown = thread.writes.get(next(iter(seen)))
    # An unacknowledged save may arrive at any time: its writer was killed while the network still
    # had it.
    return last if shown is not None and shown.acknowledged and shown.entry[1] < last.entry[1] else None


def _shows(write: Write, part: Part) -> bool:
    return write.kind == "describe" if part == "description" else part in _PARTS.get(write.kind, ())


# Late writers


def _judge_late_writers(thread: _Thread, starts: Mapping[int, list[float]], findings: Findings) -> None:
    deletions = [each for each in thread.removals if each.kind == "delete" and each.acknowledged]
    if not deletions:
        return
    for writer in {entry[0] for entry in thread.writes}:
        contacts = _contacts(thread, writer, starts.get(writer, []))
        for write in (each for each in thread.writes.values() if each.entry[0] == writer and each.acknowledged):
            knew = max((each for each in contacts if each[1] <= write.begun), default=None, key=lambda each: each[1])
            if write.kind in _REMOVES or knew is None or not knew[2]:
                continue
            if any(knew[1] < each.begun and each.ended < write.begun for each in deletions) and not any(
                begun < write.ended and ended > write.begun
                for begun, ended, _ in contacts
                if (begun, ended) != _span(write)
            ):
                findings.add("late", f"{_named(thread, write.entry)} was accepted after its thread was deleted")


def _contacts(thread: _Thread, writer: int, starts: Iterable[float]) -> list[tuple[float, float, bool]]:
    """Return when this writer accessed the thread, and whether it saw it. A process that has just
    started, or found no thread, has not seen it."""
    contacts = [(at, at, False) for at in starts]
    for write in thread.writes.values():
        if write.entry[0] == writer and write.error != REFUSED:
            begun, ended = _span(write)
            # A killed process has accessed nothing since.
            ended = min([ended, *(at for at in starts if at > begun)])
            contacts.append((begun, ended, write.acknowledged and write.kind != "delete"))
    contacts += [
        (read.begun, read.ended, read.seen is not None)
        for read in thread.reads
        if read.writer == writer and read.view in ("head", "log")
    ]
    return contacts


def _span(write: Write) -> tuple[float, float]:
    return write.begun, write.ended


def _named(thread: _Thread, entry: Entry) -> str:
    return f"{thread.name}:{entry[0]}/{entry[1]}"
