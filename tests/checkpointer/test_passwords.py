"""Errors about locations show no password, whatever form it was written in."""

from __future__ import annotations

import pytest

import clew

SECRET = "hunter2"


@pytest.mark.parametrize(
    "work",
    [
        lambda: clew.connect("memory://", cache=f"host=db password={SECRET}"),
        lambda: clew.PgCheckpointer("postgresql://h/d", redis_url=f"host=x password={SECRET}"),
        lambda: clew.connect(f"redis:/u:{SECRET}@h:6379/0"),
        lambda: clew.connect(f"u:{SECRET}@h:6379"),
        lambda: clew.connect(f"redis://u:{SECRET}@h℀"),
        lambda: clew.connect(f"memory:u:{SECRET}@h"),
        lambda: clew.connect(f"file:u:{SECRET}@h/d"),
        lambda: clew.connect(f"sqlite:u:{SECRET}@h/d"),
        lambda: clew.connect(f"host=db password={SECRET}"),
        lambda: clew.connect("memory://", secondary=f"postgresql:/u:{SECRET}@h/d"),
        lambda: clew.connect("memory://", secondary=f"u:{SECRET}@h:6379"),
    ],
)
def test_a_location_that_is_no_url_is_not_shown_with_its_password(work):
    with pytest.raises(clew.ConfigError) as refused:
        work()
    assert SECRET not in str(refused.value)
