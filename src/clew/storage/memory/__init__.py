"""Threads in the memory of this process: the reference that every other storage is compared with.

`storage` applies commits and answers queries, `facts` tells the rules what is there, `thread` does what they let
through. A commit is decided whole before anything is changed, so one that fails leaves no trace. What is stored are the
frozen records themselves; dicts keep the order of insertion (a replaced entry keeps its place), which is the order that
checkpoints and messages have. The cost of a commit does not grow with the thread's history, except where it merges or
drops values, forks, or clears.
"""

from clew.storage.memory.storage import MemoryStorage

__all__ = ["MemoryStorage"]
