"""The `leveret` command with typer: its help, `store`, and subcommands in other modules."""

import sys
from typing import Annotated

import typer

from leveret import __version__
from leveret.mgmt.cli import store
from leveret.mgmt.cli.subcommands import descriptions, run_subcommand

app = typer.Typer(
    help="Leveret, an AMQP 0-9-1 broker that is compatible with RabbitMQ.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(store.app, name="store")


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"leveret {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Leveret, an AMQP 0-9-1 broker that is compatible with RabbitMQ."""


def _add_subcommand(name: str, description: str) -> None:
    """List a separate program in the help, and pass all options to it."""

    @app.command(
        name=name,
        help=description,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        add_help_option=False,
    )
    def run(context: typer.Context) -> None:
        sys.exit(run_subcommand(name, context.args))


for _name, _description in descriptions().items():
    _add_subcommand(_name, _description)


@app.command(name="version")
def show_version() -> None:
    """Print Leveret's version."""
    typer.echo(__version__)


if __name__ == "__main__":
    app()
