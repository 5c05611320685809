"""Names of keys. Different ids never share a key, and a thread's keys hash to one slot."""

from __future__ import annotations

import re
from binascii import crc_hqx

from clew.errors import ConfigError
from clew.model.config import ANY_USER, User
from clew.storage.protocol import Own

SLOTS = 16_384
BUCKETS = 16
"""Number of indexes that the list of all threads is split into, to spread it over a cluster."""

_THREAD, _INDEX, _JOURNAL = b"}:t", b"}:threads", b"}:journal"
_SPECIAL = re.compile(rb"[%{}]")


def escaped(name: str) -> bytes:
    """Return `name` without braces, which end the hash tag. Never empty: a tag can't be."""
    text = name.encode("utf-8", "surrogatepass")
    if not text:
        return b"%"
    if b"{" in text or b"}" in text or b"%" in text:
        return _SPECIAL.sub(lambda found: b"%%%02X" % found[0][0], text)
    return text


def slot_of(key: bytes) -> int:
    """Return the cluster slot of `key`."""
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
                f"prefix must be text without braces, which delimit the part of a key that Redis hashes; got {prefix!r}"
            )
        self._prefix = prefix.encode()
        self._start = self._prefix + b":{"
        self.meta = self._start + b"meta}"
        self.token = self._start + b"token}"
        self.feed = self._start + b"feed}"

    def own(self, name: Own) -> bytes:
        """Return the key of one of Clew's own records. Only these keys end with the brace."""
        return self._start + b"own:" + name.value.encode() + b"}"

    def thread(self, thread_id: str) -> bytes:
        """Return a thread's key."""
        return self._start + escaped(thread_id) + _THREAD

    def of_user(self, user: str | None) -> bytes:
        """Return the index of a user's threads; of unowned threads for None."""
        tag = b"nobody" if user is None else b"user:" + escaped(user)
        return self._start + tag + _INDEX

    def bucket(self, thread_id: str) -> bytes:
        """Return the part of the index of all threads that lists this one."""
        return self._bucket(_number(thread_id), _INDEX)

    def journal(self, thread_id: str) -> bytes:
        """Return the part of the journal's index that lists this thread."""
        return self._bucket(_number(thread_id), _JOURNAL)

    def journals(self) -> list[bytes]:
        """Return all parts of the journal's index."""
        return [self._bucket(number, _JOURNAL) for number in range(BUCKETS)]

    def _bucket(self, number: int, kind: bytes) -> bytes:
        return b"%sall:%02d%s" % (self._start, number, kind)

    def indexes(self, user: User) -> list[bytes]:
        """Return the indexes that together list all threads of `user`."""
        return [self._bucket(number, _INDEX) for number in range(BUCKETS)] if user is ANY_USER else [self.of_user(user)]

    @property
    def pattern(self) -> bytes:
        """The SCAN pattern for the keys of threads and indexes."""
        return re.sub(rb"([\\*?\[\]^])", rb"\\\1", self._start) + b"*"

    def thread_of(self, key: bytes) -> str | None:
        """Return the id of the thread under `key`; None if it is not a thread's key."""
        return _plain(key[len(self._start) : -len(_THREAD)]) if key.endswith(_THREAD) else None

    def is_index(self, key: bytes) -> bool:
        return key.endswith(_INDEX)

    def user_of(self, index: bytes) -> User:
        """Return the user whose threads an index lists."""
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
