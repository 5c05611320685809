"""Clew under llmfy: `FlowEngine(State, checkpointer=ClewCheckpointer("sqlite:///agent.db"))`."""

from clew.errors import MissingExtraError

try:
    from clew.adapters.llmfy.checkpointer import ClewCheckpointer
except ModuleNotFoundError as error:
    if error.name is not None and error.name.partition(".")[0] != "llmfy":
        raise
    raise MissingExtraError("clew.adapters.llmfy needs llmfy: pip install 'clew[llmfy]'") from error

__all__ = ["ClewCheckpointer"]
