"""Golden files: threads that older versions of the Redis storage wrote are read unchanged."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import redis
from msgspec.structs import replace

from clew.ids import new_id
from clew.model.commit import After, Commit, Removal
from clew.model.queries import JournalQuery
from clew.storage.memory import MemoryStorage
from clew.storage.redis.keys import Keys
from clew.testing.build import attachment, checkpoint, commit, fields, later, message, row
from clew.testing.driver import DrivenStorage
from clew.testing.servers import shared_redis
from tests.storage.redis_support import opened

GOLDEN = [Path(__file__).parent / f"redis_thread_v{version}.json" for version in (1, 2, 3, 4)]
"""Scores and members (in base64) of a thread's sorted set after `commits(…)`. Never regenerated: new
code must read them. The first has receipts in two regions, some of them permanent; the second has
all in one. Both are older than branch points, which the third has. The fourth has a checkpoint that was
replaced, with two times."""


def stored(golden: Path) -> list[tuple[bytes, float]]:
    return [(base64.b64decode(member), float(score)) for score, member in json.loads(golden.read_text("ascii"))]


def commits(golden: Path) -> list[Commit]:
    """A thread with one record of each kind, some of them changed and removed again."""
    replaced = checkpoint("c1", body=b"new", covers=[(0, 2)], run_id="r2")
    return (
        _COMMITS
        if golden in GOLDEN[:3]
        else [*_COMMITS, commit(commit_id="6", user="ann", checkpoint=replaced, at=later(9))]
    )


def _commits() -> list[Commit]:
    main = checkpoint("c1", metadata=b"\0meta", body=b"\xffbody", covers=[(0, 2)], run_id="r1", step=-(2**63))
    return [
        commit(
            commit_id="c1",
            user="ann",
            values=row(0, 2),
            checkpoint=main,
            thread=fields("Näme", run_id="r", user_id="ann"),
        ),
        commit(
            commit_id="1", user="ann", values=row(2), checkpoint=checkpoint("c2", covers=[(0, 1), (2, 3)]), at=later(1)
        ),
        commit(
            commit_id="c3", user="ann", checkpoint=checkpoint("c3", parent="c1", node_name=None, step=None), at=later(2)
        ),
        commit(commit_id="2", user="ann", checkpoint=checkpoint("s", namespace="süb"), at=later(90_000)),
        commit(commit_id="3", user="ann", messages=[message("m1", "Héllo\0", tool_calls=3, run_id="r"), message("m2")]),
        commit(
            commit_id="4", user="ann", attachments=[attachment("c2", "k", b"\0"), attachment("s", "k", namespace="süb")]
        ),
        commit(commit_id="5", user="ann", remove=Removal(checkpoints=(("", "c3"),), messages=("m2",))),
    ]


_COMMITS = _commits()


def plain(store: DrivenStorage, golden: Path) -> dict[str, Any]:
    """Return everything but the incarnation, which each store draws, and branches if `golden` has none."""
    found = store.everything()
    for name, value in found.items():
        if getattr(value, "basis", None):
            found[name] = replace(value, basis=replace(value.basis, incarnation=""))
        if golden in GOLDEN[:2] and getattr(value, "points", None):
            found[name] = replace(found[name], points=())
    return {name: value for name, value in found.items() if golden not in GOLDEN[:2] or "conversation" not in name}


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.stem)
def test_a_thread_of_an_older_version_is_read_and_written_to(golden: Path) -> None:
    prefix = new_id()
    with redis.Redis.from_url(shared_redis()) as client:
        client.zadd(Keys(prefix).thread("t"), dict(stored(golden)))
    reference = DrivenStorage(MemoryStorage)
    with opened(shared_redis(), prefix=prefix) as store:
        # A lost index is rebuilt from the threads.
        store.run(store.storage.reclaim())
        reference.apply_all(*commits(golden))
        assert plain(store, golden) == plain(reference, golden)
        assert all(store.apply(each).repeated for each in commits(golden))
        receipts = store.run(store.storage.journal(JournalQuery(thread_id="t", receipts=True))).receipts
        # Ids of commits whose checkpoint has another id or is gone, oldest first.
        replaced = ("c1", "6") if golden == GOLDEN[-1] else ()
        assert receipts == (*replaced[:1], "1", "c3", "2", "3", "4", "5", *replaced[1:])
        for each in (store, reference):
            each.apply(commit(user="ann", values=row(3), checkpoint=checkpoint("c4", covers=[(1, 4)])))
        assert plain(store, golden) == plain(reference, golden)
        # It has no chain yet, and gets one.
        for each in (store, reference):
            each.apply(commit(commit_id="7", user="ann", messages=[message("m3")], after=After(None), journal=b"j"))
            each.apply(commit(commit_id="8", user="ann", values=row(4), checkpoint=checkpoint("c5"), after=After("7")))
        assert plain(store, golden) == plain(reference, golden)
        assert [(found.commit_id, found.after, found.data) for found in store.journal()] == [("7", None, b"j")]
    reference.close()


def test_a_thread_is_still_written_as_the_newest_version_wrote_it() -> None:
    prefix = new_id()
    with opened(shared_redis(), prefix=prefix) as store, redis.Redis.from_url(shared_redis()) as client:
        store.apply_all(*commits(GOLDEN[-1]))
        written: Any = client.zrange(Keys(prefix).thread("t"), 0, -1, withscores=True)
    golden = stored(GOLDEN[-1])
    # The header differs: it has the incarnation and the creation time.
    assert [each for each in written if each[0][:1] != b"H"] == [each for each in golden if each[0][:1] != b"H"]
