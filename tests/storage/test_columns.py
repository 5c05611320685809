"""Conversion of stored columns: no number in one is trusted."""

from __future__ import annotations

import pytest

from clew.model.records import ValueRow
from clew.storage.columns import DIGEST_SIZE, value_row


@pytest.mark.parametrize("count", [1 << 40, -1, 0, 1, 3, "2", None])
def test_a_row_whose_count_differs_from_its_digests_has_no_data(count):
    digests = bytes(2 * DIGEST_SIZE)
    assert value_row(5, 2, digests, b"data") == ValueRow(first=5, count=2, digests=digests, data=b"data")
    assert value_row(5, count, digests, b"data") == ValueRow(first=5, count=2, digests=b"", data=b"")
