"""Tables of threads, checkpoints and messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

import clew
from clew.cli.output import ago, clean, listing, moment, one_line, size

_ROLES = {"user": "bold cyan", "assistant": "bold green", "tool": "yellow", "system": "magenta"}


def thread_table(threads: Sequence[clew.ThreadInfo], *, now: datetime) -> Table:
    """Return a table of threads, without columns that would be empty."""
    named, owned = any(each.thread_name for each in threads), any(each.user_id for each in threads)
    table = listing()
    table.add_column("thread", style="bold", overflow="fold")
    if named:
        table.add_column("name", overflow="ellipsis", no_wrap=True)
    if owned:
        table.add_column("owner", overflow="ellipsis", no_wrap=True)
    table.add_column("checkpoints", justify="right", no_wrap=True)
    table.add_column("messages", justify="right", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("last active", justify="right", no_wrap=True, style="dim")
    for each in threads:
        described = [one_line(each.thread_name or "")] * named + [
            one_line("" if each.user_id is None else str(each.user_id))
        ] * owned
        table.add_row(
            *map(Text, [one_line(each.thread_id), *described]),
            f"{each.checkpoint_count:,}",
            f"{each.message_count:,}",
            size(each.size),
            ago(each.updated_at, now),
        )
    return table


def timeline(checkpoints: Sequence[clew.CheckpointInfo]) -> Table:
    """Return a table of checkpoints, each with its number and its parent's number."""
    numbers = {each.checkpoint_id: each.sequence for each in checkpoints}
    steps = any(each.step is not None for each in checkpoints)
    nodes = any(each.node_name for each in checkpoints)
    table = listing()
    table.add_column("#", justify="right", style="bold", no_wrap=True)
    table.add_column("checkpoint", no_wrap=True)
    if steps:
        table.add_column("step", justify="right", no_wrap=True)
    if nodes:
        table.add_column("node", overflow="ellipsis", no_wrap=True)
    table.add_column("parent", justify="right", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("saved", no_wrap=True, style="dim")
    for each in checkpoints:
        described: list[Any] = [str(each.step) if each.step is not None else ""] * steps
        described += [Text(one_line(each.node_name or ""))] * nodes
        table.add_row(
            str(each.sequence),
            Text(clean(each.checkpoint_id)),
            *described,
            parent_of(each, numbers),
            size(each.size),
            moment(each.timestamp),
        )
    return table


def parent_of(checkpoint: clew.CheckpointInfo, numbers: dict[str, int]) -> Text:
    """Return the parent's number, highlighted if it is not the previous one, to show branches."""
    if checkpoint.parent_id is None:
        return Text("–", style="dim")
    number = numbers.get(checkpoint.parent_id)
    if number is None:
        return Text("older", style="dim")
    return Text(f"#{number}", style="" if number == checkpoint.sequence - 1 else "bold yellow")


def message_table(messages: Sequence[clew.Message], *, search: str | None = None, times: bool = True) -> Table:
    """Return a table of messages with their full texts, and matches of `search` highlighted."""
    table = listing(show_header=False)
    if times:
        table.add_column(no_wrap=True, style="dim")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for each in messages:
        told = [moment(each.created_at)] * times
        table.add_row(*told, role_of(each), message_text(each, search=search))
    return table


def hit_table(hits: Sequence[clew.SearchHit]) -> Table:
    """Return a table of search hits, with the matches highlighted."""
    table = listing()
    table.add_column("thread", style="bold", overflow="fold")
    table.add_column("said", no_wrap=True, style="dim")
    table.add_column("by", no_wrap=True)
    table.add_column("text", overflow="fold")
    for each in hits:
        parts = each.snippet[: each.start], each.snippet[each.start : each.end], each.snippet[each.end :]
        before, match, after = (clean(re.sub(r"\s+", " ", part)) for part in parts)
        text = Text.assemble(before, (match, "black on yellow"), after)
        table.add_row(Text(one_line(each.thread_id)), moment(each.message.created_at), role_of(each.message), text)
    return table


def role_of(message: clew.Message) -> Text:
    return Text(one_line(message.role), style=_ROLES.get(message.role, ""))


def message_text(message: clew.Message, *, search: str | None = None) -> Text:
    """Return the message's text, then its tool calls, one per line."""
    text = Text(clean(message.text()))
    if search:
        text.highlight_regex(re.compile(re.escape(search), re.IGNORECASE), style="black on yellow")
    for call in message.tool_calls:
        text.append(("\n" if text.plain else "") + f"→ {one_line(_spelled_call(call))}", style="dim")
    return text


def _spelled_call(call: Any) -> str:
    """Return a tool call as a Python call, from any of the shapes that frameworks use."""
    if isinstance(call, dict):
        function = call.get("function")
        inner: dict[str, Any] = function if isinstance(function, dict) else call
        name = inner.get("name")
        arguments = next((inner[key] for key in ("args", "arguments", "input") if key in inner), None)
        if name is not None:
            if isinstance(arguments, dict):
                arguments = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
            return f"{name}({arguments if arguments is not None else ''})"
    return str(call)
