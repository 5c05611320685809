"""Runs the tests of operations, damage, cleanup and copies, and LangGraph's conformance suite, on
an encrypted store."""

from __future__ import annotations

from contextlib import closing

import pytest

import clew
from clew.factory.encryption import with_encryption
from clew.storage.protocol import Storage
from tests.adapters.langgraph import test_conformance
from tests.checkpointer import test_copies, test_damage, test_messages, test_operations, test_retention
from tests.checkpointer.support import SQLiteStore
from tests.encryption.support import ENCRYPTION

OF_ITS_OWN = {
    "test_a_description_that_lacks_a_field_is_damaged_and_hides_no_other": "it writes a plain one, which is refused",
    "test_stored_data_that_is_not_a_message_is_a_damaged_message_and_hides_no_other": "it writes plain ones",
    "test_stored_data_that_is_not_a_description_is_a_damaged_thread_and_hides_no_other": "the same",
    "test_a_damaged_digest_costs_space_not_data": "it is authenticated with the values: test_tampering.py",
    "test_a_damaged_search_text_is_a_damaged_message": "there is none",
    "test_a_damaged_checkpoint_is_named_and_the_others_load": "but for the checksum, which is not looked at: below",
    "test_a_damaged_message_is_named_and_the_others_are_there": "the same",
    "test_a_dry_run_says_the_same_as_the_cleanup_that_follows": "it does not count what sealing adds: below",
    "test_a_cleanup_of_very_many_checkpoints_goes_in_steps_and_counts_all": "the same",
}
"""The tests that differ in an encrypted store, and why."""


class EncryptedStore(SQLiteStore):
    def storage(self) -> Storage:
        return with_encryption(super().storage(), ENCRYPTION)


@pytest.fixture
def store(tmp_path):
    with closing(EncryptedStore(tmp_path)) as opened:
        yield opened


@pytest.fixture
def sqlite(store):
    return store


@pytest.fixture
def local(store):
    return store


for module in (test_conformance, test_copies, test_damage, test_messages, test_operations, test_retention):
    names = [name for name in vars(module) if name not in OF_ITS_OWN and name not in globals()]
    globals().update({name: getattr(module, name) for name in names if not name.startswith("__")})

FLIPS = [each for each in test_damage.FLIPS if each.id != "checksum"]


@pytest.mark.parametrize("flip", FLIPS)
@pytest.mark.parametrize(("table", "column"), test_damage.SECTIONS)
def test_a_damaged_sealed_checkpoint_is_named_and_the_others_load(damaged, table, column, flip):
    test_damage.test_a_damaged_checkpoint_is_named_and_the_others_load(damaged, table, column, flip)


@pytest.mark.parametrize("flip", [each for each in FLIPS if each.id != "emptied"])
def test_a_damaged_sealed_message_is_named_and_the_others_are_there(damaged, flip):
    test_damage.test_a_damaged_message_is_named_and_the_others_are_there(damaged, flip)


def test_a_dry_run_names_the_same_checkpoints_and_counts_what_they_hold(store, clock):
    checkpointer = store.open(clock=clock)
    test_retention.fill(checkpointer, "t", 25, 1200)
    before = test_retention.sizes(checkpointer)["t"]
    policy = clew.RetentionPolicy(max_history=5)
    dry = checkpointer.cleanup(policy, dry_run=True)
    real = checkpointer.cleanup(policy)
    assert (
        (dry.threads, dry.checkpoints, dry.values)
        == (real.threads, real.checkpoints, real.values)
        == (1, 20, dry.values)
    )
    assert dry.bytes < real.bytes == before - test_retention.sizes(checkpointer)["t"]
