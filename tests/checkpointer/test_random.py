"""Random operations of several checkpointers on one store, compared with a model that is a dict of lists."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

import clew
from tests.checkpointer.support import at, text
from tests.rings import rounds

State = dict[str, Any]


class Model:
    """The expected content: each thread's checkpoints, oldest first."""

    def __init__(self) -> None:
        self.threads: dict[str, list[tuple[str, State]]] = {}

    def head(self, name: str) -> State | None:
        history = self.threads.get(name)
        return history[-1][1] if history else None

    def add(self, name: str, checkpoint_id: str, state: State) -> None:
        self.threads.setdefault(name, []).append((checkpoint_id, copy.deepcopy(state)))


def changed(chance: random.Random, state: State) -> State:
    """`state` after a random change of the kind that agents make."""
    messages, files = list(state.get("messages", [])), dict(state.get("files", {}))
    new = {"role": "user", "content": text(chance.random(), chance.choice([5, 80, 300, 700, 6000]))}
    what = chance.randrange(8)
    if what in (0, 1, 2) or not messages:
        messages += [new] * chance.choice([1, 1, 2, 40])
    elif what == 3:
        messages = messages[-chance.randint(1, 15) :]
    elif what == 4:
        messages[chance.randrange(len(messages))] = new
    elif what == 5:
        del messages[chance.randrange(len(messages))]
    elif what == 6:
        messages = [new, *messages[chance.randrange(len(messages)) :]]
    else:
        files[f"f{chance.randrange(30)}"] = text(chance.random(), chance.choice([50, 2000, 20_000]))
    return {**state, "messages": messages, "files": files, "n": chance.random()}


@pytest.mark.parametrize("seed", range(rounds(1, 5)))
def test_random_work_of_three_processes_leaves_what_the_model_says(store, seed):
    work_at_random(store, seed, processes=3)


@pytest.mark.parametrize("seed", range(rounds(1, 2)))
def test_random_work_in_the_background_leaves_what_the_model_says(store, seed):
    work_at_random(store, 100 + seed, processes=1, durability="background", max_background=30)


def work_at_random(store, seed, *, processes, **options):
    chance, model = random.Random(seed), Model()
    opened = [store.open(max_index_bytes=chance.choice([0, 100_000, 64 << 20]), **options) for _ in range(processes)]
    names = ["a", "b"]
    for step in range(rounds(110, 220)):
        checkpointer, name = chance.choice(opened), chance.choice(names)
        state = checkpointer.get_state(name)
        assert state == model.head(name), f"step {step}"
        history = model.threads.get(name, [])
        what = chance.choices(
            [
                "put",
                "update",
                "branch",
                "edit old",
                "delete one",
                "clear",
                "drop",
                "cleanup",
                "compact",
                "fork",
                "reopen",
            ],
            [30, 20, 8, 5, 4, 1, 1, 4, 6, 4, 3],
        )[0]
        if what == "put":
            new = changed(chance, state or {})
            for _ in range(chance.choice([1, 1, 1, 40])):
                new = {**new, "n": chance.random()}
                model.add(name, checkpointer.put_checkpoint(name, new).checkpoint_id, new)
        elif what == "update":
            more = [text(chance.random(), chance.choice([5, 300, 5000]))]
            made = checkpointer.update_state(name, set={"n": step}, append={"messages": more}, remove=["gone"])
            before = state or {}
            model.add(name, made.checkpoint_id, {**before, "n": step, "messages": [*before.get("messages", []), *more]})
        elif what == "branch" and history:
            parent, old = chance.choice(history)
            new = changed(chance, old)
            made = checkpointer.put_checkpoint({"thread_id": name, "checkpoint_id": parent}, new)
            assert made.metadata.parent_id == parent
            model.add(name, made.checkpoint_id, new)
        elif what == "edit old" and history:
            parent, old = chance.choice(history)
            made = checkpointer.update_state({"thread_id": name, "checkpoint_id": parent}, append={"log": [step]})
            model.add(name, made.checkpoint_id, {**old, "log": [*old.get("log", []), step]})
        elif what == "delete one" and history:
            victim = chance.randrange(len(history))
            assert checkpointer.delete_checkpoint({"thread_id": name, "checkpoint_id": history[victim][0]})
            del history[victim]
        elif what == "clear":
            checkpointer.clear_state(name)
            model.threads[name] = []
        elif what == "drop":
            checkpointer.delete_thread(name)
            model.threads.pop(name, None)
        elif what == "cleanup":
            kept = chance.randint(1, 12)
            checkpointer.cleanup(clew.RetentionPolicy(max_history=kept), config=name)
            model.threads[name] = history[-kept:]
        elif what == "compact":
            checkpointer.compact()
        elif what == "fork" and history and len(names) < 6:
            source, old = chance.choice(history)
            forked = checkpointer.fork({"thread_id": name, "checkpoint_id": source})["thread_id"]
            made = checkpointer.get_checkpoint(forked)
            model.add(forked, made.checkpoint_id, old)
            names.append(forked)
        elif what == "reopen":
            which = chance.randrange(processes)
            opened[which].release()
            opened[which] = store.open(**options)
    for checkpointer in (opened[0], store.open()):
        for name in names:
            found = checkpointer.get_history(name, limit=None)[::-1]
            assert [(each.checkpoint_id, each.state) for each in found] == model.threads.get(name, [])
            for each in found[:5]:
                assert checkpointer.get_state(at(each)) == each.state
        assert checkpointer.verify().ok
