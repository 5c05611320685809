"""Commands that work on a whole store: stats, verify, compact, cleanup, key, reseal, import."""

from __future__ import annotations

import enum
import re
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Annotated, Final

import typer

import clew
from clew.cli.lookup import config_of, find_thread, open_store
from clew.cli.options import AsJson, MaybeThread
from clew.cli.output import as_json, console, counted, facts, listing, one_line, progress_bar, show, size
from clew.cli.rows import Column, Rows
from clew.clock import SYSTEM_CLOCK
from clew.model.queries import Totals
from clew.model.reports import Damage

_SHOWN: Final = 10
_WORDS: Final = partial(Column, kind="short", overflow="fold")
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_SIZES: Final = {"": 1, "B": 1, "KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}


def stats(ctx: typer.Context, json: AsJson = False) -> None:
    """Show totals for the store: overall, by day, and for its largest threads."""
    with open_store(ctx.obj) as checkpointer:
        found = checkpointer.stats()
    if json:
        typer.echo(as_json(asdict(found)))
        return
    out = console()
    show(
        facts(
            [
                ("threads", f"{found.total_sessions:,}"),
                ("checkpoints", f"{found.total_checkpoints:,}"),
                ("messages", f"{found.total_messages:,}"),
                ("tool calls", f"{found.total_tool_calls:,}"),
                ("content", size(found.total_bytes)),
                ("on disk", size(found.stored_bytes)),
            ]
        )
    )
    largest = sorted(found.by_thread.items(), key=lambda item: -item[1].bytes)
    for title, totals in (
        ("largest threads", largest),
        ("last days (UTC)", sorted(found.by_day.items(), reverse=True)),
    ):
        if totals:
            out.print()
            show(_totals_table(title, totals[:_SHOWN]))
            if len(totals) > _SHOWN:
                out.print(f"and {len(totals) - _SHOWN:,} more; --json shows all", style="dim")


def verify(ctx: typer.Context, thread: MaybeThread = None, json: AsJson = False) -> None:
    """Read every checkpoint and message, and list damaged records. Exits with 1 if there are any."""
    with open_store(ctx.obj) as checkpointer, progress_bar("verifying") as progress:
        if thread is not None:
            find_thread(checkpointer, thread)
        report = checkpointer.verify(config_of(thread) if thread is not None else None, progress=progress)
    if json:
        typer.echo(as_json({**report.to_dict(), "ok": report.ok}))
        raise typer.Exit(0 if report.ok else 1)
    read = (
        f"{counted(report.checkpoints, 'checkpoint')}, {counted(report.attachments, 'attachment')} and "
        f"{counted(report.messages, 'message')} of {counted(report.threads, 'thread')} read"
    )
    out = console()
    if report.ok:
        out.print(f"[bold green]sound[/]: {read}")
        return
    rows = Rows([Column("thread", "whole", style="bold"), *(_WORDS(name) for name in ("damaged", "what is wrong"))])
    for damage in report.damage:
        rows.add(*map(one_line, (damage.thread_id, _record(damage), damage.problem)))
    show(rows)
    out.print(f"[bold red]{counted(len(report.damage), 'damaged record')}[/]: {read}; the others are not affected")
    raise typer.Exit(1)


def _record(damage: Damage) -> str:
    """Return the name of the damaged record."""
    if damage.message_id is not None:
        return f"message {damage.message_id}"
    if damage.checkpoint_id is None:
        return "the thread itself"
    space = f" in {damage.namespace}" if damage.namespace else ""
    attached = "" if damage.attachment is None else f"attachment {damage.attachment} of "
    return f"{attached}checkpoint {damage.checkpoint_id}{space}"


def compact(ctx: typer.Context, thread: MaybeThread = None, json: AsJson = False) -> None:
    """Rewrite the store in fewer bytes and free the space. Every checkpoint stays loadable."""
    with open_store(ctx.obj) as checkpointer, progress_bar("compacting") as progress:
        if thread is not None:
            find_thread(checkpointer, thread)
        before = checkpointer.stats().stored_bytes
        report = checkpointer.compact(config_of(thread) if thread is not None else None, progress=progress)
        after = checkpointer.stats().stored_bytes
    if json:
        typer.echo(as_json({**report.to_dict(), "stored_before": before, "stored_after": after}))
        return
    out = console()
    table = listing()
    table.add_column(counted(report.threads, "thread"))
    for name in ("before", "after"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("content", size(report.bytes_before), size(report.bytes_after))
    table.add_row("rows of values", f"{report.rows_before:,}", f"{report.rows_after:,}")
    table.add_row("whole store on disk", size(before), size(after))
    out.print(table)


def _totals_table(title: str, totals: list[tuple[str, Totals]]) -> Rows:
    counts = [Column(name, justify="right", label="after") for name in ("checkpoints", "messages", "tool calls")]
    rows = Rows([Column(title, "whole", style="bold"), *counts, Column("content", justify="right")], title=title)
    for name, each in totals:
        numbers = each.checkpoints, each.messages, each.tool_calls
        rows.add(one_line(name), *(f"{number:,}" for number in numbers), size(each.bytes))
    return rows


def cleanup(
    ctx: typer.Context,
    thread: MaybeThread = None,
    max_age: Annotated[
        str | None, typer.Option(metavar="AGE", help="Remove older checkpoints: 90m, 12h, 30d, 8w.")
    ] = None,
    max_history: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Keep only the newest N checkpoints of each namespace.")
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Remove the oldest until a thread is within this size: 500KB, 20MB."),
    ] = None,
    keep_every: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Always keep every N-th checkpoint.")
    ] = None,
    own_rules: Annotated[
        bool, typer.Option("--own-rules", help="Apply only the rules of the threads themselves: their ttl and policy.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be removed.")] = False,
    json: AsJson = False,
) -> None:
    """Remove old checkpoints and expired threads, and free their space. Heads and messages of other threads stay."""
    rules = (max_age, max_history, max_bytes)
    if own_rules and any(each is not None for each in (*rules, keep_every)):
        raise clew.ConfigError(
            "--own-rules stands alone: threads' own rules take precedence over other options anyway, unless THREAD is given"
        )
    if not own_rules and all(each is None for each in rules):
        raise clew.ConfigError(
            "say what may be removed: --max-age AGE, --max-history N or --max-bytes SIZE; or --own-rules, which applies "
            "only the ttl and the policy of each thread"
        )
    policy = None
    if not own_rules:
        policy = clew.RetentionPolicy(
            max_age=_age(max_age) if max_age is not None else None,
            max_history=max_history,
            max_bytes=_bytes(max_bytes) if max_bytes is not None else None,
            keep_every=keep_every,
        )
    with open_store(ctx.obj) as checkpointer, progress_bar("cleaning up") as progress:
        if thread is not None:
            find_thread(checkpointer, thread)
        config = config_of(thread) if thread is not None else None
        report = checkpointer.cleanup(policy, config=config, dry_run=dry_run, progress=progress)
    if json:
        typer.echo(as_json(report.to_dict()))
        return
    table = listing()
    table.add_column(f"{'would be removed' if dry_run else 'removed'} from {counted(report.threads, 'thread')}")
    table.add_column("count", justify="right")
    table.add_column("content", justify="right")
    for name, count, content in (
        ("checkpoints", report.checkpoints, report.checkpoint_bytes),
        ("attachments", report.attachments, report.attachment_bytes),
        ("values", report.values, report.value_bytes),
        ("messages", report.messages, report.message_bytes),
        ("expired threads", report.expired, report.thread_bytes),
    ):
        if not count and name in ("messages", "expired threads"):
            continue
        table.add_row(name, f"{count:,}", size(content))
    table.add_row("total", "", size(report.bytes))
    console().print(table)
    if report.over_limit:
        console().print(
            f"{counted(report.over_limit, 'thread')} still over the limit: heads, messages and shared values are never removed"
        )


def _age(text: str) -> timedelta:
    advice = "an age is a number with a unit (s, m, h, d or w), such as 30d"
    try:
        return timedelta(seconds=_measured(text, _UNITS, advice))
    except OverflowError as error:
        raise typer.BadParameter(f"{text!r} is too long; {advice}") from error


def _bytes(text: str) -> int:
    return int(_measured(text.upper(), _SIZES, "a size is a number, optionally with KB, MB or GB, such as 20MB"))


def _measured(text: str, units: dict[str, int], advice: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if found is None or found[2] not in units:
        raise typer.BadParameter(f"{text!r}: {advice}")
    return float(found[1]) * units[found[2]]


def key(
    name: Annotated[str | None, typer.Option("--id", metavar="ID", help="The key's id; default: today's date.")] = None,
    json: AsJson = False,
) -> None:
    """Generate an encryption key and print it for CLEW_ENCRYPTION_KEYS. Clew does not store it."""
    made = f"{SYSTEM_CLOCK.now():%Y-%m-%d}" if name is None else name
    text = f"{made}:{clew.Encryption.new_key()}"
    clew.Encryption.from_text(text)
    typer.echo(as_json({"id": made, "key": text}) if json else text)


def reseal(ctx: typer.Context, thread: MaybeThread = None, json: AsJson = False) -> None:
    """Encrypt everything with the current key, the first in CLEW_ENCRYPTION_KEYS.
    Exits with 1 if records are left."""
    with open_store(ctx.obj) as checkpointer, progress_bar("sealing") as progress:
        if thread is not None:
            find_thread(checkpointer, thread)
        report = checkpointer.reseal(config_of(thread) if thread is not None else None, progress=progress)
    if json:
        typer.echo(as_json(asdict(report)))
        raise typer.Exit(1 if report.left else 0)
    out = console()
    out.print(f"{report.resealed:,} of {counted(report.threads, 'thread')} encrypted with the current key")
    if report.left:
        shown = ", ".join(map(one_line, report.left[:5])) + (", …" if len(report.left) > 5 else "")
        out.print(
            f"{counted(len(report.left), 'thread')} still need an old key ({shown}): keep the old keys", markup=False
        )
        raise typer.Exit(1)


class Framework(enum.StrEnum):
    """Frameworks whose data can be imported."""

    LANGGRAPH = "langgraph"


def import_(
    ctx: typer.Context,
    framework: Annotated[Framework, typer.Argument(metavar="FRAMEWORK", help="The source's framework: langgraph.")],  # noqa: ARG001
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar="URL", help="The source: sqlite:///file.db or postgresql://…; it is not changed."
        ),
    ],
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE:CLASS", help="A class that may be loaded from the data; repeatable."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Import the threads of a framework's own store. If interrupted, run it again to continue."""
    # Imported late: the other commands need no framework.
    from clew.adapters.langgraph import ClewSaver
    from clew.adapters.langgraph.importing import PastClock, import_threads, open_source

    allowed = [_class_name(each) for each in allow or ()]
    clock = PastClock()
    with open_source(source, allow=allowed) as found:
        # A source that can't be read must not leave a new store behind.
        found.places()
        with clew.connect(ctx.obj, clock=clock) as checkpointer, progress_bar("importing") as progress:
            saver = ClewSaver(checkpointer, allow=allowed)
            report = import_threads(found, saver, clock=clock, progress=progress)
    if json:
        typer.echo(as_json(asdict(report)))
        return
    known = f"; {counted(report.known, 'checkpoint')} already imported" if report.known else ""
    console().print(
        f"{counted(report.checkpoints, 'checkpoint')} of {counted(report.threads, 'thread')} imported{known}"
    )


def _class_name(text: str) -> tuple[str, str]:
    module, separator, name = text.partition(":")
    if not separator or not module or not name:
        raise clew.ConfigError(f"--allow needs a module and a class, such as my_agent.state:Plan; got {text!r}")
    return module, name
