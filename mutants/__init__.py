"""Mutation tests: break each rule of a commit in each language, and check that a test fails.

`mutation.py` is one change of a source file; `python.py`, `sqlite.py`, `postgres.py` and `redis.py`
list the changes; `targets.py` has the tests of each storage; `probe.py` checks that a mutant still
works otherwise; and `hunt.py` runs the tests.
"""
