"""A storage around a storage that sees nothing but sealed bytes.

`cipher.py` says what a cipher does, `sealing.py` how each record is sealed and opened, `lineage.py` what a fork needs to read
what it shares, `storage.py` puts them around a storage, `states.py` around a shared place for volatile states, and
`resealing.py` seals what is stored anew.
"""

from clew.storage.encrypted.storage import EncryptedStorage

__all__ = ["EncryptedStorage"]
