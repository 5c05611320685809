"""Values that a cleanup removed are stored again when they come back, though a cache has them."""

from __future__ import annotations

import pytest

import clew
from tests.checkpointer.support import run, text

SAID = [text(number, 600) for number in range(12)]


@pytest.mark.parametrize(
    "cache", [None, "memory://"], ids=["cleaned without a cache", "cleaned with a cache of its own"]
)
def test_a_value_that_comes_back_after_a_cleanup_elsewhere_can_be_read_by_all(tmp_path, cache):
    url = f"sqlite:///{tmp_path / 'clew.db'}"
    worker, cleaner, third = clew.connect(url, cache="memory://"), clew.connect(url, cache=cache), clew.connect(url)

    async def go():
        await cleaner.aput_state("t", {"log": SAID})
        for _ in range(2):
            assert await worker.aget_state("t") == {"log": SAID}
        await cleaner.aput_state("t", {"log": SAID[10:]})
        await cleaner.acleanup(clew.RetentionPolicy(max_history=1))
        assert await worker.aget_state("t") == {"log": SAID[10:]}
        back = {"log": [SAID[0], *SAID[10:]]}
        await worker.aput_state("t", back)
        for each in (worker, cleaner, third):
            assert await each.aget_state("t") == back
        assert (await third.averify()).ok
        for each in (worker, cleaner, third):
            await each.arelease()

    run(go())
