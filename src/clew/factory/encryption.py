"""Encryption around the storage of a checkpointer, as `encryption=` or the environment says."""

from __future__ import annotations

import os
from typing import Final

from clew.errors import ConfigError, MissingExtraError
from clew.model.encryption import Encryption
from clew.storage.encrypted import EncryptedStorage, KeyedStorage, encrypted_in, ungated
from clew.storage.protocol import Storage

VARIABLE: Final = "CLEW_ENCRYPTION_KEYS"


def with_encryption(storage: Storage, encryption: Encryption | None) -> Storage:
    """Return `storage` with encryption around it, and so around its cache; unchanged if it is
    encrypted already.

    Without `encryption`, an encrypted store is refused.
    """
    if encryption is None:
        return storage if encrypted_in(storage) or isinstance(storage, KeyedStorage) else KeyedStorage(storage, None)
    if not isinstance(encryption, Encryption):
        # The value is not shown, because it may be a key.
        raise ConfigError(f"encryption takes a clew.Encryption(keys=…), not {type(encryption).__name__}")
    if encrypted_in(storage):
        return storage
    try:
        from clew.codec.keyring import Keyring
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"encryption needs {error.name}: pip install 'clew[crypto]'", extra="crypto") from error
    return EncryptedStorage(ungated(storage), Keyring(encryption))


def encryption_of_environment() -> Encryption | None:
    """The keys in `$CLEW_ENCRYPTION_KEYS`, or `None`."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    try:
        return Encryption.from_text(text)
    except ConfigError as error:
        raise ConfigError(f"{VARIABLE}: {error}") from None
