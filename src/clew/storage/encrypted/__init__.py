"""Encryption: a storage wrapper whose inner storage sees only sealed bytes.

`cipher` is the protocol of a cipher, `sealer` seals and opens each kind of record, `keyed` refuses
processes without the store's keys, and `storage` wraps a storage and its volatile states.
"""

from clew.storage.encrypted.keyed import KeyedStorage, ungated
from clew.storage.encrypted.storage import EncryptedStorage, encrypted_in

__all__ = ["EncryptedStorage", "KeyedStorage", "encrypted_in", "ungated"]
