"""The names of keys. Different ids never share one, and all that belongs to a thread hashes to the thread's slot."""

from __future__ import annotations

import re
from binascii import crc_hqx

from clew.errors import ConfigError
from clew.model.config import ANY_USER, User

SLOTS = 16_384
BUCKETS = 16
"""How many indexes the list of all threads is spread over, so that it does not lie on one server of a cluster."""

_THREAD, _INDEX, _JOURNAL = b"}:t", b"}:threads", b"}:journal"
_SPECIAL = re.compile(rb"[%{}]")


def escaped(name: str) -> bytes:
    """`name` without braces, which would end the hash tag; never empty, because Redis hashes a key with an empty tag whole."""
    text = name.encode("utf-8", "surrogatepass")
    if not text:
        return b"%"
    if b"{" in text or b"}" in text or b"%" in text:
        return _SPECIAL.sub(lambda found: b"%%%02X" % found[0][0], text)
    return text


def slot_of(key: bytes) -> int:
    """The slot that Redis Cluster keeps `key` in."""
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key, 0) % SLOTS


class Keys:
    """The keys under one prefix."""

    def __init__(self, prefix: str) -> None:
        if not isinstance(prefix, str) or not prefix or "{" in prefix or "}" in prefix:
            raise ConfigError(
                f"prefix must be text without braces, which mark the part of a key to hash; got {prefix!r}"
            )
        self._prefix = prefix.encode()
        self._start = self._prefix + b":{"
        self.meta = self._start + b"meta}"
        self.token = self._start + b"token}"

    def thread(self, thread_id: str) -> bytes:
        """The key that a thread lies under."""
        return self._start + escaped(thread_id) + _THREAD

    def of_user(self, user: str | None) -> bytes:
        """The index of a user's threads, or of those that nobody owns."""
        tag = b"nobody" if user is None else b"user:" + escaped(user)
        return self._start + tag + _INDEX

    def bucket(self, thread_id: str) -> bytes:
        """The index of all threads that has this one."""
        return self._bucket(_number(thread_id), _INDEX)

    def journal(self, thread_id: str) -> bytes:
        """The index of threads with entries in the journal that this one enters."""
        return self._bucket(_number(thread_id), _JOURNAL)

    def journals(self) -> list[bytes]:
        """The indexes that together have all threads with entries in the journal."""
        return [self._bucket(number, _JOURNAL) for number in range(BUCKETS)]

    def _bucket(self, number: int, kind: bytes) -> bytes:
        return b"%sall:%02d%s" % (self._start, number, kind)

    def indexes(self, user: User) -> list[bytes]:
        """The indexes that together have all threads of `user`."""
        return [self._bucket(number, _INDEX) for number in range(BUCKETS)] if user is ANY_USER else [self.of_user(user)]

    @property
    def pattern(self) -> bytes:
        """What the keys of threads and indexes look like, for SCAN."""
        return re.sub(rb"([\\*?\[\]^])", rb"\\\1", self._start) + b"*"

    def thread_of(self, key: bytes) -> str | None:
        """The thread that lies under `key`, if it is one."""
        return _plain(key[len(self._start) : -len(_THREAD)]) if key.endswith(_THREAD) else None

    def is_index(self, key: bytes) -> bool:
        return key.endswith(_INDEX)

    def user_of(self, index: bytes) -> User:
        """Whose threads an index has."""
        tag = index[len(self._start) : -len(_INDEX)]
        if tag.startswith(b"user:"):
            return _plain(tag[len(b"user:") :])
        return None if tag == b"nobody" else ANY_USER


def _number(thread_id: str) -> int:
    return crc_hqx(thread_id.encode("utf-8", "surrogatepass"), 0) % BUCKETS


def _plain(escaped: bytes) -> str:
    if escaped == b"%":
        return ""
    text = re.sub(rb"%([0-9A-F]{2})", lambda found: bytes([int(found[1], 16)]), escaped)
    return text.decode("utf-8", "surrogatepass")
