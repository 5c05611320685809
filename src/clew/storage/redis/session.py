"""What a storage holds in one event loop of one process: the servers as they were found, and the connections to them."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from clew.errors import SchemaVersionError, StorageError, TransientStorageError
from clew.storage.redis.calling import Caller
from clew.storage.redis.keys import Keys
from clew.storage.redis.routing import Cluster, Node, OneServer
from clew.storage.redis.settings import Address, Limits

VERSION = 1
"""Of what is stored: the layout of a thread, and the indexes."""

_logger = logging.getLogger("clew.redis")


async def connect(address: Address, limits: Limits) -> Caller:
    """Connect to the server, or to the cluster that it turns out to be part of."""
    if not await _is_cluster(address, limits):
        return Caller(OneServer(Node(address.where, address.connect, limits)))
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
        told = await Caller(OneServer(node)).command_on(node, "INFO", "cluster")
    except TransientStorageError:
        raise
    except StorageError as error:
        # A server that does not permit the question is taken for a single one: in a cluster, it will say so.
        if "NOPERM" not in str(error):
            raise
        return False
    finally:
        await node.close()
    return b"cluster_enabled:1" in told


async def prepare(caller: Caller, keys: Keys) -> None:
    """Make the store ready. Raises SchemaVersionError if it was written by a newer Clew, or is not Clew's."""
    written = b"clew %d" % VERSION
    found = await caller.command(keys.meta, "GET", keys.meta)
    if found is None:
        await caller.command(keys.meta, "SET", keys.meta, written, "NX")
        found = await caller.command(keys.meta, "GET", keys.meta)
    name, _, version = (found or written).partition(b" ")
    if name != b"clew" or not version.isdigit():
        message = f"{keys.meta.decode()!r} in Redis is not Clew's; give Clew a prefix of its own"
        raise SchemaVersionError(message, found=found, known=VERSION)
    if int(version) > VERSION:
        message = (
            f"what lies in Redis under {keys.meta.decode()!r} has version {int(version)}, and this Clew knows versions up to "
            f"{VERSION}: upgrade the 'clew' package, or use another prefix"
        )
        raise SchemaVersionError(message, found=int(version), known=VERSION)


async def _promises(caller: Caller) -> dict[str, Any]:
    """What the servers say of how they keep data: `appendonly`, and the eviction `policy`; None where they don't tell."""
    told: dict[str, Any] = {"appendonly": True, "policy": None}
    for node in caller.router.masters():
        try:
            texts = [await caller.command_on(node, "INFO", section) for section in ("persistence", "memory")]
        except StorageError:
            texts = []
        info = dict(line.split(b":", 1) for text in texts for line in text.splitlines() if b":" in line)
        if info.get(b"aof_enabled") != b"1":
            told["appendonly"] = None if b"aof_enabled" not in info else False
        policy = info.get(b"maxmemory_policy", b"").decode()
        if policy and policy != "noeviction":
            told["policy"] = policy
    return told


_warned: set[str] = set()


async def warn(caller: Caller, *, ttl: bool, where: str) -> None:
    """Say in the log, once in this process, what the servers' settings mean for what is acknowledged."""
    if where in _warned:
        return
    _warned.add(where)
    told = await _promises(caller)
    if told["appendonly"] is False:
        _logger.warning(
            "Redis at %s runs without appendonly: what is acknowledged is in its memory, and a crash loses what came after its "
            "last snapshot. For durable threads: appendonly yes (see docs/redis.md)",
            where,
        )
    elif told["appendonly"] is None:
        _logger.warning(
            "Redis at %s does not tell whether appendonly is on; see docs/redis.md for what that means", where
        )
    policy = told["policy"]
    if policy and (policy.startswith("allkeys") or ttl):
        _logger.warning(
            "Redis at %s evicts keys when its memory is full (maxmemory-policy %s), and threads are among those: set it to "
            "noeviction, or accept that whole threads disappear",
            where,
            policy,
        )
