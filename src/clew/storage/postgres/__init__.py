"""The PostgreSQL storage: the server decides commits, one round trip each or many per statement.

- `storage`: the storage class
- `connections`, `settings`: a pool for each event loop, and its checked settings
- `batcher`: groups waiting commits into statements
- `commits`, `queries`: translate commits and queries to SQL, and answers to outcomes and records
- `schema`: creates and migrates the schema
- `texts`, `users`: how texts and owners are stored
- `failures`: translates the driver's exceptions
- `sql/`: tables, queries, and the functions that check the rules of a commit and apply it
"""

from clew.storage.postgres.storage import PgStorage

__all__ = ["PgStorage"]
