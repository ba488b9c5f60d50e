"""The `leveret` command. Each subcommand's work is in a module of its own."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from broker.auth.backends.chain import BackendError
from broker.config import ConfigError, load_config
from broker.net.handshake import version
from mgmt.cli import store
from mgmt.cli.entry import run_tool
from mgmt.cli.serve import serve as run_server
from storage.data_directory import DataDirectoryError
from storage.disk import StoreError
from storage.metadata import MetadataError

EXIT_BAD_CONFIGURATION = 2
EXIT_CANNOT_START = 1

app = typer.Typer(
    help="Leveret, an AMQP 0-9-1 broker that speaks RabbitMQ's dialect.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(store.app, name="store")


@app.callback()
def main() -> None:
    """Leveret, an AMQP 0-9-1 broker that speaks RabbitMQ's dialect."""


@app.command()
def serve(
    config: Annotated[
        Path | None, typer.Option(help="A configuration file; a rabbitmq.conf will do.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where all that is kept is kept.")] = None,
    node: Annotated[str | None, typer.Option(help="The node's name, as name or name@host.")] = None,
    bind: Annotated[str | None, typer.Option(help="The one interface to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="The AMQP port; 0 for none.")] = None,
    management_port: Annotated[
        int | None, typer.Option(help="The management API's port; 0 for none.")
    ] = None,
    prometheus_port: Annotated[
        int | None, typer.Option(help="The metrics' port; 0 for none.")
    ] = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT."""
    flags: dict[str, object] = {
        "data_dir": data_dir,
        "node": node,
        "bind": bind,
        "port": port,
        "management_port": management_port,
        "prometheus_port": prometheus_port,
    }
    try:
        run_server(load_config(config, os.environ, flags))
    except ConfigError as error:
        _give_up(str(error), EXIT_BAD_CONFIGURATION)
    except BackendError as error:
        _give_up(str(error), EXIT_BAD_CONFIGURATION)
    except (OSError, DataDirectoryError, MetadataError, StoreError) as error:
        _give_up(str(error), EXIT_CANNOT_START)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def ctl(context: typer.Context) -> None:
    """Look at a running node and steer it: what leveretctl does."""
    sys.exit(run_tool("ctl", context.args))


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def perf(context: typer.Context) -> None:
    """Load a broker and measure it, with PerfTest's options (--help)."""
    sys.exit(run_tool("perf", context.args))


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def analyze(context: typer.Context) -> None:
    """Make tables of trace logs, with Spark (--help)."""
    sys.exit(run_tool("analyze", context.args))


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def journey(context: typer.Context) -> None:
    """Where a message went, out of a trace directory, hop by hop (--help)."""
    sys.exit(run_tool("journey", context.args))


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def replay(context: typer.Context) -> None:
    """Publish what a trace holds once more, to any broker (--help)."""
    sys.exit(run_tool("replay", context.args))


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def report(context: typer.Context) -> None:
    """One HTML file of what an analysis found (--help)."""
    sys.exit(run_tool("report", context.args))


@app.command(name="version")
def show_version() -> None:
    """Print Leveret's version."""
    typer.echo(version())


def _give_up(reason: str, status: int) -> None:
    typer.echo(f"leveret: {reason}", err=True)
    sys.exit(status)


if __name__ == "__main__":
    app()
