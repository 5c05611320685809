"""Replication: two stores with the same content, one of which serves.

The journal of the serving store is drained to the other store, in both directions:

- `storage` sends operations to the serving store. In sync mode, `sync_writer` has each commit in
  both stores before it is acknowledged.
- `failover` decides which store serves, `coordinator` carries that out, and `fence` makes what
  callers know expire when it changes.
- `shipper` applies journal entries to the other store. If an entry does not fit, `copies` replaces
  the secondary's thread with the primary's, or `merger` merges the secondary's history into the
  primary.
- `monitor` does the background work.
- `standby` is a pair that does not replicate.
"""

from clew.storage.replicated.standby import UnreplicatedStorage
from clew.storage.replicated.storage import ReplicatedStorage, ReplicationMode
from clew.storage.replicated.validation import check_settings

__all__ = ["ReplicatedStorage", "ReplicationMode", "UnreplicatedStorage", "check_settings"]
