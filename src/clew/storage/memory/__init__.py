"""The memory storage: the reference that every other storage is compared with.

`storage` applies commits and answers queries, `facts` supplies the rules with facts, and `thread`
changes threads. A commit is decided before anything is changed, so a refused one leaves no trace. The
frozen records themselves are stored. Dicts keep the order of insertion (a replaced entry keeps its
place), which is the order of checkpoints and messages. The cost of a commit does not grow with the
thread's history, except where it merges or drops values, forks, or clears.
"""

from clew.storage.memory.storage import MemoryStorage

__all__ = ["MemoryStorage"]
