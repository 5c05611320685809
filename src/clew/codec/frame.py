"""Frames: how bytes say what they are. Format version, codec, checksum, content.

    C1  version<<4 | codec  crc32 (4 bytes, little-endian)  content

0xC1 is the one byte that msgpack never starts with. The checksum covers the second byte and the content.
The content of a sealed frame is encrypted, and says with which key: `clew.codec.sealing`.
"""

from __future__ import annotations

import sys
import threading
import zlib
from struct import Struct
from typing import Final

from clew.errors import CorruptRecordError, EncryptionError, SchemaVersionError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAGIC = 0xC1
VERSION = 1
RAW, ZSTD, SEALED = 0, 1, 2
COMPRESS_FROM = 384
"""Shorter content is not worth compressing."""

_HEADER = Struct("<BBI")
_RAW_KIND = VERSION << 4 | RAW
_ZSTD_KIND = VERSION << 4 | ZSTD
_RAW_CRC, _ZSTD_CRC = zlib.crc32(bytes([_RAW_KIND])), zlib.crc32(bytes([_ZSTD_KIND]))
_SEALED_KIND = VERSION << 4 | SEALED
_SEALED_CRC = zlib.crc32(bytes([_SEALED_KIND]))
_SEALED_START = bytes([MAGIC, _SEALED_KIND])
_local = threading.local()


def seal(content: bytes, *, level: int = 1, compress_from: int = COMPRESS_FROM) -> bytes:
    """`content` in a frame, compressed where that makes it smaller."""
    if len(content) >= compress_from:
        packed = _compressor(level).compress(content, zstd.ZstdCompressor.FLUSH_FRAME)
        if len(packed) < len(content):
            return _HEADER.pack(MAGIC, _ZSTD_KIND, zlib.crc32(packed, _ZSTD_CRC)) + packed
    return _HEADER.pack(MAGIC, _RAW_KIND, zlib.crc32(content, _RAW_CRC)) + content


def unseal(frame: bytes) -> bytes:
    """The content of a frame. Raises CorruptRecordError if it is damaged, SchemaVersionError if it is newer."""
    if len(frame) < _HEADER.size or frame[0] != MAGIC:
        raise CorruptRecordError("a stored record is not a Clew frame")
    _, kind, checksum = _HEADER.unpack_from(frame)
    content = memoryview(frame)[_HEADER.size :]
    if kind == _RAW_KIND:
        if zlib.crc32(content, _RAW_CRC) == checksum:
            return bytes(content)
    elif kind == _ZSTD_KIND:
        if zlib.crc32(content, _ZSTD_CRC) == checksum:
            try:
                return zstd.decompress(content)
            except zstd.ZstdError as error:
                raise CorruptRecordError(f"a stored record can't be decompressed: {error}") from error
    elif kind == _SEALED_KIND and zlib.crc32(content, _SEALED_CRC) == checksum:
        raise _sealed(frame)
    elif kind >> 4 > VERSION and zlib.crc32(content, zlib.crc32(frame[1:2])) == checksum:
        # Whole, so it is not a damaged byte that looks like a version. The header stays the same in all versions.
        raise SchemaVersionError(
            f"a stored record has format {kind >> 4}; this Clew reads up to {VERSION}: upgrade clew"
        )
    raise CorruptRecordError("a stored record's checksum does not match: it was damaged after it was written")


def sealed_frame(content: bytes) -> bytes:
    """What is encrypted, in a frame that says so."""
    return _HEADER.pack(MAGIC, _SEALED_KIND, zlib.crc32(content, _SEALED_CRC)) + content


def is_sealed(frame: bytes) -> bool:
    """Whether `frame` says that its content is encrypted."""
    return frame.startswith(_SEALED_START)


def sealed_content(frame: bytes) -> memoryview:
    return memoryview(frame)[_HEADER.size :]


BROKEN: Final = sealed_frame(b"")
"""Stands in the place of a sealed frame that can't be opened though its key is there."""


def _sealed(frame: bytes) -> CorruptRecordError | EncryptionError:
    if frame == BROKEN:
        return CorruptRecordError(
            "a stored record is not what was sealed there: it was changed, or belongs somewhere else"
        )
    return EncryptionError(
        "the store is encrypted: open it with encryption=clew.Encryption(keys=…), or with its keys in "
        "CLEW_ENCRYPTION_KEYS"
    )


def intact(frame: bytes) -> bool:
    """Whether `frame` is as it was written, of whatever version."""
    if len(frame) < _HEADER.size or frame[0] != MAGIC:
        return False
    content = memoryview(frame)[_HEADER.size :]
    checksum: int = _HEADER.unpack_from(frame)[2]
    return zlib.crc32(content, zlib.crc32(frame[1:2])) == checksum


def _compressor(level: int) -> zstd.ZstdCompressor:
    # Making one costs as much as compressing a kilobyte, and one is not for several threads at once.
    compressors: dict[int, zstd.ZstdCompressor] | None = getattr(_local, "compressors", None)
    if compressors is None:
        compressors = _local.compressors = {}
    compressor = compressors.get(level)
    if compressor is None:
        compressor = compressors[level] = zstd.ZstdCompressor(level=level)
    return compressor
