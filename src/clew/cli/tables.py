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
from clew.cli.rows import Column, Rows

_ROLES = {"user": "bold cyan", "assistant": "bold green", "tool": "yellow", "system": "magenta"}


def thread_table(threads: Sequence[clew.ThreadInfo], *, now: datetime) -> Rows:
    """Return the threads, without columns that would be empty."""
    named, owned = any(each.thread_name for each in threads), any(each.user_id for each in threads)
    columns = [Column("thread", "whole", style="bold")]
    columns += [Column("name", "short")] * named + [Column("owner", "short", label="before")] * owned
    columns += [Column(name, justify="right", label="after") for name in ("checkpoints", "messages")]
    columns += [Column("size", justify="right"), Column("last active", justify="right", style="dim")]
    rows = Rows(columns)
    for each in threads:
        described = [one_line(each.thread_name or "")] * named + [
            one_line("" if each.user_id is None else str(each.user_id))
        ] * owned
        rows.add(
            one_line(each.thread_id),
            *described,
            f"{each.checkpoint_count:,}",
            f"{each.message_count:,}",
            size(each.size),
            ago(each.updated_at, now),
        )
    return rows


def timeline(checkpoints: Sequence[clew.CheckpointInfo]) -> Rows:
    """Return the checkpoints, each with its number and its parent's number."""
    numbers = {each.checkpoint_id: each.sequence for each in checkpoints}
    steps = any(each.step is not None for each in checkpoints)
    nodes = any(each.node_name for each in checkpoints)
    replaced = any(each.created_at != each.updated_at for each in checkpoints)
    columns = [Column("#", "whole", "right", style="bold"), Column("checkpoint", "whole")]
    columns += [Column("step", justify="right", label="before")] * steps
    columns += [Column("node", "short", label="before")] * nodes
    columns += [Column("parent", justify="right", label="before"), Column("size", justify="right")]
    columns += [Column("created", style="dim", label="before")] * replaced
    columns += [Column("saved", style="dim", label="before")]
    rows = Rows(columns)
    for each in checkpoints:
        described: list[Any] = [str(each.step) if each.step is not None else ""] * steps
        described += [Text(one_line(each.node_name or ""))] * nodes
        rows.add(
            str(each.sequence),
            clean(each.checkpoint_id),
            *described,
            parent_of(each, numbers),
            size(each.size),
            *[moment(each.created_at)] * replaced,
            moment(each.updated_at),
        )
    return rows


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


def hit_table(hits: Sequence[clew.SearchHit]) -> Rows:
    """Return search hits, with the matches highlighted."""
    columns = [Column("thread", "whole", style="bold"), Column("said", style="dim"), Column("by")]
    rows = Rows([*columns, Column("text", "short", overflow="fold")])
    for each in hits:
        parts = each.snippet[: each.start], each.snippet[each.start : each.end], each.snippet[each.end :]
        before, match, after = (clean(re.sub(r"\s+", " ", part)) for part in parts)
        text = Text.assemble(before, (match, "black on yellow"), after)
        rows.add(one_line(each.thread_id), moment(each.message.created_at), role_of(each.message), text)
    return rows


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
