"""Two stores that hold the same, of which one serves.

*The journal of the store that serves is drained to the other one*: that is the whole mechanism, in both directions. `storage`
sends operations to the store that serves; `failover` decides which that is, `roles` keeps the decision in both stores and
`steering` carries it out; `shipping` takes commits from a journal to the other store, where they differ `copies` makes the
secondary's thread what the primary's is and `merging` takes what the secondary wrote into the primary; `syncing` does it before
a commit is acknowledged, `upkeep` in the background.
"""

from clew.storage.replicated.storage import ReplicatedStorage, ReplicationMode

__all__ = ["ReplicatedStorage", "ReplicationMode"]
