"""The encryption that `encryption=` names, around the storage of a checkpointer."""

from __future__ import annotations

import os
from typing import Final

from clew.errors import ConfigError, MissingExtraError
from clew.model.encryption import Encryption
from clew.storage.encrypted import EncryptedStorage, encrypted_in
from clew.storage.protocol import Storage

VARIABLE: Final = "CLEW_ENCRYPTION_KEYS"


def with_encryption(storage: Storage, encryption: Encryption | None) -> Storage:
    """`storage` with everything in it sealed, and so in its cache; as it is without `encryption`, or if it seals by itself."""
    if encryption is None:
        return storage
    if not isinstance(encryption, Encryption):
        # What it is may be a key.
        raise ConfigError(f"encryption takes a clew.Encryption(keys=…), not {type(encryption).__name__}")
    if encrypted_in(storage):
        return storage
    try:
        from clew.codec.sealing import Keyring
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"encryption needs {error.name}: pip install 'clew[crypto]'", extra="crypto") from error
    return EncryptedStorage(storage, Keyring(encryption))


def encryption_of_environment() -> Encryption | None:
    """The keys in `$CLEW_ENCRYPTION_KEYS`, if there are any."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    try:
        return Encryption.from_text(text)
    except ConfigError as error:
        raise ConfigError(f"{VARIABLE}: {error}") from None
