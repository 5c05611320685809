"""Quick constructors make the same records as the dataclasses' own."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, fields

import pytest

from clew import Checkpoint, CheckpointInfo, CheckpointMetadata, Message
from clew.clock import SYSTEM_CLOCK
from clew.model.checkpoint import quick_checkpoint, quick_info, quick_metadata
from clew.model.message import quick_message

NOW = SYSTEM_CLOCK.now()
METADATA = CheckpointMetadata(
    checkpoint_id="c", thread_id="t", created_at=NOW, updated_at=NOW, step=3, metadata={"a": 1}, sequence=7
)
INFO = CheckpointInfo(checkpoint_id="c", thread_id="t", created_at=NOW, updated_at=NOW, user_id="ana", size=9)


@pytest.mark.parametrize(
    ("make", "record"),
    [
        (quick_metadata, METADATA),
        (quick_info, INFO),
        (quick_checkpoint, Checkpoint(metadata=METADATA, state={"n": 1}, version="v")),
        (quick_message, Message(role="user", content="hello", metadata={"lang": "en"})),
    ],
)
def test_a_record_made_quickly_is_the_same_record(make, record):
    content = {field.name: getattr(record, field.name) for field in fields(record)}
    made = make(**content)
    assert type(made) is type(record)
    assert made == record
    assert repr(made) == repr(record)
    assert pickle.loads(pickle.dumps(made)) == record
    assert type(record).from_dict(made.to_dict()).to_dict() == record.to_dict()
    with pytest.raises(FrozenInstanceError):
        setattr(made, fields(record)[0].name, "changed")
