"""The contract suite: tests for everything that `clew.storage.protocol` promises."""

from clew.testing.contract.attachments import AttachmentContract
from clew.testing.contract.branches import BranchContract
from clew.testing.contract.checkpoints import CheckpointContract
from clew.testing.contract.commits import CommitContract
from clew.testing.contract.concurrency import ConcurrencyContract
from clew.testing.contract.content import ContentContract
from clew.testing.contract.cross_search import CrossSearchContract
from clew.testing.contract.durability import DurabilityContract
from clew.testing.contract.edges import EdgeContract
from clew.testing.contract.feed import FeedContract
from clew.testing.contract.forks import ForkContract
from clew.testing.contract.journal import JournalContract
from clew.testing.contract.leases import LeaseContract
from clew.testing.contract.messages import MessageContract
from clew.testing.contract.own import OwnContract
from clew.testing.contract.owners import OwnerContract
from clew.testing.contract.receipts import ReceiptContract
from clew.testing.contract.removal import RemovalContract
from clew.testing.contract.rules import RuleContract
from clew.testing.contract.search import SearchContract
from clew.testing.contract.threads import ThreadContract
from clew.testing.contract.times import TimesContract
from clew.testing.contract.values import ValueContract


class StorageContract(
    RuleContract,
    CommitContract,
    ReceiptContract,
    EdgeContract,
    ConcurrencyContract,
    CheckpointContract,
    TimesContract,
    RemovalContract,
    ValueContract,
    ContentContract,
    AttachmentContract,
    MessageContract,
    BranchContract,
    SearchContract,
    CrossSearchContract,
    ThreadContract,
    OwnerContract,
    ForkContract,
    LeaseContract,
    JournalContract,
    OwnContract,
    FeedContract,
):
    """The tests of a storage. Subclass it in a test module, and define how to make the storage:

        class TestMyStorage(StorageContract):
            def make_storage(self, tmp_path):
                return MyStorage(tmp_path / "store")

    `make_storage` is called once per test with a new `tmp_path`, and returns a storage that is not
    set up: the suite calls `setup` and `close`. For a durable storage, subclass
    `DurableStorageContract`. Set `answers_get_lost = True` for a storage that retries commits
    itself: the tests then don't check facts that only the first answer tells, such as how much was
    removed. No pytest plugin is needed.
    """


class DurableStorageContract(StorageContract, DurabilityContract):
    """The tests of a storage with `capabilities.durable`. After `close`, `make_storage` is called
    again with the same `tmp_path`, and has to open the same store."""
