"""Clew under LangGraph: `graph.compile(checkpointer=ClewSaver("sqlite:///agent.db"))`."""

from clew.errors import MissingExtraError

try:
    from clew.adapters.langgraph.saver import ClewSaver
except ModuleNotFoundError as error:
    if error.name is not None and error.name.partition(".")[0] not in ("langgraph", "langchain_core"):
        raise
    raise MissingExtraError("clew.adapters.langgraph needs LangGraph: pip install 'clew[langgraph]'") from error

__all__ = ["ClewSaver"]
