"""Golden files: new code must read `tests/golden/langgraph-N.db`, which ClewSaver wrote in layout
N.

To add a layout, run `python -m tests.adapters.langgraph.test_golden` once and commit the new file.
Never change an old one.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Command, Interrupt, Send

from clew.adapters.langgraph import ClewSaver
from tests.adapters.langgraph.support import asking, chat, config, say, texts
from tests.adapters.langgraph.test_values import MINE, Color, Model, Point, put

GOLDEN = Path(__file__).parent.parent.parent / "golden"
FILES = sorted(GOLDEN.glob("langgraph-*.db"))
LAYOUT = 2
VALUES: dict[str, Any] = {
    "messages": [
        HumanMessage("hello", id="1", name="Ann"),
        AIMessage("", tool_calls=[{"name": "f", "args": {"x": [1]}, "id": "c", "type": "tool_call"}], id="2"),
        ToolMessage("done", tool_call_id="c", id="3"),
    ],
    "sends": [Send("node", {"x": 1})],
    "interrupt": Interrupt(value="why", id="i"),
    "plain": {"tuple": (1, 2), "none": None},
}
OBJECTS: dict[str, Any] = {
    "mine": {"deep": (Point(1, 2), Color.RED, Model(name="m", colors=[Color.RED]))},
    "path": Path("/tmp/x"),
    "document": Document("text", metadata={"source": "x"}),
}
"""Types that layout 2 packs with Clew's codec: the user's, Python's, and LangChain's except
messages.
"""


def write(path: Path) -> None:
    with ClewSaver(f"sqlite:///{path}", allow=MINE) as saver:
        for text in ("one", "two"):
            chat(saver).invoke(say(text), config("talk", user_id="alice"))
        asking(saver).invoke({"log": ["in"]}, config("asked"))
        put(saver, VALUES, config("values", checkpoint_ns="child"))
        put(saver, OBJECTS, config("objects", checkpoint_ns=""))


def test_there_is_a_golden_file_of_the_current_layout():
    assert GOLDEN / f"langgraph-{LAYOUT}.db" in FILES


@pytest.mark.parametrize("golden", FILES, ids=lambda path: path.stem)
def test_threads_of_every_layout_are_read_and_go_on(golden, tmp_path):
    path = tmp_path / "old.db"
    shutil.copy(golden, path)
    with ClewSaver(f"sqlite:///{path}", allow=MINE) as saver:
        assert saver.checkpointer.verify().ok
        talk = config("talk", user_id="alice")
        assert texts(chat(saver).invoke(say("three"), talk)) == [
            *("one", "answer to one", "two", "answer to two", "three", "answer to three")
        ]
        assert len(list(saver.list(talk))) == 9
        assert asking(saver).invoke(Command(resume="yes"), config("asked"))["log"] == ["in", "they said yes"]
        found = saver.get_tuple(config("values", checkpoint_ns="child"))
        assert found is not None
        assert found.checkpoint["channel_values"] == VALUES
        if golden.stem != "langgraph-1":
            objects = saver.get_tuple(config("objects"))
            assert objects is not None
            assert objects.checkpoint["channel_values"] == OBJECTS


if __name__ == "__main__":
    target = GOLDEN / f"langgraph-{LAYOUT}.db"
    if target.exists():
        sys.exit(f"{target.name} exists: a layout that was released never changes")
    write(target)
