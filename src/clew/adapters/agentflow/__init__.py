"""Agentflow (`10xscale-agentflow`, and `10xgraph`, its successor) on Clew: `pip install 'clew[agentflow]'`.

graph = StateGraph()
...
app = graph.compile(checkpointer=ClewCheckpointer(clew.connect("sqlite:///agent.db")))
"""

from clew.adapters.agentflow.checkpointer import ClewCheckpointer
from clew.adapters.agentflow.graph import IsolatedStateGraph

__all__ = ["ClewCheckpointer", "IsolatedStateGraph"]
