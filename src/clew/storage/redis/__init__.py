"""Threads in Redis: one server, one behind Sentinel, or a cluster.

A thread is one sorted set under one key, so that it moves, expires, is evicted and is deleted whole; `lua/layout.lua` says
how it lies there. A commit and each query are one script call on that key. `link` is a connection that carries the calls of
many tasks, `watched` asks Sentinels for their server, `routing` knows which server has which key, `calling` sends a call
where it belongs, `committing` and `reading` turn commits and queries into arguments and answers into records, `applying`
sends commits together, and `listing` keeps the indexes of threads, which lie in other slots, as `journal` does those of
threads with entries in the journal.
"""

from clew.storage.redis.storage import RedisStorage

__all__ = ["RedisStorage"]
