"""A storage around a storage that sees nothing but sealed bytes.

`cipher.py` says what a cipher does, `sealing.py` how each record is sealed and opened, `lineage.py` what a fork needs to read
what it shares; `storage.py` puts them around a storage, and `states.py` around a shared place for volatile states.
"""

from clew.storage.encrypted.storage import EncryptedStorage, encrypted_in

__all__ = ["EncryptedStorage", "encrypted_in"]
