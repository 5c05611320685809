"""What a test needs: the contract of a storage, storages that fail on purpose, and a clock that stands still.

Whoever writes a storage subclasses `StorageContract` or `DurableStorageContract`, and drives it with
`clew.testing.machine.storage_machine` beside the reference (that one needs hypothesis; all else only pytest).
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
