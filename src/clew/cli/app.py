"""The command group: its global options, and error handling for all commands."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

import clew
from clew.cli import changes, inspection, maintenance, serve, watch
from clew.cli.advice import translated
from clew.cli.arguments import arranged
from clew.cli.demo import demo
from clew.cli.output import error_console, one_line
from clew.factory import DEFAULT_URL


class Commands(TyperGroup):
    """Prints a ClewError as one red line and exits with code 1. The store may be named anywhere."""

    # Any: the context's class is click's in older versions of typer, and typer's own in newer ones.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, arranged(args, self.commands))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except clew.ClewError as error:
            command = self.commands.get(ctx.invoked_subcommand)
            message = translated(str(error), command.params if command is not None else ())
            error_console().print(one_line(f"clew: {message}"), style="bold red", soft_wrap=True, markup=False)
            raise typer.Exit(1) from error


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"clew {clew.__version__}")
        raise typer.Exit


def everywhere(
    ctx: typer.Context,
    url: Annotated[
        str,
        typer.Option(envvar="CLEW_URL", metavar="URL", help="The store to use, such as sqlite:///file.db."),
    ] = DEFAULT_URL,
    version: Annotated[  # noqa: ARG001  (the callback reads it)
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Clew: durable session memory for AI agents. See it at work with `clew demo`."""
    ctx.obj = url


app = typer.Typer(
    cls=Commands,
    callback=everywhere,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_STORE: Final = f"The store: --url URL, here or before the command. Without it: $CLEW_URL, or {DEFAULT_URL}."
"""Ends the help of commands with a store. `--url` is an option of the group, so their lists of options lack it."""

app.command()(demo)
for command in (
    inspection.threads,
    inspection.history,
    inspection.show,
    inspection.messages,
    inspection.search,
    inspection.diff,
    watch.watch,
    changes.fork,
    changes.rewind,
    changes.delete,
    maintenance.stats,
    maintenance.verify,
    maintenance.compact,
    maintenance.cleanup,
    maintenance.reseal,
    serve.serve,
    serve.mcp,
    serve.studio,
):
    app.command(epilog=_STORE)(command)
app.command("import", epilog=_STORE)(maintenance.import_)
app.command()(maintenance.key)
app.add_typer(serve.token, name="token")
