"""Sessions of the OpenAI Agents SDK, kept by Clew: `ClewSession`. Needs `pip install 'clew[openai]'`."""

from clew.errors import MissingExtraError

try:
    import agents  # noqa: F401
except ImportError as error:
    raise MissingExtraError("ClewSession needs the OpenAI Agents SDK: pip install 'clew[openai]'") from error

from clew.adapters.openai_agents.session import ClewSession

__all__ = ["ClewSession"]
