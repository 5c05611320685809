"""Sealed frames: old ones stay readable, and changed ones are refused."""

from __future__ import annotations

import pytest

from clew.codec.frame import BROKEN, intact, seal, sealed_content, sealed_frame, unseal
from clew.codec.keyring import Keyring
from clew.errors import CorruptRecordError, EncryptionError
from clew.model.encryption import Encryption

RING = Keyring(Encryption(keys={"2026": bytes(range(32))}))
OTHER = Keyring(Encryption(keys={"2027": bytes(32), "2026": bytes(range(32))}))
GOLDEN = bytes.fromhex(
    "c112a92cb218043230323609fbe34c531263207c86321a6dd31971162e2551ae193755ff315c71f9"
    "b07f3dda979b56e13e42d0c5a0231790b1c0fa496d"
)
"""A sealed frame of version 1 about b"golden", and a digest. They never change."""


def test_what_is_sealed_is_an_intact_frame_and_opens_again():
    for content in (b"", b"x", bytes(range(256)) * 1000):
        sealed = RING.seal(content, b"about")
        assert intact(sealed)
        assert len(sealed) == len(content) + 6 + 1 + 4 + 4 + 12 + 16
        assert RING.open(sealed, b"about") == content == OTHER.open(sealed, b"about")
        assert RING.open(sealed, b"something else") is None
        assert RING.seal(content, b"about") != sealed


def test_what_was_sealed_by_the_first_version_is_read():
    assert RING.open(GOLDEN, b"golden") == b"the golden content"
    assert RING.hide(bytes(range(16))).hex() == "e9e68df3eac9f351538487da17710e26"


def test_every_changed_byte_is_noticed():
    sealed = RING.seal(b"content", b"about")
    content = bytes(sealed_content(sealed))
    for at in range(9, len(content)):
        assert RING.open(sealed_frame(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]), b"about") is None
    for length in range(len(sealed)):
        assert RING.open(sealed[:length], b"about") is None


def test_a_damaged_key_id_is_damage_but_a_different_key_is_not():
    sealed = RING.seal(b"content", b"about")
    assert RING.open(sealed[:8] + b"X" + sealed[9:], b"about") is None
    with pytest.raises(EncryptionError, match="'2027'"):
        RING.open(OTHER.seal(b"content", b"about"), b"about")
    with pytest.raises(EncryptionError, match="is not the key that"):
        Keyring(Encryption(keys={"2026": bytes(32)})).open(sealed, b"about")


def test_a_sealed_frame_without_its_key_is_not_reported_as_damage():
    sealed = RING.seal(b"content", b"about")
    with pytest.raises(EncryptionError, match="CLEW_ENCRYPTION_KEYS"):
        unseal(sealed)
    with pytest.raises(CorruptRecordError, match="checksum"):
        unseal(sealed[:-1])
    with pytest.raises(CorruptRecordError, match="fails authentication"):
        unseal(BROKEN)


def test_digests_are_encrypted_one_by_one_and_zero_digests_stay_zero():
    digests = bytes(range(16)) + bytes(16) + bytes(range(16, 32)) + bytes(range(16))
    hidden = RING.hide(digests)
    assert hidden[16:32] == bytes(16)
    assert hidden[:16] == hidden[48:] != digests[:16]
    sealed = RING.seal(b"data", b"about")
    assert RING.reveal(hidden, sealed) == RING.reveal(hidden, b"") == OTHER.reveal(hidden, sealed) == digests
    assert OTHER.reveal(hidden, b"") != digests
    assert RING.hide(b"") == RING.reveal(b"", b"") == b""


def test_plain_records_are_refused_or_read_as_they_are():
    plain = seal(b"content")
    with pytest.raises(EncryptionError, match="areseal"):
        RING.is_plain(plain)
    reading = Keyring(Encryption(keys={"2026": bytes(range(32))}, plain="read"))
    assert reading.is_plain(plain)
    assert reading.reveal(bytes(range(16)), plain) == bytes(range(16))
    assert not reading.is_plain(RING.seal(b"content", b"about"))
    assert not RING.is_plain(b"of no codec")


def test_records_that_are_not_sealed_with_the_current_key_are_recognised():
    assert RING.is_current(RING.seal(b"", b""))
    assert not OTHER.is_current(RING.seal(b"", b""))
    assert not RING.is_current(seal(b"plain"))
