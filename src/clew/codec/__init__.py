"""The codec: turns states into bytes and back. Pure: it does not depend on any storage."""
