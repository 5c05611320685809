"""Mutation tests: break each rule of a commit in each language, put each fixed fault back, and check
that a test fails.

`mutation.py` is one change of a source file; `python.py`, `sqlite.py`, `postgres.py` and `redis.py`
list the changes that break rules, and `promises.py` those that put faults back; `targets.py` has the
tests that must fail; `probe.py` checks that a mutant still works otherwise; and `hunt.py` runs the
tests.
"""
