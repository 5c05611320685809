"""The contract of a storage, as tests: `clew.storage.protocol` in full."""

from clew.testing.contract.attachments import AttachmentContract
from clew.testing.contract.checkpoints import CheckpointContract
from clew.testing.contract.commits import CommitContract
from clew.testing.contract.concurrency import ConcurrencyContract
from clew.testing.contract.durability import DurabilityContract
from clew.testing.contract.edges import EdgeContract
from clew.testing.contract.forks import ForkContract
from clew.testing.contract.journal import JournalContract
from clew.testing.contract.leases import LeaseContract
from clew.testing.contract.messages import MessageContract
from clew.testing.contract.owners import OwnerContract
from clew.testing.contract.receipts import ReceiptContract
from clew.testing.contract.removal import RemovalContract
from clew.testing.contract.rules import RuleContract
from clew.testing.contract.search import SearchContract
from clew.testing.contract.threads import ThreadContract
from clew.testing.contract.values import ValueContract


class StorageContract(
    RuleContract,
    CommitContract,
    ReceiptContract,
    EdgeContract,
    ConcurrencyContract,
    CheckpointContract,
    RemovalContract,
    ValueContract,
    AttachmentContract,
    MessageContract,
    SearchContract,
    ThreadContract,
    OwnerContract,
    ForkContract,
    LeaseContract,
    JournalContract,
):
    """All that a storage promises. Subclass it in a test module, and say how to make the storage:

        class TestMyStorage(StorageContract):
            def make_storage(self, tmp_path):
                return MyStorage(tmp_path / "store")

    `make_storage` returns a storage that is not set up; the suite calls `setup` and `close`. It is called once a test
    with a new `tmp_path`. A durable storage subclasses `DurableStorageContract`. Set `answers_get_lost = True` for a
    storage that tries commits again by itself: what the first answer alone can tell (how much was removed, that
    nothing was repeated) is then not asked. No plugin is needed.
    """


class DurableStorageContract(StorageContract, DurabilityContract):
    """The same for a storage whose `capabilities.durable` is true: `make_storage` is called again with the same `tmp_path`
    after `close`, and has to open the same store."""
