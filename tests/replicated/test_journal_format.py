"""Journal format: an entry has all that another store needs. Damage and other versions are
refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.errors import CorruptRecordError
from clew.model.commit import (
    HEAD,
    After,
    BackTo,
    Begin,
    Commit,
    ForkSource,
    NewCheckpoint,
    Removal,
    ThreadFields,
)
from clew.model.config import ANY_USER
from clew.model.records import AttachmentRecord, Basis, JournalEntry, MessageRecord, ValueRow
from clew.storage.replicated.journal_format import Origin, origin, pack, unpack
from clew.testing.build import NOON, checkpoint, commit, fork_of, later, message, row
from clew.testing.contract.base import full_commit

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
optional = st.none() | names
texts = st.text(max_size=8)
"""Texts for search may have lone surrogates."""
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
labels = st.lists(st.binary(min_size=16, max_size=16), max_size=2).map(tuple)
described = st.none() | st.builds(ThreadFields, text=texts, data=data, run_id=optional, user_id=optional, labels=labels)
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
            created_at=st.none() | times,
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
                input_tokens=numbers,
                output_tokens=numbers,
            )
        ),
        thread=described,
        back_to=st.none() | st.builds(BackTo, message_id=optional, parent=st.booleans()),
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


def test_what_concerns_only_the_first_store_is_left_out():
    plain = full_commit(remove=Removal(values=((0, 1),)))
    own = replace(plain, fence=7, after=After("x"), journal=b"j", remove=Removal(values=((0, 1),), as_of=9))
    assert unpack(entry(own)) == plain


def checked(packed: bytes, version: int = 5) -> bytes:
    """Return `packed` with the header of an entry."""
    return bytes([version]) + crc32(packed).to_bytes(4) + packed


@pytest.mark.parametrize(
    "packed",
    [b"\x05", b"\x05\0\0\0", checked(b""), checked(b"\xc1"), checked(b"\x80"), pack(commit(commit_id="id"))[:-1]],
)
def test_damaged_bytes_are_reported_with_their_thread(packed):
    for read in (unpack, origin):
        if read is origin and packed == checked(b"\x80"):
            continue  # An entry without term and commit has the default origin.
        with pytest.raises(CorruptRecordError, match="journal entry of thread 't' is damaged"):
            read(entry(commit(), packed))


@pytest.mark.parametrize("version", [0, 1, 7, 255])
def test_an_entry_of_another_version_is_refused(version):
    packed = checked(pack(commit())[5:], version)
    for read in (unpack, origin):
        with pytest.raises(CorruptRecordError, match=f"format version {version:02x}; .* reads versions up to 06"):
            read(entry(commit(), packed))


def test_every_flipped_bit_is_noticed():
    packed = pack(full_commit())
    for bit in range(0, 8 * len(packed), 7):
        flipped = bytearray(packed)
        flipped[bit // 8] ^= 1 << bit % 8
        if flipped[0] in (2, 3, 4, 5):
            continue  # Older versions have the same fields but a few, which this commit has not.
        with pytest.raises(CorruptRecordError):
            unpack(entry(commit(), bytes(flipped)))


@pytest.mark.parametrize("texts", [[b"one"], [b"one", b"two", b"three"]])
def test_an_entry_with_too_few_or_too_many_texts_is_damaged(texts):
    made = commit(messages=[message("m")], thread=DESCRIBED)
    found = msgspec.msgpack.decode(pack(made)[5:])
    with pytest.raises(CorruptRecordError, match="damaged"):
        unpack(entry(made, checked(msgspec.msgpack.encode(found | {"texts": texts}))))


DESCRIBED = ThreadFields(text="name", data=b"f", run_id="r", user_id="ann")
KINDS: dict[str, dict[str, Any]] = {
    "write": {
        "basis": Basis(incarnation="i", epoch=1, next_value=2),
        "remove": Removal(messages=("gone",)),
        "values": row(2),
        "checkpoint": checkpoint("c1", covers=[(0, 3)]),
        "attachments": [AttachmentRecord(namespace="", checkpoint_id="c1", key="k", data=b"a")],
        "messages": [message("m", "text", data=b"d")],
        "thread": DESCRIBED,
    },
    "surrogates": {"messages": [message("m", "\ud800 text", data=b"d"), message("n", "text")], "thread": DESCRIBED},
    "fork": {"fork": fork_of("other", "c"), "thread": DESCRIBED},
    "merge": {"remove": Removal(values=((0, 1),)), "merge": [row(0, 2)]},
    "branch": {"messages": [message("m", "text", data=b"d")], "back_to": BackTo("n")},
}


OLDER = {
    "write": (
        "02c9f339d281a6636f6d6d6974de000ca9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0a5626173697393a1690102a672656d6f766581a86d6573736167657391a4676f6e65a676616c756573"
        "940201c4104129e2a8044a57ce7635fd6023661cd6c408312076616c756573aa636865636b706f696e749ba26331a001"
        "a66272616e6368a46e6f646501c00bc4086d65746164617461c40a626f6479206f6620633191920003ab617474616368"
        "6d656e74739195a0a26331a16bc40161a0a86d657373616765739198a16da47465787400c0d6ff697deec0c4016400a0"
        "a674687265616494a46e616d65c40166a172a3616e6ea5626567696e92a36e657703"
    ),
    "surrogates": (
        "029697042282a6636f6d6d6974de0007a9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0a86d657373616765739298a16da000c0d6ff697deec0c4016400a098a16ea000c0d6ff697deec0c404"
        "7465787400a0a674687265616494a0c40166a172a3616e6ea5626567696e92a36e657703a5746578747393c408eda080"
        "2074657874c40474657874c4046e616d65"
    ),
    "fork": (
        "027eda799781a6636f6d6d6974de0007a9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0a4666f726b94a56f74686572a0a163a4636f7079a674687265616494a46e616d65c40166a172a3616e"
        "6ea5626567696e92a36e657703"
    ),
    "merge": (
        "02539e10fc81a6636f6d6d6974de0007a9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0a672656d6f766581a676616c75657391920001a56d6572676591940002c4201240a4684403b160e659"
        "7a653a88f56ccea3878a334b240469d159ff840b6434c408322076616c756573a5626567696e92a36e657703"
    ),
    "branch": (
        "03461d9cd881a6636f6d6d6974de0007a9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0a86d657373616765739198a16da47465787400c0d6ff697deec0c4016400a0a76261636b5f746f92a1"
        "6ec2a5626567696e92a36e657703"
    ),
}
LABELLED: dict[str, dict[str, Any]] = {
    **KINDS,
    "labels": {
        "messages": [message("m", "text", data=b"d", tokens=(300, 5))],
        "thread": replace(DESCRIBED, labels=(bytes(range(16)),)),
    },
}
TIMED: dict[str, dict[str, Any]] = {**LABELLED, "copy": {"checkpoint": checkpoint("c1", created_at=later(-1.5))}}


@pytest.mark.parametrize("kind", OLDER)
def test_entries_of_older_versions_are_read(kind):
    packed = bytes.fromhex(OLDER[kind])
    assert packed[0] in (2, 3)
    made = commit(commit_id="id", user=ANY_USER, begin=Begin(incarnation="new", epoch=3), **KINDS[kind])
    assert unpack(entry(made, packed)) == made
    assert origin(entry(made, packed)) == Origin(term=0, lone=False)


@pytest.mark.parametrize("kind", LABELLED)
def test_entries_of_version_4_are_read(kind):
    packed = bytes.fromhex(VERSION_4[kind])
    assert packed[0] == 4
    made = commit(commit_id="id", user=ANY_USER, begin=Begin(incarnation="new", epoch=3), **LABELLED[kind])
    assert unpack(entry(made, packed)) == made


@pytest.mark.parametrize("kind", TIMED)
def test_entries_of_version_5_are_read(kind):
    # Version 6 added a field that is left out by default.
    packed = b"\x05" + bytes.fromhex(GOLDEN[kind])[1:]
    made = commit(commit_id="id", user=ANY_USER, begin=Begin(incarnation="new", epoch=3), **TIMED[kind])
    assert unpack(entry(made, packed)) == made


def test_an_entry_says_whether_its_messages_move():
    made = commit(messages=[message("m")], move_messages=True)
    assert unpack(entry(made, pack(made))).move_messages


@pytest.mark.parametrize("kind", TIMED)
def test_the_format_is_what_it_was(kind):
    """A change here needs a new version number."""
    packed = bytes.fromhex(GOLDEN[kind])
    made = commit(commit_id="id", user=ANY_USER, begin=Begin(incarnation="new", epoch=3), **TIMED[kind])
    assert made.at == NOON
    assert unpack(entry(made, packed)) == made
    assert pack(made) == packed
    assert origin(entry(made, packed)) == Origin(term=0, lone=False)


def test_an_entry_has_its_term_and_whether_its_store_may_have_acknowledged_it_alone():
    made = commit(commit_id="id", messages=[message("m")])
    noted = entry(made, pack(made, term=7, lone=True))
    assert origin(noted) == Origin(term=7, lone=True)
    assert unpack(noted) == made


def test_an_entry_that_no_commit_can_be_is_damaged():
    fork = msgspec.msgpack.decode(pack(commit(fork=fork_of("other", "c")))[5:])
    fork["commit"]["merge"] = msgspec.msgpack.decode(pack(commit(merge=[row(0, 2)]))[5:])["commit"]["merge"]
    with pytest.raises(CorruptRecordError, match="a fork can't be committed together with"):
        unpack(entry(commit(), checked(msgspec.msgpack.encode(fork))))


VERSION_4 = {
    "write": (
        "04388abed381a6636f6d6d6974de000ca9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0a5626173697393a1690102a672656d6f766581a86d6573736167657391a4676f6e65a676616c756573"
        "940201c4104129e2a8044a57ce7635fd6023661cd6c408312076616c756573aa636865636b706f696e749ba26331a001"
        "a66272616e6368a46e6f646501c00bc4086d65746164617461c40a626f6479206f6620633191920003ab617474616368"
        "6d656e74739195a0a26331a16bc40161a0a86d65737361676573919aa16da47465787400c0d6ff697deec0c4016400a0"
        "0000a674687265616495a46e616d65c40166a172a3616e6e90a5626567696e92a36e657703"
    ),
    "surrogates": (
        "04a5261efb82a6636f6d6d6974de0007a9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0a86d65737361676573929aa16da000c0d6ff697deec0c4016400a000009aa16ea000c0d6ff697deec0"
        "c4047465787400a00000a674687265616495a0c40166a172a3616e6e90a5626567696e92a36e657703a5746578747393"
        "c408eda0802074657874c40474657874c4046e616d65"
    ),
    "fork": (
        "040b85030081a6636f6d6d6974de0007a9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0a4666f726b94a56f74686572a0a163a4636f7079a674687265616495a46e616d65c40166a172a3616e"
        "6e90a5626567696e92a36e657703"
    ),
    "merge": (
        "04539e10fc81a6636f6d6d6974de0007a9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0a672656d6f766581a676616c75657391920001a56d6572676591940002c4201240a4684403b160e659"
        "7a653a88f56ccea3878a334b240469d159ff840b6434c408322076616c756573a5626567696e92a36e657703"
    ),
    "branch": (
        "0424f5fc3881a6636f6d6d6974de0007a9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0a86d65737361676573919aa16da47465787400c0d6ff697deec0c4016400a00000a76261636b5f746f"
        "92a16ec2a5626567696e92a36e657703"
    ),
    "labels": (
        "048b44946c81a6636f6d6d6974de0007a9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0a86d65737361676573919aa16da47465787400c0d6ff697deec0c4016400a0cd012c05a67468726561"
        "6495a46e616d65c40166a172a3616e6e91c410000102030405060708090a0b0c0d0e0fa5626567696e92a36e657703"
    ),
}

GOLDEN = {
    "write": (
        "06c070d42e81a6636f6d6d6974de000ca9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0a5626173697393a1690102a672656d6f766581a86d6573736167657391a4676f6e65a676616c756573"
        "940201c4104129e2a8044a57ce7635fd6023661cd6c408312076616c756573aa636865636b706f696e749ca26331a001"
        "a66272616e6368a46e6f646501c00bc4086d65746164617461c40a626f6479206f6620633191920003c0ab6174746163"
        "686d656e74739195a0a26331a16bc40161a0a86d65737361676573919aa16da47465787400c0d6ff697deec0c4016400"
        "a00000a674687265616495a46e616d65c40166a172a3616e6e90a5626567696e92a36e657703"
    ),
    "surrogates": (
        "06a5261efb82a6636f6d6d6974de0007a9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0a86d65737361676573929aa16da000c0d6ff697deec0c4016400a000009aa16ea000c0d6ff697deec0"
        "c4047465787400a00000a674687265616495a0c40166a172a3616e6e90a5626567696e92a36e657703a5746578747393"
        "c408eda0802074657874c40474657874c4046e616d65"
    ),
    "fork": (
        "060b85030081a6636f6d6d6974de0007a9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0a4666f726b94a56f74686572a0a163a4636f7079a674687265616495a46e616d65c40166a172a3616e"
        "6e90a5626567696e92a36e657703"
    ),
    "merge": (
        "06539e10fc81a6636f6d6d6974de0007a9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0a672656d6f766581a676616c75657391920001a56d6572676591940002c4201240a4684403b160e659"
        "7a653a88f56ccea3878a334b240469d159ff840b6434c408322076616c756573a5626567696e92a36e657703"
    ),
    "branch": (
        "0624f5fc3881a6636f6d6d6974de0007a9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0a86d65737361676573919aa16da47465787400c0d6ff697deec0c4016400a00000a76261636b5f746f"
        "92a16ec2a5626567696e92a36e657703"
    ),
    "labels": (
        "068b44946c81a6636f6d6d6974de0007a9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0a86d65737361676573919aa16da47465787400c0d6ff697deec0c4016400a0cd012c05a67468726561"
        "6495a46e616d65c40166a172a3616e6e91c410000102030405060708090a0b0c0d0e0fa5626567696e92a36e657703"
    ),
    "copy": (
        "068e46e4a381a6636f6d6d6974de0006a9636f6d6d69745f6964a26964a97468726561645f6964a0a47573657201a261"
        "74d6ff697deec0aa636865636b706f696e749ca26331a001a66272616e6368a46e6f646501c00bc4086d657461646174"
        "61c40a626f6479206f6620633190d7ff77359400697deebea5626567696e92a36e657703"
    ),
}
