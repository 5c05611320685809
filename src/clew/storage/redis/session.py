"""Opens a store: finds the servers, checks the stored version, warns about risky settings."""

from __future__ import annotations

import logging
from functools import partial

from clew.errors import SchemaVersionError, StorageError, TransientStorageError
from clew.storage.redis.caller import Caller
from clew.storage.redis.keys import Keys
from clew.storage.redis.router import Cluster, Node, SingleServer
from clew.storage.redis.settings import Address, Limits

VERSION = 1
"""The version of the stored format: threads and indexes."""

_logger = logging.getLogger("clew.redis")


async def connect(address: Address, limits: Limits) -> Caller:
    """Connect to the server, or to the cluster that it is part of."""
    if not await _is_cluster(address, limits):
        return Caller(SingleServer(Node(address.where, address.connect, limits)))
    cluster = Cluster(address.first, lambda where: Node(where, partial(address.connect, where), limits))
    try:
        await cluster.refresh()
    except BaseException:
        await cluster.close()
        raise
    return Caller(cluster)


async def _is_cluster(address: Address, limits: Limits) -> bool:
    if address.cluster is not None:
        return address.cluster
    node = Node(address.where, address.connect, limits)
    try:
        info = await Caller(SingleServer(node)).command_on(node, "INFO", "cluster")
    except TransientStorageError:
        raise
    except StorageError as error:
        # Without permission for INFO, assume a single server: one in a cluster answers MOVED later.
        if "NOPERM" not in str(error):
            raise
        return False
    finally:
        await node.close()
    return b"cluster_enabled:1" in info


async def prepare(caller: Caller, keys: Keys) -> None:
    """Write or check the version. Raises SchemaVersionError if it is newer, or not Clew's."""
    written = b"clew %d" % VERSION
    found = await caller.command(keys.meta, "GET", keys.meta)
    if found is None:
        await caller.command(keys.meta, "SET", keys.meta, written, "NX")
        found = await caller.command(keys.meta, "GET", keys.meta)
    name, _, version = (found or written).partition(b" ")
    if name != b"clew" or not version.isdigit():
        message = f"another program uses the key {keys.meta.decode()!r}; give Clew a prefix of its own"
        raise SchemaVersionError(message, found=found, known=VERSION)
    if int(version) > VERSION:
        message = (
            f"the store under {keys.meta.decode()!r} has version {int(version)}, and this Clew supports versions up to "
            f"{VERSION}; upgrade the 'clew' package or use another prefix"
        )
        raise SchemaVersionError(message, found=int(version), known=VERSION)


_warned: set[str] = set()


async def warn(caller: Caller, *, ttl: bool, where: str) -> None:
    """Log a warning, once per process and address, if the servers' settings weaken durability."""
    if where in _warned:
        return
    _warned.add(where)
    appendonly, policy = await _durability(caller)
    if appendonly is False:
        _logger.warning(
            "appendonly is off: Redis at %s keeps acknowledged commits in memory, and a crash loses those after its last "
            "snapshot. Set appendonly yes for durable threads (see docs/redis.md)",
            where,
        )
    elif appendonly is None:
        _logger.warning(
            "appendonly unknown: Redis at %s does not report it; docs/redis.md explains what that means", where
        )
    if policy.startswith("allkeys") or (policy and ttl):
        _logger.warning(
            "threads may be evicted: Redis at %s has maxmemory-policy %s. Set noeviction, or accept that whole threads "
            "disappear when its memory is full",
            where,
            policy,
        )


async def _durability(caller: Caller) -> tuple[bool | None, str]:
    """Return whether `appendonly` is on (None if unknown), and the eviction policy ('' for none)."""
    appendonly: bool | None = True
    evicts = ""
    for node in caller.router.masters():
        try:
            texts = [await caller.command_on(node, "INFO", section) for section in ("persistence", "memory")]
        except StorageError:
            texts = []
        info = dict(line.split(b":", 1) for text in texts for line in text.splitlines() if b":" in line)
        if info.get(b"aof_enabled") != b"1":
            appendonly = None if b"aof_enabled" not in info else False
        policy = info.get(b"maxmemory_policy", b"").decode()
        if policy != "noeviction":
            evicts = policy or evicts
    return appendonly, evicts
