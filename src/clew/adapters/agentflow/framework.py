"""Names of Agentflow that the adapter uses, from the installed distribution.

`10xgraph` also has the old package name, but deprecates it, so its own name is tried first.
"""

from importlib.util import find_spec

from clew.errors import MissingExtraError

if find_spec("tenxgraph") is not None:
    from tenxgraph.core import exceptions
    from tenxgraph.core.graph import StateGraph, ToolNode
    from tenxgraph.core.graph.compiled_graph import CompiledGraph
    from tenxgraph.core.graph.utils.handler_utils import RESUME_AFTER_NODE_KEY
    from tenxgraph.core.state import AgentState, Message
    from tenxgraph.core.state.execution_state import StopRequestStatus
    from tenxgraph.core.state.message_block import TextBlock
    from tenxgraph.storage.checkpointer import BaseCheckpointer
    from tenxgraph.storage.checkpointer.base_checkpointer import (
        STATE_FORMAT_VERSION,
        STATE_META_KEY,
        STOP_REQUEST_NAMESPACE,
    )
    from tenxgraph.utils.constants import DEFAULT_ANONYMOUS_USER_ID
    from tenxgraph.utils.thread_info import ThreadInfo
elif find_spec("agentflow") is not None:
    from agentflow.core import exceptions
    from agentflow.core.graph import StateGraph, ToolNode
    from agentflow.core.graph.compiled_graph import CompiledGraph
    from agentflow.core.graph.utils.handler_utils import RESUME_AFTER_NODE_KEY
    from agentflow.core.state import AgentState, Message
    from agentflow.core.state.execution_state import StopRequestStatus
    from agentflow.core.state.message_block import TextBlock
    from agentflow.storage.checkpointer import BaseCheckpointer
    from agentflow.storage.checkpointer.base_checkpointer import (
        STATE_FORMAT_VERSION,
        STATE_META_KEY,
        STOP_REQUEST_NAMESPACE,
    )
    from agentflow.utils.constants import DEFAULT_ANONYMOUS_USER_ID
    from agentflow.utils.thread_info import ThreadInfo
else:
    raise MissingExtraError(
        "Agentflow is not installed: pip install 'clew[agentflow]' (Python 3.12 or newer), or pip install 10xgraph",
        extra="agentflow",
    )

__all__ = [
    "DEFAULT_ANONYMOUS_USER_ID",
    "RESUME_AFTER_NODE_KEY",
    "STATE_FORMAT_VERSION",
    "STATE_META_KEY",
    "STOP_REQUEST_NAMESPACE",
    "AgentState",
    "BaseCheckpointer",
    "CompiledGraph",
    "Message",
    "StateGraph",
    "StopRequestStatus",
    "TextBlock",
    "ThreadInfo",
    "ToolNode",
    "exceptions",
]
