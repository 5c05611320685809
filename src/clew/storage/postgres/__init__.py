"""Threads in PostgreSQL: decided on the server, one round trip a commit, and many commits a statement.

`storage` is the storage; `connections` has a pool for each event loop; `batching` gathers the commits that wait, `commits`
makes parameters of them and outcomes of the answers; `reading` does the same for queries; `schema` makes the schema ready;
`texts` and `users` say how texts and owners are kept; `failures` turns the driver's exceptions into Clew's. What is decided
and how is in `sql/`: the functions of `commit.sql`, `usual.sql` and `lease.sql` are part of the schema.
"""

from clew.storage.postgres.storage import PgStorage

__all__ = ["PgStorage"]
