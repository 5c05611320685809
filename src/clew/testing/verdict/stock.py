"""Stock-taking: reads the final content of a store, and compares two stores."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from msgspec.structs import replace

import clew
from clew.model.config import ANY_USER
from clew.model.queries import AttachmentQuery, CheckpointQuery, MessageQuery, ThreadQuery
from clew.testing.verdict.branches import PREFIX
from clew.testing.verdict.entries import StrangeError, message_entries, parsed, state_entries
from clew.testing.verdict.history import History, Read, in_rows
from clew.testing.verdict.judge import Findings, Found

_PAGE = 50


async def take_stock(
    checkpointer: clew.BaseCheckpointer,
    history: History,
    findings: Findings,
    *,
    heads: bool = True,
    now: Callable[[], float] = time.monotonic,
) -> dict[str, Found]:
    """Return the content of all threads in `history`. What can't be read is added to `findings`.

    With `heads`, the final states are added to `history` as the last reads, which must show
    everything.
    """
    found: dict[str, Found] = {}
    for thread in sorted({each.thread for each in history.writes}):
        infos = await checkpointer.alist_checkpoints(thread, limit=None)
        messages = await checkpointer.alist_messages(thread, limit=None, branches="all")
        try:
            begun = now()
            view, entries = state_entries(thread, await checkpointer.aget_state(thread))
            made = [parsed(info.metadata["entry"]) for info in reversed(infos) if "entry" in info.metadata]
            if thread.startswith(PREFIX):
                # A rewind stores its checkpoint a second time.
                made = list(dict.fromkeys(made))
            attached = await checkpointer.storage.attachments(AttachmentQuery(thread_id=thread, user=ANY_USER))
            found[thread] = Found(
                made,
                message_entries(messages),
                frozenset(entries or ()),
                [parsed(each.key) for each in attached],
            )
            if heads and not thread.startswith(("talk-", PREFIX)):
                seen = None if entries is None else in_rows(entries)
                history.reads.append(Read(-1, thread, view, begun, now(), seen, False))
        except (StrangeError, clew.CorruptRecordError) as error:
            findings.add("damaged", f"{thread}: {error}")
    for damage in (await checkpointer.averify()).damage:
        if damage.thread_id in found:
            findings.add("damaged", str(damage))
    return found


async def _records(checkpointer: clew.BaseCheckpointer, thread: str) -> tuple[object, ...]:
    """Return a thread's records, undecoded, to compare two stores without loading states."""
    storage = checkpointer.storage
    page = await storage.checkpoints(CheckpointQuery(thread_id=thread, user=ANY_USER, limit=None, detail="state"))
    described = await storage.threads(ThreadQuery(user=ANY_USER, thread_id=thread))
    return (
        [replace(each, sequence=0) for each in page.checkpoints],
        page.rows,
        await storage.messages(MessageQuery(thread_id=thread, user=ANY_USER, limit=None)),
        await storage.attachments(AttachmentQuery(thread_id=thread, user=ANY_USER)),
        [(each.text, each.data, each.user_id) for each in described],
    )


async def compare(
    one: clew.BaseCheckpointer, other: clew.BaseCheckpointer, threads: Iterable[str]
) -> AsyncIterator[str]:
    """Yield the differences in checkpoints, states, messages, attachments and threads."""
    for thread in threads:
        async for text in _compare_thread(one, other, thread):
            yield f"{thread}: {text}"


async def _compare_thread(one: clew.BaseCheckpointer, other: clew.BaseCheckpointer, thread: str) -> AsyncIterator[str]:
    if await _records(one, thread) == await _records(other, thread):
        return
    ours, theirs = [await each.alist_checkpoints(thread, limit=None) for each in (one, other)]
    ids = [[info.checkpoint_id for info in infos] for infos in (ours, theirs)]
    if ids[0] != ids[1]:
        missing = set(ids[0]) ^ set(ids[1])
        yield f"{len(ids[0])} and {len(ids[1])} checkpoints, {len(missing)} of them in one store only"
        return
    if [info.parent_id for info in ours] != [info.parent_id for info in theirs]:
        yield "checkpoints with different parents"
    last: str | None = None
    while True:
        pages = [await each.aget_history(thread, _PAGE, before=last) for each in (one, other)]
        states: list[list[Any]] = [[each.state for each in page] for page in pages]
        if states[0] != states[1]:
            yield f"different states before {last}"
        if not pages[0]:
            break
        last = pages[0][-1].metadata.checkpoint_id
    said = [await each.alist_messages(thread, limit=None, branches="all") for each in (one, other)]
    if [each.to_dict() for each in said[0]] != [each.to_dict() for each in said[1]]:
        yield f"different messages, {len(said[0])} and {len(said[1])} of them"
    attached = [
        await each.storage.attachments(AttachmentQuery(thread_id=thread, user=ANY_USER)) for each in (one, other)
    ]
    if attached[0] != attached[1]:
        yield f"different attachments, {len(attached[0])} and {len(attached[1])} of them"
    infos = [await each.aget_thread(thread) for each in (one, other)]
    if (infos[0] is None) != (infos[1] is None):
        yield "a thread that only one store has"
    elif (
        infos[0] and infos[1] and (infos[0].thread_name, infos[0].metadata) != (infos[1].thread_name, infos[1].metadata)
    ):
        yield "different descriptions"
