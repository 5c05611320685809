"""What the journal holds of a commit is all that another store needs, and can be read for good."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.errors import CorruptRecordError
from clew.model.commit import (
    HEAD,
    After,
    Begin,
    Commit,
    ForkSource,
    NewCheckpoint,
    Removal,
    ThreadFields,
)
from clew.model.config import ANY_USER
from clew.model.records import AttachmentRecord, Basis, JournalEntry, MessageRecord, ValueRow
from clew.storage.replicated.packing import Circumstances, circumstances, pack, unpack
from clew.testing.build import NOON, checkpoint, commit, fork_of, message, row
from clew.testing.contract.base import full_commit

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
optional = st.none() | names
texts = st.text(max_size=8)
"""What is searched may hold lone surrogates."""
data = st.binary(max_size=20)
numbers = st.integers(0, 1 << 40)
ranges = st.lists(st.tuples(numbers, numbers), max_size=3).map(tuple)
times = st.datetimes(
    min_value=datetime(2, 1, 1),  # noqa: DTZ001
    max_value=datetime(9998, 1, 1),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45))]),
)
users = st.sampled_from([None, ANY_USER]) | names


def many(one: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(one, max_size=3).map(tuple)


rows = st.builds(ValueRow, first=numbers, count=numbers, digests=data, data=data)
common: dict[str, Any] = {
    "commit_id": names,
    "thread_id": st.just("t"),
    "user": users,
    "at": times,
    "begin": st.none() | st.builds(Begin, incarnation=names, epoch=numbers),
}
removals = st.none() | st.builds(
    Removal,
    thread=st.booleans(),
    state=st.booleans(),
    checkpoints=many(st.tuples(names, names)),
    messages=many(names),
    values=ranges,
)
bases = st.none() | st.builds(Basis, incarnation=names, epoch=numbers, next_value=numbers)
forks = st.builds(ForkSource, thread_id=names, namespace=names, checkpoint_id=optional, as_checkpoint_id=names)
described = st.none() | st.builds(ThreadFields, text=texts, data=data, run_id=optional, user_id=optional)
commits: st.SearchStrategy[Commit] = st.one_of(
    st.builds(Commit, **common, fork=forks, thread=described),
    st.builds(Commit, **common, basis=bases, remove=removals, merge=many(rows)),
    st.builds(
        Commit,
        **common,
        basis=bases,
        remove=removals,
        values=st.none() | rows,
        checkpoint=st.none()
        | st.builds(
            NewCheckpoint,
            checkpoint_id=names,
            namespace=names,
            parent=st.just(HEAD) | optional,
            on_conflict=st.sampled_from(["branch", "reject"]),
            node_name=optional,
            step=st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
            run_id=optional,
            size=numbers,
            metadata=data,
            body=data,
            covers=ranges,
        ),
        attachments=many(st.builds(AttachmentRecord, namespace=names, checkpoint_id=names, key=names, data=data)),
        keep_attachments=st.booleans(),
        messages=many(
            st.builds(
                MessageRecord,
                message_id=names,
                text=texts,
                tool_calls=numbers,
                run_id=optional,
                created_at=times,
                data=data,
            )
        ),
        thread=described,
    ),
)


def entry(made: Commit, packed: bytes | None = None) -> JournalEntry:
    return JournalEntry(
        position=1,
        thread_id=made.thread_id,
        commit_id=made.commit_id,
        after=None,
        incarnation=None,
        at=made.at,
        data=pack(made) if packed is None else packed,
    )


@given(commits)
def test_a_commit_comes_back_as_it_was(made):
    assert unpack(entry(made)) == made


def test_what_concerns_the_first_store_alone_is_left_out():
    plain = full_commit(remove=Removal(values=((0, 1),)))
    own = replace(plain, fence=7, after=After("x"), journal=b"j", remove=Removal(values=((0, 1),), as_of=9))
    assert unpack(entry(own)) == plain


@pytest.mark.parametrize("packed", [b"\x02", b"\x01", b"\x01\xc1", b"\x01\x80", b"no commit at all"])
def test_damaged_bytes_are_named(packed):
    with pytest.raises(CorruptRecordError, match="'t'"):
        unpack(entry(commit(), packed))


DESCRIBED = ThreadFields(text="name", data=b"f", run_id="r", user_id="ann")
FIRST_VERSION: dict[str, dict[str, Any]] = {
    "write": {
        "basis": Basis(incarnation="i", epoch=1, next_value=2),
        "remove": Removal(messages=("gone",)),
        "values": row(2),
        "checkpoint": checkpoint("c1", covers=[(0, 3)]),
        "attachments": [AttachmentRecord(namespace="", checkpoint_id="c1", key="k", data=b"a")],
        "messages": [message("m", "\ud800 text", data=b"d")],
        "thread": DESCRIBED,
    },
    "fork": {"fork": fork_of("other", "c"), "thread": DESCRIBED},
    "merge": {"remove": Removal(values=((0, 1),)), "merge": [row(0, 2)]},
}


@pytest.mark.parametrize("kind", FIRST_VERSION)
def test_the_first_version_can_be_read_for_good(kind):
    packed = bytes.fromhex(GOLDEN[kind])
    made = commit(commit_id="id", user=ANY_USER, begin=Begin(incarnation="new", epoch=3), **FIRST_VERSION[kind])
    assert made.at == NOON
    assert unpack(entry(made, packed)) == made
    assert circumstances(entry(made, packed)) == Circumstances(term=0, lone=False)


def test_an_entry_tells_its_term_and_whether_its_store_may_have_acknowledged_it_alone():
    made = commit(commit_id="id", messages=[message("m")])
    noted = entry(made, pack(made, term=7, lone=True))
    assert circumstances(noted) == Circumstances(term=7, lone=True)
    assert unpack(noted) == made
    with pytest.raises(CorruptRecordError, match="damaged"):
        circumstances(entry(made, b"\x01\xc1"))


def test_an_entry_that_no_commit_can_be_is_damaged():
    with pytest.raises(CorruptRecordError, match="a fork can't be committed together with"):
        unpack(entry(commit(), bytes.fromhex(IMPOSSIBLE)))


GOLDEN = {
    "write": (
        "018ba9636f6d6d69745f6964a26964a26174d6ff697deec0a8616e795f75736572c3a5626173697383ab696e6361726e"
        "6174696f6ea169a565706f636801aa6e6578745f76616c756502a672656d6f766586a6746872656164c2a57374617465"
        "c2ab636865636b706f696e747390a86d6573736167657391a4676f6e65a676616c75657390a561735f6f66c0a676616c"
        "756573940201c4104129e2a8044a57ce7635fd6023661cd6c408312076616c756573aa636865636b706f696e749ca263"
        "31a0c3c0a66272616e6368a46e6f646501c00bc4086d65746164617461c40a626f6479206f6620633191920003ab6174"
        "746163686d656e74739194a0a26331a16bc40161a86d657373616765739196a16dc408eda080207465787400c0d6ff69"
        "7deec0c40164a674687265616494c4046e616d65c40166a172a3616e6ea5626567696e82ab696e6361726e6174696f6e"
        "a36e6577a565706f636803"
    ),
    "fork": (
        "0186a9636f6d6d69745f6964a26964a26174d6ff697deec0a8616e795f75736572c3a4666f726b84a97468726561645f"
        "6964a56f74686572a96e616d657370616365a0ad636865636b706f696e745f6964a163b061735f636865636b706f696e"
        "745f6964a4636f7079a674687265616494c4046e616d65c40166a172a3616e6ea5626567696e82ab696e6361726e6174"
        "696f6ea36e6577a565706f636803"
    ),
    "merge": (
        "0186a9636f6d6d69745f6964a26964a26174d6ff697deec0a8616e795f75736572c3a672656d6f766586a67468726561"
        "64c2a57374617465c2ab636865636b706f696e747390a86d6573736167657390a676616c75657391920001a561735f6f"
        "66c0a56d6572676591940002c4201240a4684403b160e6597a653a88f56ccea3878a334b240469d159ff840b6434c408"
        "322076616c756573a5626567696e82ab696e6361726e6174696f6ea36e6577a565706f636803"
    ),
}
IMPOSSIBLE = (
    "018da9636f6d6d69745f6964a26964a26174d6ff697deec0a8616e795f75736572c3a5626173697383ab696e6361726e6174"
    "696f6ea169a565706f636801aa6e6578745f76616c756502a672656d6f766586a6746872656164c2a57374617465c2ab6368"
    "65636b706f696e747390a86d6573736167657391a4676f6e65a676616c75657390a561735f6f66c0a4666f726b84a9746872"
    "6561645f6964a56f74686572a96e616d657370616365a0ad636865636b706f696e745f6964a163b061735f636865636b706f"
    "696e745f6964a4636f7079a676616c756573940201c4104129e2a8044a57ce7635fd6023661cd6c408312076616c756573a5"
    "6d6572676591940002c4201240a4684403b160e6597a653a88f56ccea3878a334b240469d159ff840b6434c408322076616c"
    "756573aa636865636b706f696e749ca26331a0c3c0a66272616e6368a46e6f646501c00bc4086d65746164617461c40a626f"
    "6479206f6620633191920003ab6174746163686d656e74739194a0a26331a16bc40161a86d657373616765739196a16dc408"
    "eda080207465787400c0d6ff697deec0c40164a674687265616494c4046e616d65c40166a172a3616e6ea5626567696e82ab"
    "696e6361726e6174696f6ea36e6577a565706f636803"
)
