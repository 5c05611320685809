"""The HTTP server: the public API over HTTP and JSON. `pip install 'clew[server]'`."""

from clew.errors import MissingExtraError

try:
    from clew.server.access import Caller, Jwt, TokenFile
    from clew.server.application import app
    from clew.server.gate import Limits
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "litestar":
        raise
    raise MissingExtraError("the server needs Litestar: pip install 'clew[server]'") from error

__all__ = ["Caller", "Jwt", "Limits", "TokenFile", "app"]
