"""Commands of the HTTP server: serve, and token."""

from __future__ import annotations

import errno
import json as json_module
import logging
import socket
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

import clew
from clew.cli.demo.conversation import demo_conversation
from clew.cli.lookup import file_of, open_store
from clew.cli.options import AsJson
from clew.cli.output import as_json, console, error_console, one_line, said
from clew.factory import DEFAULT_URL

if TYPE_CHECKING:
    from clew.server.access import Authenticator

DEFAULT_TOKENS = "clew-tokens.json"
_BACKLOG: Final = 2048
"""How many connections may wait to be accepted, as in uvicorn."""

Tokens = Annotated[
    Path,
    typer.Option("--tokens", envvar="CLEW_TOKENS", metavar="FILE", help="The file with the hashes of the tokens."),
]


def serve(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="The port; 0 takes a free one.")] = 8700,
    tokens: Tokens = Path(DEFAULT_TOKENS),
    jwt_secret_file: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, metavar="FILE", help="Accept JWTs signed with this secret (HS256)."),
    ] = None,
    jwks: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Accept JWTs signed with a key of this JWKS file (RS256, ES256)."),
    ] = None,
    jwt_user_claim: Annotated[str, typer.Option(metavar="CLAIM", help="The claim that names the user.")] = "sub",
    jwt_audience: Annotated[str | None, typer.Option(metavar="NAME", help="The audience that JWTs must have.")] = None,
    jwt_issuer: Annotated[str | None, typer.Option(metavar="NAME", help="The issuer that JWTs must have.")] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Answer to this name in Host headers, too. Repeatable.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(metavar="ORIGIN", help="Let web pages of this origin call the API. Repeatable.")
    ] = None,
    rate: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Requests a second that each client may send, by its address; 0: any."),
    ] = 200,
    mcp_writes: Annotated[
        bool, typer.Option("--mcp-writes", help="Let agents fork and append at /mcp, if their token may write.")
    ] = False,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log each request as a line of JSON.")] = False,
    ssl_certfile: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, metavar="FILE", help="The TLS certificate.")
    ] = None,
    ssl_keyfile: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, metavar="FILE", help="The certificate's key.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the address as JSON once it listens.")] = False,
) -> None:
    """Serve a store over HTTP. Without tokens, it answers to this machine only."""
    from clew.server import Jwt, Limits, TokenFile, app  # Late: other commands don't need the extra.
    from clew.server.gate import LOCAL_HOSTS

    authenticators: list[Authenticator] = []
    if tokens.exists():
        authenticators.append(TokenFile(tokens))
    if jwt_secret_file or jwks:
        authenticators.append(
            Jwt(
                secret=jwt_secret_file.read_text(encoding="utf-8").strip() if jwt_secret_file else None,
                jwks=_jwks(jwks) if jwks else None,
                user_claim=jwt_user_claim,
                audience=jwt_audience,
                issuer=jwt_issuer,
            )
        )
    local = host in ("127.0.0.1", "localhost", "::1")
    if not authenticators and not local:
        raise clew.ConfigError(
            f"a server without tokens listens on 127.0.0.1 only, not on {host}; make a token: clew token create NAME"
        )
    hosts = [*LOCAL_HOSTS, *(allow_host or ())]
    if not local and host not in ("0.0.0.0", "::"):
        hosts.append(host)
    if access_log:
        _log_requests()
    checkpointer = clew.connect(ctx.obj)
    served = app(
        checkpointer,
        authenticators=authenticators,
        hosts=hosts,
        origins=allow_origin or (),
        limits=Limits(rate=rate or None, burst=2 * rate),
        mcp_scope="write" if mcp_writes else "read",
    )
    file = file_of(checkpointer)
    remarks = [] if file is None or file.exists() else ["new: it does not exist yet"]
    remarks += ["callers need a token" if authenticators else "without tokens, for this machine only"]
    start = f"clew: serving {clew_url(ctx.obj)} ({'; '.join(remarks)})"

    def listening(url: str) -> None:
        error_console().print(f"clew: listening on {url}", markup=False)
        if json:
            typer.echo(as_json({"url": url, "tokens": bool(authenticators)}, lines=False))

    with bound(host, port) as sockets:
        tls = {"ssl_certfile": ssl_certfile, "ssl_keyfile": ssl_keyfile}
        run(served, checkpointer, listening, sockets, start=start, **tls)


def studio(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="The port; 0 takes a free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address and open no browser.")] = False,
    demo: Annotated[bool, typer.Option("--demo", help="Show a demo conversation instead of a store.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the address as JSON once it listens.")] = False,
) -> None:
    """Open the studio: a page in your browser that shows conversations, their history and their states."""
    from clew.server import Caller, app  # Late: other commands don't need the extra.
    from clew.server.access import SingleToken, new_token

    checkpointer = demo_conversation() if demo else _opened_or_demo(ctx.obj)
    # Other users of this machine reach the port, too, so the browser gets a token of its own.
    secret = new_token()
    me = Caller(name="studio", user=clew.ANY_USER, scope="write")
    served = app(checkpointer, authenticators=[SingleToken(secret, me)])

    def listening(url: str) -> None:
        address = f"{url}/#token={secret}"
        if json:
            typer.echo(as_json({"url": address}, lines=False))
        else:
            said(f"The studio is at {address}")
        if not no_browser:
            webbrowser.open(address)

    with bound("127.0.0.1", port) as sockets:
        run(served, checkpointer, listening, sockets)


def _opened_or_demo(url: str) -> clew.BaseCheckpointer:
    try:
        return open_store(url)
    except clew.StorageError as error:
        if url != DEFAULT_URL:
            raise
        error_console().print(one_line(f"clew: {error}. Here is a demo conversation instead."), markup=False)
        return demo_conversation()


def mcp(
    ctx: typer.Context,
    user: Annotated[str | None, typer.Option(metavar="USER", help="Act for this user.")] = None,
    all_users: Annotated[bool, typer.Option("--all-users", help="Act for all users.")] = False,
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="Let agents fork threads and append messages.")
    ] = False,
) -> None:
    """Serve conversations to agents and coding assistants over MCP, on standard input and output."""
    if (user is not None) == all_users:
        raise clew.ConfigError("say for whom to act: --user USER, or --all-users")
    from clew.server import Caller  # Late: other commands don't need the extra.
    from clew.server.mcp import mcp_server

    owner = clew.ANY_USER if all_users else user
    caller = Caller(name="stdio", user=owner, scope="write" if allow_writes else "read")
    with open_store(ctx.obj) as checkpointer:
        mcp_server(checkpointer, lambda _: caller, allow_writes=allow_writes).run("stdio")


def _log_requests() -> None:
    logger = logging.getLogger("clew.server.access")
    logger.setLevel(logging.INFO)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    logger.propagate = False


def clew_url(url: str) -> str:
    """Return the URL without a password."""
    scheme, split, rest = url.partition("://")
    credentials, at, address = rest.rpartition("@")
    return f"{scheme}{split}{credentials.partition(':')[0]}{at}{address}" if at else url


@contextmanager
def bound(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Listen on each address of `host`, and close the sockets in the end. Raises ConfigError if it is not possible.

    uvicorn would log the error, after the line that says what is served, and end with a code of its own.
    """
    with ExitStack() as opened:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            sockets = [
                opened.enter_context(socket.create_server(address[:2], family=family, backlog=_BACKLOG))
                for family, _, _, _, address in dict.fromkeys(found)
            ]
        except socket.gaierror as error:
            raise clew.ConfigError(f"there is no address {host!r}; choose another with --host") from error
        except OSError as error:
            raise clew.ConfigError(_refusal(error, host, port)) from error
        yield sockets


def _refusal(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {port} is in use; choose another with --port"
        case errno.EACCES:
            return f"port {port} is not allowed for this user; choose another with --port"
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine; choose another with --host"
        case _:
            return f"can't listen on {host}, port {port}: {error.strerror or error}"


def run(
    served: Any,
    checkpointer: clew.BaseCheckpointer,
    listening: Callable[[str], None],
    sockets: list[socket.socket],
    *,
    start: str | None = None,
    **options: Any,
) -> None:
    """Run the application on uvicorn until it is interrupted, and release the checkpointer after that.

    The line `start` is printed after all options have been checked.
    """
    import uvicorn

    from clew.server.connection import Connection

    config = uvicorn.Config(
        served,
        http=Connection,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=30,
        timeout_keep_alive=30,
        **options,
    )
    try:
        config.load()
    except OSError as error:  # The certificate or its key; SSLError is one, too.
        raise clew.ConfigError(f"the TLS certificate or its key can't be used: {error.strerror or error}") from error
    if start is not None:
        error_console().print(start, markup=False, soft_wrap=True)

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            for each in self.servers:
                for listener in each.sockets:
                    address, port = listener.getsockname()[:2]
                    shown = f"[{address}]" if ":" in address else address
                    scheme = "https" if config.is_ssl else "http"
                    listening(f"{scheme}://{shown}:{port}")

        async def shutdown(self, sockets: Any = None) -> None:
            # An open page of the studio must not delay the shutdown.
            await served.end_streams()
            await super().shutdown(sockets)
            # Here, because uvicorn ends the process with the signal that it got.
            await checkpointer.arelease()

    try:
        Server(config).run(sockets)
    finally:
        checkpointer.release()


def _jwks(path: Path) -> dict[str, Any]:
    try:
        content = json_module.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise clew.ConfigError(f"{path} is not a JWKS file: {error}") from error
    if not isinstance(content, dict):
        raise clew.ConfigError(f"{path} is not a JWKS file")
    return content


token = typer.Typer(no_args_is_help=True, help="Make, list and revoke tokens for `clew serve`.")


@token.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name, to list and revoke it by.")],
    tokens: Tokens = Path(DEFAULT_TOKENS),
    user: Annotated[str | None, typer.Option(metavar="USER", help="Only for this user; without it, for all.")] = None,
    write: Annotated[bool, typer.Option("--write", help="It may also write.")] = False,
    json: AsJson = False,
) -> None:
    """Make a token and print it. It can't be shown again."""
    from clew.server import TokenFile

    scope: Literal["read", "write"] = "write" if write else "read"
    made = TokenFile(tokens).create(name, user=user, scope=scope)
    typer.echo(as_json({"name": name, "user": user, "scope": scope, "token": made}) if json else made)


@token.command("list")
def list_(tokens: Tokens = Path(DEFAULT_TOKENS), json: AsJson = False) -> None:
    """List the tokens' names, users and scopes."""
    from clew.server import TokenFile

    found = TokenFile(tokens).entries()
    if json:
        typer.echo(as_json(found))
        return
    for each in found:
        console().print(f"{each['name']}  {each['user'] or 'all users'}  {each['scope']}", markup=False, soft_wrap=True)
    if not found:
        console().print("no tokens", style="dim")


@token.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The token's name.")],
    tokens: Tokens = Path(DEFAULT_TOKENS),
    json: AsJson = False,
) -> None:
    """Revoke a token. A running server notices at once."""
    from clew.server import TokenFile

    if not TokenFile(tokens).revoke(name):
        raise clew.ConfigError(f"there is no token called {name!r} in {tokens}; `clew token list` lists them")
    if json:
        typer.echo(as_json({"revoked": name}))
