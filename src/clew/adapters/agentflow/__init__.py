"""Clew under Agentflow (`10xscale-agentflow` or `10xgraph`): `pip install 'clew[agentflow]'`.

graph = StateGraph()
...
app = graph.compile(checkpointer=ClewCheckpointer(clew.connect("sqlite:///agent.db")))
"""

from clew.adapters.agentflow.checkpointer import ClewCheckpointer
from clew.adapters.agentflow.graph import IsolatedStateGraph

__all__ = ["ClewCheckpointer", "IsolatedStateGraph"]
