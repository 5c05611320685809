"""Labels: digests of a thread's tags and metadata, which storages index and filter by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from clew.errors import ConfigError, shown
from clew.model.records import LABEL_SIZE


def labels_of(tags: Iterable[str], metadata: Mapping[str, Any]) -> tuple[bytes, ...]:
    """The labels of a thread. Values that JSON can't express have no label, and can't be used in filters."""
    labels = {_label("tag", tag) for tag in tags}
    for key, value in metadata.items():
        try:
            labels.add(_of_value(key, value))
        except (TypeError, ValueError, RecursionError):
            continue
    return tuple(sorted(labels))


def wanted_labels(tags: Iterable[str] | None, metadata: Mapping[str, Any] | None) -> tuple[bytes, ...]:
    """The labels of a filter. Raises ConfigError for a filter that no thread can match."""
    if isinstance(tags, (str, bytes)) or not isinstance(tags or (), Iterable):
        raise ConfigError(f"tags must be a list of texts; got {shown(tags)}")
    given = list(tags or ())
    if not all(isinstance(tag, str) for tag in given):
        raise ConfigError(f"tags must be a list of texts; got {shown(given)}")
    if not isinstance(metadata or {}, Mapping):
        raise ConfigError(f"metadata must be a mapping, not {type(metadata).__name__}")
    labels = {_label("tag", tag) for tag in given}
    for key, value in (metadata or {}).items():
        if value is None:
            raise ConfigError(f"metadata[{key!r}] is None: no thread has such a key, because put_thread removes it")
        try:
            labels.add(_of_value(key, value))
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(
                f"threads can't be filtered by metadata[{shown(key)}] = {shown(value)}: {error}"
            ) from error
    return tuple(sorted(labels))


def _of_value(key: Any, value: Any) -> bytes:
    if not isinstance(key, str):
        raise TypeError("its key is not text")
    return _label("metadata", key, _plain(value))


def _plain(value: Any) -> Any:
    """`value` with numbers as Python compares them: 1.0 equals 1. `True` does not."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("it has keys that are not texts")
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _label(*parts: Any) -> bytes:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode("ascii"), digest_size=LABEL_SIZE).digest()
