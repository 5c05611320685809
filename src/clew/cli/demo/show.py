"""The demo's acts, with a check for every claim."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

import clew
from clew.cli.demo import story
from clew.cli.demo.picture import beat_line, branch_picture, check_line, measured_table
from clew.cli.demo.stage import Acknowledged, Agent, AgentFailed
from clew.cli.demo.storage_cost import ANSWERED, ASKED, TURNS, all_load, save_all
from clew.cli.output import clean, counted, progress_bar
from clew.cli.tables import message_table

KILL_AT: Final = 13
"""The step after which the agent is killed: it is in the middle of asking eight hotels."""

_SEARCHED: Final = ("FADO", "pensão")


class Show:
    """One run of the demo, in its own folder."""

    def __init__(self, console: Console, folder: Path) -> None:
        self._console = console
        self._folder = folder
        self._url = _url_of(folder / "trip.db")
        self._config: dict[str, Any] = {"thread_id": story.THREAD, "user_id": story.USER}
        self._failed = 0
        self.checks: list[tuple[str, bool]] = []
        """What was checked, and whether it held."""

    def run(self, *, keep: bool) -> bool:
        """Run all acts and return whether every check passed."""
        self._say(f"[bold]Clew {clew.__version__}[/]: what is left of an agent's memory after the agent is killed")
        try:
            killed = self._kill_an_agent()
            with clew.connect(self._url) as checkpointer:
                self._nothing_is_lost(checkpointer, killed)
            resumed = self._resume()
            with clew.connect(self._url) as checkpointer:
                self._the_end_is_right(checkpointer, killed, resumed)
                self._what_if(checkpointer)
                self._search(checkpointer)
                self._timeline(checkpointer, killed)
            self._measure()
        except (AgentFailed, clew.ClewError) as error:
            self._check(False, clean(str(error)))
        self._close(keep=keep)
        return not self._failed

    def _kill_an_agent(self) -> Agent:
        self._act("A conversation in its own process, saved after every node")
        with self._agent() as agent:
            for acknowledged in agent:
                if acknowledged.step == KILL_AT:
                    agent.kill()
                self._show_beat(acknowledged)
        self._say(Text(f"   ✗ process {agent.pid} was killed (SIGKILL)", style="bold red"))
        return agent

    def _nothing_is_lost(self, checkpointer: clew.BaseCheckpointer, killed: Agent) -> None:
        self._act("Is everything stored that it acknowledged?")
        stored = checkpointer.list_checkpoints(self._config, limit=None)
        messages = {each.message_id for each in checkpointer.list_messages(self._config, limit=None)}
        said = [message for each in killed.acknowledged for message in each.messages]
        count, last = len(killed.acknowledged), killed.acknowledged[-1].step
        self._check(
            killed.was_killed and last < story.BRANCH_STEP,
            f"the agent was killed while working: in turn {story.BEATS[last].turn}, after step {last} of {len(story.BEATS)}",
        )
        self._check(
            all(self._is_stored(checkpointer, each) for each in killed.acknowledged),
            f"{count} checkpoints acknowledged, {count} stored, each state unchanged",
        )
        self._check(messages.issuperset(said), f"{len(said)} messages acknowledged with them, {len(said)} stored")
        more = len(stored) - count
        self._check(
            more in (0, 1),
            "nothing half-saved" + (" (one more was saved but not yet acknowledged)" if more else ""),
        )

    def _resume(self) -> Agent:
        self._act("A new process continues")
        with self._agent() as agent:
            for acknowledged in agent:
                self._show_beat(acknowledged)
        return agent

    def _the_end_is_right(self, checkpointer: clew.BaseCheckpointer, killed: Agent, resumed: Agent) -> None:
        self._say()
        line = checkpointer.list_checkpoints(self._config, limit=None)[::-1]
        messages = checkpointer.list_messages(self._config, limit=None)
        state = checkpointer.get_state(self._config) or story.opening()
        self._check(
            resumed.resumed_from is not None and resumed.resumed_at >= killed.acknowledged[-1].step,
            f"process {resumed.pid} continued after step {resumed.resumed_at}, not from the beginning",
        )
        self._check(
            [each.step for each in line] == list(range(1, len(story.BEATS) + 1))
            and [each.parent_id for each in line[1:]] == [each.checkpoint_id for each in line[:-1]],
            f"one unbroken line of {len(line)} checkpoints, no step lost or repeated",
        )
        self._check(
            [(each.role, each.text()) for each in messages] == [(b.role, b.text) for b in story.BEATS if b.role]
            and [each["message_id"] for each in state["messages"]] == [each.message_id for each in messages],
            f"the whole conversation of {len(messages)} messages, none lost or repeated",
        )

    def _what_if(self, checkpointer: clew.BaseCheckpointer) -> None:
        self._act("What if? A fork from before the choice, and the differences")
        head = checkpointer.get_checkpoint(self._config)
        line = checkpointer.list_checkpoints(self._config, limit=None)
        choice = next(each for each in line if each.step == story.BRANCH_STEP)
        forked = checkpointer.fork({**self._config, "checkpoint_id": choice.checkpoint_id}, story.WHAT_IF)
        other = {**forked, "run_id": "what-if"}
        state = checkpointer.get_state(other) or story.opening()
        for beat in story.OTHER_WAY:
            state, said = story.play(state, beat)
            checkpointer.put_checkpoint(other, state, messages=said, node_name=beat.node, step=state["step"])
            self._say(beat_line(state["step"], beat))
        found = checkpointer.diff(self._config, other)
        trip = clew.Diff(changes=tuple(change for change in found if change.path[0] == "trip"))
        self._say()
        self._say(Text(f"   from {story.THREAD} to {story.WHAT_IF}:", style="dim"))
        self._say(_indented(trip, by=3))
        self._say(Text(f"   and {counted(len(found) - len(trip), 'change')} in messages and step", style="dim"))
        self._say()
        self._check(
            {change.place for change in trip} == {"trip.hotel", "trip.spent", "trip.table"}
            and checkpointer.get_checkpoint(self._config) == head,
            "the branch has its own history, and the original thread is unchanged",
        )

    def _search(self, checkpointer: clew.BaseCheckpointer) -> None:
        self._act("Searching the messages")
        right = True
        for searched in _SEARCHED:
            found = checkpointer.list_messages(self._config, search=searched)
            expected = [beat.text for beat in story.BEATS if searched.lower() in f"{beat.text} {beat.calls}".lower()]
            right = right and [each.text() for each in found] == expected
            self._say(
                Text(f"   {searched}", style="bold").append(f": {counted(len(found), 'message')}", style="not bold dim")
            )
            self._say(_indented(message_table(found, search=searched, times=False), by=5))
        self._say()
        self._check(right, "exactly the right messages found, in any case and language")

    def _timeline(self, checkpointer: clew.BaseCheckpointer, killed: Agent) -> None:
        self._act("The timeline")
        main = checkpointer.list_checkpoints(self._config, limit=None)[::-1]
        branch = checkpointer.list_checkpoints({**self._config, "thread_id": story.WHAT_IF}, limit=None)[::-1]
        picture = branch_picture(main, branch, fork_step=story.BRANCH_STEP, killed_run=f"{killed.pid}")
        self._say(_indented(picture))

    def _measure(self) -> None:
        self._act(f"{TURNS} turns of {ASKED} + {ANSWERED} bytes, with every state kept: how large is that?")
        # NORMAL: only sizes matter here, and waiting for fsync after each turn would not change them.
        with clew.connect(_url_of(self._folder / "long.db"), synchronous="NORMAL") as checkpointer:
            with progress_bar("  saving    ", self._console) as progress:
                measured = save_all(checkpointer, progress)
            with progress_bar("  compacting", self._console) as progress:
                checkpointer.compact(progress=progress)
            compacted = checkpointer.stats().stored_bytes
            with progress_bar("  loading   ", self._console) as progress:
                loadable = all_load(checkpointer, progress)
        self._say(_indented(measured_table(measured, compacted)))
        self._say()
        self._check(
            compacted <= measured.saved < 2 * measured.conversation,
            "it grows with the conversation, not with its square",
        )
        self._check(loadable, f"all {TURNS} states load from the compacted file, unchanged")

    def _close(self, *, keep: bool) -> None:
        self._say()
        if self._failed:
            self._say(f"[bold red]{counted(self._failed, 'check')} failed.[/]")
        else:
            self._say("[bold green]All checks passed.[/] Nothing that was acknowledged was lost.")
        if keep:
            self._console.print(Text(f"Inspect it: clew --url {self._url} history {story.THREAD}"), soft_wrap=True)

    def _is_stored(self, checkpointer: clew.BaseCheckpointer, acknowledged: Acknowledged) -> bool:
        found = checkpointer.get_checkpoint({**self._config, "checkpoint_id": acknowledged.checkpoint_id})
        if found is None or found.metadata.step != acknowledged.step:
            return False
        return story.digest(found.state) == acknowledged.digest

    def _agent(self) -> Agent:
        return Agent(self._url, self._folder / "agent.log")

    def _show_beat(self, acknowledged: Acknowledged) -> None:
        self._say(beat_line(acknowledged.step, story.BEATS[acknowledged.step - 1]))

    def _act(self, title: str) -> None:
        self._say()
        self._console.rule(f"[bold]{title}[/]", align="left", style="dim")

    def _check(self, passed: bool, claim: str) -> None:
        self._failed += not passed
        self.checks.append((claim, passed))
        self._say(check_line(passed, claim))

    def _say(self, content: RenderableType = "") -> None:
        self._console.print(content)


def _indented(content: RenderableType, by: int = 1) -> Padding:
    return Padding(content, (0, 0, 0, by))


def _url_of(path: Path) -> str:
    return f"sqlite:///{quote(path.as_posix(), safe='/:')}"
