"""Ids are unique, have one length, and are roughly sorted by creation time."""

from __future__ import annotations

import random

from clew.chance import drawn_from
from clew.ids import new_id


def test_ids_are_unique_and_of_one_length():
    made = [new_id() for _ in range(5000)]
    assert len(set(made)) == 5000
    assert {len(each) for each in made} == {20}
    assert set("".join(made)) <= set("0123456789abcdefghjkmnpqrstvwxyz")


def test_ids_made_later_sort_later():
    made = [new_id()[:10] for _ in range(5000)]
    assert made == sorted(made)


def test_ids_sort_after_those_of_the_earlier_time_format():
    assert new_id() > "06gy3a8krjdaj8qvqyz2"


class Seeded(random.Random):
    def time_ns(self):
        return 0


def test_ids_come_from_the_source_of_chance_that_is_given_and_from_no_other():
    made = []
    for seed in (1, 1, 2):
        with drawn_from(Seeded(seed)):
            made.append([new_id() for _ in range(100)])
    assert made[0] == made[1]
    assert not set(made[0]) & {*made[2], *(new_id() for _ in range(100))}
