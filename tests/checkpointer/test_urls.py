"""URLs of `connect`, and the errors for wrong ones."""

from __future__ import annotations

import pytest

import clew


@pytest.mark.parametrize(
    "url", ["postgresql://ann:s3cret@db/app", "redis://:s3cret@db", "postgresql://ann:s3cret@db/app?schema=x"]
)
def test_an_error_shows_no_password(url):
    with pytest.raises(clew.ConfigError, match="shema") as caught:
        clew.connect(url, shema="x")  # type: ignore[call-overload]
    assert "s3cret" not in str(caught.value)
    assert "db" in str(caught.value)


def test_a_file_with_a_hash_in_its_name_is_not_taken_for_another(tmp_path):
    with pytest.raises(clew.ConfigError, match="%23"):
        clew.connect(f"sqlite:///{tmp_path}/team#1.db")
    with clew.connect(f"sqlite:///{tmp_path}/team%231.db") as memory:
        memory.put_state("t", 1)
    assert (tmp_path / "team#1.db").exists()
