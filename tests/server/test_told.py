"""Records in answers: every value of the application is marked with its type."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from msgspec.json import encode

import clew
from clew.model.dict_record import DictRecord
from clew.server.interchange import to_json
from clew.server.response_types import told

ODD: dict[Any, Any] = {"pair": (1, 2), 3: b"x", "large": 1 << 60}
RECORDS = [clew.ThreadInfo, clew.CheckpointInfo, clew.Checkpoint, clew.Message, clew.Event, clew.SearchHit]


@pytest.mark.parametrize("record", RECORDS)
def test_each_field_that_may_hold_anything_is_converted(record: type[DictRecord]):
    known = record._given | set(record._nested)
    unknown = [
        each.name
        for each in dataclasses.fields(record)  # type: ignore[arg-type]
        if any(kind in str(each.type) for kind in ("Any", "Mapping", "StateT")) and each.name not in known
    ]
    assert unknown == []


def test_values_of_all_types_are_marked_in_every_record():
    config = {"thread_id": "t", "user_id": "ana"}
    said: dict[str, Any] = {"role": "user", "content": [ODD], "metadata": ODD, "tool_calls": [ODD], "message_id": "m"}
    with clew.connect("memory://") as memory:
        memory.put_checkpoint(config, ODD, messages=[said], metadata=ODD, step=1 << 60)
        memory.put_thread(config, {"metadata": ODD})
        thread, checkpoint = memory.get_thread(config), memory.get_checkpoint(config)
        message = memory.list_messages(config)[0]
        assert thread is not None
        assert checkpoint is not None
    for each in (thread, checkpoint, message):
        assert json.loads(encode(told(each))) == json.loads(json.dumps(to_json(each.to_dict())))
    marked = to_json(ODD)
    shown: Any = told(checkpoint)
    assert shown["state"] == marked
    assert shown["metadata"]["metadata"] == marked
    assert shown["metadata"]["step"] == to_json(1 << 60)
