"""A hot cache over any storage: value rows of recently used threads, kept in any other storage.

The cold storage is authoritative. Every read asks it which checkpoint to load, its body and the
thread's owner; only value rows come from the hot storage. Rows never change: value numbers are
never reused, merging only regroups values, and garbage collection removes only values that nothing
refers to. So nothing has to be invalidated for correctness, and no failure of the hot storage can
make a read wrong.

`storage` combines the two. `tier` keeps rows and volatile states in the hot storage, `entries` has
their layout, `coverage` selects the rows that make up a state, `eviction` bounds the cache,
`write_queue` writes in the background, and `breaker` suspends a hot storage that fails.
"""

from clew.storage.cached.storage import CachedStorage

__all__ = ["CachedStorage"]
