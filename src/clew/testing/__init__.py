"""Test support: the contract suite of a storage, fault injection, and a fake clock.

Authors of a storage subclass `StorageContract` or `DurableStorageContract`, and compare their storage
with the reference in `clew.testing.machine.storage_machine`. The machine needs hypothesis; everything
else needs only pytest.
"""

import pytest

pytest.register_assert_rewrite("clew.testing.contract", "clew.testing.driver")

from clew.testing.clock import FakeClock  # noqa: E402
from clew.testing.contract import DurableStorageContract, StorageContract  # noqa: E402
from clew.testing.driver import DrivenStorage, run_inline  # noqa: E402
from clew.testing.faults import Fault, FaultyStorage, RetryingStorage, at_random, script  # noqa: E402

__all__ = [
    "DrivenStorage",
    "DurableStorageContract",
    "FakeClock",
    "Fault",
    "FaultyStorage",
    "RetryingStorage",
    "StorageContract",
    "at_random",
    "run_inline",
    "script",
]
