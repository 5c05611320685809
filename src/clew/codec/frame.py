"""Frames: self-describing bytes with a format version, codec and checksum.

    C1  version<<4 | codec  crc32 (4 bytes, little-endian)  content

No msgpack item starts with 0xC1. The checksum covers the second byte and the content. The content of
a sealed frame is encrypted, and names its key: see `clew.codec.keyring`.
"""

from __future__ import annotations

import sys
import threading
import zlib
from struct import Struct
from typing import Final

from clew.errors import CorruptRecordError, EncryptionError, SchemaVersionError
from clew.model.encryption import no_key

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAGIC = 0xC1
VERSION = 1
RAW, ZSTD, SEALED = 0, 1, 2
COMPRESS_FROM = 384
"""Shorter content is not compressed."""
MOST: Final = 512 << 20
"""Default limit of a frame's decompressed content, in bytes."""

_HEADER = Struct("<BBI")
_RAW_KIND = VERSION << 4 | RAW
_ZSTD_KIND = VERSION << 4 | ZSTD
_RAW_CRC, _ZSTD_CRC = zlib.crc32(bytes([_RAW_KIND])), zlib.crc32(bytes([_ZSTD_KIND]))
_SEALED_KIND = VERSION << 4 | SEALED
_SEALED_CRC = zlib.crc32(bytes([_SEALED_KIND]))
_SEALED_START = bytes([MAGIC, _SEALED_KIND])
_local = threading.local()


def seal(content: bytes, *, level: int = 1, compress_from: int = COMPRESS_FROM) -> bytes:
    """Return a frame with `content`, compressed if that makes it smaller."""
    if len(content) >= compress_from:
        packed = _compressor(level).compress(content, zstd.ZstdCompressor.FLUSH_FRAME)
        if len(packed) < len(content):
            return _HEADER.pack(MAGIC, _ZSTD_KIND, zlib.crc32(packed, _ZSTD_CRC)) + packed
    return _HEADER.pack(MAGIC, _RAW_KIND, zlib.crc32(content, _RAW_CRC)) + content


def unseal(frame: bytes, most: int = MOST) -> bytes:
    """Return the content of a frame.

    Raises CorruptRecordError if the frame is damaged or decompresses to more than `most` bytes, and
    SchemaVersionError if its format is newer than this Clew.
    """
    if len(frame) < _HEADER.size or frame[0] != MAGIC:
        raise CorruptRecordError("a stored record is not a Clew frame")
    _, kind, checksum = _HEADER.unpack_from(frame)
    content = memoryview(frame)[_HEADER.size :]
    if kind == _RAW_KIND:
        if zlib.crc32(content, _RAW_CRC) == checksum:
            return bytes(content)
    elif kind == _ZSTD_KIND:
        if zlib.crc32(content, _ZSTD_CRC) == checksum:
            return _decompressed(content, most)
    elif kind == _SEALED_KIND and zlib.crc32(content, _SEALED_CRC) == checksum:
        raise _sealed(frame)
    elif kind >> 4 > VERSION and zlib.crc32(content, zlib.crc32(frame[1:2])) == checksum:
        # The checksum matches, so the version is not a damaged byte. All
        # versions have the same header.
        raise SchemaVersionError(
            f"a stored record has format {kind >> 4}; this Clew reads up to {VERSION}: upgrade clew"
        )
    raise CorruptRecordError("a stored record's checksum does not match: it was damaged after it was written")


def _decompressed(content: memoryview, most: int) -> bytes:
    try:
        size = zstd.get_frame_info(content).decompressed_size
        if size is None or size > most:
            raise CorruptRecordError(
                f"a stored record decompresses to {'an unknown number of' if size is None else f'{size:,}'} bytes, more than "
                f"the limit of {most:,}; if that is expected, raise max_state_bytes"
            )
        # Bounded by the declared size: the decompressor itself notices a wrong size only at the end.
        decompressor = zstd.ZstdDecompressor()
        unpacked = decompressor.decompress(content, max(size, 1))
    except zstd.ZstdError as error:
        raise CorruptRecordError(f"a stored record can't be decompressed: {error}") from error
    if len(unpacked) != size or not decompressor.eof or decompressor.unused_data:
        raise CorruptRecordError("a stored record can't be decompressed: its length differs from the declared one")
    return unpacked


def content_size(frame: bytes) -> int:
    """Return the declared length of a frame's content."""
    if len(frame) > _HEADER.size and frame[1] == _ZSTD_KIND:
        try:
            return zstd.get_frame_info(memoryview(frame)[_HEADER.size :]).decompressed_size or 0
        except zstd.ZstdError:
            return 0
    return len(frame)


def sealed_frame(content: bytes) -> bytes:
    """Return a frame with encrypted `content`."""
    return _HEADER.pack(MAGIC, _SEALED_KIND, zlib.crc32(content, _SEALED_CRC)) + content


def is_sealed(frame: bytes) -> bool:
    """Return whether the content of `frame` is encrypted."""
    return frame.startswith(_SEALED_START)


def sealed_content(frame: bytes) -> memoryview:
    return memoryview(frame)[_HEADER.size :]


BROKEN: Final = sealed_frame(b"")
"""A placeholder for a sealed frame that can't be opened although its key is known."""


def refused_frame(why: str) -> bytes:
    """Return a placeholder for a frame that may not be read, or needs another key."""
    # Key ids are never empty, so no sealed frame begins like this.
    return sealed_frame(b"\0" + why.encode())


def _sealed(frame: bytes) -> CorruptRecordError | EncryptionError:
    if frame == BROKEN:
        return CorruptRecordError("a stored record fails authentication: it was changed, or belongs to another place")
    content = bytes(sealed_content(frame))
    return EncryptionError(content[1:].decode()) if content[0] == 0 else no_key()


def intact(frame: bytes) -> bool:
    """Return whether the checksum of `frame` matches, in any format version."""
    if len(frame) < _HEADER.size or frame[0] != MAGIC:
        return False
    content = memoryview(frame)[_HEADER.size :]
    checksum: int = _HEADER.unpack_from(frame)[2]
    return zlib.crc32(content, zlib.crc32(frame[1:2])) == checksum


def _compressor(level: int) -> zstd.ZstdCompressor:
    # One per thread, because they are not thread-safe. Creating one costs as
    # much as compressing a kilobyte.
    compressors: dict[int, zstd.ZstdCompressor] | None = getattr(_local, "compressors", None)
    if compressors is None:
        compressors = _local.compressors = {}
    compressor = compressors.get(level)
    if compressor is None:
        compressor = compressors[level] = zstd.ZstdCompressor(level=level)
    return compressor
