"""The studio's modules by themselves, in the browser that runs them."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from clew.model.diff import Change

WORDS = ("the", "train", "to", "Lyon", " ", "  ", "\n", "é", "日本", "🚆", ",", "x1", "")


@pytest.fixture
def module(studio):
    """A function that calls a function of a module."""
    page = studio.open()
    page.locator(".rows li").first.wait_for()

    def called(name: str, function: str, *arguments: object) -> object:
        script = "async ([name, called, given]) => (await import(`/studio/${name}`))[called](...given)"
        return page.evaluate(script, [name, function, list(arguments)])

    return called


def test_word_differences_contain_both_texts(module):
    drawn = random.Random(16)
    texts = [("", ""), ("a", ""), ("", "b"), ("same", "same"), ("word " * 3000, "other " * 3000)]
    for _ in range(60):
        before = [drawn.choice(WORDS) for _ in range(drawn.randrange(40))]
        after = [word for word in before if drawn.random() < 0.8] + [drawn.choice(WORDS)] * drawn.randrange(3)
        if drawn.random() < 0.2:
            drawn.shuffle(after)
        texts.append(("".join(before), "".join(after)))
    for one, other in texts:
        parts = module("words.js", "wordChanges", one, other)
        assert "".join(text for sign, text in parts if sign != "+") == one
        assert "".join(text for sign, text in parts if sign != "-") == other
        assert all(left[0] != right[0] for left, right in pairwise(parts))
    short = module("words.js", "wordChanges", "by train to Lyon, in May", "by bus to Lyon, in June")
    assert short == [["=", "by "], ["-", "train"], ["+", "bus"], ["=", " to Lyon, in "], ["-", "May"], ["+", "June"]]


def test_changed_values_have_the_places_that_python_gives_them(module):
    before = {"plan": {"steps": [1, 2, 3], "it's": 1}, "a b": True, "same": [1]}
    after = {"plan": {"steps": [1, 5], "it's": 2}, "new": None, "same": [1]}
    found = module("words.js", "valueChanges", before, after)
    kinds = {each["place"]: each["kind"] for each in found}
    assert kinds == {
        "plan.steps[1]": "changed",
        "plan.steps[2]": "removed",
        'plan["it\'s"]': "changed",
        "new": "added",
        "['a b']": "removed",
    }
    for path in (["plan", "steps", 3], ["files", "a.txt"], ["it's", "a \"b\" 'c'", "back\\slash"], [0], ["é"], []):
        assert module("format.js", "spelled", path) == Change(path=tuple(path), kind="added").place


def test_days_without_a_record_are_gaps(module):
    days = {"2026-02-27": {"messages": 3}, "2026-03-02": {"messages": 1}}
    shown = module("growth.js", "filled", days)
    assert [day for day, _ in shown] == ["2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02"]
    assert [totals.get("messages", 0) for _, totals in shown] == [3, 0, 0, 1]
    assert len(module("growth.js", "filled", {"2020-01-01": {}, "2026-01-01": {}})) == 60


def test_every_checkpoint_stays_in_the_lane_that_leads_to_its_parent(module):
    drawn = random.Random(16)
    for _ in range(20):
        made: list[dict[str, object]] = []
        for number in range(60):
            parent = None if not made else f"c{max(0, number - 1 - drawn.randrange(1 + 6 * (drawn.random() < 0.3)))}"
            made.append({"checkpoint_id": f"c{number}", "parent_id": parent})
        rows = module("timeline.js", "lanes", made[::-1])["rows"]
        waiting: dict[int, object] = {}
        for row in rows:
            # A lane that is open leads to this checkpoint, unless it is the newest of its branch.
            own = row["checkpoint"]["checkpoint_id"]
            assert waiting.get(row["lane"]) in (None, own)
            assert row["lane"] in waiting or own not in waiting.values()
            waiting = {lane: wanted for lane, wanted in enumerate(row["after"]) if wanted is not None}
            assert own not in waiting.values()
        assert waiting == {}


def test_a_saved_checkpoint_is_counted_once_in_its_namespace(module):
    def saved(namespace: str, sequence: int) -> dict[str, object]:
        return {"namespace": namespace, "sequence": sequence}

    known: object = []
    for namespace, sequence in (("", 1), ("a", 2), ("a", 3), ("a", 3), ("a", 2), ("", 4)):
        known = module("namespaces.js", "counted", known, saved(namespace, sequence))
    assert known == [
        {"namespace": "", "checkpoints": 2, "head": saved("", 4)},
        {"namespace": "a", "checkpoints": 2, "head": saved("a", 3)},
    ]


def test_ids_in_names_of_namespaces_are_shortened(module):
    task = "1f0e8a3c-6c5e-4f2b-8001-d1b8a3f0c9aa"
    for name, short in (
        (f"search:{task}", "search:1f0e8a3c…"),
        (f"search:{task}|fares:{task}", "search:1f0e8a3c…|fares:1f0e8a3c…"),
        ("search", "search"),
        (f"{task}0", f"{task}0"),
        ("", ""),
    ):
        assert module("namespaces.js", "shortened", name) == short
