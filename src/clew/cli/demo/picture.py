"""The demo's output: conversation lines, the timeline with its branch, and the table of sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

import clew
from clew.cli.demo import story
from clew.cli.demo.storage_cost import Measured
from clew.cli.output import listing, size
from clew.cli.tables import message_text, role_of


def beat_line(step: int, beat: story.Beat) -> Table:
    """Return one step of the conversation: number, node, speaker and text."""
    said = clew.Message(role=beat.role or "·", content=beat.text, tool_calls=beat.calls)
    line = Table.grid(padding=(0, 1, 0, 0))
    for width, style in ((4, "dim"), (9, "dim"), (9, "")):
        line.add_column(width=width, style=style, no_wrap=True, justify="right" if width == 4 else "left")
    line.add_column(overflow="fold")
    line.add_row(
        str(step), beat.node, role_of(said), message_text(said) if beat.role else Text(_spelled(beat.sets), style="dim")
    )
    return line


def _spelled(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in changes.items())


def branch_picture(
    main: Sequence[clew.CheckpointInfo], branch: Sequence[clew.CheckpointInfo], *, fork_step: int, killed_run: str
) -> Table:
    """Return both branches of checkpoints, oldest first, with the point of the kill."""
    table = listing()
    table.add_column("", no_wrap=True, style="cyan")
    for name in ("step", "checkpoint", "node", "process", "parent", "size", "saved at"):
        right = name in ("step", "parent", "size", "saved at")
        table.add_column(
            name, no_wrap=True, justify="right" if right else "left", style="dim" if name == "saved at" else ""
        )
    steps = {each.checkpoint_id: f"{each.step}" for each in main}
    before = ""
    for each in main:
        run = each.run_id or ""
        if before == killed_run != run:
            table.add_row("✗", "", Text("killed here", style="bold red"), "", Text(killed_run, style="red"))
        before = run
        step = each.step or 0
        line = "●─╮" if step == fork_step else "● │" if step > fork_step else "●"
        table.add_row(line, *_cells(each, steps, main[0].updated_at))
    # The branch begins with its copy of the checkpoint that it was forked
    # from, which is not shown twice.
    steps |= {each.checkpoint_id: f"{each.step}" for each in branch}
    for each in branch[1:]:
        table.add_row("  ●", *_cells(each, steps, main[0].updated_at))
    return table


def _cells(checkpoint: clew.CheckpointInfo, steps: Mapping[str, str], start: datetime) -> tuple[str, ...]:
    return (
        f"{checkpoint.step}",
        checkpoint.checkpoint_id,
        checkpoint.node_name or "",
        checkpoint.run_id or "",
        steps.get(checkpoint.parent_id or "", "–"),
        size(checkpoint.size).replace("bytes", "B"),
        f"+{(checkpoint.updated_at - start).total_seconds():.3f} s",
    )


def measured_table(measured: Measured, compacted: int) -> Table:
    """Return a table of the conversation's size when stored in different ways."""
    table = listing()
    table.add_column("", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("× the conversation", justify="right", no_wrap=True)
    for name, count, style in (
        ("every state in full, as JSON", measured.in_full, "red"),
        ("the conversation once, as JSON", measured.conversation, ""),
        ("Clew, every state, as saved", measured.saved, "green"),
        ("Clew, every state, after acompact", compacted, "bold green"),
    ):
        table.add_row(name, size(count), f"{count / measured.conversation:.2f}", style=style)
    return table


def check_line(passed: bool, claim: str) -> Table:
    """Return a claim with a mark for whether it holds."""
    style = "bold green" if passed else "bold red"
    line = Table.grid(padding=(0, 1, 0, 0))
    line.add_row("  ", Text("✓" if passed else "✗", style=style), Text(claim, style="" if passed else style))
    return line
