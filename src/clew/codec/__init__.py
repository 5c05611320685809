"""The codec: states to bytes and back. Pure; it knows nothing of storages."""
