"""Threads in Redis: a single server, a master behind Sentinel, or a cluster.

A thread is one sorted set under one key (`lua/layout.lua` has the layout), so it moves, expires, is
evicted and is deleted as a whole. A commit and each query are one script call on that key.

`link` is a connection that many tasks share, `sentinel` asks Sentinels for the master, `router`
maps keys to servers, and `caller` sends calls and follows redirections. `commits` applies commits,
`queries` answers queries. `thread_index` and `journal` keep the indexes, which are in other slots
than the threads.
"""

from clew.storage.redis.storage import RedisStorage

__all__ = ["RedisStorage"]
