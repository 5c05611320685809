"""A hot tier over any storage: the values of threads that are in use, in any other storage.

The cold storage is the truth, and is asked for it at every read: which checkpoint, its body, whose the thread is. The hot tier
has value rows only. What a row says never changes: numbers of values are never given again, merging regroups them, and what
garbage collection takes out nobody refers to any more. So nothing has to be invalidated for a read to be right, and nothing
that befalls the hot tier makes one wrong.

`storage` goes between the two, `tier` keeps rows and volatile states in the hot storage, `entries` says how they lie there,
`covering` which of them make up what is needed, `bounds` how much is kept, `background` carries writes while nobody waits,
`breaker` notices that the hot storage is away.
"""

from clew.storage.cached.storage import CachedStorage

__all__ = ["CachedStorage"]
