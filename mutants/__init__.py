"""Mutants: each rule of a commit is broken, in each language that it is written in, and a test must notice.

`mutation.py` is one such change of a source file, `python.py`, `sqlite.py`, `postgres.py` and `redis.py` list them all,
`targets.py` has the tests of each storage, `probe.py` checks that a mutant still works otherwise, and `hunting.py` runs it all.
"""
