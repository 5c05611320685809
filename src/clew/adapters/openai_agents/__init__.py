"""Clew under the OpenAI Agents SDK: `Runner.run(agent, "hi", session=ClewSession("s", url))`."""

from clew.errors import MissingExtraError

try:
    from clew.adapters.openai_agents.session import ClewSession
except ModuleNotFoundError as error:
    if error.name is not None and error.name.partition(".")[0] != "agents":
        raise
    raise MissingExtraError("clew.adapters.openai_agents needs the Agents SDK: pip install 'clew[openai]'") from error

__all__ = ["ClewSession"]
